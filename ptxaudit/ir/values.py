"""The values that a warp's registers hold while its synchronisation skeleton is executed.

A value is the same number in every lane (``int``), a number per lane (a numpy ``uint64`` array of 32),
or :class:`Affine`: a sum of atoms (kernel parameters, block indices, loaded words, results that are not
modelled) with integer coefficients plus a known part. A truth is ``bool``, a boolean array, or a
:class:`Condition` over affine values.

Atoms are interned by how they were computed, so two warps that compute the same thing from the same
parameters hold the same atom, and a decision taken about it in one warp holds in every other. Affine
arithmetic is over the integers: a wrap-around of an unknown value is not modelled.
"""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from ptxaudit.ir.affine import (
    Affine,
    Atom,
    Combination,
    Comparison,
    Condition,
    Truth,
    Value,
    bounds_of,
    granule_of,
    identical,
    integer_of,
    is_natural,
    is_varying,
    normalised,
    plus,
    settled,
    sum_of,
)
from ptxaudit.ir.lanes import (
    LANE_INDEX,
    LANES,
    Flags,
    Lanes,
    as_lanes,
    collapse,
    collapse_flags,
    signed,
    signed_lanes,
    wrap,
)

__all__ = [
    "INVERSE_RELATION",
    "LANES",
    "LANE_INDEX",
    "Affine",
    "Atom",
    "Combination",
    "Comparison",
    "Condition",
    "Domain",
    "Flags",
    "Lanes",
    "Truth",
    "Value",
    "as_lanes",
    "bounds_of",
    "collapse",
    "collapse_flags",
    "granule_of",
    "identical",
    "is_varying",
    "signed",
    "signed_lanes",
    "sum_of",
    "wrap",
]


INVERSE_RELATION = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


