"""The audit of one image, or of a PTX text and a cubin of one compilation together.

An image is judged in its own language by every rule. The other language, where it is at hand (PTX that is
assembled, PTX that a cubin carries), is asked what that leaves open and, in SASS, what it costs; a PTX text
and a cubin that were both given are judged in full, each on its own, and their functions joined by name.
"""

import contextlib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ptxaudit.analysis.join import Join
from ptxaudit.engine.copies import without_copies
from ptxaudit.engine.counterpart import (
    Counterpart,
    NoAssembler,
    Pending,
    assembling,
    embedded,
    given,
    lines_of,
)
from ptxaudit.engine.findings import numbered
from ptxaudit.engine.function_audit import (
    FunctionAudit,
    InternalError,
    ask,
    execute,
    prepare,
    stop,
    unanalysed,
    unread,
    without_needs,
)
from ptxaudit.engine.function_report import report_alone, with_synchronisation
from ptxaudit.engine.image import ImageKind, KernelImage
from ptxaudit.engine.inputs import load_image, load_parts
from ptxaudit.engine.joined import Evidence, JoinedFunction, join_audits
from ptxaudit.engine.launches import completed, launch_of, overridden, without_effect
from ptxaudit.engine.parts import whole_result
from ptxaudit.engine.registry import Rule, load_checks
from ptxaudit.engine.results import COMMENT_WORD, AuditOptions, ImageResult, PassedBy
from ptxaudit.engine.screening import sought_roots
from ptxaudit.engine.sources import commented_sources, consulted, sources_beside
from ptxaudit.engine.summary import is_asked_for, summarise
from ptxaudit.engine.twins import Twins, source_first
from ptxaudit.engine.units import Task
from ptxaudit.errors import (
    InputError,
    PtxauditError,
    SyntaxFault,
    UnsupportedArchitecture,
    internal_error,
)
from ptxaudit.frontends.sass.disassemble import Section
from ptxaudit.frontends.sass.elf import DebugLines, read_debug_lines
from ptxaudit.frontends.sass.size import is_read_in_parts
from ptxaudit.ir.events import Transfer, TransferKind
from ptxaudit.ir.function import Function, Language, Module, UnreadFunction
from ptxaudit.limits import DISTURBANCES, LimitReached, bounded, in_force, limits
from ptxaudit.rules.budget import Budget
from ptxaudit.rules.model import (
    Category,
    Finding,
    FunctionReport,
    InputReport,
    SkippedInput,
    Verdict,
)
from ptxaudit.stopwatch import STOPWATCH, Stage


@dataclass(slots=True)
class _ImageAudit:
    """An image that could be read, with what its rules said of the functions that are asked for."""

    image: KernelImage
    module: Module
    audits: list[FunctionAudit]
    joined: dict[str, JoinedFunction] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    listings: dict[str, str] = field(default_factory=dict)
    faults: list[InternalError] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)
    code: dict[str, bytes] = field(default_factory=dict)
    budgets: dict[str, Budget] = field(default_factory=dict)
    split: dict[str, list[str]] = field(default_factory=dict)
    debug_lines: DebugLines | None = None
    no_assembler: str | None = None


def audit_images(images: tuple[KernelImage, ...], options: AuditOptions) -> tuple[ImageResult, ...]:
    """Audit one image, or a PTX text and a cubin together; one result for each, in their order."""
    before = DISTURBANCES.count
    consulted()
    with sources_beside(images[0].folder):
        with STOPWATCH.stage(Stage.OTHER), in_force(options.limits):
            load_checks(options.rules)
            results = _audited(images, options)
        sources = consulted()
    first = replace(
        results[0],
        timings=STOPWATCH.taken(),
        consulted=sources,
        disturbed=DISTURBANCES.count > before,
    )
    return (first, *results[1:])


def audit_tasks(tasks: Sequence[Task], options: AuditOptions) -> Iterator[tuple[ImageResult, ...]]:
    """:func:`audit_images` of one task after the other, small cubins having been disassembled together."""
    listings: dict[int, Mapping[str, Section]] = {}
    if len(tasks) > 1:
        with STOPWATCH.stage(Stage.OTHER), in_force(options.limits):
            listings = _listings(tasks, options)
    for place, task in enumerate(tasks):
        images = task.images
        if place in listings:
            images = (replace(images[0], listing=listings[place]),)
        yield audit_images(images, options)


