"""What the SASS evaluation modules share: operands as words, pairs and truths, and sums with carries.

A 32-bit register is one value. A 64-bit number is a pair of registers, of which the low word keeps an
affine form; a high word that depends on a carry which is not known is an atom.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ptxaudit.ir import algebra
from ptxaudit.ir.affine import Affine, bounds_of
from ptxaudit.ir.lanes import as_lanes, collapse, collapse_flags
from ptxaudit.ir.operands import Immediate, Memory, Negated, Opaque, Operand, Register, Vector
from ptxaudit.ir.values import Domain, Truth, Value
from ptxaudit.isa.evaluation import Compute, Result, as_numbers, truth_of
from ptxaudit.isa.sass.registers import is_predicate

WORD = 0xFFFFFFFF
CARRY = 1 << 32
_NUMBERED = re.compile(r"(U?R)(\d+)$")
_ZERO = frozenset({"RZ", "URZ", "SRZ"})
_TRUE = frozenset({"PT", "UPT"})
_FILES = frozenset({"PR", "UPR"})
_SINKS = _ZERO | _TRUE
# Parts of a register: first bit and width.
_PARTS = {
    "B0": (0, 8),
    "B1": (8, 8),
    "B2": (16, 8),
    "B3": (24, 8),
    "H0": (0, 16),
    "H1": (16, 16),
}


class Unmodelled(Exception):
    """The instruction's spelling is none that the evaluation knows; never leaves this package."""


@dataclass(frozen=True, slots=True)
class Word:
    """A 32-bit source: a constant or a position among the values, with the operand's modifiers."""

    index: int
    constant: int | None = None
    negated: bool = False
    inverted: bool = False
    absolute: bool = False
    part: tuple[int, int] | None = None

    def raw(self, domain: Domain, values: Sequence[Result]) -> Value:
        """The value before negation, after every other modifier."""
        value = as_numbers(values)[self.index] if self.constant is None else self.constant
        if self.part is not None:
            start, bits = self.part
            moved = algebra.shift_right(domain, value, start, 32, False)
            value = algebra.truncate(domain, moved, bits)
        if self.absolute:
            value = absolute(domain, value)
        if self.inverted:
            value = algebra.bitwise(domain, "xor", value, WORD, 32)
        return value

    def get(self, domain: Domain, values: Sequence[Result]) -> Value:
        """The value as the instruction uses it."""
        value = self.raw(domain, values)
        return negative(domain, value) if self.negated else value

    @property
    def is_zero(self) -> bool:
        """Whether the word is the zero register or a literal zero, in every use."""
        return self.constant == 0 and not self.inverted


@dataclass(frozen=True, slots=True)
class Flag:
    """A predicate source."""

    index: int
    constant: bool | None = None
    negated: bool = False

    def get(self, domain: Domain, values: Sequence[Result]) -> Truth:
        """The truth that the operand stands for."""
        truth = truth_of(domain, values[self.index]) if self.constant is None else self.constant
        return domain.negate(truth) if self.negated else truth

    @property
    def is_false(self) -> bool:
        """Whether the operand is ``!PT``."""
        return self.constant is not None and self.constant == self.negated


