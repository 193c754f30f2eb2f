"""What a SASS instruction computes for registers, from the values that its operands hold.

Property: exact results of integer, predicate and data-movement instructions of sm_80 to sm_120; for every
other an atom per destination that equal instructions on equal sources share. Known limits: floating point
(but for integer division) and packed arithmetic are atoms, and so is the upper word of a 64-bit number whose
carry is not known. Loads, atomics, barriers and everything else with an effect beyond registers is not
evaluated here. An operand in a constant bank is a source of its own: whoever reads it gives the 32-bit word
at its address.
"""

from collections.abc import Sequence

from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Immediate, Memory, Operand, Register
from ptxaudit.isa.evaluation import Evaluation, UnmodelledCompute
from ptxaudit.isa.sass import (
    evaluate_arithmetic,
    evaluate_bits,
    evaluate_float,
    evaluate_move,
    evaluate_predicates,
)
from ptxaudit.isa.sass.evaluate_base import Compiler, Form, Unmodelled
from ptxaudit.isa.sass.registers import is_predicate

_COMPILERS: dict[str, Compiler] = {
    **evaluate_arithmetic.COMPILERS,
    **evaluate_bits.COMPILERS,
    **evaluate_predicates.COMPILERS,
    **evaluate_move.COMPILERS,
    **evaluate_float.COMPILERS,
}
_LEADING = {"ELECT": 2, "ISETP": 2, "PLOP3": 2, "R2P": 1, "UR2UP": 1, "USETMAXREG": 1}
# Executed by the order engine, or without a result that is a function of the sources.
_ELSEWHERE = frozenset(
    (
        *("LD", "LDC", "LDCU", "LDG", "LDGMC", "LDL", "LDS", "LDSM", "LDT", "LDTM", "ULDC"),
        *("ATOM", "ATOMG", "ATOMS", "SYNCS", "SUATOM", "SULD", "TEX", "TLD", "TLD4", "TMML", "TXD"),
        *("BSSY", "BSYNC", "BMOV", "B2R", "CALL", "RET", "BRA", "BRX", "JMP", "EXIT", "WARPSYNC"),
    )
)
# The result depends on state that no operand names, so that equal sources give no equal results.
_STATEFUL = frozenset(
    (
        *("MATCH", "QSPC", "UTCATOMSWS", "USETMAXREG", "GETLMEMBASE", "LEPC", "ULEPC", "PIXLD"),
        *("TXQ", "SUQUERY", "GATHER", "SCATTER"),
    )
)


def compile_evaluation(instruction: Instruction) -> Evaluation | None:
    """How to compute the registers that an instruction writes; ``None`` if that is not done here.

    Never raises for odd operands: what does not fit an instruction's known forms is not modelled.
    """
    parts = instruction.opcode.split(".")
    root = parts[0]
    if root in _ELSEWHERE or not instruction.writes:
        return None
    plain = root if root in _COMPILERS else root.removeprefix("U")
    compiler = _COMPILERS.get(plain)
    if compiler is None:
        return _unmodelled(instruction, root)
    written = _written(plain, instruction.operands)
    destinations, sources = instruction.operands[:written], instruction.operands[written:]
    form = Form(instruction.opcode, plain, tuple(parts[1:]), destinations, sources)
    try:
        plan = compiler(form)
    except Unmodelled:
        return _unmodelled(instruction, root)
    return Evaluation(tuple(form.sources), plan.destinations, plan.compute)


def _written(root: str, operands: Sequence[Operand]) -> int:
    """How many operands are destinations: a register with the predicates around it, if no table says."""
    if root in _LEADING:
        return _LEADING[root]
    if root in ("VOTE", "VOTEU"):
        return len(operands) - 1
    flags = [is_predicate(operand) for operand in operands]
    first = next((index for index, flag in enumerate(flags) if not flag), len(flags))
    return next((index for index in range(first + 1, len(flags)) if not flags[index]), len(flags))


def _unmodelled(instruction: Instruction, root: str) -> Evaluation:
    """An atom per register that is written, named after everything that the instruction reads."""
    spelled = [str(part) for operand in instruction.operands for part in _spelled(operand)]
    operation = " ".join((instruction.opcode, *spelled))
    sources: tuple[Operand, ...] = instruction.reads
    memory = tuple(o for o in instruction.operands if isinstance(o, Memory) and o.space == "const")
    truths = tuple(is_predicate(register) for register in instruction.writes)
    fresh = root in _STATEFUL or not instruction.known
    return Evaluation((*sources, *memory), instruction.writes, UnmodelledCompute(operation, truths, fresh))


def _spelled(operand: Operand) -> tuple[object, ...]:
    """What tells two instructions with equal register values apart."""
    if isinstance(operand, Immediate):
        return (operand.value,)
    return () if isinstance(operand, Register) else (operand,)
