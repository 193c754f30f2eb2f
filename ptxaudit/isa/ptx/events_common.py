"""What the lowerings of all instruction families share: qualifiers, sizes, and the cost that is certain.

A *builder* decodes an opcode once and gives a *lowering*, which turns the operands of each instruction of
that opcode into events. Decoding is thus paid per distinct opcode, not per instruction.

:func:`acquire_cost` and :func:`release_cost` state which cache invalidation and which memory barrier an
assembler is certain to emit for an acquire or a release. They hold for the architectures in
``SASS_ARCHITECTURES`` and were measured; ``tests/isa/test_ptx_sass_agreement.py`` measures them again.
"""

from collections.abc import Callable, Iterable

from ptxaudit.arch import SASS_ARCHITECTURES, Architecture
from ptxaudit.ir.events import Event, L1Invalidate, MemoryFlush, Scope, Semantics, StateSpace
from ptxaudit.ir.operands import Immediate, Memory, Operand, Register
from ptxaudit.isa.ptx.forms import InstructionForm

Events = tuple[Event, ...]
Lowering = Callable[[tuple[Operand, ...]], Events]
Builder = Callable[[InstructionForm, Architecture], Lowering | None]


class UnexpectedOperands(Exception):
    """The operands do not fit the opcode; the instruction then has an unknown effect."""


SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.GPU, "sys": Scope.SYS}

SEMANTICS = {
    "weak": Semantics.WEAK,
    "volatile": Semantics.VOLATILE,
    "mmio": Semantics.MMIO,
    "relaxed": Semantics.RELAXED,
    "acquire": Semantics.ACQUIRE,
    "release": Semantics.RELEASE,
    "acq_rel": Semantics.ACQ_REL,
    "sc": Semantics.SC,
}

# ``.shared`` without a sub-qualifier is ``.shared::cta`` (PTX ISA 9.7.9, ld, and others).
SPACES = {
    "global": StateSpace.GLOBAL,
    "shared": StateSpace.SHARED,
    "shared::cta": StateSpace.SHARED,
    "shared::cluster": StateSpace.CLUSTER,
    "local": StateSpace.LOCAL,
    "param": StateSpace.PARAM,
    "param::entry": StateSpace.PARAM,
    "param::func": StateSpace.PARAM,
    "const": StateSpace.CONST,
}

_BYTES = {
    **{f"{kind}{bits}": bits // 8 for kind in "bus" for bits in (8, 16, 32, 64, 128)},
    **{"f16": 2, "bf16": 2, "f16x2": 4, "bf16x2": 4, "f32": 4, "tf32": 4, "f64": 8},
    **{"e4m3": 1, "e4m3x2": 2, "e4m3x4": 4, "e5m2": 1, "e5m2x2": 2, "e5m2x4": 4},
}
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}

REDUCTIONS = frozenset({"and", "or", "xor", "add", "inc", "dec", "min", "max", "exch", "cas"})


def scope_of(modifiers: Iterable[str]) -> Scope | None:
    """The scope qualifier, if there is one."""
    return next((SCOPES[m] for m in modifiers if m in SCOPES), None)


def spaces_of(modifiers: Iterable[str]) -> tuple[StateSpace, ...]:
    """All state spaces named, in order (destination before source in copies)."""
    return tuple(SPACES[m] for m in modifiers if m in SPACES)


def space_of(modifiers: Iterable[str], default: StateSpace = StateSpace.GENERIC) -> StateSpace:
    """The first state space named; without one the address is generic, or what ``default`` says."""
    return next((SPACES[m] for m in modifiers if m in SPACES), default)


def semantics_of(modifiers: Iterable[str], default: Semantics) -> Semantics:
    """The semantics qualifier. ``.mmio.relaxed`` is mmio; a release or acquire is kept beside ``.mmio``."""
    named = [SEMANTICS[m] for m in modifiers if m in SEMANTICS]
    ordering = [semantics for semantics in named if semantics not in (Semantics.MMIO, Semantics.RELAXED)]
    if ordering:
        return ordering[0]
    return Semantics.MMIO if Semantics.MMIO in named else (named[0] if named else default)


def size_of(modifiers: Iterable[str]) -> int | None:
    """Bytes that one thread accesses: the size of the last type named, times the vector length."""
    size: int | None = None
    count = 1
    for modifier in modifiers:
        size = _BYTES.get(modifier, size)
        count = _VECTORS.get(modifier, count)
    return None if size is None else size * count


def reduction_of(modifiers: Iterable[str]) -> str | None:
    """The reduction or exchange operator, if one is named."""
    return next((m for m in modifiers if m in REDUCTIONS), None)


def is_multicast(modifiers: Iterable[str]) -> bool:
    """Whether the operation goes to every CTA of a mask."""
    return any(m.startswith("multicast::cluster") for m in modifiers)


def memory_positions(operands: tuple[Operand, ...]) -> tuple[int, ...]:
    """Positions of the bracketed operands."""
    return tuple(position for position, operand in enumerate(operands) if isinstance(operand, Memory))


def first_memory(operands: tuple[Operand, ...]) -> int:
    """Position of the first bracketed operand; raises :class:`UnexpectedOperands` without one."""
    for position, operand in enumerate(operands):
        if isinstance(operand, Memory):
            return position
    raise UnexpectedOperands


def register_or_none(operand: Operand) -> Register | None:
    """The operand if it is a register; the sink ``_`` is none."""
    return operand if isinstance(operand, Register) and operand.name != "_" else None


def integer(operand: Operand) -> int:
    """The value of an integer literal; raises :class:`UnexpectedOperands` for anything else."""
    if isinstance(operand, Immediate) and isinstance(operand.value, int):
        return operand.value
    raise UnexpectedOperands


def byte_count(operand: Operand) -> int | None:
    """A literal number of bytes, ``None`` when a register holds it."""
    return operand.value if isinstance(operand, Immediate) and isinstance(operand.value, int) else None


def is_measured(architecture: Architecture) -> bool:
    """Whether the SASS of this architecture is known, so that a cost can be certain."""
    return architecture.number in SASS_ARCHITECTURES


def acquire_cost(
    architecture: Architecture, semantics: Semantics, scope: Scope | None, space: StateSpace
) -> Events:
    """``CCTL.IVALL`` after an acquire wider than the CTA.

    Before sm_90 an acquire through shared memory has none: no other CTA can reach that memory.
    """
    if not semantics.acquires or scope is None or scope is Scope.CTA or not is_measured(architecture):
        return ()
    if space is StateSpace.SHARED and not architecture.has_clusters:
        return ()
    return (L1Invalidate(),)


def release_cost(architecture: Architecture, semantics: Semantics, scope: Scope | None) -> Events:
    """``MEMBAR`` before a release; cluster scope costs as much as gpu scope."""
    if not semantics.releases or scope is None or not is_measured(architecture):
        return ()
    width = Scope.GPU if scope is Scope.CLUSTER else scope
    return (MemoryFlush(width, sc=semantics is Semantics.SC),)
