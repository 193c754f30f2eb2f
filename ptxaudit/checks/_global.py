"""What is not known of accesses to global memory: their addresses, and the values that they store."""

from dataclasses import dataclass

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.flags import is_strong
from ptxaudit.analysis.order.trace import Step
from ptxaudit.ir import events as ev
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Immediate, Operand, Register
from ptxaudit.words import brief


@dataclass(slots=True)
class _Use:
    """What the executions show of an instruction's accesses to global memory.

    ``pointers`` are what its addresses add unscaled; ``anywhere`` tells that for some address nothing is
    left to tell the pointer, ``scattered`` that some address is not known, ``threads`` are warps with masks.
    """

    instruction: Instruction
    event: ev.Access
    pointers: set[int]
    threads: set[tuple[int, int]]
    anywhere: bool = False
    scattered: bool = False

    def may_meet(self, other: "_Use") -> bool:
        """Whether the two may conflict, as far as semantics and pointers tell."""
        if not (self.event.writes or other.event.writes) or (
            is_strong(self.event) and is_strong(other.event)
        ):
            return False
        if self is other and len(self.threads) == 1 and next(iter(self.threads))[1].bit_count() == 1:
            return False
        return self.anywhere or other.anywhere or not self.pointers.isdisjoint(other.pointers)


def unknown_address(report: OrderReport) -> str | None:
    """An access whose address is not known and that may meet another behind its pointer, in words."""
    uses = _uses(report)
    for use in uses:
        if use.scattered and any(use.may_meet(other) for other in uses):
            where = use.instruction.location
            return f"which bytes a thread accesses is not known at {where} ({brief(use.instruction.text)})"
    return None


def _uses(report: OrderReport) -> list[_Use]:
    uses: dict[tuple[int, bool], _Use] = {}
    for execution in report.executions:
        for step in execution.entries:
            if isinstance(step, Step) and step.pointers is not None and isinstance(step.event, ev.Access):
                key = step.instruction.index, step.event.writes
                use = uses.setdefault(key, _Use(step.instruction, step.event, set(), set()))
                use.pointers |= step.pointers
                use.threads.add((step.warp, step.lanes))
                use.anywhere |= not step.pointers
                use.scattered |= step.footprint is None
    return list(uses.values())


def stored_constant(analysis: FunctionAnalysis, instruction: Instruction) -> int | float | None:
    """The number that a store is sure to store: written in it, or moved once to the register it names."""
    values = [e.value for e in analysis.events[instruction.index] if isinstance(e, ev.Access) and e.writes]
    return _constant(analysis, values[0]) if len(values) == 1 else None


def _constant(analysis: FunctionAnalysis, operand: Operand | None) -> int | float | None:
    if isinstance(operand, Immediate):
        return operand.value
    if not isinstance(operand, Register):
        return None
    writers = [one for one in analysis.function.instructions if operand in one.writes]
    if len(writers) != 1 or writers[0].parts[0] != "mov" or writers[0].guard is not None:
        return None
    source = writers[0].operands[-1]
    return source.value if isinstance(source, Immediate) else None
