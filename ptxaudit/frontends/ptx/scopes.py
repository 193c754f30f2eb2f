"""Name resolution (PTX ISA 5.2 and 4.4): which register, label or variable a name means where it stands.

Names declared at function level stay as they are. Names declared in an inner ``{ }`` get ``@n``
appended, ``n`` counting the function's scopes in order, so that every register, label and variable of a
function has one name of its own. Registers and variables are visible from their declaration on, labels in
their whole scope. Known limit: registers used without a declaration (which ptxas refuses, unless they
are special registers) are taken as registers of the function if they start with ``%``.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ptxaudit.frontends.ptx import syntax
from ptxaudit.frontends.ptx.constants import Number, constant_value
from ptxaudit.frontends.ptx.launch import declared_names
from ptxaudit.frontends.ptx.printer import print_operand
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
VECTOR_COMPONENTS = ("x", "y", "z", "w")
_COLOUR = {"r": "x", "g": "y", "b": "z", "a": "w"}
_NUMBERED = re.compile(r"(.*?)(0|[1-9][0-9]*)\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class DeclaredRegister:
    """A register by its unique name; ``width`` is the number of its vector components."""

    name: str
    type: str
    width: int = 1


@dataclass(frozen=True, slots=True)
class DeclaredVariable:
    """A variable or parameter by its unique name."""

    name: str


@dataclass(frozen=True, slots=True)
class Resolved:
    """An operand and the registers it reads, depending on whether the instruction writes it."""

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
    names: dict[str, DeclaredRegister | DeclaredVariable] = field(default_factory=dict)
    ranges: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    cache: dict[int, Resolved] = field(default_factory=dict)

    def unique(self, name: str) -> str:
        """The name by which the rest of the program knows a name declared here."""
        return name if self.parent is None else f"{name}@{self.number}"

    def declare_labels(self, names: Iterable[str]) -> None:
        """Make the labels of the scope known; they may be used before they stand."""
        self.labels = {name: self.unique(name) for name in names}

    def declare(self, declaration: syntax.VariableDeclaration) -> None:
        """Make declared names known from here on."""
        self.cache.clear()
        for declarator in declaration.declarators:
            name = declarator.name
            if declaration.space != "reg":
                for one in declared_names(declarator):
                    self.names[one] = DeclaredVariable(self.unique(one))
            elif declarator.count is None:
                found = DeclaredRegister(self.unique(name), declaration.type, declaration.vector)
                self.names[name] = found
            else:
                self.ranges[name] = (declarator.count, declaration.type, declaration.vector)

    def find(self, name: str) -> DeclaredRegister | DeclaredVariable | None:
        """The innermost declaration of a name, those of ``%r<10>`` included."""
        found = self.names.get(name)
        if found is not None:
            return found
        if self.ranges and (match := _NUMBERED.match(name)) is not None:
            numbered = self._in_range(match[1], match[2], name)
            if numbered is not None:
                return numbered
        return None if self.parent is None else self.parent.find(name)

    def _in_range(self, prefix: str, digits: str, name: str) -> DeclaredRegister | None:
        # A prefix may itself end in digits (.reg .b32 x1<10>), so every split has to be tried.
        while True:
            declared = self.ranges.get(prefix)
            if declared is not None and len(digits) < 10 and int(digits) < declared[0]:
                found = DeclaredRegister(self.unique(name), declared[1], declared[2])
                self.names[name] = found
                return found
            if not prefix[-1:].isdigit():
                return None
            prefix, digits = prefix[:-1], prefix[-1] + digits
            if digits[0] == "0":
                return None

    def label(self, name: str) -> str | None:
        """The unique name of the label that ``name`` means here."""
        found = self.labels.get(name)
        if found is not None or self.parent is None:
            return found
        return self.parent.label(name)

    def declares_any(self, names: Iterable[str]) -> bool:
        """Whether this very scope declares one of the names."""
        if not (self.names or self.ranges or self.labels):
            return False
        for name in names:
            if name in self.names or name in self.labels:
                return True
            match = _NUMBERED.match(name) if self.ranges else None
            if match is not None and self._in_range(match[1], match[2], name) is not None:
                return True
        return False

    def resolve(self, operand: syntax.Operand) -> Resolved:
        """An operand in the form of the IR; cached by identity, since equal texts share their node."""
        found = self.cache.get(id(operand))
        if found is None:
            if self.parent is not None and not self.declares_any(names_in(operand)):
                found = self.parent.resolve(operand)
            else:
                found = _resolved(self._convert(operand))
            self.cache[id(operand)] = found
        return found

    def register(self, name: str) -> Register:
        """The register a guard names."""
        found = self.find(name)
        return self._known_register(found) if isinstance(found, DeclaredRegister) else Register(name)

    def _known_register(self, found: DeclaredRegister) -> Register:
        self.register_types[found.name] = found.type
        return Register(found.name)

    def _convert(self, operand: syntax.Operand) -> Operand:
        match operand:
            case syntax.Name(text):
                return self._name(text)
            case syntax.VectorList(elements) | syntax.ArgumentList(elements):
                return Vector(tuple(self._convert(element) for element in elements))
            case syntax.Pair(first, second):
                return Vector((self._convert(first), self._convert(second)))
            case syntax.Address(parts):
                return self._memory(parts)
        value = constant_value(operand)
        if value is not None:
            return Immediate(value)
        if isinstance(operand, syntax.Unary) and operand.operator in "!-":
            return Negated(self._convert(operand.operand))
        return Opaque(print_operand(operand))

    def _name(self, text: str) -> Operand:
        if text == SINK:
            return Opaque(SINK)
        base, _, component = text.partition(".")
        found = self.find(base)
        if isinstance(found, DeclaredRegister):
            return self._register_operand(found, component)
        if isinstance(found, DeclaredVariable):
            return Symbol(found.name)
        label = self.label(text)
        if label is not None:
            return LabelReference(label)
        if text.startswith("%"):
            return Register(text)
        value = constant_value(syntax.Name(text))
        return Symbol(text) if value is None else Immediate(value)

    def _register_operand(self, found: DeclaredRegister, component: str) -> Operand:
        if found.width == 1:
            # A component of a scalar selects bytes or a half (video instructions, PTX ISA 9.7.18).
            return self._known_register(found)
        components = VECTOR_COMPONENTS[: found.width]
        names = (_COLOUR.get(component, component),) if component else components
        registers = tuple(Register(f"{found.name}.{name}") for name in names)
        self.register_types.update((register.name, found.type) for register in registers)
        return registers[0] if component else Vector(registers)

    def _memory(self, parts: tuple[syntax.Operand, ...]) -> Operand:
        terms: list[Register | Symbol] = []
        offset = self._sum(parts[0], terms)
        if offset is None:
            return Opaque(print_operand(syntax.Address(parts)))
        return Memory(tuple(terms), offset, tuple(self._convert(part) for part in parts[1:]))

    def _sum(self, expression: syntax.Operand, terms: list[Register | Symbol]) -> int | None:
        """The constant part of an address, its names added to ``terms``; ``None`` if it is no sum."""
        value: Number | None = constant_value(expression)
        if value is not None:
            return value if isinstance(value, int) else None
        match expression:
            case syntax.Name():
                term = self._convert(expression)
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


def names_in(operand: syntax.Operand) -> tuple[str, ...]:
    """Every identifier of an operand, components cut off."""
    match operand:
        case syntax.Name(text):
            return (text.partition(".")[0],)
        case syntax.Address(parts):
            return tuple(name for part in parts for name in names_in(part))
        case syntax.VectorList(parts) | syntax.ArgumentList(parts):
            return tuple(name for part in parts for name in names_in(part))
        case syntax.Pair(first, second) | syntax.Binary(_, first, second):
            return names_in(first) + names_in(second)
        case syntax.Unary(_, inner) | syntax.Cast(_, inner):
            return names_in(inner)
        case syntax.Conditional(condition, first, second):
            return names_in(condition) + names_in(first) + names_in(second)
        case syntax.Applied(function, argument):
            return names_in(function) + names_in(argument)
        case _:
            return ()


def _resolved(operand: Operand) -> Resolved:
    registers = registers_in(operand)
    if isinstance(operand, Memory):
        return Resolved(operand, registers, (), registers)
    if isinstance(operand, Vector) and any(isinstance(part, Memory) for part in operand.elements):
        return Resolved(operand, registers, (), registers)
    return Resolved(operand, registers, registers, ())
