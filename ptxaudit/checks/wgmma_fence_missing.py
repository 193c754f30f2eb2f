"""A wgmma uses registers that were written before with no ``wgmma.fence`` in between.

Property: whether a path leads from a write of an accumulator or A register, or from the entry, to the
wgmma with no ``wgmma.fence`` on it. Direction: forward; join: some path. Writes by other wgmma need none:
accumulators of the same shape are chained.
"""

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.definitions import Definitions
from ptxaudit.analysis.pollloops import poll_loops
from ptxaudit.checks._grids import reached
from ptxaudit.ir.events import GroupWait, WgmmaFence, WgmmaIssue
from ptxaudit.ir.instruction import Instruction
from ptxaudit.rules.model import Outcome, Related, Violation

NEEDS = (WgmmaIssue,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Every wgmma that its registers, or the entry, reach without a fence."""
    issues = analysis.occurrences(WgmmaIssue)
    if not issues:
        return Outcome.not_applicable()
    fences = {instruction.index for instruction, _ in analysis.occurrences(WgmmaFence)}
    from_entry = set(reached(analysis, None, fences.__contains__))
    definitions = poll_loops(analysis).definitions
    ways: dict[int, set[int]] = {}
    violations = []
    for instruction, issue in issues:
        if instruction.index in from_entry:
            if analysis.function.is_entry:
                violations.append(_violation(instruction, None))
            continue
        for writer in _writers(analysis, definitions, instruction, issue):
            if writer not in ways:
                ways[writer] = set(reached(analysis, writer, fences.__contains__))
            if instruction.index in ways[writer]:
                violations.append(_violation(instruction, analysis.function.instructions[writer]))
                break
    return Outcome.of(violations)


def _writers(
    analysis: FunctionAnalysis, definitions: Definitions, instruction: Instruction, issue: WgmmaIssue
) -> list[int]:
    found: set[int] = set()
    for register in {*issue.accumulators, *issue.a_registers}:
        found |= definitions.reaching(register.name, instruction.index, definitions.everywhere).definitions
    asynchronous = (WgmmaIssue, WgmmaFence, GroupWait)
    return sorted(
        writer for writer in found if not any(isinstance(e, asynchronous) for e in analysis.events[writer])
    )


def _violation(instruction: Instruction, writer: Instruction | None) -> Violation:
    if writer is None:
        return Violation(instruction, {"what": "the first wgmma that a thread issues"})
    return Violation(
        instruction,
        {"what": "registers that are written before"},
        (Related(writer, "writes a register that the wgmma uses"),),
    )
