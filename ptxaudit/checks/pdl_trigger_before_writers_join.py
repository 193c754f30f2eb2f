"""Dependents are let go while threads of the CTA may still write, or before their writes are visible.

Debatable, so a note: a dependent that executes ``griddepcontrol.wait`` waits for the whole grid and its
writes, wherever the trigger stands.
"""

from collections.abc import Callable, Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.checks._grids import global_accesses, grid_actions, reached
from ptxaudit.ir.events import (
    BarrierAction,
    ClusterBarrier,
    CtaBarrier,
    Fence,
    GridAction,
    GridDependency,
    MemoryFlush,
    Scope,
)
from ptxaudit.ir.instruction import Instruction
from ptxaudit.rules.model import Outcome, Related, Violation

NEEDS = (GridDependency,)

_Test = Callable[[FunctionAnalysis, int], bool]


def check(analysis: FunctionAnalysis) -> Outcome:
    """Triggers that a global write reaches with no join of the CTA, or with no fence."""
    triggers = grid_actions(analysis, GridAction.LAUNCH_DEPENDENTS)
    if not triggers or not analysis.function.is_entry:
        return Outcome.not_applicable()
    return Outcome.of(list(_violations(analysis, triggers)))


def _violations(analysis: FunctionAnalysis, triggers: list[Instruction]) -> Iterator[Violation]:
    writes = [instruction for instruction, access in global_accesses(analysis) if access.writes]
    for trigger in triggers:
        for write in writes:
            lacking = [
                name
                for name, given in (("a barrier of the CTA", _joins), ("a fence of GPU scope", _flushes))
                if _reaches(analysis, write, trigger, given)
            ]
            if lacking:
                yield _violation(trigger, write, " and ".join(lacking))
                break


def _reaches(analysis: FunctionAnalysis, write: Instruction, trigger: Instruction, stop: _Test) -> bool:
    way = reached(analysis, write.index, lambda index: stop(analysis, index) or index == trigger.index)
    return trigger.index in way


def _joins(analysis: FunctionAnalysis, index: int) -> bool:
    return any(
        (isinstance(event, CtaBarrier) and event.action is not BarrierAction.ARRIVE)
        or (isinstance(event, ClusterBarrier) and event.action is BarrierAction.WAIT)
        for event in analysis.events[index]
    )


def _flushes(analysis: FunctionAnalysis, index: int) -> bool:
    for event in analysis.events[index]:
        if isinstance(event, MemoryFlush) and event.scope >= Scope.GPU:
            return True
        if isinstance(event, Fence) and event.scope is not None and event.semantics is not None:
            return event.scope >= Scope.GPU and event.semantics.releases
    return False


def _violation(trigger: Instruction, write: Instruction, lacking: str) -> Violation:
    return Violation(
        trigger,
        {"lacking": lacking},
        (Related(write, "a write that may come after the trigger, or not be visible yet"),),
        (
            "One thread of each CTA is enough to trigger, and the trigger flushes nothing.",
            "Dependents that execute griddepcontrol.wait see the writes all the same.",
        ),
    )
