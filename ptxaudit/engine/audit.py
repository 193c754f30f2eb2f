"""The audit: every selected check on every function of every image, joined to one report.

An image that cannot be read is recorded and the others go on. An exception inside a check is a fault of
ptxaudit: the rule's verdict on that function is then ``unknown`` and the run says so. Images are taken as
they come and dropped when they are done, so that a wheel is audited in the memory of its largest cubin.
"""

import itertools
import os
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from ptxaudit import __version__
from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.arch import Architecture
from ptxaudit.cost.model import priced
from ptxaudit.engine.findings import build_findings, is_strict_only, report_order
from ptxaudit.engine.image import BrokenImage, Found, KernelImage, PassedOver
from ptxaudit.engine.inputs import load_image
from ptxaudit.engine.launches import NamedLaunch, completed, launch_of
from ptxaudit.engine.registry import Rule
from ptxaudit.engine.selection import Selection
from ptxaudit.engine.summary import is_asked_for, summarise
from ptxaudit.errors import PtxauditError, SyntaxFault, UnsupportedArchitecture, UsageError
from ptxaudit.ir.function import Function, Module
from ptxaudit.rules.model import (
    AuditReport,
    Finding,
    FunctionReport,
    InputReport,
    Outcome,
    Severity,
    SkippedInput,
    Verdict,
    Violation,
)

INTERNAL_ERROR = "internal error: "
_IMAGES_PER_WORKER = 4
_AHEAD_BYTES = 1 << 26
_LISTINGS_WITHOUT_FINDINGS = 1 << 25
_COMMENT_WORD = "ptxaudit:"


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What to audit: ``rules``, functions whose name matches ``kernel``, built for ``architecture``.

    ``architecture`` without a suffix also takes the suffixed targets of the same number. ``strict`` also
    reports notes of low confidence. ``jobs`` is the number of processes, 0 for as many as pay off.
    ``count`` has each function's synchronisations counted, for a comparison.
    ``listings`` keeps the texts that a page shows excerpts of, those without findings up to 32 MB in all;
    texts with a comment for ptxaudit are kept anyway.
    """

    rules: tuple[Rule, ...]
    kernel: re.Pattern[str] | None = None
    architecture: Architecture | None = None
    strict: bool = False
    jobs: int = 0
    launches: tuple[NamedLaunch, ...] = ()
    count: bool = False
    listings: bool = True

    @property
    def selection(self) -> Selection:
        """Which functions are asked for."""
        return Selection(self.kernel, self.architecture)


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
class ImageResult:
    """What one image gave; crosses process borders. ``report`` is ``None`` when it was not asked for."""

    report: InputReport | None
    functions: tuple[FunctionReport, ...] = ()
    findings: tuple[Finding, ...] = ()
    listing: str | None = None
    matched: bool = False
    internal_errors: tuple[InternalError, ...] = ()
    skipped: SkippedInput | None = None


@dataclass(slots=True)
class _Collector:
    """Gathers what the functions of one input give."""

    functions: list[FunctionReport] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    internal_errors: list[InternalError] = field(default_factory=list)


def audit(
    images: Iterable[Found],
    options: AuditOptions,
    progress: Callable[[str], None] = lambda name: None,
) -> AuditRun:
    """Audit all images; results are in their order whatever ``jobs`` is.

    An image is audited once: where the same content comes again, its report names the first. ``progress``
    is called with the name of each image as it is done. Raises :class:`UsageError` when ``kernel`` or
    ``architecture`` leave no function of images that have some.
    """
    results: list[ImageResult] = []
    listings, originals = _Listings(), _Originals()
    offered = matched = False
    for answer in _results(images, options):
        result = originals.resolved(answer)
        matched = matched or result.matched
        offered = offered or result.report is None or result.report.error is None
        listings.add(result)
        if result.report or result.skipped or result.internal_errors:
            results.append(replace(result, listing=None))
        if result.report is not None:
            progress(result.report.path)
    if offered and not matched and (options.kernel is not None or options.architecture is not None):
        raise UsageError(f"found no function that matches {options.selection}, expected at least one")
    findings = [finding for result in results for finding in result.findings]
    report = AuditReport(
        tool_version=__version__,
        inputs=tuple(result.report for result in results if result.report is not None),
        functions=tuple(function for result in results for function in result.functions),
        findings=tuple(sorted(findings, key=report_order)),
        listings=listings.texts,
        skipped=tuple(result.skipped for result in results if result.skipped is not None),
    )
    return AuditRun(report, tuple(error for result in results for error in result.internal_errors))


class _Originals:
    """What became of each image, for the images of the same content that come after it."""

    def __init__(self) -> None:
        self._errors: dict[str, str | None] = {}
        self._skipped: dict[str, SkippedInput] = {}

    def resolved(self, result: ImageResult) -> ImageResult:
        """The result; that of a copy is what its original gave."""
        report = result.report
        if report is not None and report.same_as is not None:
            return self._copy(report, report.same_as)
        if report is not None:
            self._errors[report.path] = report.error
        if result.skipped is not None:
            self._skipped[result.skipped.path] = result.skipped
        return result

    def _copy(self, report: InputReport, original: str) -> ImageResult:
        if original in self._skipped:
            skipped = replace(self._skipped[original], path=report.path)
            return ImageResult(None, matched=True, skipped=skipped)
        if original not in self._errors:
            return ImageResult(None)
        if self._errors[original] is None:
            return ImageResult(report)
        return ImageResult(replace(report, error=f"{report.path}: the same content as {original}"))


class _Listings:
    """The texts that are kept for excerpts: all with findings, others as long as there is room."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._room = _LISTINGS_WITHOUT_FINDINGS

    def add(self, result: ImageResult) -> None:
        if result.listing is None or result.report is None:
            return
        if not result.findings and _COMMENT_WORD not in result.listing:
            if len(result.listing) > self._room:
                return
            self._room -= len(result.listing)
        self.texts[result.report.path] = result.listing


