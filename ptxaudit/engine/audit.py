"""The audit: every selected check on every function of every input, joined to one report.

An input that cannot be read is recorded and the others go on. An exception inside a check is a fault of
ptxaudit: the rule's verdict on that function is then ``unknown`` and the run says so.
"""

import os
import re
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from ptxaudit import __version__
from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.arch import Architecture
from ptxaudit.cost.model import priced
from ptxaudit.engine.findings import build_findings, is_strict_only, report_order
from ptxaudit.engine.inputs import InputKind, InputSource, digest, load_module, sniff
from ptxaudit.engine.launches import NamedLaunch, launch_of
from ptxaudit.engine.registry import Rule
from ptxaudit.errors import PtxauditError, SyntaxFault, UsageError
from ptxaudit.ir.function import Function, Module
from ptxaudit.rules.model import (
    AuditReport,
    Finding,
    FunctionReport,
    InputReport,
    Outcome,
    Severity,
    Verdict,
    Violation,
)

INTERNAL_ERROR = "internal error: "
_INPUTS_PER_WORKER = 4


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What to audit: ``rules``, functions whose name matches ``kernel``, built for ``architecture``.

    ``architecture`` without a suffix also takes the suffixed targets of the same number. ``strict`` also
    reports notes of low confidence. ``jobs`` is the number of processes, 0 for as many as pay off.
    ``count`` has each function's synchronisations counted, for a comparison.
    """

    rules: tuple[Rule, ...]
    kernel: re.Pattern[str] | None = None
    architecture: Architecture | None = None
    strict: bool = False
    jobs: int = 0
    launches: tuple[NamedLaunch, ...] = ()
    count: bool = False


@dataclass(frozen=True, slots=True)
class InternalError:
    """A fault of ptxaudit itself: one line, and the traceback for whoever mends it."""

    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class AuditRun:
    """A report and the internal errors that happened on the way to it."""

    report: AuditReport
    internal_errors: tuple[InternalError, ...] = ()


@dataclass(frozen=True, slots=True)
class _InputResult:
    """What one input gave; crosses process borders."""

    report: InputReport
    functions: tuple[FunctionReport, ...] = ()
    findings: tuple[Finding, ...] = ()
    listing: str | None = None
    matched: bool = False
    internal_errors: tuple[InternalError, ...] = ()


@dataclass(slots=True)
class _Collector:
    """Gathers what the functions of one input give."""

    functions: list[FunctionReport] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    internal_errors: list[InternalError] = field(default_factory=list)


def audit(
    sources: tuple[InputSource, ...],
    options: AuditOptions,
    progress: Callable[[str], None] = lambda name: None,
) -> AuditRun:
    """Audit all inputs; results are in the order of ``sources`` whatever ``jobs`` is.

    ``progress`` is called with the name of each input as it is done. Raises :class:`UsageError` when
    ``kernel`` or ``architecture`` leave no function of inputs that have some.
    """
    results: list[_InputResult] = []
    for result in _results(sources, options):
        results.append(result)
        progress(result.report.path)
    _require_match(results, options)
    findings = [finding for result in results for finding in result.findings]
    report = AuditReport(
        tool_version=__version__,
        inputs=tuple(result.report for result in results),
        functions=tuple(function for result in results for function in result.functions),
        findings=tuple(sorted(findings, key=report_order)),
        listings={r.report.path: r.listing for r in results if r.listing is not None},
    )
    return AuditRun(report, tuple(error for result in results for error in result.internal_errors))


def _results(sources: tuple[InputSource, ...], options: AuditOptions) -> Iterator[_InputResult]:
    jobs = options.jobs or min(os.cpu_count() or 1, len(sources) // _INPUTS_PER_WORKER)
    if jobs <= 1 or len(sources) <= 1:
        yield from (_audit_input(source, options) for source in sources)
        return
    with tempfile.TemporaryDirectory(prefix="ptxaudit-", ignore_cleanup_errors=True) as scratch:
        yield from _parallel_results(sources, options, min(jobs, len(sources)), scratch)


def _parallel_results(
    sources: tuple[InputSource, ...], options: AuditOptions, jobs: int, scratch: str
) -> Iterator[_InputResult]:
    # Most audits are of one input: they do without these.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    # A spawned worker inherits no thread and no signal handler of the command line.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, initializer=_start_worker, initargs=(scratch,))
    try:
        futures = [pool.submit(_audit_input, source, options) for source in sources]
        for future in futures:
            yield future.result()
    except BrokenProcessPool as error:
        raise PtxauditError("found a worker process killed, expected it to finish (try --jobs 1)") from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _start_worker(scratch: str) -> None:
    # Ctrl-C reaches the whole process group: a worker ends at once and without a traceback, and what it
    # leaves in its temporary directory goes with the parent's.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    tempfile.tempdir = scratch


def _require_match(results: list[_InputResult], options: AuditOptions) -> None:
    if options.kernel is None and options.architecture is None:
        return
    read = [result for result in results if result.report.error is None]
    if read and not any(result.matched for result in read):
        asked = [] if options.kernel is None else [f"--kernel {options.kernel.pattern}"]
        asked += [] if options.architecture is None else [f"--arch {options.architecture.name}"]
        raise UsageError(f"found no function that matches {' and '.join(asked)}, expected at least one")


def _audit_input(source: InputSource, options: AuditOptions) -> _InputResult:
    data = b""
    try:
        data = source.read()
        kind, module = load_module(source.name, data, source.started)
    except SyntaxFault as error:
        return _InputResult(_failed(source, data, str(error), (error.excerpt(),)))
    except PtxauditError as error:
        return _InputResult(_failed(source, data, _named(source.name, str(error))))
    except Exception as error:
        message = f"{source.name}: {_describe(error)}"
        return _InputResult(
            _failed(source, data, message), internal_errors=(InternalError(message, traceback.format_exc()),)
        )
    chosen = tuple(function for function in module.functions if _is_chosen(function, options))
    collected = _Collector()
    for function in chosen:
        _audit_function(function, module, source.name, options, collected)
    notes = tuple(f"{note.location}: {note.message}" for note in module.notes)
    return _InputResult(
        InputReport(source.name, kind.value, digest(data), None, notes),
        tuple(collected.functions),
        tuple(collected.findings),
        module.text,
        bool(chosen),
        tuple(collected.internal_errors),
    )


def _failed(source: InputSource, data: bytes, message: str, notes: tuple[str, ...] = ()) -> InputReport:
    kind = sniff(data) if data else InputKind.UNKNOWN
    line = " ".join(message.split())
    return InputReport(source.name, kind.value, digest(data) if data else "", line, notes)


def _named(name: str, message: str) -> str:
    """The message with the input's name in front, unless it has it."""
    return message if name in message else f"{name}: {message}"


