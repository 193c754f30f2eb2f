"""Waits for commit groups in loops that leave nothing in flight where a deeper one would be as safe.

Two cheaper forms are tried. A wait that leaves one group more pending; and, in a ring of mbarriers whose
stage is released right behind a wait for wgmma, such a wait with the release of the stage before. Both wait
for all groups behind the loop. The order engine must find either as well ordered as the kernel in every
explored run, and no instruction of the loop may touch the registers of a wgmma that is then pending.

A wait that nothing can be pending at is ``redundant-synchronization``. Waits for bulk copies without
``.read`` are left alone: who reads global memory afterwards is not known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.groups import Doubt, finds_nothing_pending, group_flow
from ptxaudit.analysis.order import lagged
from ptxaudit.analysis.order.explore import OrderReport, order_of
from ptxaudit.analysis.order.rounds import Repeated, find_dispensable, lacking, repeated
from ptxaudit.analysis.order.whatif import (
    Weakening,
    both,
    deeper,
    races_of_weakened,
    why_not,
    without,
)
from ptxaudit.analysis.pollloops import indices, poll_loops
from ptxaudit.checks import wgmma_register_operand_overwritten as registers
from ptxaudit.checks._guarding import unknown_code, unsure_copies
from ptxaudit.checks._order import incomplete, is_wgmma_read, place
from ptxaudit.ir import events as ev
from ptxaudit.ir.cfg import Loop
from ptxaudit.ir.instruction import Instruction
from ptxaudit.rules.model import Confidence, Outcome, Related, Severity, Violation
from ptxaudit.rules.thresholds import Thresholds
from ptxaudit.words import counted

NEEDS = (ev.GroupWait,)
THRESHOLDS = ("enough-wgmma-groups", "most-more-groups")

_SHARED = (ev.StateSpace.SHARED, ev.StateSpace.CLUSTER, ev.StateSpace.GENERIC)


@dataclass(frozen=True, slots=True)
class _Wait:
    """A wait in a loop that leaves ``depth`` groups pending."""

    instruction: Instruction
    event: ev.GroupWait
    depth: int
    loop: Loop

    @property
    def index(self) -> int:
        return self.instruction.index


@dataclass(frozen=True, slots=True)
class _Setting:
    """What the questions about one function are put to: the report, and the waits that wait for nothing.

    Forms that leave up to ``most_more`` groups more pending are tried.
    """

    analysis: FunctionAnalysis
    report: OrderReport
    idle: frozenset[int]
    most_more: float

    def weaken(self, waits: Sequence[_Wait], more: int) -> Weakening:
        """Leave more groups pending; waits that repeat others must not make up for it."""
        return both(without(self.idle), deeper(_depths(waits, more), waits[0].loop))


def check(analysis: FunctionAnalysis, thresholds: Thresholds) -> Outcome:
    """Every wait for commit groups in a loop that does work."""
    if not analysis.function.is_entry or not analysis.occurrences(ev.GroupWait):
        return Outcome.not_applicable()
    idle = frozenset(
        instruction.index
        for instruction, event in analysis.occurrences(ev.GroupWait)
        if finds_nothing_pending(analysis, instruction.index, event)
    )
    enough = thresholds["enough-wgmma-groups"]
    waits = [wait for wait in _waits(analysis, enough) if wait.index not in idle]
    if not waits:
        return Outcome.of([])
    if (unknown := unknown_code(analysis)) is not None:
        return Outcome.of([], unknown)
    waits = [wait for wait in waits if _registers_are_free(analysis, [wait], 1)]
    if not waits:
        return Outcome.of([])
    report = order_of(analysis)
    reason = incomplete(report) or why_not(report)
    if reason is not None:
        return Outcome.of([], reason)
    setting = _Setting(analysis, report, idle, thresholds["most-more-groups"])
    return _judge(setting, _by_loop_and_kind(waits))


def _waits(analysis: FunctionAnalysis, enough_wgmma: float) -> Iterator[_Wait]:
    for instruction, event in analysis.occurrences(ev.GroupWait):
        loop = poll_loops(analysis).working_of(analysis.function.block_of(instruction.index).id)
        if loop is None or event.depth is None or (event.kind is ev.GroupKind.BULK and not event.read_only):
            continue
        if event.kind is ev.GroupKind.WGMMA and event.depth >= enough_wgmma:
            continue  # one group in flight keeps the tensor cores busy
        wait = _Wait(instruction, event, event.depth, loop)
        if _leaves_more(analysis, wait, 1):
            yield wait


def _leaves_more(analysis: FunctionAnalysis, wait: _Wait, more: int) -> bool:
    """Whether an operation is certain to be among the groups that the wait would leave pending besides."""
    depth = wait.depth + more
    changed = analysis.with_events({wait.index: _deepened(analysis.events[wait.index], depth)})
    flow = group_flow(changed, wait.event.kind, Doubt.COMPLETES, wait.event.read_only)
    return any(ages >> depth & 1 for ages in flow.before(wait.index).values())


def _guarded(analysis: FunctionAnalysis, wait: _Wait) -> Repeated:
    """The accesses to shared memory in the loop of a wait."""
    accesses = (
        index
        for index in indices(analysis.graph, wait.loop.blocks)
        if any(isinstance(event, ev.Access) and event.space in _SHARED for event in analysis.events[index])
    )
    return repeated(analysis, accesses, [wait.loop])


def _by_loop_and_kind(waits: Sequence[_Wait]) -> list[list[_Wait]]:
    together: dict[tuple[int, ev.GroupKind, bool], list[_Wait]] = {}
    for wait in waits:
        together.setdefault((wait.loop.header, wait.event.kind, wait.event.read_only), []).append(wait)
    return list(together.values())


def _judge(setting: _Setting, loops: list[list[_Wait]]) -> Outcome:
    """What the waits of one kind in one loop could be."""
    analysis, report = setting.analysis, setting.report
    violations: list[Violation] = []
    rings: list[list[_Wait]] = []
    unknown = None
    for waits in loops:
        is_wgmma = waits[0].event.kind is ev.GroupKind.WGMMA
        if is_wgmma and _has_unsure_operands(setting):
            continue
        answer = find_dispensable(
            report,
            waits,
            lambda some: setting.weaken(some, 1),
            lambda wait: _guarded(analysis, wait),
        )
        free = list(answer.units)
        while free and not _registers_are_free(analysis, free, 1):
            free.pop()
        unknown = unknown or answer.reason
        violations += _deeper_violations(setting, free)
        if is_wgmma and not free and answer.reason is None and _comes_round(setting, waits):
            rings.append(waits)
    if rings and not lagged.can_afford(report):
        skipped = counted(len(rings), "ring")
        unknown = unknown or f"not tried: deeper waits of {skipped} of buffers, which would take too long"
        rings = []
    return Outcome.of([*violations, *_with_lag(setting, rings)], unknown)


def _comes_round(setting: _Setting, waits: list[_Wait]) -> bool:
    return not any(lacking(setting.report, _guarded(setting.analysis, wait)) for wait in waits)


def _has_unsure_operands(setting: _Setting) -> bool:
    unsure = unsure_copies(setting.analysis, setting.report)
    return any(instruction.index in unsure for instruction, _ in setting.analysis.occurrences(ev.WgmmaIssue))


def _depths(waits: Sequence[_Wait], more: int) -> dict[int, int]:
    return {wait.index: wait.depth + more for wait in waits}


def _deeper_violations(setting: _Setting, waits: list[_Wait]) -> list[Violation]:
    more = _most(setting, waits) if waits else 0
    forms = [f"{wait.depth + more} in place of {wait.depth} would be as well ordered" for wait in waits]
    return [
        _violation(setting.analysis, setting.report, wait, wait.depth + more, form)
        for wait, form in zip(waits, forms, strict=True)
    ]


def _most(setting: _Setting, waits: list[_Wait]) -> int:
    """How many groups more can stay pending, all waits alike."""
    if waits[0].event.kind is ev.GroupKind.WGMMA:
        return 1
    more = 1
    while more < setting.most_more and all(_leaves_more(setting.analysis, wait, more + 1) for wait in waits):
        ordered = find_dispensable(
            setting.report,
            [more + 1],
            lambda some: setting.weaken(waits, some[0]),
            lambda _: _guarded(setting.analysis, waits[0]),
        )
        if not ordered.units:
            break
        more += 1
    return more


# Registers -------------------------------------------------------------------------------------------


def _registers_are_free(analysis: FunctionAnalysis, waits: Sequence[_Wait], more: int) -> bool:
    """Whether nothing in the loop touches registers of a wgmma that deeper waits leave pending."""
    if waits[0].event.kind is not ev.GroupKind.WGMMA:
        return True
    depths = _depths(waits, more)
    changed = {index: _deepened(analysis.events[index], depth) for index, depth in depths.items()}
    outcome = registers.check(analysis.with_events(changed))
    touched = (analysis.function.block_of(one.primary.index).id for one in outcome.violations)
    return outcome.reason is None and waits[0].loop.blocks.isdisjoint(touched)


def _deepened(events: tuple[ev.Event, ...], depth: int) -> tuple[ev.Event, ...]:
    return tuple(
        replace(event, depth=depth) if isinstance(event, ev.GroupWait) else event for event in events
    )


# The release of the stage before ---------------------------------------------------------------------


def _with_lag(setting: _Setting, rings: list[list[_Wait]]) -> list[Violation]:
    """The waits of rings, with the releases behind them one group later."""
    analysis, report = setting.analysis, setting.report
    found: list[tuple[lagged.Lag, list[_Wait], list[Instruction]]] = []
    for waits in rings:
        releases = _releases(setting, waits) if _registers_are_free(analysis, waits, 1) else []
        if releases:
            lag = lagged.Lag(waits[0].loop, _depths(waits, 1), frozenset(one.index for one in releases))
            found.append((lag, waits, releases))
    if not found:
        return []
    if not lagged.is_ordered(analysis, report, [lag for lag, _, _ in found]):
        several = len(found) > 1
        found = [one for one in found if several and lagged.is_ordered(analysis, report, [one[0]])]
    return [
        _lagged_violation(analysis, report, wait, releases) for _, waits, releases in found for wait in waits
    ]


def _releases(setting: _Setting, waits: list[_Wait]) -> list[Instruction]:
    """The arrivals in the loop by which the stage would be released too early; none if that is not all."""
    found: dict[int, Instruction] = {}
    for execution in setting.report.executions:
        for race in races_of_weakened(setting.weaken(waits, 1)(execution)):
            release = race.release
            if release is None or not is_wgmma_read(race.first):
                return []
            if release.block not in waits[0].loop.blocks or not _can_lag(setting.analysis, release.event):
                return []
            found[release.instruction.index] = release.instruction
    return [found[index] for index in sorted(found)]


def _can_lag(analysis: FunctionAnalysis, event: ev.Event) -> bool:
    return (
        isinstance(event, ev.MbarrierArrive)
        and event.source is ev.ArriveSource.THREAD
        and event.expect_bytes is None
        and not event.drop
        and not any(event.state in instruction.reads for instruction in analysis.function.instructions)
    )


# Violations ------------------------------------------------------------------------------------------


def _lagged_violation(
    analysis: FunctionAnalysis, report: OrderReport, wait: _Wait, releases: list[Instruction]
) -> Violation:
    arrive = place(releases[0])
    form = f"{wait.depth + 1} in place of {wait.depth}, with {arrive} releasing the stage before its own, "
    related = tuple(Related(one, "releases the stage of this group") for one in releases)
    return _violation(analysis, report, wait, wait.depth + 1, form + "would be as well ordered", related)


def _violation(
    analysis: FunctionAnalysis,
    report: OrderReport,
    wait: _Wait,
    depth: int,
    form: str,
    related: tuple[Related, ...] = (),
) -> Violation:
    assert report.shape is not None
    shape = report.shape
    is_wgmma = wait.event.kind is ev.GroupKind.WGMMA
    cheaper = {wait.index: _deepened(analysis.events[wait.index], depth)}
    return Violation(
        wait.instruction,
        {"kind": wait.event.kind.value, "form": form},
        related,
        (
            f"Found ordered in {len(report.executions)} explored runs ({shape.threads} threads a CTA, "
            f"{shape.ctas} CTA{'s' if shape.ctas > 1 else ''} a cluster), with a wait for all groups behind "
            "the loop.",
        ),
        severity=Severity.WARNING if is_wgmma else Severity.NOTE,
        confidence=Confidence.MEDIUM,
        assumptions=tuple(report.assumptions),
        cheaper=cheaper,
    )
