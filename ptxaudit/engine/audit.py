"""The audit: every selected check on every function of every image, joined to one report.

An image that cannot be read is recorded and the others go on. An exception inside a check is a fault of
ptxaudit: the rule's verdict on that function is then ``unknown`` and the run says so. Images are taken as
they come and dropped when they are done, so that a wheel is audited in the memory of its largest cubin.
"""

import itertools
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ptxaudit import __version__
from ptxaudit.engine.findings import report_order
from ptxaudit.engine.function_audit import InternalError
from ptxaudit.engine.image import BrokenImage, Found, KernelImage, PassedOver
from ptxaudit.engine.image_audit import audit_tasks
from ptxaudit.engine.launches import unused_launches
from ptxaudit.engine.progress import SILENT, Progress
from ptxaudit.engine.results import COMMENT_WORD, AuditOptions, ImageResult, PassedBy
from ptxaudit.engine.screening import batches
from ptxaudit.engine.sources import merged_sources
from ptxaudit.engine.units import Task, tasks_of
from ptxaudit.errors import Stopped, UsageError
from ptxaudit.rules.model import (
    AuditReport,
    CommentedSource,
    Finding,
    InputReport,
    Severity,
    SkippedInput,
    Verdict,
)
from ptxaudit.stopwatch import STOPWATCH, Stage, Timings, summed

if TYPE_CHECKING:
    from ptxaudit.engine.parallel import Answer
    from ptxaudit.engine.recall import Recall

__all__ = ["AuditOptions", "AuditRun", "InternalError", "audit", "is_undecided", "reaches"]

_IMAGES_PER_WORKER = 4
_AHEAD_BYTES = 1 << 26
_MOST_OFFERED = 5_000
_LISTINGS_WITHOUT_FINDINGS = 1 << 25
_CODE_WITHOUT_FINDINGS = 1 << 25


@dataclass(frozen=True, slots=True)
class AuditRun:
    """A report, the internal errors that happened on the way to it, and what is to be said once.

    ``stopped`` is the number of the signal that ended the audit, ``None`` when it came to its end.
    """

    report: AuditReport
    internal_errors: tuple[InternalError, ...] = ()
    remarks: tuple[str, ...] = ()
    stopped: int | None = None


def audit(
    images: Iterable[Found],
    options: AuditOptions,
    progress: Progress = SILENT,
    recall: "Recall | None" = None,
) -> AuditRun:
    """Audit all images; results are in their order whatever ``jobs`` is.

    An image is audited once: where the same content comes again, its report names the first. ``progress``
    is told of each. ``recall`` has the results of earlier audits. Raises
    :class:`UsageError` when ``kernel`` or ``architecture`` leave no function of images that have some. An
    interruption ends it with what there is, where ``options`` ask for that.
    """
    results: list[ImageResult] = []
    listings, code, originals = _Listings(), _Code(), _Originals()
    timings: list[Timings] = []
    sources: Mapping[str, CommentedSource] = {}
    offered, matched = _Offered(), False
    stopped: int | None = None
    try:
        for answer in _results(images, options, recall, progress):
            result = originals.resolved(answer)
            matched = matched or result.matched
            offered.add(result)
            if result.report or result.skipped or result.internal_errors:
                results.append(replace(result, listings={}, code={}, sources={}))
            listings.add(result)
            timings.append(result.timings)
            code.add(result)
            sources = merged_sources(sources, result.sources)
            progress.finished(_name(answer))
    except (KeyboardInterrupt, Stopped) as error:
        if not options.partial:
            raise
        stopped = error.number if isinstance(error, Stopped) else signal.SIGINT
    restricted = options.kernel is not None or options.architecture is not None
    if stopped is None and offered.any and not matched and restricted:
        raise UsageError(options.selection.no_match(offered.functions))
    findings = [finding for result in results for finding in result.findings]
    faults = tuple(error for result in results for error in result.internal_errors)
    functions = tuple(function for result in results for function in result.functions)
    names = ((one.name, one.demangled) for one in functions)
    report = AuditReport(
        tool_version=__version__,
        inputs=tuple(_input(result, options.timings) for result in results if result.report is not None),
        functions=functions,
        findings=tuple(sorted(findings, key=report_order)),
        listings=listings.texts,
        code=code.packed,
        skipped=tuple(result.skipped for result in results if result.skipped is not None),
        timings=summed([*timings, STOPWATCH.taken()]) if options.timings else {},
        sources=sources,
        notices=() if stopped is not None else tuple(unused_launches(options.launches, names)),
        interrupted=None if stopped is None else "interrupted before its end",
        faults=len(faults),
    )
    remarks = dict.fromkeys(result.no_assembler for result in results if result.no_assembler is not None)
    said = [f"PTX is audited without its SASS: {remark}" for remark in remarks]
    if recall is not None and recall.trouble is not None:
        said.append(recall.trouble)
    return AuditRun(report, faults, tuple(said), stopped)


