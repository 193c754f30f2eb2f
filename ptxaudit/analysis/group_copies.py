"""Copies of accumulators that a pending wgmma still updates.

Property: for each program point, which registers were copied by PTX ``mov`` (packing and unpacking forms
included, and copies of copies) from an accumulator of which wgmma while it could be pending, and have
not been written since. Direction: forward. Join: union. A copy is forgotten when its wgmma is no longer
pending. Limits: those of :mod:`ptxaudit.analysis.groups`; a guarded ``mov`` is no copy but a use.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.groups import GroupFlow, Pending, held_registers
from ptxaudit.ir.function import Language
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Register, Vector

Copies = Mapping[Register, frozenset[int]]
"""A register that holds a copy to the wgmmas (instruction indices) whose accumulator it was taken from."""


def is_copy(analysis: FunctionAnalysis, instruction: Instruction) -> bool:
    """Whether an instruction only copies registers, so that an assembler may rename it away."""
    if analysis.function.language is not Language.PTX or instruction.guard is not None:
        return False
    return instruction.parts[0] == "mov" and all(
        isinstance(operand, Register | Vector) for operand in instruction.operands
    )


def is_self_copy(instruction: Instruction) -> bool:
    """Whether an instruction moves a register to itself, which changes and needs nothing."""
    operands = instruction.operands
    return instruction.parts[0].lower() == "mov" and len(operands) == 2 and operands[0] == operands[1]


def copies_along(analysis: FunctionAnalysis, flow: GroupFlow) -> Callable[[int], Iterator[Copies]]:
    """For a block, the copies that exist when each of its instructions issues, in order."""
    entry: dict[int, Copies] = {}
    queue = deque(sorted(flow.reached))
    while queue:
        block = queue.popleft()
        state: Copies = entry.get(block, {})
        for index, pending in flow.along(block):
            state = _after(analysis, index, pending, state)
        for successor in flow.followed(block):
            known = entry.get(successor, {})
            joined = {
                key: known.get(key, frozenset()) | state.get(key, frozenset()) for key in {**known, **state}
            }
            if joined != known:
                entry[successor] = joined
                queue.append(successor)

    def along(block: int) -> Iterator[Copies]:
        state: Copies = entry.get(block, {})
        for index, pending in flow.along(block):
            alive = {key: there for key, of in state.items() if (there := of & pending.keys())}
            yield alive
            state = _after(analysis, index, pending, alive)

    return along


def _after(analysis: FunctionAnalysis, index: int, pending: Pending, state: Copies) -> Copies:
    if not pending:
        return {}
    instruction = analysis.function.instructions[index]
    if not instruction.writes or instruction.guard is not None:
        return state
    sources = _sources(analysis, instruction, pending, state)
    kept = {key: of for key, of in state.items() if key not in instruction.writes}
    if sources:
        kept |= dict.fromkeys(instruction.writes, sources)
    return kept


def _sources(
    analysis: FunctionAnalysis, instruction: Instruction, pending: Pending, state: Copies
) -> frozenset[int]:
    if not is_copy(analysis, instruction):
        return frozenset()
    held = held_registers(analysis)
    return frozenset(
        operation
        for register in instruction.reads
        for operation in pending
        if register in held[operation].accumulators or operation in state.get(register, ())
    )
