"""Name resolution (PTX ISA 5.2 and 4.4): which register, label or variable a name means where it stands.

Names declared at function level stay as they are. Names declared in an inner ``{ }`` get ``@n``
appended, ``n`` counting the function's scopes in order, so that every register, label and variable of a
function has one name of its own. Registers and variables are visible from their declaration on, labels in
their whole scope. Known limit: registers used without a declaration (which ptxas refuses, unless they
are special registers) are taken as registers of the function if they start with ``%``.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from ptxaudit.frontends.ptx import syntax
from ptxaudit.frontends.ptx.constants import Number, constant_value
from ptxaudit.frontends.ptx.launch import declared_names
from ptxaudit.frontends.ptx.printer import print_operand
from ptxaudit.ir.instruction import Guard
from ptxaudit.ir.operands import (
    Immediate,
    LabelReference,
    Memory,
    Negated,
    Opaque,
    Operand,
    Register,
    Symbol,
    Vector,
    registers_in,
)

SINK = "_"
# Larger ranges of registers are declared one by one as they occur.
_LARGEST_EXPANDED = 16384
VECTOR_COMPONENTS = "xyzw"
_POSITIONS = {name: position for names in (VECTOR_COMPONENTS, "rgba") for position, name in enumerate(names)}


@dataclass(slots=True)
class Resolved:
    """An operand and the registers it reads, depending on whether the instruction writes it.

    Not frozen only because a kernel has them by the ten thousand; nothing changes one.
    """

    operand: Operand
    reads: tuple[Register, ...]
    writes: tuple[Register, ...]
    address_reads: tuple[Register, ...]


@dataclass(slots=True)
class NameScope:
    """The declarations of one ``{ }`` while its statements are gone through."""

    number: int
    parent: "NameScope | None"
    register_types: dict[str, str]
    names: dict[str, Resolved] = field(default_factory=dict)
    ranges: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    cache: dict[int, Resolved] = field(default_factory=dict)
    guards: dict[int, Guard] = field(default_factory=dict)

    def unique(self, name: str) -> str:
        """The name by which the rest of the program knows a name declared here."""
        return name if self.parent is None else f"{name}@{self.number}"

    def declare_labels(self, names: Iterable[str]) -> None:
        """Make the labels of the scope known; they may be used before they stand."""
        self.labels = {name: self.unique(name) for name in names}

    def declare(self, declaration: syntax.VariableDeclaration) -> None:
        """Make declared names known from here on."""
        self.cache.clear()
        self.guards.clear()
        for declarator in declaration.declarators:
            name = declarator.name
            if declaration.space != "reg":
                for one in declared_names(declarator):
                    self.names[one] = Resolved(Symbol(self.unique(one)), (), (), ())
            elif declarator.count is None:
                self.names[name] = self._register(name, declaration.type, declaration.vector)
            elif declarator.count <= _LARGEST_EXPANDED:
                for one in declared_names(declarator):
                    self.names[one] = self._register(one, declaration.type, declaration.vector)
            else:
                self.ranges[name] = (declarator.count, declaration.type, declaration.vector)

    def _register(self, name: str, kind: str, width: int) -> Resolved:
        unique = name if self.parent is None else self.unique(name)
        if width == 1:
            self.register_types[unique] = kind
            return _of_register(Register(unique))
        components = tuple(Register(f"{unique}.{one}") for one in VECTOR_COMPONENTS[:width])
        self.register_types.update((component.name, kind) for component in components)
        return Resolved(Vector(components), components, components, ())

    def own(self, name: str) -> Resolved | None:
        """What a name declared in this very scope means, the names of ``%r<10>`` included."""
        found = self.names.get(name)
        if found is not None or not self.ranges:
            return found
        prefix = name.rstrip("0123456789")
        # A prefix may itself end in digits (.reg .b32 x1<10>), so every split has to be tried.
        while prefix != name:
            declared = self.ranges.get(prefix)
            if declared is not None and _number(name[len(prefix) :]) < declared[0]:
                found = self.names[name] = self._register(name, declared[1], declared[2])
                return found
            prefix = name[: len(prefix) + 1]
        return None

    def label(self, name: str) -> str | None:
        """The unique name of the label that ``name`` means here."""
        found = self.labels.get(name)
        if found is not None or self.parent is None:
            return found
        return self.parent.label(name)

    def guard(self, guard: syntax.Guard) -> Guard:
        """A guard in the form of the IR."""
        found = self.guards.get(id(guard))
        if found is None:
            scope: NameScope | None = self
            declared: Resolved | None = None
            while declared is None and scope is not None:
                declared = scope.own(guard.name)
                scope = scope.parent
            known = None if declared is None else declared.operand
            register = known if isinstance(known, Register) else Register(guard.name)
            found = self.guards[id(guard)] = Guard(register, guard.negated)
        return found

    def resolve(self, operand: syntax.Operand) -> Resolved:
        """An operand in the form of the IR; cached by identity, since equal texts share their node."""
        found = self.cache.get(id(operand))
        if found is None:
            known = self._resolve_name(operand) if isinstance(operand, syntax.Name) else None
            found = self.cache[id(operand)] = known or self._resolve(operand)
        return found

    def _resolve(self, operand: syntax.Operand) -> Resolved:
        match operand:
            case syntax.VectorList(elements) | syntax.ArgumentList(elements):
                return _joined([self.resolve(element) for element in elements])
            case syntax.Pair(first, second):
                return _joined([self.resolve(first), self.resolve(second)])
            case syntax.Address(parts):
                memory = self._memory(parts)
                registers = registers_in(memory)
                return Resolved(memory, registers, (), registers)
        value = constant_value(operand)
        if value is not None:
            return Resolved(Immediate(value), (), (), ())
        if isinstance(operand, syntax.Unary) and operand.operator in "!-":
            inner = self.resolve(operand.operand)
            return Resolved(Negated(inner.operand), inner.reads, (), inner.reads)
        return Resolved(Opaque(print_operand(operand)), (), (), ())

    def _resolve_name(self, operand: syntax.Name) -> Resolved:
        text = operand.text
        declared = self.own(text)
        if declared is not None:
            return declared
        base, dot, component = text.partition(".")
        if dot and (declared := self.own(base)) is not None:
            return _component(declared, component)
        if text in self.labels:
            return Resolved(LabelReference(self.labels[text]), (), (), ())
        if self.parent is not None:
            return self.parent.resolve(operand)
        return _undeclared(text)

    def _memory(self, parts: tuple[syntax.Operand, ...]) -> Operand:
        terms: list[Register | Symbol] = []
        offset = self._sum(parts[0], terms)
        if offset is None:
            return Opaque(print_operand(syntax.Address(parts)))
        return Memory(tuple(terms), offset, tuple(self.resolve(part).operand for part in parts[1:]))

    def _sum(self, expression: syntax.Operand, terms: list[Register | Symbol]) -> int | None:
        """The constant part of an address, its names added to ``terms``; ``None`` if it is no sum."""
        value: Number | None = constant_value(expression)
        if value is not None:
            return value if isinstance(value, int) else None
        match expression:
            case syntax.Name():
                term = self.resolve(expression).operand
                if not isinstance(term, (Register, Symbol)):
                    return None
                terms.append(term)
                return 0
            case syntax.Binary("+", left, right):
                first, second = self._sum(left, terms), self._sum(right, terms)
                return None if first is None or second is None else first + second
            case syntax.Binary("-", left, right):
                first, shift = self._sum(left, terms), constant_value(right)
                return first - shift if first is not None and isinstance(shift, int) else None
            case _:
                return None


def _number(digits: str) -> float:
    """The number of a register's name; infinite where no declared range has that spelling."""
    canonical = (digits[0] != "0" or digits == "0") and len(digits) < 10
    return int(digits) if canonical else math.inf