def _describe(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{INTERNAL_ERROR}{type(error).__name__}{': ' if text else ''}{text}"


def _is_chosen(function: Function, options: AuditOptions) -> bool:
    named = options.kernel is None or any(
        options.kernel.search(name) for name in (function.name, function.demangled)
    )
    return named and _is_built_for(function.architecture, options.architecture)


def _is_built_for(actual: Architecture, asked: Architecture | None) -> bool:
    if asked is None or actual == asked:
        return True
    return actual.number == asked.number and not asked.suffix


def _audit_function(
    function: Function, module: Module, input_name: str, options: AuditOptions, into: _Collector
) -> None:
    verdicts: dict[str, Verdict] = {}
    reasons: dict[str, str] = {}
    try:
        launch = launch_of(options.launches, function.name, function.demangled)
        analysis = FunctionAnalysis(function, module, launch)
    except Exception as error:
        message = _describe(error)
        into.internal_errors.append(
            InternalError(f"{input_name}: {function.name}: {message}", traceback.format_exc())
        )
        verdicts = {rule.id: Verdict.UNKNOWN for rule in options.rules}
        reasons = {rule.id: message for rule in options.rules}
        into.functions.append(_function_report(function, input_name, verdicts, reasons))
        return
    for rule in options.rules:
        try:
            outcome = _shown(rule, rule.check(analysis), options.strict)
            violations = priced(analysis, rule.id, outcome.violations)
            findings = list(build_findings(rule.pattern, function, input_name, violations))
        except Exception as error:
            message = _describe(error)
            into.internal_errors.append(
                InternalError(
                    f"{input_name}: {function.name}: {rule.id}: {message}", traceback.format_exc()
                )
            )
            outcome, findings = Outcome(Verdict.UNKNOWN, (), message), []
        into.findings.extend(findings)
        verdicts[rule.id] = outcome.verdict
        if outcome.reason is not None:
            reasons[rule.id] = outcome.reason
    report = _function_report(function, input_name, verdicts, reasons, _assumptions(analysis))
    into.functions.append(replace(report, synchronisation=_counted(analysis)) if options.count else report)


def _counted(analysis: FunctionAnalysis) -> dict[str, int]:
    from ptxaudit.analysis.synchronisation import count_synchronisation

    return count_synchronisation(analysis)


def _assumptions(analysis: FunctionAnalysis) -> tuple[str, ...]:
    """What the order report of a function rests on; nothing when no rule asked for it."""
    if analysis.known("order") is None:
        return ()
    # Where no rule asked, the order engine need not even be loaded.
    from ptxaudit.analysis.order.explore import assumptions_of

    return assumptions_of(analysis)


def _shown(rule: Rule, outcome: Outcome, strict: bool) -> Outcome:
    if outcome.verdict is Verdict.UNKNOWN and not outcome.reason:
        raise ValueError("unknown without a reason")
    if strict or not outcome.violations:
        return outcome
    kept: list[Violation] = [v for v in outcome.violations if not is_strict_only(v, rule.pattern)]
    return Outcome.of(kept, outcome.reason)


def _function_report(
    function: Function,
    input_name: str,
    verdicts: dict[str, Verdict],
    reasons: dict[str, str],
    assumptions: tuple[str, ...] = (),
) -> FunctionReport:
    return FunctionReport(
        name=function.name,
        demangled=function.demangled,
        input=input_name,
        arch=function.architecture.name,
        evidence=function.language.value,
        verdicts=verdicts,
        unknown_reasons=reasons,
        facts=_facts(function),
        assumptions=assumptions,
    )


def _facts(function: Function) -> dict[str, str]:
    """What the code states about its launch, for a person."""
    facts = function.facts
    stated = {
        "threads per CTA": facts.threads,
        "cluster size": facts.cluster_size,
        "registers per thread": facts.registers or facts.maximum_registers,
        "minimum CTAs per multiprocessor": facts.minimum_ctas,
    }
    known = {name: str(value) for name, value in stated.items() if value is not None}
    return {"kind": "kernel" if function.is_entry else "function", **known}


def worst_severity(report: AuditReport) -> Severity | None:
    """The worst severity among findings that are not suppressed."""
    severities = [finding.severity for finding in report.findings if finding.suppressed is None]
    return max(severities, key=lambda severity: severity.rank, default=None)
