"""What a synchronisation may guard: the code around it up to the next of its kind, on every path.

Property: an instruction is in the region before (after) a barrier when some path leads from it to the barrier
(from the barrier to it) without another barrier of the same threads in between, that barrier excepted.
Accesses further away are ordered by the other barrier. Direction: both; join: union over the paths of the
control-flow graph, feasible or not.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.calls import CallEffect, call_effects
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.footprints import LEAST_COPY
from ptxaudit.analysis.order.trace import Execution, Footprint, Step
from ptxaudit.checks._executions import steps_of
from ptxaudit.checks._grids import Stop, reached
from ptxaudit.ir import events as ev
from ptxaudit.ir.operands import Immediate

ENTRY = -1
"""Stands for the function's entry among the instructions of a region before."""

_OWN = (ev.StateSpace.LOCAL, ev.StateSpace.PARAM, ev.StateSpace.CONST)
_NEUTRAL = (ev.Backoff, ev.Election, ev.AddressMapping, ev.WarpBarrier, ev.L1Invalidate, ev.MemoryFlush)
_OUTSIDE = (ev.StateSpace.GLOBAL, ev.StateSpace.GENERIC)
# What the order engine does not follow, or not far enough to say that nothing rests on a barrier beside it.
_UNSEEN = (
    ev.UnknownEffect,
    ev.GridDependency,
    ev.ClusterBarrier,
    ev.MbarrierInit,
    ev.MbarrierInvalidate,
    ev.TensormapReplace,
)
_LIFETIME = (ev.TensorAction.ALLOCATE, ev.TensorAction.DEALLOCATE, ev.TensorAction.RELINQUISH)


def coming_to(analysis: FunctionAnalysis, index: int, stops: Stop) -> Iterator[int]:
    """Instructions on paths to ``index``, back to those at which ``stops`` holds, these included.

    ``ENTRY`` is among them when a path from the entry meets no such instruction.
    """
    blocks = analysis.function.blocks
    own = analysis.function.block_of(index)
    pending = [(own.id, index - 1)]
    seen: set[int] = set()
    while pending:
        block, last = pending.pop()
        for position in range(last, blocks[block].start - 1, -1):
            yield position
            if stops(position):
                break
        else:
            if block == 0:
                yield ENTRY
            for predecessor in analysis.graph.predecessors[block]:
                if predecessor not in seen and predecessor in analysis.graph.reachable:
                    seen.add(predecessor)
                    pending.append((predecessor, blocks[predecessor].end - 1))


def barrier_at(analysis: FunctionAnalysis, index: int) -> ev.CtaBarrier | None:
    """The CTA barrier that all threads which come to an instruction take part in and wait for."""
    if analysis.function.instructions[index].guard is not None:
        return None
    for event in analysis.events[index]:
        if isinstance(event, ev.CtaBarrier) and event.action is not ev.BarrierAction.ARRIVE:
            return event
    return None


def joins_as_many(barrier: ev.CtaBarrier, other: ev.CtaBarrier | None) -> bool:
    """Whether another barrier joins at least the same threads: all of the CTA, or by the same numbers."""
    if other is None:
        return False
    if other.threads is None:
        return True
    numbers = (barrier.barrier, barrier.threads)
    known = all(isinstance(number, Immediate) for number in numbers)
    return known and numbers == (other.barrier, other.threads)


def matters(event: ev.Event) -> bool:
    """Whether an event may be what a barrier is there for."""
    if isinstance(event, ev.Access):
        return event.space not in _OWN
    return not isinstance(event, _NEUTRAL)


@dataclass(frozen=True, slots=True)
class Region:
    """Instructions before and after barriers that go together, up to others that join the same threads."""

    before: frozenset[int]
    after: frozenset[int]

    @property
    def around(self) -> frozenset[int]:
        """Both sides."""
        return self.before | self.after


def region_of(analysis: FunctionAnalysis, unit: frozenset[int], removed: frozenset[int]) -> Region:
    """What barriers that go together may guard, when some others are not there either."""
    before: set[int] = set()
    after: set[int] = set()
    for index in unit:
        barrier = barrier_at(analysis, index)
        assert barrier is not None

        def stops(place: int, barrier: ev.CtaBarrier = barrier) -> bool:
            return place not in unit | removed and joins_as_many(barrier, barrier_at(analysis, place))

        before |= set(coming_to(analysis, index, stops)) - {ENTRY}
        after |= set(reached(analysis, index, stops))
    return Region(frozenset(before), frozenset(after))


def guards_unseen(analysis: FunctionAnalysis, report: OrderReport, region: Region) -> bool:
    """Whether barriers with this region may guard what the order engine does not see."""
    around = region.around
    followed = {index for index in around if _is_followed(analysis, index)}
    if around & unsure_copies(analysis, report) or not followed <= executed(analysis, report):
        return True
    if any(_is_unseen(event, report) for index in around for event in analysis.events[index]):
        return True
    return _hand_over_outside(analysis, region.before, region.after)


def executed(analysis: FunctionAnalysis, report: OrderReport) -> frozenset[int]:
    """The instructions that some explored run has made a step of."""
    return analysis.memo(
        "executed",
        lambda: frozenset(step.instruction.index for one in report.executions for step in steps_of(one)),
    )