def _listings(tasks: Sequence[Task], options: AuditOptions) -> dict[int, Mapping[str, Section]]:
    """What the disassembler says of the tasks, by their place, of those of which it can be asked at once."""
    # Most audits are of one image, or ask for more than a disassembler tells.
    from ptxaudit.frontends.sass.batch import Plan, disassembled_together, planned

    plans: dict[int, Plan] = {}
    for place, task in enumerate(tasks):
        image = task.images[0]
        # What is wrong with one is said of it when it is read alone.
        with contextlib.suppress(Exception):
            if _passed_by(image, options) is None:
                sought, wanted = sought_roots(options), options.selection.name_filter
                plan = planned(image.content, image.name, sought, wanted)
                if plan is not None:
                    plans[place] = plan
    places = list(plans)
    found = disassembled_together(list(plans.values()))
    return {places[number]: listing for number, listing in found.items()}


def _audited(images: tuple[KernelImage, ...], options: AuditOptions) -> tuple[ImageResult, ...]:
    if len(images) == 1:
        return (_guarded(images[0], options, lambda: _alone(images[0], options)),)
    opened = {image.kind: _audit_or_failure(image, options) for image in images}
    ptx, sass = opened[ImageKind.PTX], opened[ImageKind.CUBIN]
    if isinstance(ptx, _ImageAudit) and isinstance(sass, _ImageAudit):
        try:
            with bounded():
                _join_pair(ptx, sass, options)
        except LimitReached as reached:
            ptx.notes.append(f"its functions and those of {sass.image.name} are not joined: {reached}")
        except Exception as error:
            message = f"{ptx.image.name}: joining it with {sass.image.name}: {internal_error(error)}"
            ptx.faults.append(InternalError(message, traceback.format_exc()))
    results = []
    for image in images:
        one = opened[image.kind]
        if isinstance(one, _ImageAudit):
            one = _guarded(image, options, partial(_result, one, options))
        results.append(one)
    return tuple(results)


def _audit_or_failure(image: KernelImage, options: AuditOptions) -> "_ImageAudit | ImageResult":
    """An image judged in its own language, or why it was not."""
    held: list[_ImageAudit] = []

    def open_it() -> ImageResult | None:
        audited = _audit_own_language(image, options)
        if audited is not None:
            held.append(audited)
        return None

    result = _guarded(image, options, open_it)
    return held[0] if held else result


def _guarded(
    image: KernelImage, options: AuditOptions, work: Callable[[], ImageResult | None]
) -> ImageResult:
    """What ``work`` gives, or the image's failure; a result without a report when it was not asked for."""
    try:
        passed_by = _passed_by(image, options)
        if passed_by is not None:
            return ImageResult(None, passed_by=passed_by)
        return work() or ImageResult(None, passed_by=PassedBy(image.name))
    except SyntaxFault as error:
        return ImageResult(_failed(image, str(error), (error.excerpt(),)))
    except UnsupportedArchitecture as error:
        return _unsupported(image, error)
    except PtxauditError as error:
        return ImageResult(_failed(image, _named(image.name, str(error))))
    except LimitReached as reached:
        return ImageResult(_failed(image, f"{image.name}: {reached}"))
    except Exception as error:
        message = f"{image.name}: {internal_error(error)}"
        fault = InternalError(message, traceback.format_exc())
        return ImageResult(_failed(image, message), internal_errors=(fault,))


def _alone(image: KernelImage, options: AuditOptions) -> ImageResult | None:
    """An image with what its counterpart adds; ``None`` when none of its functions is asked for."""
    if image.kind is ImageKind.PTX and options.assemble:
        with assembling(image) as pending:
            audited = _audit_own_language(image, options)
            if audited is None:
                return None
            _join_assembled(audited, pending, options)
            return _result(audited, options)
    if image.kind is ImageKind.CUBIN and image.started is None and is_read_in_parts(image.content):
        return _part_by_part(image, options)
    return _whole(image, options)


def _whole(image: KernelImage, options: AuditOptions) -> ImageResult | None:
    is_scanned = image.kind is ImageKind.CUBIN and image.started is None
    audited = _audit_own_language(image, options, sought_roots(options) if is_scanned else None)
    if audited is None:
        return None
    if image.kind is ImageKind.CUBIN:
        _join_embedded(audited, options)
    return _result(audited, options)


