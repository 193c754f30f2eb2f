"""Operands of both languages in one form.

A register's name is unique within its function: PTX registers declared in a nested ``{ }`` scope (PTX
ISA 5.2, inline assembly) are renamed by the front end, so analyses never see two registers of one name.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual (PTX) or hardware (SASS) register, predicates, uniform and special registers included."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal; integers as written (signed), floats as their value."""

    value: int | float


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a variable, parameter or function; as an operand it stands for the address."""

    name: str


@dataclass(frozen=True, slots=True)
class LabelReference:
    """A branch target: a PTX label (unique within the function) or, in SASS, ``.`` plus the offset in hex."""

    name: str


@dataclass(frozen=True, slots=True)
class Negated:
    """A negated source operand: ``!%p1``, ``!P0``, ``-R2``."""

    operand: "Operand"


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b}``, and the pairs ``p|q`` of setp, shfl and elect."""

    elements: "tuple[Operand, ...]"


@dataclass(frozen=True, slots=True)
class Memory:
    """A bracketed operand: the sum of ``terms`` and ``offset`` bytes, with what else stands in the brackets.

    ``terms`` are registers and symbols (SASS may add several: ``[R2+UR4+0x10]``); ``coordinates`` are
    the further bracketed parts of a tensor address, ``[map, {x, y}]``. ``space`` names what the brackets
    themselves tell (``c[0x0]`` is ``const``), which only SASS does. ``descriptor`` is SASS's
    ``desc[UR4]``.
    """

    terms: "tuple[Register | Symbol, ...]"
    offset: int = 0
    coordinates: "tuple[Operand, ...]" = ()
    space: str | None = None
    descriptor: Register | None = None
    bank: int | None = None


@dataclass(frozen=True, slots=True)
class Opaque:
    """An operand whose meaning is not modelled, kept as text (SASS flags such as ``.reuse`` forms)."""

    text: str


Operand = Register | Immediate | Symbol | LabelReference | Negated | Vector | Memory | Opaque


def registers_in(operand: Operand) -> tuple[Register, ...]:
    """Every register that occurs in an operand, in order, memory bases and coordinates included."""
    match operand:
        case Register():
            return (operand,)
        case Negated(inner):
            return registers_in(inner)
        case Vector(elements):
            return tuple(register for element in elements for register in registers_in(element))
        case Memory():
            bases = tuple(term for term in operand.terms if isinstance(term, Register))
            rest = tuple(register for part in operand.coordinates for register in registers_in(part))
            extra = () if operand.descriptor is None else (operand.descriptor,)
            return bases + rest + extra
        case _:
            return ()
