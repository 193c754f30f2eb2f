"""The dump of :mod:`ptxaudit.analysis.groups`: what is pending around every step of a commit group."""

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.groups import Doubt, GroupFlow, Pending, ages, group_flow, held_registers
from ptxaudit.ir.events import GroupKind
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Register


def dump_groups(analysis: FunctionAnalysis) -> str:
    """For each kind of group: its operations, then what may be pending as each block that can have any is
    entered and before each step (issue, commit, wait, and what may hide one)."""
    lines: list[str] = []
    for kind in GroupKind:
        flow = group_flow(analysis, kind, Doubt.LINGERS)
        if flow.operations:
            lines.append(f"{kind}:")
            lines += [_operation(analysis, index) for index in flow.operations]
            lines += _points(analysis, flow)
    return "\n".join(lines) or "no operation that a commit group covers"


def _operation(analysis: FunctionAnalysis, index: int) -> str:
    instruction = analysis.function.instructions[index]
    held = held_registers(analysis).get(index)
    text = f"  {_place(instruction)} {instruction.opcode}"
    if held is None:
        return text
    fragments = f", A fragments {_names(held.fragments)}" if held.fragments else ""
    return f"{text} holds accumulators {_names(held.accumulators)}{fragments}"


def _names(registers: frozenset[Register]) -> str:
    names = sorted((register.name for register in registers), key=lambda name: (len(name), name))
    return " ".join(names) if len(names) <= 4 else f"{names[0]} .. {names[-1]} ({len(names)})"


def _points(analysis: FunctionAnalysis, flow: GroupFlow) -> list[str]:
    lines: list[str] = []
    for block in sorted(flow.reached):
        if flow.entering(block):
            lines.append(f"  B{block} entered with {_pending(analysis, flow, flow.entering(block))}")
        for index, pending in flow.along(block):
            if flow.is_step(index):
                instruction = analysis.function.instructions[index]
                state = _pending(analysis, flow, pending)
                lines.append(f"  {_place(instruction)} {instruction.opcode} with {state}")
    return lines


def _pending(analysis: FunctionAnalysis, flow: GroupFlow, pending: Pending) -> str:
    parts = []
    for operation, mask in sorted(pending.items()):
        groups = ", ".join(_group(age, flow.oldest) for age in ages(mask))
        parts.append(f"{_place(analysis.function.instructions[operation])} in {groups}")
    return "; ".join(parts) or "nothing pending"


def _group(age: int, oldest: int) -> str:
    if age == 0:
        return "no group yet"
    return f"group -{age}{' or older' if age == oldest else ''}"


def _place(instruction: Instruction) -> str:
    location = instruction.location
    return f"line {location.line}" if location.offset is None else f"{location.offset:#06x}"