def _part_by_part(image: KernelImage, options: AuditOptions) -> ImageResult | None:
    """A large cubin; nothing of a part but its results and lines is kept while the next one is audited."""
    results: list[ImageResult] = []
    parts = load_parts(image, options.selection.name_filter, sought_roots(options))
    holds_functions = False
    number = 0
    lines: DebugLines | None = None
    while True:
        with bounded():
            part = next(parts, None)
        if part is None:
            break
        holds_functions = holds_functions or bool(part.module.functions or part.module.ruled_out)
        number += _number_of_functions(part.module, part.own, options)
        _require_few(image, number)
        audited = _audit_module(image, part.module, options, part.own)
        if audited is not None:
            audited.debug_lines = lines  # those of the whole cubin, which are read once
            results.append(_result(audited, options))
            lines = audited.debug_lines
    if results:
        return whole_result(results)
    return None if holds_functions else _whole(image, options)


def _audit_own_language(
    image: KernelImage, options: AuditOptions, sought: frozenset[str] | None = None
) -> _ImageAudit | None:
    """An image judged in its own language; ``None`` when none of its functions is asked for."""
    with bounded():
        module = load_image(image, options.selection.name_filter, sought)
    _require_few(image, _number_of_functions(module, len(module.functions), options))
    return _audit_module(image, module, options, len(module.functions))


def _number_of_functions(module: Module, own: int, options: AuditOptions) -> int:
    """How many are asked for."""
    ruled_out = (one for several in module.ruled_out.values() for one in several)
    number = sum(_is_chosen(one, options) for one in (*module.functions[:own], *ruled_out))
    return number + sum(_is_chosen(one, options) for one in module.unread)


def _require_few(image: KernelImage, number: int) -> None:
    """Raise :class:`InputError` for an image of more functions than are audited."""
    most = limits().functions
    if number > most:
        raise InputError(f"{image.name}: found {number} functions, expected at most {most} (functions)")


def _audit_module(image: KernelImage, module: Module, options: AuditOptions, own: int) -> _ImageAudit | None:
    """The first ``own`` functions of a module judged; ``None`` when none of them is asked for."""
    lost = [unread(one, module, options.rules) for one in module.unread if _is_chosen(one, options)]
    audits: list[FunctionAudit] = []
    for place in range(own + 1):
        for other in module.ruled_out.get(place, ()):
            if _is_chosen(other, options):
                audits.append(without_needs(other, module.name, options.rules))
        if place < own and _is_chosen(module.functions[place], options):
            function = module.functions[place]
            audits.append(_audit_function(function, module, image, options, options.rules, options.roles))
    audits += lost
    if not audits and (module.functions or module.ruled_out):
        return None
    notes = [f"{note.location}: {note.message}" for note in module.notes]
    if len(image.place.parts) == 1 and not (module.functions or module.unread or module.ruled_out):
        notes.append(f"{image.name}: found no kernel and no function, so there is nothing to audit")
    for one in (audit.function for audit in audits[: len(audits) - len(lost)]):
        said = launch_of(options.launches, one.name, one.demangled)
        lines = (*overridden(said, one.facts), *without_effect(said, one))
        notes += [f"{image.name}: {one.demangled}: {line}" for line in lines]
    return _ImageAudit(image, module, audits, notes=notes)


def _audit_function(
    function: Function,
    module: Module,
    image: KernelImage,
    options: AuditOptions,
    rules: tuple[Rule, ...],
    roles: bool = False,
) -> FunctionAudit:
    try:
        names = (function.name, function.demangled)
        launch = completed(launch_of(options.launches, *names), launch_of(image.launches, *names))
        audit = prepare(function, module, module.name, launch)
    except Exception as error:
        return unanalysed(function, module.name, error, rules)
    try:
        with bounded():
            if roles:
                execute(audit)
            ask(audit, rules, options.strict, options.thresholds)
    except LimitReached as reached:
        stop(audit, rules, str(reached))
    return audit


def _join_assembled(audited: _ImageAudit, pending: Pending, options: AuditOptions) -> None:
    try:
        counterpart = pending()
    except NoAssembler as error:
        audited.no_assembler = str(error)
        return
    except InputError as error:
        audited.notes.append(f"only the PTX is audited: {error}")
        return
    _join(audited, _evidence(counterpart), options, _leaves_open_or_costs)


def _join_embedded(audited: _ImageAudit, options: AuditOptions) -> None:
    """Ask the PTX that a cubin carries, where that can say more than the SASS alone."""
    if not any(one.findings or Verdict.UNKNOWN in one.verdicts.values() for one in audited.audits):
        return
    try:
        counterpart = embedded(audited.image)
    except InputError as error:
        audited.notes.append(f"only the SASS is audited: {error}")
        return
    if counterpart is not None:
        _join(audited, _evidence(counterpart), options, _leaves_open)


