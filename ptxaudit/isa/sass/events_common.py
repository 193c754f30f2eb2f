"""What the event tables of all SASS families share: sizes, scopes, and access to operands.

A *lowering* turns one instruction, given its opcode's components, into events. It raises
:class:`UnexpectedOperands` where the operands do not fit; the instruction then has an unknown effect.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ptxaudit.ir.events import Event, GroupKind, Scope, Semantics
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Immediate, Memory, Operand, Register
from ptxaudit.isa.sass.registers import register_range

Events = tuple[Event, ...]


class UnexpectedOperands(Exception):
    """The operands or modifiers do not fit the opcode; the instruction then has an unknown effect."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What other instructions of the function tell about one whose spelling is ambiguous.

    ``groups`` are the kinds of commit groups that the function commits: the scoreboard wait ``DEPBAR``
    is the same for all of them. ``invalidates`` tells that ``CCTL.IVALL`` follows at once under the same
    guard, ``tensormap`` that ``UTMACCTL.IV`` stands right before.
    """

    groups: frozenset[GroupKind] = frozenset({GroupKind.BULK, GroupKind.CP_ASYNC})
    invalidates: bool = False
    tensormap: bool = False


ALONE = Surroundings()

Lowering = Callable[[Sequence[str], Instruction, Surroundings], Events]

SCOPES = {"CTA": Scope.CTA, "SM": Scope.CTA, "GPU": Scope.GPU, "SYS": Scope.SYS, "VC": Scope.SYS}

_NO_ADDRESSES = frozenset({"const", "desc", "idesc"})
_SIZES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}
_VECTORS = {"F32x2": 8, "F32x4": 16, "F16x4": 8, "F16x8": 16, "BF16x4": 8, "BF16x8": 16}
_SEMANTICS = {"STRONG": Semantics.RELAXED, "MMIO": Semantics.MMIO}


def size_of(parts: Sequence[str]) -> int:
    """Bytes that one thread accesses; 32 bits where the opcode says nothing."""
    size = 4
    for part in parts:
        size = _SIZES.get(part, _VECTORS.get(part, size))
    return size


def semantics_of(parts: Sequence[str]) -> tuple[Semantics, Scope | None]:
    """Semantics and scope of the access itself.

    ``.STRONG`` is relaxed: the order of an acquire or a release stands in instructions of its own. The
    cache operators ``.cg`` and ``.wt`` of stores, and ``volatile``, are spelled ``.STRONG`` as well, and
    cluster scope is spelled as GPU scope.
    """
    for part in parts:
        if part in _SEMANTICS:
            return _SEMANTICS[part], next((SCOPES[p] for p in parts if p in SCOPES), None)
    return Semantics.WEAK, None


def _is_address(value: Operand) -> bool:
    return isinstance(value, Memory) and value.space not in _NO_ADDRESSES


def memories(instruction: Instruction) -> list[Memory]:
    """The operands that are addresses; constants and descriptors of caching or of a shape are none."""
    return [o for o in instruction.operands if isinstance(o, Memory) and o.space not in _NO_ADDRESSES]


def address(instruction: Instruction, position: int = 0) -> Memory:
    """One of the addresses; raises :class:`UnexpectedOperands` where there are fewer."""
    found = memories(instruction)
    if position >= len(found):
        raise UnexpectedOperands
    return found[position]


def operand(instruction: Instruction, position: int) -> Operand:
    """An operand by position, negative ones from the end; raises :class:`UnexpectedOperands`."""
    try:
        return instruction.operands[position]
    except IndexError:
        raise UnexpectedOperands from None


def after_address(instruction: Instruction) -> tuple[Operand, ...]:
    """The operands behind the last address."""
    operands = instruction.operands
    for position in range(len(operands) - 1, -1, -1):
        if _is_address(operands[position]):
            return operands[position + 1 :]
    return ()


def next_register(base: Memory, steps: int = 1) -> Register:
    """The register ``steps`` behind the base of an address: SASS packs operands in consecutive ones."""
    if len(base.terms) != 1 or not isinstance(base.terms[0], Register):
        raise UnexpectedOperands
    registers = register_range(base.terms[0], steps + 1)
    if len(registers) <= steps:
        raise UnexpectedOperands
    return registers[steps]


def pointer(register: Register) -> Memory:
    """An address that is just a register."""
    return Memory((register,))


def moved(base: Memory, steps: int) -> Memory:
    """The address in the register ``steps`` behind the base of ``base``."""
    return replace(base, terms=(next_register(base, steps),))


def is_zero(value: Operand) -> bool:
    """Whether an operand is a zero register."""
    return isinstance(value, Register) and value.name in ("RZ", "URZ")


def register_or_none(value: Operand) -> Register | None:
    """The operand if it is a register other than zero."""
    return value if isinstance(value, Register) and not is_zero(value) else None


def integer(value: Operand) -> int:
    """The value of an integer literal; raises :class:`UnexpectedOperands` for anything else."""
    if isinstance(value, Immediate) and isinstance(value.value, int):
        return value.value
    raise UnexpectedOperands


def never_executes(instruction: Instruction) -> bool:
    """Whether the guard is the constant false predicate; ptxas leaves such loads before ``LDGSTS``."""
    guard = instruction.guard
    return guard is not None and guard.negated and guard.register.name in ("PT", "UPT")
