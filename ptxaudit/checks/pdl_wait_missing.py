"""A grid that takes part in programmatic dependent launch accesses global memory with no wait.

A warning where the whole kernel triggers its dependents and never waits; a note where it waits, but some
thread reaches a global access on a path without one, with nothing by which a thread that has waited could
have let it go on.
"""

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.checks._grids import before_waits, global_accesses, grid_actions, reached
from ptxaudit.ir.events import (
    BarrierAction,
    ClusterBarrier,
    CtaBarrier,
    GridAction,
    GridDependency,
    MbarrierArrive,
    MbarrierCompleteTx,
    MbarrierWait,
)
from ptxaudit.ir.instruction import Instruction
from ptxaudit.rules.model import Outcome, Related, Severity, Violation

NEEDS = (GridDependency,)

_SHOWN = 4


def check(analysis: FunctionAnalysis) -> Outcome:
    """The kernel as a whole, or the paths that have no wait."""
    waits = grid_actions(analysis, GridAction.WAIT)
    triggers = grid_actions(analysis, GridAction.LAUNCH_DEPENDENTS)
    if not analysis.function.is_entry or not (waits or triggers):
        return Outcome.not_applicable()
    accesses = [instruction for instruction, _ in global_accesses(analysis)]
    if not accesses:
        return Outcome.of([])
    if not waits:
        return Outcome.of([_never(accesses, triggers)])
    missing = _without_wait(analysis, waits, accesses, behind_mbarriers=True)
    if missing:
        return Outcome.of([_on_a_path(missing, waits)])
    if _without_wait(analysis, waits, accesses, behind_mbarriers=False):
        return Outcome.of([], _MAY_BE_FED)
    return Outcome.of([])


_MAY_BE_FED = (
    "threads that do not wait for the prerequisite grids access global memory behind an mbarrier; whether "
    "a thread that has waited completes that mbarrier is not known"
)


def _without_wait(
    analysis: FunctionAnalysis, waits: list[Instruction], accesses: list[Instruction], behind_mbarriers: bool
) -> list[Instruction]:
    """Accesses that a thread reaches with no wait, and after which it does not wait either."""
    numbers = {wait.index for wait in waits}
    after = {index for wait in waits for index in reached(analysis, wait.index, lambda index: False)}
    barriers = _fed_by(analysis, after, behind_mbarriers)
    early = before_waits(analysis, barriers.__contains__)
    guards = {(wait.guard.register.name, wait.guard.negated) for wait in waits if wait.guard is not None}
    return [
        access
        for access in accesses
        if access.index in early
        and not (access.guard and (access.guard.register.name, access.guard.negated) in guards)
        and (numbers.isdisjoint(reached(analysis, access.index, numbers.__contains__)))
    ]


def _fed_by(analysis: FunctionAnalysis, after: set[int], with_mbarriers: bool) -> set[int]:
    """Barriers behind which a thread may know that another one has waited."""
    found: set[int] = set()
    signals = any(
        isinstance(event, MbarrierArrive | MbarrierCompleteTx)
        for index in after
        for event in analysis.events[index]
    )
    cluster = any(isinstance(event, ClusterBarrier) for index in after for event in analysis.events[index])
    arrivals = {
        event.barrier for index in after for event in analysis.events[index] if isinstance(event, CtaBarrier)
    }
    for instruction in analysis.function.instructions:
        for event in analysis.events[instruction.index]:
            match event:
                case CtaBarrier(action=BarrierAction.ARRIVE):
                    pass
                case CtaBarrier():
                    if instruction.index in after or event.barrier in arrivals:
                        found.add(instruction.index)
                case ClusterBarrier(action=BarrierAction.WAIT) if cluster:
                    found.add(instruction.index)
                case MbarrierWait() if with_mbarriers and signals:
                    found.add(instruction.index)
                case _:
                    pass
    return found


def _never(accesses: list[Instruction], triggers: list[Instruction]) -> Violation:
    return Violation(
        triggers[0],
        {"what": "lets dependents start, but the kernel itself never waits for the grids before it"},
        tuple(Related(one, "accesses global memory") for one in accesses[:_SHOWN]),
        (
            "In the middle of a chain it starts before its prerequisites end: their writes may be missing.",
            "The first kernel of a chain needs no wait.",
        ),
        severity=Severity.WARNING,
    )


def _on_a_path(missing: list[Instruction], waits: list[Instruction]) -> Violation:
    return Violation(
        missing[0],
        {"what": "is reached by threads that have not waited for the prerequisite grids"},
        (
            *(Related(one, "likewise") for one in missing[1:_SHOWN]),
            Related(waits[0], "a wait that other threads, or other paths, execute"),
        ),
        ("The wait holds for the thread that executes it; no barrier takes it to this one.",),
        severity=Severity.NOTE,
    )