def _input(result: ImageResult, with_timings: bool) -> InputReport:
    """The report with where its own time went: the start of a process is nobody's."""
    own = summed([result.timings])
    own.pop(Stage.START, None)
    assert result.report is not None
    return replace(result.report, timings=own) if own and with_timings else result.report


def _name(result: ImageResult) -> str:
    """What an image is called that was audited, passed by or skipped; empty where its container passed it."""
    told = result.report or result.skipped
    if told is not None:
        return told.path
    return "" if result.passed_by is None else result.passed_by.name


class _Offered:
    """What there was to choose from: whether anything was, and functions that were not asked for."""

    def __init__(self) -> None:
        self.any = False
        self.functions: dict[str, set[str]] = {}

    def add(self, result: ImageResult) -> None:
        self.any = self.any or result.report is None or result.report.error is None
        if result.passed_by is not None and len(self.functions) < _MOST_OFFERED:
            for name in result.passed_by.functions:
                self.functions.setdefault(name, set()).add(result.passed_by.architecture)


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
        return ImageResult(replace(report, error=self._error_of_copy(report.path, original)))

    def _error_of_copy(self, path: str, original: str) -> str:
        """What is wrong with the original, said of its copy."""
        error = self._errors[original] or ""
        named = error.startswith(f"{original}:")
        return path + error[len(original) :] if named else f"{path}: the same content as {original}: {error}"


