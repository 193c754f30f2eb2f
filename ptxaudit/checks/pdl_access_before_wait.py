"""Global memory is accessed before ``griddepcontrol.wait``, by a thread that waits later.

Which pointers the prerequisite grids write is not in the code, so this is a note for reads (weights and what
the host wrote may be read early) and a warning for writes.
"""

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.checks._grids import before_waits, global_accesses, grid_actions, reached
from ptxaudit.ir.events import GridAction, GridDependency
from ptxaudit.ir.instruction import Instruction
from ptxaudit.rules.model import Outcome, Related, Severity, Violation

NEEDS = (GridDependency,)

_SHOWN = 4


def check(analysis: FunctionAnalysis) -> Outcome:
    """The reads and the writes that run ahead of a wait, one finding each."""
    waits = grid_actions(analysis, GridAction.WAIT)
    if not waits:
        return Outcome.not_applicable()
    early = before_waits(analysis)
    ahead = [one for one in global_accesses(analysis) if _is_ahead(analysis, one[0], early, waits)]
    found = []
    for writes in (True, False):
        same = [instruction for instruction, access in ahead if access.writes == writes]
        if same:
            found.append(_violation(same, writes, waits))
    return Outcome.of(found)


def _is_ahead(
    analysis: FunctionAnalysis, instruction: Instruction, early: set[int], waits: list[Instruction]
) -> bool:
    if instruction.index not in early:
        return False
    numbers = {wait.index for wait in waits}
    return any(index in numbers for index in reached(analysis, instruction.index, numbers.__contains__))


def _violation(same: list[Instruction], writes: bool, waits: list[Instruction]) -> Violation:
    what = (
        "overwrites memory that a prerequisite grid may still use"
        if writes
        else ("reads memory that a prerequisite grid may not have written yet")
    )
    more = [Related(one, "likewise before the wait") for one in same[1:_SHOWN]]
    counted = (
        f"{len(same)} accesses of this kind stand before the wait."
        if len(same) > 1
        else ("It is the only access of this kind before the wait.")
    )
    return Violation(
        same[0],
        {"what": what},
        (*more, Related(waits[0], "waits for the prerequisite grids")),
        (counted, "Data that no prerequisite grid touches may be accessed early."),
        severity=Severity.WARNING if writes else Severity.NOTE,
    )