@dataclass(slots=True)
class Form:
    """An instruction taken apart, and the sources that its evaluation reads.

    ``root`` is the opcode's first part without the ``U`` of the uniform data path. ``operands`` are the
    sources as written, ``destinations`` what stands before them.
    """

    opcode: str
    root: str
    modifiers: tuple[str, ...]
    destinations: tuple[Operand, ...]
    operands: tuple[Operand, ...]
    sources: list[Operand] = field(default_factory=list)

    def has(self, *modifiers: str) -> bool:
        """Whether any of the modifiers is spelled."""
        return any(modifier in self.modifiers for modifier in modifiers)

    def allow(self, *modifiers: str) -> None:
        """Refuse a form with any other modifier."""
        if not set(self.modifiers) <= set(modifiers):
            raise Unmodelled

    def operand(self, position: int) -> Operand:
        """The source operand at a position."""
        if not -len(self.operands) <= position < len(self.operands):
            raise Unmodelled
        return self.operands[position]

    def expect(self, *counts: int) -> None:
        """Refuse a form with another number of source operands."""
        if len(self.operands) not in counts:
            raise Unmodelled

    def number(self, position: int) -> int:
        """An operand that is an integer literal."""
        operand = self.operand(position)
        if isinstance(operand, Immediate) and isinstance(operand.value, int):
            return operand.value & WORD
        raise Unmodelled

    def _index(self, source: Operand) -> int:
        if source in self.sources:
            return self.sources.index(source)
        self.sources.append(source)
        return len(self.sources) - 1

    def _plain(self, source: Operand, high: bool) -> tuple[int, int | None]:
        """Position, or constant, of an operand without modifiers; ``high`` for the upper word of a pair."""
        match source:
            case Immediate(int(value)):
                return -1, (value >> 32 if high else value) & WORD
            case Register(name) if name in _ZERO:
                return -1, 0
            case Register() if not is_predicate(source):
                return self._index(next_register(source) if high else source), None
            case Memory() if source.space == "const" and source.bank is not None:
                address = source if not high else _behind(source)
                return self._index(address), None
            case _:
                raise Unmodelled

    def _word(self, operand: Operand, high: bool) -> Word:
        match operand:
            case Negated(inner):
                word = self._word(inner, high)
                return _changed(word, inverted=True) if high else _changed(word, negated=True)
            case Vector((inner, Opaque("~"))):
                return _changed(self._word(inner, high), inverted=True)
            case Vector((inner, Opaque("||"))) if not high:
                return _changed(self._word(inner, high), absolute=True)
            case Vector((Register() as inner, Opaque(text))) if text in _PARTS and not high:
                return _changed(self._word(inner, high), part=_PARTS[text])
            case _:
                index, constant = self._plain(operand, high)
                return Word(index, constant)

    def word(self, position: int) -> Word:
        """The 32-bit source operand at a position."""
        return self._word(self.operand(position), False)

    def pair(self, position: int) -> tuple[Word, Word]:
        """Low and high word of the 64-bit source operand at a position."""
        operand = self.operand(position)
        return self._word(operand, False), self._word(operand, True)

    def flag(self, position: int) -> Flag:
        """The predicate source operand at a position."""
        operand = self.operand(position)
        negated = isinstance(operand, Negated)
        inner = operand.operand if isinstance(operand, Negated) else operand
        return self.predicate(inner, negated)

    def predicate(self, register: Operand, negated: bool = False) -> Flag:
        """A predicate register as a source."""
        if not isinstance(register, Register) or not is_predicate(register) or register.name in _FILES:
            raise Unmodelled
        if register.name in _TRUE:
            return Flag(-1, True, negated)
        return Flag(self._index(register), None, negated)

    def is_flag(self, position: int) -> bool:
        """Whether the source operand at a position is a predicate."""
        operand = self.operand(position)
        return is_predicate(operand.operand if isinstance(operand, Negated) else operand)

    def results(self) -> tuple[list[Register | None], list[Register | None]]:
        """Predicate destinations and the other ones, each in order, ``None`` for sinks."""
        flags: list[Register | None] = []
        words: list[Register | None] = []
        for operand in self.destinations:
            if not isinstance(operand, Register):
                raise Unmodelled
            if operand.name in _FILES:
                continue
            kept = None if operand.name in _SINKS else operand
            (flags if is_predicate(operand) else words).append(kept)
        return flags, words


@dataclass(frozen=True, slots=True)
class Plan:
    """The destinations of an evaluation and what it computes for them."""

    destinations: tuple[Register | None, ...]
    compute: Compute


Compiler = Callable[[Form], Plan]


def _changed(word: Word, **modifiers: object) -> Word:
    if word.negated or (word.inverted and "negated" not in modifiers):
        raise Unmodelled
    values = {
        "negated": word.negated,
        "inverted": word.inverted,
        "absolute": word.absolute,
        "part": word.part,
        **modifiers,
    }
    return Word(word.index, word.constant, **values)  # type: ignore[arg-type]


def next_register(register: Register) -> Register:
    """The register behind one, which holds the upper word of a pair."""
    match = _NUMBERED.match(register.name)
    if match is None:
        raise Unmodelled
    return Register(f"{match.group(1)}{int(match.group(2)) + 1}")


def _behind(memory: Memory) -> Memory:
    return Memory(
        memory.terms, memory.offset + 4, memory.coordinates, memory.space, memory.descriptor, memory.bank
    )


def pair_destinations(register: Register | None) -> tuple[Register | None, Register | None]:
    """Low and high register of a 64-bit destination."""
    return (None, None) if register is None else (register, next_register(register))


def only(destinations: Sequence[Register | None]) -> Register | None:
    """The one destination of a kind."""
    if len(destinations) != 1:
        raise Unmodelled
    return destinations[0]


