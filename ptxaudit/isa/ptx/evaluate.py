"""What a PTX instruction computes for registers, from the values that its operands hold.

Property: exact results of integer, predicate and data-movement instructions; for every other an atom that
equal instructions on equal sources share, so that the same unknown is the same unknown in every warp.
Known limits: floating point, packed and 128-bit arithmetic are atoms; a carry that is read is a new atom
each time. Loads, atomics, mbarrier operations, cluster address mapping and calls are not evaluated here.
"""

from collections.abc import Mapping

from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Immediate, Memory, Negated, Opaque, Operand, Register, Symbol, Vector
from ptxaudit.isa.evaluation import Compute, Evaluation, UnmodelledCompute
from ptxaudit.isa.ptx import (
    evaluate_arithmetic,
    evaluate_bits,
    evaluate_compare,
    evaluate_move,
    evaluate_warp,
)
from ptxaudit.isa.ptx.evaluate_base import Compiler, Shape, integer_width
from ptxaudit.isa.ptx.forms import InstructionForm, instruction_form

__all__ = [
    "SPECIAL_REGISTERS",
    "compile_evaluation",
    "is_special_register",
]

SPECIAL_REGISTERS = frozenset(
    f"%{name}"
    for name in (
        *(f"{base}{part}" for base in ("tid", "ntid", "ctaid", "nctaid") for part in ("", ".x", ".y", ".z")),
        *(f"cluster{base}{part}" for base in ("id", "_ctaid", "_nctaid") for part in ("", ".x", ".y", ".z")),
        *(f"nclusterid{part}" for part in ("", ".x", ".y", ".z")),
        *("laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid", "is_explicit_cluster"),
        *("cluster_ctarank", "cluster_nctarank", "current_graph_exec"),
        *(f"lanemask_{relation}" for relation in ("eq", "le", "lt", "ge", "gt")),
        *("clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi"),
        *(f"pm{number}{part}" for number in range(8) for part in ("", "_64")),
        *(f"envreg{number}" for number in range(32)),
        *("total_smem_size", "aggr_smem_size", "dynamic_smem_size"),
        *("reserved_smem_offset_begin", "reserved_smem_offset_end", "reserved_smem_offset_cap"),
        *("reserved_smem_offset_0", "reserved_smem_offset_1"),
    )
)

_COMPILERS: dict[str, Compiler] = {
    **evaluate_arithmetic.COMPILERS,
    **evaluate_bits.COMPILERS,
    **evaluate_compare.COMPILERS,
    **evaluate_move.COMPILERS,
    **evaluate_warp.COMPILERS,
}

# How many sources the modelled forms read, where their own module does not look.
_SOURCE_COUNTS = {
    **dict.fromkeys(("neg", "abs", "not", "cnot", "cvt", "cvta", "isspacep"), (1,)),
    **dict.fromkeys(("bfind", "brev", "popc", "clz"), (1,)),
    **dict.fromkeys(("add", "sub", "addc", "subc", "mul", "mul24", "div", "rem", "min", "max"), (2,)),
    **dict.fromkeys(("and", "or", "xor", "shl", "shr", "bmsk", "szext"), (2,)),
    **dict.fromkeys(("mad", "madc", "mad24", "bfe", "shf", "prmt", "selp", "slct"), (3,)),
    **dict.fromkeys(("vote", "redux"), (1, 2)),
    "bfi": (4,),
    "elect": (0, 1),
}
_SEVERAL_RESULTS = frozenset(("mov", "setp", "shfl", "elect"))

# Executed by the order engine itself, or synchronisation: nothing of it is a function of the sources.
_ELSEWHERE = frozenset(
    (
        *("ld", "ldu", "ldmatrix", "atom", "multimem", "mbarrier", "mapa", "getctarank", "call"),
        *("bar", "barrier", "cp", "fence", "membar", "bra", "brx", "ret", "exit", "trap", "red", "st"),
    )
)
# The result depends on memory, other lanes or the program's state: equal sources give no equal results.
_STATEFUL = frozenset(
    (
        *("tex", "tld4", "txq", "suld", "suq", "wmma", "wgmma", "tcgen05", "match"),
        *("alloca", "stacksave", "vote", "shfl", "activemask"),
    )
)
_PREDICATE_LOGIC = frozenset(("and", "or", "xor", "not", "mov"))
_PREDICATE_RESULTS = frozenset(("setp", "testp", "isspacep", "istypep"))


def is_special_register(name: str) -> bool:
    """Whether a register operand of this name is a predefined one (PTX ISA 10)."""
    return name in SPECIAL_REGISTERS


