"""What every synchronisation of a function costs that was measured, whether or not a rule faults it.

Property: for each memory barrier wider than the CTA, L1 invalidate and proxy fence on shared memory, the
measured range and how often it runs, by the loops around it. Known limits are those of
:mod:`ptxaudit.cost.model`: stores in flight come on top, and whether loads hit L1 is not known.
"""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.polling import can_hit_l1, runs_at_failures
from ptxaudit.analysis.pollloops import indices, poll_loops
from ptxaudit.cost.measured import Operation
from ptxaudit.cost.model import FENCES, flush_with, invalidates_with, stated_cost
from ptxaudit.ir.cfg import Loop
from ptxaudit.ir.events import Event, Fence, L1Invalidate, MemoryFlush, Proxy, StateSpace
from ptxaudit.rules.model import Cost


def synchronisation_costs(analysis: FunctionAnalysis) -> dict[int, Cost]:
    """The measured costs by instruction index."""
    loads: dict[int, int] = {}
    found: dict[int, Cost] = {}
    for index, operation, invalidates in _operations(analysis):
        loop = poll_loops(analysis).working_of(analysis.function.block_of(index).id)
        after = _loads(analysis, loop, loads) if invalidates else 0
        follows = "loads that can hit L1 follow" if after else "no load in the loop can hit L1"
        words = follows if invalidates else "no L1 invalidate goes with it"
        found[index] = stated_cost(analysis, _frequency(analysis, index, loop), operation, after, words)
    return found


def _operations(analysis: FunctionAnalysis) -> Iterator[tuple[int, Operation, bool]]:
    """Each place with the measured operation that it is, and whether L1 is invalidated with it."""
    for index, events in enumerate(analysis.events):
        flushes = [event.scope for event in events if isinstance(event, MemoryFlush)]
        operation = FENCES.get(max(flushes)) if flushes else None
        if operation is not None:
            yield index, operation, invalidates_with(analysis, index)
        elif any(isinstance(event, L1Invalidate) for event in events) and flush_with(analysis, index) is None:
            yield index, Operation.ACQUIRE_CLUSTER, True
        elif any(_is_shared_proxy_fence(event) for event in events):
            yield index, Operation.PROXY_FENCE_SHARED, False


def _is_shared_proxy_fence(event: Event) -> bool:
    return isinstance(event, Fence) and event.proxy is Proxy.ASYNC and event.space is StateSpace.SHARED


def _loads(analysis: FunctionAnalysis, loop: Loop | None, known: dict[int, int]) -> int:
    """The loads in a loop that can hit L1."""
    if loop is None:
        return 0
    if loop.header not in known:
        inside = indices(analysis.graph, loop.blocks)
        instructions = analysis.function.instructions
        known[loop.header] = sum(can_hit_l1(analysis, instructions[index]) for index in inside)
    return known[loop.header]


def _frequency(analysis: FunctionAnalysis, index: int, loop: Loop | None) -> str:
    loops = poll_loops(analysis)
    poll = loops.poll_of(analysis.function.block_of(index).id)
    if poll is not None and runs_at_failures(analysis, poll, index):
        return "every poll attempt"
    if loop is None:
        return "once" if analysis.function.is_entry else "once per call"
    return "every iteration" if loops.is_innermost(loop) else "every iteration of an outer loop"