def _evidence(counterpart: Counterpart) -> Evidence:
    return Evidence(counterpart.module, counterpart.lines, counterpart.origin)


_Asked = Callable[[Rule, FunctionAudit], bool]


def _leaves_open(rule: Rule, first: FunctionAudit) -> bool:
    """Whether the first language leaves a rule open, or clean without being the one to decide it."""
    other = Language.PTX if first.function.language is Language.SASS else Language.SASS
    own = first.function.language.value
    verdict = first.verdicts.get(rule.id)
    is_open = verdict is Verdict.UNKNOWN or (verdict is Verdict.CLEAN and own not in rule.pattern.decided_by)
    return is_open and not first.failed(rule.id) and other.value in rule.pattern.inputs


def _leaves_open_or_costs(rule: Rule, first: FunctionAudit) -> bool:
    """Of the SASS that PTX is assembled to: its cost, and what the PTX leaves open.

    Executing it once more takes as long as all else, and shows nothing new unless ptxas knows more: of
    functions that it inlines, or of an instruction that the tables do not have.
    """
    is_open = _leaves_open(rule, first)
    if rule.id in first.executed:
        return is_open and _has_gaps(first)
    is_cost = rule.pattern.category is Category.PERFORMANCE and Language.SASS.value in rule.pattern.inputs
    return is_open or (is_cost and not first.failed(rule.id))


def _has_gaps(audit: FunctionAudit) -> bool:
    calls = () if audit.analysis is None else audit.analysis.occurrences(Transfer)
    calling = any(transfer.kind is TransferKind.CALL for _, transfer in calls)
    return calling or not all(one.known for one in audit.function.instructions)


def _join(audited: _ImageAudit, other: Evidence, options: AuditOptions, asked: _Asked) -> None:
    """Join every function with that of the same name in the other language."""
    theirs = {function.name: function for function in other.module.functions}
    for first in audited.audits:
        function = theirs.get(first.function.name)
        if function is None or first.analysis is None or first.incomplete is not None:
            continue
        rules = tuple(rule for rule in options.rules if asked(rule, first))
        second = _audit_function(function, other.module, audited.image, options, rules)
        try:
            with bounded():
                joined = join_audits(first, second, other, options.rules)
        except LimitReached as reached:
            stop(first, options.rules, f"joining PTX and SASS: {reached}")
            continue
        _add(audited, joined, first, second, options)
    audited.listings[other.module.name] = other.module.text


def _join_pair(ptx: _ImageAudit, sass: _ImageAudit, options: AuditOptions) -> None:
    """Join the functions of two images; they are reported with the PTX."""
    theirs = {one.function.name: one for one in sass.audits}
    pairs = [(one, theirs[one.function.name]) for one in ptx.audits if one.function.name in theirs]
    pairs = [(one, other) for one, other in pairs if one.analysis is not None and other.analysis is not None]
    if not pairs:
        return
    try:
        lines, again = given(ptx.image, ptx.module.text, sass.image, options.assemble)
    except InputError as error:
        sass.notes.append(f"its line tables are left out: {error}")
        lines, again = None, None
    evidence = Evidence(sass.module, lines, "given", again)
    for first, second in pairs:
        joined = join_audits(first, second, evidence, options.rules)
        if _add(ptx, joined, first, second, options):
            sass.left_out.add(first.function.name)


def _add(
    audited: _ImageAudit,
    joined: JoinedFunction | InternalError,
    first: FunctionAudit,
    second: FunctionAudit,
    options: AuditOptions,
) -> bool:
    audited.faults.extend(second.internal_errors)
    if isinstance(joined, InternalError):
        audited.faults.append(joined)
        return False
    audited.joined[first.function.name] = joined
    _keep_code(audited, first, options, second, joined.join, joined.sources)
    return True