def compile_evaluation(
    instruction: Instruction, register_types: Mapping[str, str] | None = None
) -> Evaluation | None:
    """How to compute the registers that an instruction writes; ``None`` if that is not done here.

    ``register_types`` (``Function.register_types``) tells how wide a narrow ``cvt`` result extends and which
    results of unmodelled instructions are predicates. Never raises for odd operands: what does not fit an
    instruction's known forms is not modelled.
    """
    parts = instruction.opcode.split(".")
    name, modifiers = parts[0], tuple(parts[1:])
    if name in _ELSEWHERE or (name == "tcgen05" and modifiers[:1] == ("ld",)):
        return None
    form = instruction_form(instruction.opcode, len(instruction.operands))
    types = register_types or {}
    shape = _shape(instruction, form, name, modifiers, types)
    if not any(shape.destinations):
        return None
    compiler = _COMPILERS.get(name) if form.known and _has_usual_operands(shape) else None
    compute = compiler(shape) if compiler is not None else None
    if compute is None:
        compute = _compile_unmodelled(shape, form.known)
    return Evaluation(shape.sources, shape.destinations, compute)


def _has_usual_operands(shape: Shape) -> bool:
    counts = _SOURCE_COUNTS.get(shape.name)
    fits = counts is None or len(shape.sources) in counts
    return fits and (len(shape.destinations) == 1 or shape.name in _SEVERAL_RESULTS)


def _shape(
    instruction: Instruction,
    form: InstructionForm,
    name: str,
    modifiers: tuple[str, ...],
    types: Mapping[str, str],
) -> Shape:
    sources: list[Operand] = []
    destinations: list[Register | None] = []
    for position, operand in enumerate(instruction.operands):
        elements = operand.elements if isinstance(operand, Vector) else (operand,)
        if position in form.written or position in form.read_written:
            destinations.extend(_destination(element) for element in elements)
        if position not in form.written:
            for element in elements:
                sources.extend(_readable(element))
    shape = Shape(instruction.opcode, name, modifiers, tuple(sources), tuple(destinations), types)
    wrapped = tuple(_in_width(source, shape, index) for index, source in enumerate(sources))
    return Shape(instruction.opcode, name, modifiers, wrapped, tuple(destinations), types)


def _destination(element: Operand) -> Register | None:
    return element if isinstance(element, Register) and element.name != "_" else None


def _readable(element: Operand) -> tuple[Operand, ...]:
    """The operands to read for one element of a source operand."""
    if isinstance(element, Register | Immediate | Symbol | Negated):
        return (element,)
    if isinstance(element, Vector):
        return tuple(part for inner in element.elements for part in _readable(inner))
    if isinstance(element, Memory):
        rest = tuple(part for inner in element.coordinates for part in _readable(inner))
        return (*element.terms, *rest)
    return () if isinstance(element, Opaque) else (Immediate(0),)


def _in_width(source: Operand, shape: Shape, index: int) -> Operand:
    """An integer literal in two's complement of the width that the instruction reads it in."""
    if not isinstance(source, Immediate) or not isinstance(source.value, int):
        return source
    bits = shape.bits or 64
    if shape.name in ("mad", "madc") and shape.has("wide") and index == 2:
        bits *= 2
    elif (shape.name in ("shl", "shr") and index == 1) or (shape.name in ("bfe", "bfi") and index >= 1):
        bits = bits if shape.name == "bfi" and index == 1 else 32
    elif shape.name == "mov" and len(shape.sources) > 1:
        bits //= len(shape.sources)
    elif shape.name == "slct" and index < 2:
        bits = integer_width(shape.types[0]) or 64 if shape.types else 64
    elif shape.kind == "pred" and shape.name in _PREDICATE_LOGIC:
        return Immediate(int(source.value != 0))
    return Immediate(source.value & ((1 << bits) - 1))


def _compile_unmodelled(shape: Shape, known: bool) -> Compute:
    truths = tuple(_is_predicate(shape, index) for index in range(len(shape.destinations)))
    return UnmodelledCompute(shape.opcode, truths, not known or shape.name in _STATEFUL)


def _is_predicate(shape: Shape, index: int) -> bool:
    register = shape.destinations[index]
    if register is None:
        return False
    declared = shape.register_types.get(register.name)
    if declared is not None:
        return declared.removeprefix(".") == "pred"
    if shape.name in _PREDICATE_RESULTS or "pred" in shape.modifiers:
        return True
    return index > 0 and shape.name in ("shfl", "match", "elect", "lop3")