def negative(domain: Domain, value: Value) -> Value:
    """Two's complement of a word."""
    if type(value) is int:
        return -value & WORD
    return simplified(domain.subtract(0, value, 32))


def absolute(domain: Domain, value: Value) -> Value:
    """Magnitude of a word read as a signed number."""
    at_least_zero = domain.compare("ge", value, 0, 32, True)
    if isinstance(value, Affine) and not isinstance(at_least_zero, bool):
        return domain.opaque("abs.s32", value)
    return domain.select(at_least_zero, value, negative(domain, value))


def simplified(value: Value) -> Value:
    """One number instead of equal lanes."""
    return collapse(value) if isinstance(value, np.ndarray) else value


Term = tuple[Value, bool]
"""A summand and whether it is subtracted."""


def total_of(domain: Domain, terms: Sequence[Term], carries: Sequence[Truth] = ()) -> Value:
    """The low 32 bits of a sum."""
    total: Value = 0
    for value, negated in terms:
        if type(total) is int and type(value) is int:
            total = (total - value if negated else total + value) & WORD
        elif negated:
            total = domain.subtract(total, value, 32)
        else:
            total = value if type(total) is int and total == 0 else domain.add(total, value, 32)
    for carry in carries:
        if carry is not False:
            total = domain.add(total, domain.number_of(carry), 32)
    return simplified(total)


def carries_of(
    domain: Domain, terms: Sequence[Term], carries: Sequence[Truth], count: int
) -> tuple[Truth, ...]:
    """The carries out of bit 31; with ``count`` two, that of the first two terms and the rest's.

    A subtracted term counts as ``2**32 - value``, so that its carry means that nothing was borrowed.
    """
    live = [carry for carry in carries if carry is not False]
    known = all(not isinstance(value, Affine) for value, _ in terms)
    if known and all(isinstance(carry, bool | np.ndarray) for carry in live):
        return _known_carries(terms, live, count)
    present = [(value, negated) for value, negated in terms if negated or type(value) is not int or value]
    if not live and len(present) <= 2:
        first = _carry_of_two(domain, present)
        return (first,) if count < 2 else (first, False)
    highest = _most(present, len(live))
    if highest is not None and highest < CARRY:
        return (False,) * max(count, 1)
    name = "carry" + "".join("-" if negated else "+" for _, negated in present)
    values = [value for value, _ in present]
    atoms = [domain.opaque(f"{name}{index}/{count}", *values, *live) for index in range(max(count, 1))]
    return tuple(domain.truth_of(atom) for atom in atoms)


def _most(terms: Sequence[Term], more: int) -> int | None:
    """The greatest value that a sum of words may have, if it is known that none wrapped."""
    total = more
    for value, negated in terms:
        low, high = bounds_of(value)
        if negated or low is None or high is None or low < 0:
            return None
        total += high
    return total


def _known_carries(terms: Sequence[Term], live: Sequence[Truth], count: int) -> tuple[Truth, ...]:
    total = np.zeros(32, dtype=np.uint64)
    partial = total
    for position, (value, negated) in enumerate(terms):
        lanes = as_lanes(value)  # type: ignore[arg-type]
        total = total + (np.uint64(CARRY) - lanes if negated else lanes)
        if position == 1:
            partial = total >> np.uint64(32)
    for carry in live:
        total = total + np.broadcast_to(np.asarray(carry), 32).astype(np.uint64)
    whole = total >> np.uint64(32)
    if count < 2:
        return (collapse_flags(whole >= 1),)
    return collapse_flags(partial >= 1), collapse_flags(whole - np.minimum(partial, 1) >= 1)


def _carry_of_two(domain: Domain, terms: Sequence[Term]) -> Truth:
    """``x + y`` carries when ``x >= 2**32 - y``; ``x - y`` when ``x >= y``."""
    if not terms:
        return False
    if len(terms) == 1:
        value, negated = terms[0]
        return domain.compare("eq", value, 0, 32, False) if negated else False
    (first, first_negated), (second, second_negated) = terms
    if first_negated and not second_negated:
        first, second, first_negated, second_negated = second, first, False, True
    if second_negated and not first_negated:
        return domain.compare("ge", first, second, 32, False)
    highest = _most(terms, 0)
    if highest is not None and highest < CARRY:
        return False
    for value, other in ((first, second), (second, first)):
        if type(other) is int and not first_negated:
            return domain.compare("ge", value, CARRY - other, 32, False)
    sign = "-" if first_negated else "+"
    return domain.truth_of(domain.opaque(f"carry{sign}{sign}", first, second))