class Domain:
    """Arithmetic on values. One domain serves all warps of one execution, since it interns the atoms."""

    def __init__(self) -> None:
        self._atoms: dict[Hashable, Atom] = {}
        self.selections: dict[Atom, tuple[Condition, int, int]] = {}
        self.memory: dict[Hashable, tuple[Value, ...]] = {}
        self._blends: dict[Atom, tuple[Flags, Value, Value]] = {}
        self.definitions: dict[Atom, tuple[Callable[[int], int], Affine]] = {}

    # Atoms -------------------------------------------------------------------------------------------

    def atom(
        self,
        key: Hashable,
        name: str,
        varying: bool = False,
        low: int | None = None,
        high: int | None = None,
    ) -> Affine:
        """The value of the atom with this key; the same key gives the same atom."""
        atom = self._atoms.get(key)
        if atom is None:
            atom = Atom(len(self._atoms), name, varying, low, high)
            self._atoms[key] = atom
        return Affine(((atom, 1),), 0)

    def source(self, key: Hashable, name: str, low: int | None = None) -> Affine:
        """The value of an input of the kernel, independent of every other."""
        value = self.atom(key, name, low=low)
        value.terms[0][0].independent = True
        return value

    def key(self, value: "Value | Truth") -> Hashable:
        """A hashable description: equal keys mean equal values."""
        if isinstance(value, int | bool):
            return value
        if isinstance(value, np.ndarray):
            return value.tobytes()
        if isinstance(value, Affine):
            offset = value.offset if isinstance(value.offset, int) else value.offset.tobytes()
            return (tuple((atom.identity, factor) for atom, factor in value.terms), offset)
        if isinstance(value, Comparison):
            return (value.relation, self.key(value.expression))
        return (value.operator, tuple(self.key(part) for part in value.parts))

    def opaque(self, operation: str, *arguments: "Value | Truth") -> Affine:
        """The unmodelled result of an operation; equal operations on equal values give one atom."""
        varying = any(is_varying(argument) for argument in arguments)
        key = (operation, *(self.key(argument) for argument in arguments))
        return self.atom(key, f"{operation}#{len(self._atoms)}", varying)

    # Arithmetic --------------------------------------------------------------------------------------

    def add(self, first: Value, second: Value, bits: int) -> Value:
        """Sum modulo 2**bits (of unknown values: over the integers)."""
        if type(first) is int and type(second) is int:
            return (first + second) & ((1 << bits) - 1)
        if isinstance(first, Affine) or isinstance(second, Affine):
            return self._linear(first, 1, second, 1, bits)
        return wrap(as_lanes(first) + as_lanes(second), bits)

    def subtract(self, first: Value, second: Value, bits: int) -> Value:
        """Difference modulo 2**bits."""
        if type(first) is int and type(second) is int:
            return (first - second) & ((1 << bits) - 1)
        if isinstance(first, Affine) or isinstance(second, Affine):
            return self._linear(first, 1, second, -1, bits)
        return wrap(as_lanes(first) - as_lanes(second), bits)

    def multiply(self, first: Value, second: Value, bits: int) -> Value:
        """Low ``bits`` of the product."""
        if type(first) is int and type(second) is int:
            return (first * second) & ((1 << bits) - 1)
        if isinstance(first, Affine) and isinstance(second, int):
            factor = signed(second & ((1 << bits) - 1), bits)
            return self._linear(first, factor, 0, 1, bits)
        if isinstance(second, Affine) and isinstance(first, int):
            return self.multiply(second, first, bits)
        if isinstance(first, Affine) or isinstance(second, Affine):
            return self.opaque("mul", first, second)
        return wrap(as_lanes(first) * as_lanes(second), bits)

    def _linear(self, first: Value, scale: int, second: Value, factor: int, bits: int) -> Value:
        totals: dict[Atom, int] = {}
        offset: Any = 0
        for value, weight in ((first, scale), (second, factor)):
            if isinstance(value, Affine):
                for atom, coefficient in value.terms:
                    totals[atom] = totals.get(atom, 0) + coefficient * weight
                part: Any = value.offset
            elif isinstance(value, int):
                part = signed(value & ((1 << bits) - 1), bits)
            else:
                part = signed_lanes(value, min(bits, 64))
            offset = plus(offset, part * weight if isinstance(part, int) else part * np.int64(weight))
        return sum_of(totals, offset, bits)

    def shift_left(self, value: Value, amount: Value, bits: int) -> Value:
        """``value << amount``, zero when the amount reaches ``bits`` (PTX ``shl`` clamps)."""
        if isinstance(amount, int):
            if amount >= bits:
                return 0
            return self.multiply(value, 1 << amount, bits)
        if type(value) is int and value == 0:
            return 0  # whatever the amount
        if isinstance(value, Affine) or isinstance(amount, Affine):
            return self.opaque("shl", value, amount)
        wide = np.minimum(as_lanes(amount), np.uint64(63))
        return wrap(np.where(as_lanes(amount) >= bits, np.uint64(0), as_lanes(value) << wide), bits)

    def shift_right(self, value: Value, amount: Value, bits: int, arithmetic: bool) -> Value:
        """``value >> amount``; ``arithmetic`` shifts in the sign."""
        if isinstance(value, Affine):
            exact = isinstance(amount, int) and amount < bits and isinstance(value.offset, int)
            if exact and all(factor % (1 << amount) == 0 for _, factor in value.terms):  # type: ignore[operator]
                shift = int(amount)  # type: ignore[arg-type]
                return Affine(tuple((a, c >> shift) for a, c in value.terms), value.offset >> shift)
            return self.opaque("sar" if arithmetic else "shr", value, amount)
        if isinstance(amount, Affine):
            return 0 if type(value) is int and value == 0 else self.opaque("shr", value, amount)
        if isinstance(value, int) and isinstance(amount, int):
            shift = min(amount, bits)
            if arithmetic:
                return (signed(value, bits) >> shift) & ((1 << bits) - 1)
            return value >> shift
        shifts = np.minimum(as_lanes(amount), np.uint64(63))
        if arithmetic:
            moved = signed_lanes(as_lanes(value), bits) >> shifts.astype(np.int64)
            return collapse(wrap(moved.view(np.uint64), bits))
        result = np.where(as_lanes(amount) >= bits, np.uint64(0), as_lanes(value) >> shifts)
        return collapse(result)

    def bitwise(self, operator: str, first: Value, second: Value, bits: int) -> Value:
        """``and``, ``or``, ``xor`` of ``bits``-wide values."""
        if isinstance(first, Affine) or isinstance(second, Affine):
            return self._bitwise_unknown(operator, first, second, bits)
        if isinstance(first, int) and isinstance(second, int):
            a, b = first, second
            return a & b if operator == "and" else a | b if operator == "or" else a ^ b
        left, right = as_lanes(first), as_lanes(second)
        if operator == "and":
            return collapse(left & right)
        return collapse(left | right if operator == "or" else left ^ right)

    def _bitwise_unknown(self, operator: str, first: Value, second: Value, bits: int) -> Value:
        if isinstance(second, Affine) and not isinstance(first, Affine):
            first, second = second, first
        if identical(first, second):
            return first if operator != "xor" else 0
        if isinstance(first, Affine) and isinstance(second, int) and isinstance(first.offset, int):
            full = (1 << bits) - 1
            if operator == "and" and second in (0, full):
                return first if second else 0
            if operator != "and" and second == 0:
                return first
            granule = granule_of(first)
            if operator == "and" and second < granule:
                return first.offset & second
            high_mask = full & ~(granule - 1)
            if operator == "and" and second & high_mask == high_mask:
                kept = first.offset - ((first.offset % granule) & ~second)
                return Affine(first.terms, kept)
            low = first.offset % granule
            if operator == "or" and second < granule:
                return Affine(first.terms, first.offset - low + (low | second))
            if operator == "xor" and second < granule:
                return Affine(first.terms, first.offset - low + (low ^ second))
        if operator == "and" and isinstance(second, int) and isinstance(first, Affine):
            width = second.bit_length()
            if second == (1 << width) - 1:
                key = ("and", self.key(first), second)
                return self.atom(key, f"and#{len(self._atoms)}", first.varying, 0, second)
        return self.opaque(operator, first, second)

    def select(self, condition: Truth, then: Value, otherwise: Value) -> Value:
        """``then`` where the condition holds, ``otherwise`` elsewhere."""
        if isinstance(condition, bool):
            return then if condition else otherwise
        if identical(then, otherwise):
            return then
        if isinstance(condition, np.ndarray):
            return self.blend(condition, then, otherwise)
        chosen = self.opaque("select", condition, then, otherwise)
        if isinstance(then, int) and isinstance(otherwise, int):
            atom = chosen.terms[0][0]
            if max(then, otherwise) < 1 << 31:
                atom.low, atom.high = min(then, otherwise), max(then, otherwise)
            self.selections[atom] = (condition, then, otherwise)
        return chosen

    def blend(self, lanes: Flags, then: Value, otherwise: Value) -> Value:
        """``then`` in the flagged lanes, ``otherwise`` in the others."""
        if identical(then, otherwise):
            return then
        if isinstance(then, Affine) or isinstance(otherwise, Affine):
            if isinstance(then, Affine) and isinstance(otherwise, Affine) and then.terms == otherwise.terms:
                return Affine(then.terms, np.where(lanes, then.offset, otherwise.offset).astype(np.int64))
            blended = self.opaque("blend", lanes, then, otherwise)
            self._blends[blended.terms[0][0]] = (lanes, then, otherwise)
            return blended
        return collapse(np.where(lanes, as_lanes(then), as_lanes(otherwise)))

    def within(self, value: Value, lanes: Flags) -> Value:
        """The value as the flagged lanes see it: of what was blended for other lanes, only their part."""
        while isinstance(value, Affine) and len(value.terms) == 1 and isinstance(value.offset, int):
            atom, factor = value.terms[0]
            if atom not in self._blends:
                break
            flags, then, otherwise = self._blends[atom]
            if not (lanes & ~flags).any():
                part = then
            elif not (lanes & flags).any():
                part = otherwise
            else:
                break
            if (factor, value.offset) != (1, 0):
                part = self.add(self.multiply(part, factor, 64), value.offset, 64)
            value = part
        return value

    # Truths ------------------------------------------------------------------------------------------

    def compare(self, relation: str, first: Value, second: Value, bits: int, is_signed: bool) -> Truth:
        """``first relation second``; relations are eq, ne, lt, le, gt, ge."""
        if type(first) is int and type(second) is int:
            if is_signed:
                first, second = signed(first, bits), signed(second, bits)
            return bool(_COMPARE[relation](first, second))
        if isinstance(first, Affine) or isinstance(second, Affine):
            return self._compare_unknown(relation, first, second, bits, is_signed)
        left, right = as_lanes(first), as_lanes(second)
        if is_signed:
            return collapse_flags(_COMPARE[relation](signed_lanes(left, bits), signed_lanes(right, bits)))
        return collapse_flags(_COMPARE[relation](left, right))

    def _compare_unknown(
        self, relation: str, first: Value, second: Value, bits: int, is_signed: bool
    ) -> Truth:
        for value, other, is_first in ((first, second, True), (second, first, False)):
            chosen = self.selected(value) if isinstance(value, Affine) and isinstance(other, int) else None
            if chosen is not None:
                condition, *numbers = chosen
                words = [number & ((1 << bits) - 1) for number in numbers]
                pairs = [(word, other) if is_first else (other, word) for word in words]
                return self._either(
                    condition, *(self.compare(relation, p[0], p[1], bits, is_signed) for p in pairs)
                )
        equality = relation in ("eq", "ne")
        if not is_signed and not equality and not (is_natural(first) and is_natural(second)):
            return self._compare_wrapped(relation, first, second, bits)
        as_signed = is_signed or (equality and not (is_natural(first) and is_natural(second)))
        minuend, subtrahend = (integer_of(value, bits, as_signed) for value in (first, second))
        difference = self._linear(minuend, 1, subtrahend, -1, bits + 2)
        if isinstance(difference, int):
            return bool(_COMPARE[relation](signed(difference, bits + 2), 0))
        if isinstance(difference, np.ndarray):
            return collapse_flags(_COMPARE[relation](signed_lanes(difference, min(bits + 2, 64)), 0))
        known = settled(relation, difference, bits, is_signed)
        return normalised(relation, difference) if known is None else known

    def _compare_wrapped(self, relation: str, first: Value, second: Value, bits: int) -> Truth:
        """An unsigned order of which one side may be negative: such a number reads as a very large one."""
        if relation in ("gt", "ge"):
            turned = {"gt": "lt", "ge": "le"}[relation]
            return self._compare_wrapped(turned, second, first, bits)
        large = [_tops(value, bits) for value in (first, second)]
        if None in large or not (is_natural(first) or is_natural(second)):
            return Comparison("ne", self.opaque(f"{relation}.u{bits}", first, second))
        plain = self.compare(relation, first, second, bits, is_signed=True)
        if large[1]:
            return self.combine("or", self.compare("ge", first, 0, bits, is_signed=True), plain)
        if large[0]:
            return self.combine("and", self.compare("lt", second, 0, bits, is_signed=True), plain)
        if is_natural(second):
            return self.combine("and", self.compare("ge", first, 0, bits, is_signed=True), plain)
        return self.combine("or", self.compare("lt", second, 0, bits, is_signed=True), plain)

    def selected(self, value: Affine) -> tuple[Condition, int, int] | None:
        """The condition that picks one of two numbers, for a value that is such a choice."""
        if len(value.terms) != 1 or not isinstance(value.offset, int):
            return None
        atom, factor = value.terms[0]
        choice = self.selections.get(atom)
        if choice is None:
            return None
        condition, then, otherwise = choice
        return condition, factor * then + value.offset, factor * otherwise + value.offset

    def _either(self, condition: Truth, then: Truth, otherwise: Truth) -> Truth:
        if then == otherwise:
            return then
        return condition if then else self.negate(condition)

    def negate(self, truth: Truth) -> Truth:
        """Logical not."""
        if isinstance(truth, bool):
            return not truth
        if isinstance(truth, np.ndarray):
            return ~truth
        if isinstance(truth, Comparison):
            return Comparison(INVERSE_RELATION[truth.relation], truth.expression)
        if truth.operator == "not":
            return truth.parts[0]
        return Combination("not", (truth,))

    def combine(self, operator: str, first: Truth, second: Truth) -> Truth:
        """``and``, ``or`` or ``xor`` of two truths."""
        for one, other in ((first, second), (second, first)):
            if isinstance(one, bool):
                if operator == "xor":
                    return self.negate(other) if one else other
                return other if one == (operator == "and") else one
        if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
            joined = first & second if operator == "and" else first | second
            return collapse_flags(first ^ second if operator == "xor" else joined)
        return Combination(operator, (first, second))

    def truth_of(self, value: Value) -> Truth:
        """Whether a number is not zero."""
        return self.compare("ne", value, 0, 64, False)

    def number_of(self, truth: Truth, true_value: int = 1) -> Value:
        """``true_value`` where the truth holds, else zero."""
        return self.select(truth, true_value, 0)


def _tops(value: Value, bits: int) -> bool | None:
    """Whether known numbers have the top bit set, which makes them negative as signed ones; ``None`` if some
    have."""
    if isinstance(value, Affine):
        return False
    flags = as_lanes(value) >> np.uint64(bits - 1) != 0
    return bool(flags[0]) if bool((flags == flags[0]).all()) else None
