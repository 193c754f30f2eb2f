"""Barriers, fences and waits whose order another one gives already.

A repetition is decided on the control-flow graph: every path to the synchronisation comes from another one at
least as strong, with nothing in between that it could be for. Of a wait for commit groups: nothing that it
waits for can be pending. Barriers and proxy fences in loops that do work are also asked for one by one of the
order engine: the kernel without it, and without those found before, must be as well ordered in every explored
run. One that may guard what the engine does not see counts as needed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.groups import finds_nothing_pending
from ptxaudit.analysis.order.explore import OrderReport, order_of
from ptxaudit.analysis.order.rounds import Repeated, find_dispensable, repeated
from ptxaudit.analysis.order.whatif import met_together, why_not, without
from ptxaudit.analysis.pollloops import indices, poll_loops
from ptxaudit.checks._grids import Stop, reached
from ptxaudit.checks._guarding import (
    ENTRY,
    barrier_at,
    coming_to,
    executed,
    guards_unseen,
    joins_as_many,
    matters,
    orders_lanes,
    region_of,
    unknown_code,
    unsure_copies,
)
from ptxaudit.checks._order import incomplete, place
from ptxaudit.ir import events as ev
from ptxaudit.ir.function import Language
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Immediate
from ptxaudit.rules.model import Confidence, Outcome, Related, Severity, Violation

NEEDS = (ev.CtaBarrier, ev.Fence, ev.GroupWait)

_SEMANTICS = {ev.Semantics.ACQUIRE: 0, ev.Semantics.RELEASE: 0, ev.Semantics.ACQ_REL: 1, ev.Semantics.SC: 2}
_INNER = (ev.StateSpace.SHARED, ev.StateSpace.CLUSTER, ev.StateSpace.GENERIC, ev.StateSpace.TENSOR)
_WORDS = {
    ev.GroupKind.WGMMA: "wgmma",
    ev.GroupKind.CP_ASYNC: "cp.async copy",
    ev.GroupKind.BULK: "bulk copy",
}


@dataclass(slots=True)
class _Found:
    """Violations by instruction, and what could not be decided."""

    violations: dict[int, Violation] = field(default_factory=dict)
    barriers: set[int] = field(default_factory=set)
    unknown: str | None = None


def check(analysis: FunctionAnalysis) -> Outcome:
    """Every barrier, fence and wait for commit groups."""
    if not analysis.has(*NEEDS):
        return Outcome.not_applicable()
    found = _Found(unknown=unknown_code(analysis))
    if found.unknown is not None:
        return Outcome.of([], found.unknown)
    for index in range(len(analysis.events)):
        repeated = _repeated(analysis, index)
        if repeated is not None:
            found.violations[index] = repeated
    repeated_barriers = {i for i in found.violations if barrier_at(analysis, i) is not None}
    for index in repeated_barriers:
        if not analysis.function.is_entry or not _meets_only(analysis, index, repeated_barriers):
            del found.violations[index]
        else:
            found.barriers.add(index)
    if analysis.function.is_entry:
        _try_without(analysis, found)
    return Outcome.of([found.violations[index] for index in sorted(found.violations)], found.unknown)


# Repetitions -----------------------------------------------------------------------------------------


def _repeated(analysis: FunctionAnalysis, index: int) -> Violation | None:
    barrier = barrier_at(analysis, index)
    if barrier is not None and barrier.action is ev.BarrierAction.SYNC:
        return _repeats_barrier(analysis, index, barrier)
    for event in analysis.events[index]:
        if isinstance(event, ev.Fence) and not event.mbarrier_init:
            return _repeats_fence(analysis, index, event)
        if isinstance(event, ev.GroupWait):
            return _waits_for_nothing(analysis, index, event)
    return None


def _repeats_barrier(analysis: FunctionAnalysis, index: int, barrier: ev.CtaBarrier) -> Violation | None:
    def stops(place: int) -> bool:
        return joins_as_many(barrier, barrier_at(analysis, place))

    return _repetition(analysis, index, stops, matters)


def _meets_only(analysis: FunctionAnalysis, index: int, repeated: set[int]) -> bool:
    """Whether threads that come to a barrier elsewhere, in another role, find it repeated, too."""
    report = order_of(analysis)
    if not _meets_executed_only(analysis, index, executed(analysis, report)):
        return False
    units = met_together(report, frozenset((index,)))
    return next(unit for unit in units if index in unit) <= repeated


def _repeats_fence(analysis: FunctionAnalysis, index: int, fence: ev.Fence) -> Violation | None:
    def stops(place: int) -> bool:
        unguarded = analysis.function.instructions[place].guard is None
        return unguarded and any(_covers(event, fence) for event in analysis.events[place])

    def needs(event: ev.Event) -> bool:
        # Lanes that meet may learn of each other's accesses, which the second fence then takes in.
        return isinstance(event, ev.WarpBarrier) or (matters(event) and not isinstance(event, ev.Fence))

    return _repetition(analysis, index, stops, needs)


def _covers(event: ev.Event, fence: ev.Fence) -> bool:
    """Whether a fence orders at least what another one does."""
    if not isinstance(event, ev.Fence) or event.mbarrier_init or fence.address or event.address:
        return False
    if event == fence:
        return True
    if fence.proxy is not None or event.proxy is not None:
        plain = event.semantics is None and fence.semantics is None
        return plain and event.proxy is fence.proxy and event.space in (None, fence.space)
    if event.semantics is None or fence.semantics is None or event.scope is None or fence.scope is None:
        return False
    stronger = _SEMANTICS.get(event.semantics, -1) > _SEMANTICS.get(fence.semantics, 3)
    as_strong = stronger or event.semantics is fence.semantics
    return as_strong and event.scope >= fence.scope and event.sync_restrict in (None, fence.sync_restrict)


def _repetition(
    analysis: FunctionAnalysis, index: int, stops: Stop, needs: Callable[[ev.Event], bool]
) -> Violation | None:
    """A synchronisation that every path comes to from another one, with nothing in between that needs it."""
    way = list(coming_to(analysis, index, stops))
    others = [place for place in way if place not in (ENTRY, index) and stops(place)]
    if ENTRY in way or not others:
        return None
    between = (e for place in way if not stops(place) for e in analysis.events[place])
    if any(needs(event) or isinstance(event, ev.Transfer) for event in between):
        return None
    first = analysis.function.instructions[min(others)]
    return Violation(
        analysis.function.instructions[index],
        {"why": f"every path to it comes from {place(first)}" + (" or its like" if len(others) > 1 else "")},
        tuple(Related(analysis.function.instructions[i], "gives this order already") for i in sorted(others)),
        ("Between the two there is no access, no operation on a barrier and no asynchronous operation.",),
        severity=_severity(analysis, index),
        cheaper={index: ()},
    )


def _waits_for_nothing(analysis: FunctionAnalysis, index: int, wait: ev.GroupWait) -> Violation | None:
    if wait.kind is ev.GroupKind.WGMMA and analysis.function.language is Language.SASS:
        return None  # ptxas puts waits of its own there
    if wait.kind is ev.GroupKind.BULK and _copies_tensormaps(analysis):
        return None  # tensormap.cp_fenceproxy copies, too, and the ISA does not say that no group has it
    if not finds_nothing_pending(analysis, index, wait):
        return None
    left = "" if not wait.depth else f" beside the {wait.depth} newest groups"
    return Violation(
        analysis.function.instructions[index],
        {"why": f"no {_WORDS[wait.kind]} can be pending here on any path{left}"},
        tuple(Related(i, "has waited already") for i in _earlier_waits(analysis, index, wait)),
        ("Found by following the commit groups over the control-flow graph.",),
        severity=Severity.NOTE,
        cheaper={index: ()},
    )


def _copies_tensormaps(analysis: FunctionAnalysis) -> bool:
    fences = (fence for _, fence in analysis.occurrences(ev.Fence))
    return bool(analysis.occurrences(ev.TensormapReplace)) or any(
        fence.proxy is ev.Proxy.TENSORMAP for fence in fences
    )


def _earlier_waits(analysis: FunctionAnalysis, index: int, wait: ev.GroupWait) -> list[Instruction]:
    def is_other(position: int) -> bool:
        return position != index and any(
            isinstance(event, ev.GroupWait) and event.kind is wait.kind for event in analysis.events[position]
        )

    way = coming_to(analysis, index, is_other)
    return [analysis.function.instructions[i] for i in sorted(set(way)) if i != ENTRY and is_other(i)]


def _severity(analysis: FunctionAnalysis, index: int) -> Severity:
    """A warning in a loop that does work, where it is paid again and again."""
    return Severity.WARNING if _in_working_loop(analysis, index) else Severity.NOTE


def _in_working_loop(analysis: FunctionAnalysis, index: int) -> bool:
    return poll_loops(analysis).working_of(analysis.function.block_of(index).id) is not None


# The order engine ------------------------------------------------------------------------------------


def _try_without(analysis: FunctionAnalysis, found: _Found) -> None:
    """Leave out what loops repeat, and ask the order engine whether all is still ordered."""
    fences = [i for i in _fences(analysis) if i not in found.violations and _is_for_shared(analysis, i)]
    barriers = [i for i in _barriers(analysis) if i not in found.violations]
    if not fences and not any(_in_working_loop(analysis, index) for index in barriers):
        return
    report = order_of(analysis)
    found.unknown = incomplete(report) or why_not(report)
    if found.unknown is not None:
        return
    gone = frozenset(found.barriers)
    units = [*_units(analysis, report, barriers), *(frozenset((fence,)) for fence in fences)]
    candidates = [unit for unit in units if _is_judged(analysis, report, unit, gone)]
    answer = find_dispensable(
        report,
        candidates,
        lambda some: without(gone.union(*some)),
        lambda unit: _guarded(analysis, unit, gone),
    )
    found.unknown = answer.reason
    for unit in answer.units:
        if _is_judged(analysis, report, unit, gone) and not _orders_lanes(analysis, report, unit, gone):
            gone |= unit
            found.violations[min(unit)] = _unneeded(analysis, report, unit)


def _guarded(analysis: FunctionAnalysis, unit: frozenset[int], removed: frozenset[int]) -> Repeated:
    """The accesses to shared and tensor memory that a unit may order, in the loops that repeat it."""
    around = [poll_loops(analysis).working_of(analysis.function.block_of(index).id) for index in unit]
    loops = [loop for loop in around if loop is not None]
    inside = {index for loop in loops for index in indices(analysis.graph, loop.blocks)}
    if not _is_fence(analysis, unit):
        inside &= region_of(analysis, unit, removed).around
    accesses = (
        index
        for index in inside
        if any(isinstance(event, ev.Access) and event.space in _INNER for event in analysis.events[index])
    )
    return repeated(analysis, accesses, loops)


def _is_fence(analysis: FunctionAnalysis, unit: frozenset[int]) -> bool:
    return any(isinstance(event, ev.Fence) for index in unit for event in analysis.events[index])


def _units(analysis: FunctionAnalysis, report: OrderReport, barriers: list[int]) -> list[frozenset[int]]:
    """The barriers that go together, as some phase has them both; none that may meet code not executed."""
    done = executed(analysis, report)
    if any(index not in done for index, _ in _all_barriers(analysis)):
        barriers = [index for index in barriers if _meets_executed_only(analysis, index, done)]
    units = met_together(report, frozenset(barriers))
    return [
        unit
        for unit in units
        if unit <= set(barriers) and any(_in_working_loop(analysis, index) for index in unit)
    ]


def _all_barriers(analysis: FunctionAnalysis) -> list[tuple[int, ev.CtaBarrier]]:
    return [(instruction.index, event) for instruction, event in analysis.occurrences(ev.CtaBarrier)]


def _meets_executed_only(analysis: FunctionAnalysis, index: int, done: frozenset[int]) -> bool:
    """Whether no barrier that was executed in no run may be the same one: such a role would wait for ever."""
    own = barrier_at(analysis, index)
    assert own is not None
    return (
        index in done
        and isinstance(own.barrier, Immediate)
        and not any(
            other not in done and (not isinstance(event.barrier, Immediate) or event.barrier == own.barrier)
            for other, event in _all_barriers(analysis)
        )
    )


def _barriers(analysis: FunctionAnalysis) -> Iterator[int]:
    for index in range(len(analysis.events)):
        barrier = barrier_at(analysis, index)
        if barrier is not None and barrier.action is ev.BarrierAction.SYNC:
            yield index


def _fences(analysis: FunctionAnalysis) -> Iterator[int]:
    """Proxy fences in loops; SASS has some that ptxas has put there."""
    if analysis.function.language is not Language.PTX:
        return
    for instruction, event in analysis.occurrences(ev.Fence):
        plain = event.proxy is ev.Proxy.ASYNC and event.semantics is None
        if plain and _in_working_loop(analysis, instruction.index):
            yield instruction.index


def _is_for_shared(analysis: FunctionAnalysis, fence: int) -> bool:
    """Whether a proxy fence can be for nothing but the shared memory that the order engine sees."""
    events = [event for event in analysis.events[fence] if isinstance(event, ev.Fence)]
    if analysis.occurrences(ev.TensormapReplace):
        return False
    if all(event.space is ev.StateSpace.SHARED for event in events):
        return True
    outside = (ev.StateSpace.GLOBAL, ev.StateSpace.GENERIC)
    return not any(
        access.writes
        and access.proxy is ev.Proxy.GENERIC
        and access.space in outside
        and fence in reached(analysis, instruction.index, lambda index: index == fence)
        for instruction, access in analysis.occurrences(ev.Access)
    )


def _is_judged(
    analysis: FunctionAnalysis, report: OrderReport, unit: frozenset[int], removed: frozenset[int]
) -> bool:
    """Whether what a unit may guard, with others removed, is all before the eyes of the order engine."""
    if not unit <= executed(analysis, report):
        return False
    if _is_fence(analysis, unit):
        return not _guarded(analysis, unit, removed).accesses & unsure_copies(analysis, report)
    return not guards_unseen(analysis, report, region_of(analysis, unit, removed))


def _orders_lanes(
    analysis: FunctionAnalysis, report: OrderReport, unit: frozenset[int], removed: frozenset[int]
) -> bool:
    return not _is_fence(analysis, unit) and orders_lanes(report, unit, removed)


def _unneeded(analysis: FunctionAnalysis, report: OrderReport, unit: frozenset[int]) -> Violation:
    first, *others = (analysis.function.instructions[index] for index in sorted(unit))
    runs = len(report.executions)
    assert report.shape is not None
    seen = "On the paths around it nothing outside the CTA's own memory is handed over."
    if _is_fence(analysis, unit):
        seen = "It can be for nothing but shared memory."
    return Violation(
        first,
        {"why": "without it every access and every phase is as well ordered"},
        tuple(Related(other, "the same barrier, which goes with it") for other in others),
        (
            f"Found by walking {runs} explored runs ({report.shape.threads} threads a CTA, "
            f"{report.shape.ctas} CTA{'s' if report.shape.ctas > 1 else ''} a cluster) without it.",
            seen,
        ),
        severity=Severity.NOTE,
        confidence=Confidence.MEDIUM,
        assumptions=tuple(report.assumptions),
        cheaper=dict.fromkeys(unit, ()),
    )