def _component(declared: Resolved, component: str) -> Resolved:
    """``v.x`` of a vector register, else the whole: a component of a scalar selects bytes or a half of it
    (video instructions, PTX ISA 9.7.18)."""
    position = _POSITIONS.get(component, len(declared.reads))
    if not isinstance(declared.operand, Vector) or position >= len(declared.reads):
        return declared
    return _of_register(declared.reads[position])


def _undeclared(text: str) -> Resolved:
    """A name without a declaration in the function: special registers, module-level names, constants."""
    if text.startswith("%"):
        return _of_register(Register(text))
    if text == SINK:
        return Resolved(Opaque(SINK), (), (), ())
    value = constant_value(syntax.Name(text))
    return Resolved(Symbol(text) if value is None else Immediate(value), (), (), ())


def _of_register(register: Register) -> Resolved:
    alone = (register,)
    return Resolved(register, alone, alone, ())


def _joined(parts: list[Resolved]) -> Resolved:
    """A vector: what its elements read and write, in order."""
    reads: list[Register] = []
    writes: list[Register] = []
    addresses: list[Register] = []
    for part in parts:
        reads += part.reads
        writes += part.writes
        addresses += part.address_reads
    operand = Vector(tuple([part.operand for part in parts]))
    return Resolved(operand, tuple(reads), tuple(writes), tuple(addresses))