def _results(images: Iterable[Found], options: AuditOptions) -> Iterator[ImageResult]:
    jobs, tasks = _jobs(_tasks(images), options.jobs)
    if jobs <= 1:
        for task in tasks:
            yield task if isinstance(task, ImageResult) else audit_image(task, options)
        return
    # Most audits are of one image: they do without processes.
    from ptxaudit.engine.parallel import parallel_results

    yield from parallel_results(tasks, options, jobs)


def _tasks(images: Iterable[Found]) -> Iterator[KernelImage | ImageResult]:
    """What is to be audited, and the results of what need not be."""
    first: dict[str, dict[str, str]] = {}
    for found in images:
        if isinstance(found, PassedOver):
            yield ImageResult(None)
        elif isinstance(found, BrokenImage):
            line = " ".join(found.message.split())
            yield ImageResult(InputReport(found.name, found.kind, found.sha256, line))
        else:
            original = _original(found, first)
            if original == found.name:
                yield found
            else:
                report = InputReport(found.name, found.kind.value, found.sha256, same_as=original)
                yield ImageResult(report)


def _original(image: KernelImage, met: dict[str, dict[str, str]]) -> str:
    """The name under which an image is audited: its own, or that of one that says at least as much.

    The same code launched in another way is another audit. ``met`` holds names by content and launches.
    """
    launches = repr(image.launches)
    names = met.setdefault(image.sha256, {})
    if not image.launches and names:
        return next(iter(names.values()))
    return names.setdefault(launches, image.name)