def unsure_copies(analysis: FunctionAnalysis, report: OrderReport) -> frozenset[int]:
    """Asynchronous accesses to shared memory of which no more than the first bytes are known.

    The read of a tensor store is not: it is taken to go on to the end of what was stored.
    """
    return analysis.memo(
        "unsure copies",
        lambda: frozenset(
            step.instruction.index
            for one in report.executions
            for step in steps_of(one)
            if isinstance(step.event, ev.Access) and _is_unsure(step, step.event)
        ),
    )


def _is_unsure(step: Step, event: ev.Access) -> bool:
    footprint = step.footprint
    if event.completion is ev.Completion.SYNCHRONOUS or footprint is None:
        return False
    if footprint.memory[0] != "shared" or footprint.size > LEAST_COPY:
        return False
    sized = footprint.certain or (step.operation is not None and step.operation.bytes)
    return event.addressing is ev.Addressing.MATRIX_DESCRIPTOR or (event.writes and not sized)


def unknown_code(analysis: FunctionAnalysis) -> str | None:
    """Why code that is not known may need a synchronisation, or ``None``."""
    effect, callee = call_effects(analysis)
    if effect is not CallEffect.HARMLESS:
        return f"{callee}, which is called, may need the synchronisation"
    for instruction, _ in analysis.occurrences(ev.UnknownEffect):
        return f"{instruction.opcode} is not known, and may need the synchronisation"
    return None


def _is_followed(analysis: FunctionAnalysis, index: int) -> bool:
    """Whether the order engine makes a step of an instruction when it is executed."""
    for event in analysis.events[index]:
        if isinstance(event, ev.Transfer) or not matters(event):
            continue
        if not isinstance(event, ev.Access) or event.space is not ev.StateSpace.GLOBAL:
            return True
    return False


def _is_unseen(event: ev.Event, report: OrderReport) -> bool:
    if isinstance(event, ev.Transfer):
        return event.kind is ev.TransferKind.CALL or report.shape is None or report.shape.ctas > 1
    if isinstance(event, ev.TensorOperation):
        return event.action in _LIFETIME
    if isinstance(event, ev.Fence):
        return event.proxy is ev.Proxy.TENSORMAP
    return isinstance(event, _UNSEEN)


def _hand_over_outside(analysis: FunctionAnalysis, before: Iterable[int], after: Iterable[int]) -> bool:
    """Whether memory outside the CTA may be written on one side of a barrier and accessed on the other."""
    early, late = (
        [
            event
            for index in side
            for event in analysis.events[index]
            if isinstance(event, ev.Access) and event.space in _OUTSIDE and event.cache != "nc"
        ]
        for side in (before, after)
    )
    written = any(event.writes for event in (*early, *late))
    return bool(early) and bool(late) and written


def orders_lanes(report: OrderReport, unit: frozenset[int], removed: frozenset[int]) -> bool:
    """Whether lanes of one warp hand over shared memory to each other through barriers.

    The order engine does not compare lanes that always act together.
    """
    return any(_orders_lanes_in(one, unit, removed) for one in report.executions)


def _orders_lanes_in(execution: Execution, unit: frozenset[int], removed: frozenset[int]) -> bool:
    since: dict[int, dict[object, Step]] = {}
    behind: dict[int, dict[object, Step]] = {}
    for step in steps_of(execution):
        own, earlier = since.setdefault(step.warp, {}), behind.setdefault(step.warp, {})
        if isinstance(step.event, ev.CtaBarrier | ev.WarpBarrier):
            if step.instruction.index in unit:
                earlier.update(own)
                own.clear()
            elif step.instruction.index not in removed:
                own.clear()
                earlier.clear()
        elif _is_lane_access(step):
            assert step.footprint is not None
            if any(_of_other_lanes(other, step) for other in earlier.values()):
                return True
            own[step.instruction.index, step.footprint.starts.tobytes()] = step
    return False


def _is_lane_access(step: Step) -> bool:
    event = step.event
    return (
        isinstance(event, ev.Access)
        and event.completion in (ev.Completion.SYNCHRONOUS, ev.Completion.ASYNC_GROUP)
        and step.footprint is not None
        and step.footprint.memory[0] == "shared"
    )


def _of_other_lanes(first: Step, second: Step) -> bool:
    """Whether two accesses of a warp conflict, unless each lane comes back to its own bytes."""
    assert isinstance(first.event, ev.Access) and isinstance(second.event, ev.Access)
    one, two = first.footprint, second.footprint
    assert one is not None and two is not None
    if not (first.event.writes or second.event.writes) or one.memory != two.memory:
        return False
    if not _overlap(one, two):
        return False
    collective = any(step.instruction.opcode.startswith(_MATRIX) for step in (first, second))
    if collective or one.size != two.size or one.lanes is None or two.lanes is None:
        return True
    places = dict(zip(one.lanes.tolist(), one.starts.tolist(), strict=True))
    others = dict(zip(two.lanes.tolist(), two.starts.tolist(), strict=True))
    distinct = len(set(places.values())) == len(places)
    return not distinct or any(places.get(lane) != start for lane, start in others.items())


# Lanes give the addresses of rows, which are then spread over the warp.
_MATRIX = ("ldmatrix", "stmatrix", "LDSM", "STSM")


def _overlap(one: Footprint, two: Footprint) -> bool:
    if one.starts.min() >= two.starts.max() + two.size or two.starts.min() >= one.starts.max() + one.size:
        return False
    starts, others = one.starts[:, None], two.starts[None, :]
    return bool(((starts < others + two.size) & (others < starts + one.size)).any())