@STOPWATCH.stage(Stage.REPORTS)
def _keep_code(
    audited: _ImageAudit,
    first: FunctionAudit,
    options: AuditOptions,
    second: FunctionAudit | None = None,
    join: Join | None = None,
    sources: Mapping[int, tuple[str, int]] | None = None,
) -> None:
    """Keep what a function costs, and pack its code, if a report is asked for that shows it."""
    prices = options.budget and (first.applies or not options.rules)
    if first.analysis is None or not (prices or options.pack is not None):
        return
    # Other reports show neither.
    from ptxaudit.engine.code import function_budget, function_code

    try:
        other = None if second is None else second.analysis
        if first.function.instructions:
            audited.budgets[first.function.name] = function_budget(first.analysis, other, join).as_reported()
        if options.pack is None:
            return
        code = function_code(first.analysis, other, join, sources or {}, audited.split)
        if code is not None:
            audited.code[first.function.name] = options.pack(code)
    except Exception as error:
        message = f"{first.input}: {first.function.name}: its costs and code: {internal_error(error)}"
        audited.faults.append(InternalError(message, traceback.format_exc()))


def _result(audited: _ImageAudit, options: AuditOptions) -> ImageResult:
    functions: list[FunctionReport] = []
    findings: list[Finding] = []
    image = audited.image
    for audit in audited.audits:
        audited.faults.extend(audit.internal_errors)
        name = audit.function.name
        if name in audited.left_out:
            continue
        joined = audited.joined.get(name)
        if joined is not None:
            functions.append(with_synchronisation(joined.report, audit) if options.count else joined.report)
            findings.extend(numbered(without_copies(joined.findings)))
            continue
        alone = report_alone(audit)
        functions.append(with_synchronisation(alone, audit) if options.count else alone)
        twins = _alone_twins(audit, audited, options)
        _keep_code(audited, audit, options, sources=twins.sources)
        findings.extend(numbered(without_copies(twins.decorated(one) for one in audit.findings)))
    if image.source is not None:
        findings = [source_first(one, image.source) for one in findings]
    texts = {audited.module.name: audited.module.text, **audited.listings}
    listings = {name: text for name, text in texts.items() if options.listings or COMMENT_WORD in text}
    return ImageResult(
        report=InputReport(image.name, image.kind.value, image.sha256, None, tuple(audited.notes)),
        functions=tuple(replace(one, budget=audited.budgets.get(one.name)) for one in functions),
        findings=tuple(findings),
        listings=listings,
        code=audited.code,
        matched=bool(audited.audits),
        internal_errors=tuple(dict.fromkeys(audited.faults)),
        no_assembler=audited.no_assembler,
        sources=commented_sources((one.function for one in audited.audits), findings),
    )


def _alone_twins(audit: FunctionAudit, audited: _ImageAudit, options: AuditOptions) -> Twins:
    """The lines of the source of a function of which one language is at hand."""
    if audit.function.language is Language.PTX:
        return Twins(audit.function, None, None)
    if audited.debug_lines is None and (audit.findings or options.pack is not None):
        audited.debug_lines = _debug_lines(audited.image)
    lines = audited.debug_lines or DebugLines({}, {}, None)
    return Twins(None, audit.function, None, lines_of(audit.function, lines).source)


def _debug_lines(image: KernelImage) -> DebugLines:
    with contextlib.suppress(InputError):
        return read_debug_lines(image.content, image.name)
    return DebugLines({}, {}, None)


def _passed_by(image: KernelImage, options: AuditOptions) -> PassedBy | None:
    """What an image holds of which nothing is asked for; told without a disassembler where there is a
    choice."""
    if options.kernel is None and options.architecture is None:
        return None
    summary = summarise(image)
    if is_asked_for(summary, options.selection):
        return None
    architecture = "" if summary.architecture is None else summary.architecture.name
    return PassedBy(image.name, architecture, (*summary.kernels, *summary.functions))


def _unsupported(image: KernelImage, error: UnsupportedArchitecture) -> ImageResult:
    """An architecture not known: a failure, but for an old one among the many targets of a container.

    Code for what came later than the tables is what new machines run, and no less to be judged than the rest.
    """
    if len(image.place.parts) == 1 or not error.is_older:
        return ImageResult(_failed(image, _named(image.name, str(error))))
    reason = str(error).removeprefix(f"{image.name}: ")
    skipped = SkippedInput(image.name, image.kind.value, image.sha256, reason)
    return ImageResult(None, matched=True, skipped=skipped)


def _failed(image: KernelImage, message: str, notes: tuple[str, ...] = ()) -> InputReport:
    return InputReport(image.name, image.kind.value, image.sha256, " ".join(message.split()), notes)


def _named(name: str, message: str) -> str:
    """The message with the input's name in front, unless it has it."""
    return message if name in message else f"{name}: {message}"


def _is_chosen(function: Function | UnreadFunction, options: AuditOptions) -> bool:
    selection = options.selection
    return selection.takes_architecture(function.architecture) and selection.takes_name(function.name)
