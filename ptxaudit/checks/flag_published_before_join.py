"""One thread publishes a flag for what all threads have written, and nothing has joined them before."""

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.checks._conditions import Conditions, thread_conditions
from ptxaudit.checks._grids import reached
from ptxaudit.ir.events import (
    Access,
    BarrierAction,
    ClusterBarrier,
    CtaBarrier,
    Event,
    Fence,
    MbarrierWait,
    MemoryFlush,
    Proxy,
    Scope,
    Semantics,
    StateSpace,
    WarpBarrier,
)
from ptxaudit.ir.instruction import Instruction
from ptxaudit.rules.model import Outcome, Related, Violation

NEEDS = (Access,)

_OUTER = (StateSpace.GLOBAL, StateSpace.GENERIC)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Flags set by some threads that plain writes of more threads reach with no barrier on the way."""
    flags = [i for i, event in analysis.occurrences(Access) if _is_flag(event)]
    if not flags or not analysis.function.is_entry:
        return Outcome.not_applicable()
    writes = {i.index: i for i, event in analysis.occurrences(Access) if _is_payload(event)}
    violations: dict[int, Violation] = {}
    for flag in flags:
        conditions = thread_conditions(analysis, flag.index)
        if not conditions:
            continue
        for write in writes.values():
            if _is_unjoined(analysis, write, flag, conditions):
                violations.setdefault(flag.index, _violation(flag, write))
                break
    return Outcome.of(list(violations.values()))


def _is_flag(event: Access) -> bool:
    strong = event.semantics not in (Semantics.WEAK, None)
    return strong and event.writes and event.space in _OUTER and event.scope is not Scope.CTA


def _is_payload(event: Access) -> bool:
    plain = event.writes and event.semantics is Semantics.WEAK and event.proxy is Proxy.GENERIC
    return plain and event.space in _OUTER and event.operation is None


def _is_unjoined(
    analysis: FunctionAnalysis, write: Instruction, flag: Instruction, conditions: Conditions
) -> bool:
    """Whether more threads than the flag's execute the write, and it gets to the flag with no join.

    The flag must be meant to publish: it releases, or a fence stands on the way.
    """
    own = thread_conditions(analysis, write.index)
    if any(own.get(name) == value for name, value in conditions.items()):
        return False

    def stops(index: int) -> bool:
        return index == flag.index or any(_joins(event) for event in analysis.events[index])

    way = set(reached(analysis, write.index, stops))
    if flag.index not in way or any(_joins(event) for event in analysis.events[flag.index]):
        return False
    return _releases(analysis, flag) or any(
        _is_fence(event) and flag.index in reached(analysis, index, stops)
        for index in way
        for event in analysis.events[index]
        if index != flag.index
    )


def _joins(event: Event) -> bool:
    match event:
        case CtaBarrier() | ClusterBarrier():
            return event.action is not BarrierAction.ARRIVE
        case MbarrierWait() | WarpBarrier():
            return True
        case _:
            return False


def _releases(analysis: FunctionAnalysis, flag: Instruction) -> bool:
    return any(
        isinstance(event, Access) and event.semantics is not None and event.semantics.releases
        for event in analysis.events[flag.index]
    )


def _is_fence(event: Event) -> bool:
    if isinstance(event, Fence):
        wide = event.scope is not None and event.scope > Scope.CTA and event.proxy is None
        return wide and event.semantics is not None and event.semantics.releases
    return isinstance(event, MemoryFlush) and event.scope > Scope.CTA


def _violation(flag: Instruction, write: Instruction) -> Violation:
    return Violation(
        flag,
        {},
        (Related(write, "written by more threads than the one that sets the flag"),),
        (
            "A fence orders the writes of its own thread, and those that it has been joined with.",
            "No barrier stands on a path from the write to the flag.",
        ),
    )