def _jobs(
    tasks: Iterator[KernelImage | ImageResult], asked: int
) -> tuple[int, Iterator[KernelImage | ImageResult]]:
    """How many processes to use, told from as many images as it takes, and all the images.

    ``asked`` is what the user wants, 0 for as many as pay off.
    """
    most = asked or os.cpu_count() or 1
    if most == 1:
        return 1, tasks
    enough = most * (1 if asked else _IMAGES_PER_WORKER)
    ahead: list[KernelImage | ImageResult] = []
    number = size = 0
    for task in tasks:
        ahead.append(task)
        if isinstance(task, KernelImage):
            number, size = number + 1, size + len(task.content)
        if number >= enough or (number > 1 and size > _AHEAD_BYTES):
            break
    large = size > _AHEAD_BYTES
    jobs = min(number, most) if asked or large else min(number // _IMAGES_PER_WORKER, most)
    return jobs, itertools.chain(ahead, tasks)


def audit_image(image: KernelImage, options: AuditOptions) -> ImageResult:
    """Audit one image; an image of which nothing is asked for gives no report."""
    try:
        if not _is_wanted(image, options):
            return ImageResult(None)
        module = load_image(image)
    except SyntaxFault as error:
        return ImageResult(_failed(image, str(error), (error.excerpt(),)))
    except UnsupportedArchitecture as error:
        return _unsupported(image, error)
    except PtxauditError as error:
        return ImageResult(_failed(image, _named(image.name, str(error))))
    except Exception as error:
        message = f"{image.name}: {_describe(error)}"
        return ImageResult(
            _failed(image, message), internal_errors=(InternalError(message, traceback.format_exc()),)
        )
    chosen = tuple(function for function in module.functions if _is_chosen(function, options))
    if not chosen and module.functions:
        return ImageResult(None)
    collected = _Collector()
    for function in chosen:
        _audit_function(function, module, image, options, collected)
    notes = tuple(f"{note.location}: {note.message}" for note in module.notes)
    return ImageResult(
        InputReport(image.name, image.kind.value, image.sha256, None, notes),
        tuple(collected.functions),
        tuple(collected.findings),
        module.text if options.listings or _COMMENT_WORD in module.text else None,
        bool(chosen),
        tuple(collected.internal_errors),
    )


def _is_wanted(image: KernelImage, options: AuditOptions) -> bool:
    """Whether anything in an image is asked for; told without a disassembler where there is a choice."""
    if options.kernel is None and options.architecture is None:
        return True
    return is_asked_for(summarise(image), options.selection)


def _unsupported(image: KernelImage, error: UnsupportedArchitecture) -> ImageResult:
    """An architecture not known: an error where a user named the file, one of many targets in a container."""
    if len(image.place.parts) == 1:
        return ImageResult(_failed(image, _named(image.name, str(error))))
    reason = str(error).removeprefix(f"{image.name}: ")
    skipped = SkippedInput(image.name, image.kind.value, image.sha256, reason)
    return ImageResult(None, matched=True, skipped=skipped)


def _failed(image: KernelImage, message: str, notes: tuple[str, ...] = ()) -> InputReport:
    return InputReport(image.name, image.kind.value, image.sha256, " ".join(message.split()), notes)


def _named(name: str, message: str) -> str:
    """The message with the input's name in front, unless it has it."""
    return message if name in message else f"{name}: {message}"


def _describe(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{INTERNAL_ERROR}{type(error).__name__}{': ' if text else ''}{text}"


def _is_chosen(function: Function, options: AuditOptions) -> bool:
    selection = options.selection
    if not selection.takes_architecture(function.architecture):
        return False
    kernel = selection.kernel
    return kernel is None or any(kernel.search(name) for name in (function.name, function.demangled))


def _audit_function(
    function: Function, module: Module, image: KernelImage, options: AuditOptions, into: _Collector
) -> None:
    input_name = image.name
    verdicts: dict[str, Verdict] = {}
    reasons: dict[str, str] = {}
    try:
        names = (function.name, function.demangled)
        launch = completed(launch_of(options.launches, *names), launch_of(image.launches, *names))
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
                InternalError(f"{input_name}: {function.name}: {rule.id}: {message}", traceback.format_exc())
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
    """What the order reports of a function rest on; nothing when no rule asked for one."""
    if analysis.known("order") is None and analysis.known("global order") is None:
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