class _Listings:
    """The texts that are kept for excerpts: all with findings, others as long as there is room."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._room = _LISTINGS_WITHOUT_FINDINGS

    def add(self, result: ImageResult) -> None:
        commented = any(COMMENT_WORD in text for text in result.listings.values())
        if not result.findings and not commented:
            size = sum(len(text) for text in result.listings.values())
            if size > self._room:
                return
            self._room -= size
        self.texts.update(result.listings)


class _Code:
    """The packed code of functions: of all with findings, of others as long as there is room."""

    def __init__(self) -> None:
        self.packed: dict[tuple[str, str], bytes] = {}
        self._room = _CODE_WITHOUT_FINDINGS

    def add(self, result: ImageResult) -> None:
        if not result.code:
            return
        found = {finding.function for finding in result.findings}
        for function in result.functions:
            packed = result.code.get(function.name)
            if packed is None:
                continue
            if function.name not in found:
                if len(packed) > self._room:
                    continue
                self._room -= len(packed)
            self.packed[function.input, function.name] = packed


def _results(
    images: Iterable[Found], options: AuditOptions, recall: "Recall | None", progress: Progress
) -> Iterator[ImageResult]:
    tasks = tasks_of(_tasks(images))
    if recall is not None:
        tasks = _unknown(tasks, recall)
    for task, results in _answers(tasks, options, progress):
        if isinstance(task, ImageResult):
            yield task
        else:
            yield from results if recall is None else recall.kept(task, results)


def _unknown(tasks: Iterator[Task | ImageResult], recall: "Recall") -> Iterator[Task | ImageResult]:
    """What no earlier audit has results for is left to do."""
    for task in tasks:
        known = None if isinstance(task, ImageResult) else recall.known(task.images)
        if known is not None:
            yield from known
        else:
            yield task if isinstance(task, ImageResult) else recall.prepared(task)


def _answers(
    tasks: Iterator[Task | ImageResult], options: AuditOptions, progress: Progress
) -> "Iterator[Answer]":
    if options.scheduler is not None:
        try:
            from ptxaudit.engine.distributed import distributed_results
        except ImportError as error:
            advice = "pip install 'ptxaudit[dask]'"
            raise UsageError(
                f"--scheduler: found no Dask distributed ({error}), expected it: {advice}"
            ) from error
        yield from distributed_results(tasks, options, progress)
        return
    jobs, tasks = _jobs(tasks, options.jobs)
    if jobs <= 1:
        for work in batches(tasks, options, jobs):
            if isinstance(work, ImageResult):
                yield work, ()
            else:
                progress.started(work[0].name)
                yield from zip(work, audit_tasks(work, options), strict=True)
        return
    # Most audits are of one image: they do without processes.
    from ptxaudit.engine.parallel import parallel_results

    yield from parallel_results(batches(tasks, options, jobs), options, jobs, progress)


def _tasks(images: Iterable[Found]) -> Iterator[KernelImage | ImageResult]:
    """What is to be audited, and the results of what need not be."""
    first: dict[str, dict[str, str]] = {}
    for found in _read(images):
        if isinstance(found, PassedOver):
            yield ImageResult(None, passed_by=PassedBy(str(found.place)))
        elif isinstance(found, BrokenImage):
            line = " ".join(found.message.split())
            yield ImageResult(InputReport(found.name, found.kind, found.sha256, line, found.notes))
        else:
            original = _original(found, first)
            if original == found.name:
                yield found
            else:
                report = InputReport(found.name, found.kind.value, found.sha256, same_as=original)
                yield ImageResult(report)


def _read(images: Iterable[Found]) -> Iterator[Found]:
    """The images, with the time that it takes to find them."""
    rest = iter(images)
    while True:
        with STOPWATCH.stage(Stage.READING):
            found = next(rest, None)
        if found is None:
            return
        yield found


def _original(image: KernelImage, met: dict[str, dict[str, str]]) -> str:
    """The name under which an image is audited: its own, or that of one that says at least as much.

    The same code launched in another way is another audit. ``met`` holds names by content and launches.
    """
    launches = repr(image.launches)
    names = met.setdefault(image.sha256, {})
    if not image.launches and names:
        return next(iter(names.values()))
    return names.setdefault(launches, image.name)


def _jobs(tasks: Iterator[Task | ImageResult], asked: int) -> tuple[int, Iterator[Task | ImageResult]]:
    """How many processes to use, told from as many images as it takes, and all the images.

    ``asked`` is what the user wants, 0 for as many as pay off.
    """
    most = asked or os.cpu_count() or 1
    if most == 1:
        return 1, tasks
    enough = most * (1 if asked else _IMAGES_PER_WORKER)
    ahead: list[Task | ImageResult] = []
    number = size = 0
    for task in tasks:
        ahead.append(task)
        if isinstance(task, Task):
            number, size = number + 1, size + task.size
        if number >= enough or (number > 1 and size > _AHEAD_BYTES):
            break
    large = size > _AHEAD_BYTES
    jobs = min(number, most) if asked or large else min(number // _IMAGES_PER_WORKER, most)
    return jobs, itertools.chain(ahead, tasks)


def reaches(findings: Iterable[Finding], threshold: Severity | None) -> bool:
    """Whether one that is not suppressed is as bad as ``threshold`` or worse; never for ``None``."""
    return threshold is not None and any(
        finding.suppressed is None and finding.severity.rank >= threshold.rank for finding in findings
    )


def is_undecided(report: AuditReport) -> bool:
    """Whether some verdict is ``unknown``."""
    return any(Verdict.UNKNOWN in function.verdicts.values() for function in report.functions)
