"""Registers of a wgmma in flight that another instruction reads or overwrites.

Every instruction that may execute while a wgmma is pending is held against the registers that the wgmma
holds: its accumulators may be neither read nor written, its fragments of A not written (PTX ISA
9.7.15.7.3). Products of one shape may be chained on an accumulator (9.7.15.7.1).

A PTX ``mov`` between registers is what compilers copy values with, and an assembler may rename it away. Of
an accumulator it is a note of low confidence, and what uses the copy before the wait is an error like a use
of the accumulator itself; over a fragment it is a warning.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.group_copies import copies_along, is_copy, is_self_copy
from ptxaudit.analysis.groups import (
    Doubt,
    GroupFlow,
    HeldRegisters,
    Pending,
    ages,
    goes_anywhere,
    group_flow,
    held_registers,
)
from ptxaudit.ir.events import GroupKind, UnknownEffect, WgmmaIssue
from ptxaudit.ir.function import Language
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Register
from ptxaudit.rules.model import Confidence, Outcome, Related, Severity, Violation

NEEDS = (WgmmaIssue,)


@dataclass(frozen=True, slots=True)
class _Touch:
    """``instruction`` touches ``register`` of the pending ``operation``; ``age`` is its least age."""

    instruction: Instruction
    register: Register
    operation: int
    age: int
    manner: str
    copied: bool = False


def check(analysis: FunctionAnalysis) -> Outcome:
    """Every instruction that touches a register of a wgmma that may be pending."""
    if not held_registers(analysis):
        return _without_wgmma(analysis)
    proven = _touches(analysis, group_flow(analysis, GroupKind.WGMMA, Doubt.COMPLETES))
    found = [touch for touch in proven if touch.instruction.known]
    indices = {touch.instruction.index for touch in found}
    possible = [
        touch
        for touch in _touches(analysis, group_flow(analysis, GroupKind.WGMMA, Doubt.LINGERS))
        if touch.instruction.index not in indices and not is_copy(analysis, touch.instruction)
    ]
    unknown = _undecided(analysis, possible[0]) if possible else None
    return Outcome.of([_violation(analysis, touch) for touch in found], unknown)


def _without_wgmma(analysis: FunctionAnalysis) -> Outcome:
    """Not applicable, unless an instruction that could not be read is a wgmma."""
    for instruction, _ in analysis.occurrences(UnknownEffect):
        root = instruction.parts[0]
        if root == "wgmma" or root.endswith("GMMA"):
            return Outcome.of([], f"{instruction.opcode} {_place(instruction)} is not in the tables")
    return Outcome.not_applicable()


def _touches(analysis: FunctionAnalysis, flow: GroupFlow) -> list[_Touch]:
    """One touch of each instruction that has any."""
    found: dict[int, _Touch] = {}
    for block in sorted(flow.reached):
        for index, pending in flow.along(block):
            touch = _touch(analysis, index, pending) if pending else None
            if touch is not None:
                found[index] = touch
    if any(is_copy(analysis, touch.instruction) for touch in found.values()):
        for touch in _uses_of_copies(analysis, flow):
            found.setdefault(touch.instruction.index, touch)
    return list(found.values())


def _touch(analysis: FunctionAnalysis, index: int, pending: Pending) -> _Touch | None:
    instruction = analysis.function.instructions[index]
    if is_self_copy(instruction):
        return None
    held = held_registers(analysis)
    own = held.get(index)
    reads, writes = _registers(analysis, instruction, own)
    for operation, mask in pending.items():
        other = held[operation]
        chained = own.accumulators if own is not None and own.shape == other.shape else frozenset()
        for register in (*writes, *reads):
            updated = register in other.accumulators and register not in chained
            if updated or (register in other.fragments and register in writes):
                manner = "overwrites" if register in writes else "reads"
                return _Touch(instruction, register, operation, ages(mask)[0], manner)
    return None


def _registers(
    analysis: FunctionAnalysis, instruction: Instruction, own: HeldRegisters | None
) -> tuple[tuple[Register, ...], tuple[Register, ...]]:
    """What an instruction reads and writes; a wgmma in SASS only what its operands name, as the front end
    widens what its descriptors read."""
    if own is None:
        return instruction.reads, instruction.writes
    accumulators = tuple(sorted(own.accumulators, key=lambda register: register.name))
    if analysis.function.language is Language.PTX:
        return tuple(r for r in instruction.reads if r not in own.accumulators), accumulators
    return tuple(sorted(own.fragments, key=lambda register: register.name)), accumulators


def _uses_of_copies(analysis: FunctionAnalysis, flow: GroupFlow) -> Iterator[_Touch]:
    held = held_registers(analysis)
    along = copies_along(analysis, flow)
    for block in sorted(flow.reached):
        for (index, pending), copies in zip(flow.along(block), along(block), strict=True):
            instruction = analysis.function.instructions[index]
            if not copies or is_copy(analysis, instruction) or is_self_copy(instruction):
                continue
            own = held.get(index)
            for register in instruction.reads:
                origins = [
                    operation
                    for operation in sorted(copies.get(register, ()))
                    if own is None or own.shape != held[operation].shape or register not in own.accumulators
                ]
                if origins:
                    age = ages(pending[origins[0]])[0]
                    yield _Touch(instruction, register, origins[0], age, "reads", copied=True)
                    break


def _violation(analysis: FunctionAnalysis, touch: _Touch) -> Violation:
    operation = analysis.function.instructions[touch.operation]
    severity, confidence = _weight(analysis, touch)
    evidence = [f"{_role(analysis, touch)}; the instruction {touch.manner} it."]
    if touch.instruction.guard is not None:
        evidence.append(f"It executes only where {touch.instruction.guard} holds.")
    if is_copy(analysis, touch.instruction):
        evidence.append("It only copies registers, which an assembler may rename away: SASS tells.")
    return Violation(
        touch.instruction,
        {
            "register": touch.register.name,
            "wgmma": f"{operation.opcode} {_place(operation)}",
            "pending": _pending(touch.age),
        },
        related=(Related(operation, "may still be in flight"),),
        evidence=tuple(evidence),
        path=_path(analysis, touch),
        severity=severity,
        confidence=confidence,
    )


def _weight(analysis: FunctionAnalysis, touch: _Touch) -> tuple[Severity | None, Confidence | None]:
    if touch.copied:
        return None, Confidence.MEDIUM
    if not is_copy(analysis, touch.instruction):
        return None, None
    if touch.register in held_registers(analysis)[touch.operation].accumulators:
        return Severity.NOTE, Confidence.LOW
    return Severity.WARNING, Confidence.MEDIUM


def _role(analysis: FunctionAnalysis, touch: _Touch) -> str:
    name = touch.register.name
    if touch.copied:
        return f"{name} holds a copy that was taken from an accumulator before the wait"
    if touch.register in held_registers(analysis)[touch.operation].accumulators:
        return f"{name} is an accumulator that the wgmma updates while it runs"
    return f"{name} is a fragment of A that the wgmma reads while it runs"


def _place(instruction: Instruction) -> str:
    location = instruction.location
    return f"at line {location.line}" if location.offset is None else f"at {location.offset:#06x}"


def _pending(age: int) -> str:
    if age == 0:
        return "no commit_group has put it in a group that a wait could cover"
    order = "newest" if age == 1 else f"newest but {age - 1}"
    return f"its group is the {order}, and no wait on this path covers it"


def _path(analysis: FunctionAnalysis, touch: _Touch) -> tuple[int, ...]:
    """Blocks from the wgmma to the touch through which it may be pending."""
    flow = group_flow(analysis, GroupKind.WGMMA, Doubt.COMPLETES)
    start = analysis.function.block_of(touch.operation).id
    goal = analysis.function.block_of(touch.instruction.index).id
    if start == goal and touch.operation < touch.instruction.index:
        return (start,)
    done = {block.id for block in analysis.function.blocks if touch.operation not in flow.entering(block.id)}
    return analysis.graph.path(start, goal, frozenset(done - {goal})) or ()


def _undecided(analysis: FunctionAnalysis, touch: _Touch) -> str:
    where = f"{touch.instruction.opcode} {_place(touch.instruction)}"
    if not touch.instruction.known:
        return f"{where} is not in the instruction tables, and may touch {touch.register.name} of a wgmma"
    anywhere = any(goes_anywhere(analysis, block) for block in analysis.function.blocks)
    why = "a call, a guarded wait or an unknown instruction"
    if anywhere:
        why += ", or an indirect branch without listed targets,"
    return f"{why} decides whether the wgmma that holds {touch.register.name} is complete at {where}"
