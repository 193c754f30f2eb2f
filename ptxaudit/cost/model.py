"""The cost of a violation of a performance rule, from the place it stands in.

Property: frequency by the loops around the place, cycles by the measured operation that the place is
assembled to and by whether loads that can hit L1 follow. Known limits: a memory barrier waits for the
stores in flight, which the measurement had none of; whether loads hit is not known; an architecture
other than the measured one is given the same numbers, and the summary says so.
"""

from collections.abc import Callable
from dataclasses import replace

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.polling import Frequency, Invalidation, can_hit_l1, invalidations
from ptxaudit.analysis.pollloops import indices, poll_loops
from ptxaudit.cost.measured import PROVENANCE, Operation, cycles
from ptxaudit.ir.events import (
    Access,
    ClusterBarrier,
    L1Invalidate,
    MbarrierArrive,
    MbarrierWait,
    MemoryFlush,
    Scope,
)
from ptxaudit.ir.function import Language
from ptxaudit.rules.model import Cost, Violation

FENCES = {
    Scope.CLUSTER: Operation.FENCE_CLUSTER,
    Scope.GPU: Operation.FENCE_GPU,
    Scope.SYS: Operation.FENCE_SYS,
}


def priced(analysis: FunctionAnalysis, rule: str, violations: tuple[Violation, ...]) -> tuple[Violation, ...]:
    """The violations with their costs, where the rule has a model; a cost that a check states stays."""
    estimate = _MODELS.get(rule)
    if estimate is None:
        return violations
    return tuple(
        violation if violation.cost is not None else replace(violation, cost=estimate(analysis, violation))
        for violation in violations
    )


def _invalidation(analysis: FunctionAnalysis, violation: Violation) -> Cost | None:
    index = violation.primary.index
    place = next((one for one in invalidations(analysis) if one.instruction.index == index), None)
    if place is None:
        return None
    flush = flush_with(analysis, index)
    operation = Operation.ACQUIRE_CLUSTER if flush is None else FENCES.get(flush, Operation.ACQUIRE_CLUSTER)
    loads = len(place.loads)
    after = "no load that could hit L1 follows" if loads == 0 else "loads that can hit L1 follow"
    return stated_cost(analysis, _invalidation_frequency(analysis, place), operation, loads, after)


def _invalidation_frequency(analysis: FunctionAnalysis, place: Invalidation) -> str:
    repeated = place.frequency is Frequency.EVERY_ATTEMPT
    frequency = "every poll attempt" if repeated else "once per successful wait"
    if place.enclosing is not None or not analysis.function.is_entry:
        return frequency
    return f"{frequency}; one wait per thread"


def _memory_barrier(analysis: FunctionAnalysis, violation: Violation) -> Cost | None:
    index = violation.primary.index
    loops = poll_loops(analysis)
    loop = loops.working_of(analysis.function.block_of(index).id)
    flushes = [event for event in analysis.events[index] if isinstance(event, MemoryFlush)]
    if loop is None or not flushes:
        return None
    operation = FENCES[max(flush.scope for flush in flushes)]
    invalidates = invalidates_with(analysis, index)
    instructions = analysis.function.instructions
    inside = indices(analysis.graph, loop.blocks)
    loads = sum(can_hit_l1(analysis, instructions[i]) for i in inside) if invalidates else 0
    copies = 1 + len(violation.related)
    times = "" if copies == 1 else f", {copies} times"
    trip = "every iteration" if loops.is_innermost(loop) else "every iteration of an outer loop"
    if not invalidates:
        after = "no L1 invalidate goes with it"
    else:
        after = "its L1 invalidate included, " + ("with" if loads else "without") + " loads that can hit L1"
    return stated_cost(analysis, trip + times, operation, loads, f"{after}; stores in flight come on top")


def flush_with(analysis: FunctionAnalysis, index: int) -> Scope | None:
    """The scope of the memory barrier that one fence consists of together with the invalidate ``index``."""
    start = analysis.function.block_of(index).start
    for position in range(index, start - 1, -1):
        events = analysis.events[position]
        if any(isinstance(event, Access | MbarrierWait) for event in events):
            return None
        flushes = [event.scope for event in events if isinstance(event, MemoryFlush)]
        if flushes:
            return max(flushes)
    return None


def invalidates_with(analysis: FunctionAnalysis, index: int) -> bool:
    """Whether an L1 invalidate belongs to the memory barrier ``index``: in SASS it stands behind it."""
    end = analysis.function.block_of(index).end if analysis.function.language is Language.SASS else index + 1
    for position in range(index, end):
        events = analysis.events[position]
        if any(isinstance(event, Access | MbarrierArrive | ClusterBarrier) for event in events):
            return False
        if any(isinstance(event, L1Invalidate) for event in events):
            return True
    return False


def stated_cost(
    analysis: FunctionAnalysis, frequency: str, operation: Operation, loads: int, circumstances: str
) -> Cost:
    """The cost of a measured operation with ``loads`` that can hit L1, in words that name the measurement."""
    architecture = analysis.function.architecture
    elsewhere = "" if architecture.number == 90 else f"; not measured on {architecture.name}"
    summary = (
        f"Measured as {operation.value} on an {PROVENANCE.device}, driver {PROVENANCE.driver}: "
        f"{circumstances}{elsewhere}"
    )
    return Cost(frequency, summary, cycles(operation, loads), PROVENANCE.architecture)


_MODELS: dict[str, Callable[[FunctionAnalysis, Violation], Cost | None]] = {
    "l1-invalidate-in-poll-loop": _invalidation,
    "gpu-membar-in-hot-loop": _memory_barrier,
}
