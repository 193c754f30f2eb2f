"""Sums of unknown atoms, and conditions over them: what a warp's register may hold beside known numbers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxaudit.ir.lanes import Flags, Lanes, signed, signed_lanes, wrap

_LEAST_WORD = -(1 << 31)
_GREATEST_WORD = (1 << 32) - 1


class Atom:
    """An unknown quantity. ``varying`` is true when lanes may hold different values of it.

    ``independent`` is true for an input (a parameter, an index of the grid): whatever it is, the other
    inputs can be anything. ``data`` is true for a result of floating-point arithmetic and for a vote on
    such: the numbers that the kernel is given decide what it is.
    """

    __slots__ = ("data", "high", "identity", "independent", "low", "name", "varying")

    def __init__(self, identity: int, name: str, varying: bool, low: int | None, high: int | None) -> None:
        self.identity = identity
        self.name = name
        self.varying = varying
        self.low = low
        self.high = high
        self.independent = False
        self.data = False

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """``sum(coefficient * atom) + offset``; ``terms`` are sorted by atom and never empty."""

    terms: tuple[tuple[Atom, int], ...]
    offset: "int | NDArray[np.int64]"

    @property
    def varying(self) -> bool:
        """Whether lanes may hold different values."""
        return not isinstance(self.offset, int) or any(atom.varying for atom, _ in self.terms)

    def __repr__(self) -> str:
        parts = [atom.name if factor == 1 else f"{factor}*{atom.name}" for atom, factor in self.terms]
        if not isinstance(self.offset, int):
            parts.append("lanes")
        elif self.offset:
            parts.append(f"{self.offset:#x}" if self.offset > 255 else str(self.offset))
        return "+".join(parts)


Value = int | Lanes | Affine


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """``expression relation 0`` for an unknown expression; relations are eq, ne, lt, le, gt, ge."""

    relation: str
    expression: Affine


@dataclass(frozen=True, slots=True, eq=False)
class Combination:
    """``and``, ``or``, ``xor`` or ``not`` of truths, at least one of them unknown."""

    operator: str
    parts: "tuple[Truth, ...]"


Condition = Comparison | Combination
Truth = bool | Flags | Condition


def identical(first: Value, second: Value) -> bool:
    """Whether two values are certain to be equal in every lane."""
    if first is second:
        return True
    if isinstance(first, int) and isinstance(second, int):
        return first == second
    if isinstance(first, Affine) and isinstance(second, Affine):
        return first.terms == second.terms and bool(np.all(first.offset == second.offset))
    if isinstance(first, Affine) or isinstance(second, Affine):
        return False
    return bool(np.all(first == second))


def is_varying(value: "Value | Truth") -> bool:
    """Whether lanes may hold different values."""
    if isinstance(value, int):
        return False
    if isinstance(value, np.ndarray):
        return True
    if isinstance(value, Affine):
        return value.varying
    if isinstance(value, Comparison):
        return value.expression.varying
    return any(is_varying(part) for part in value.parts)


def rests_on_data(truth: Truth) -> bool:
    """Whether a condition is about the kernel's data alone."""
    if isinstance(truth, Comparison):
        return all(atom.data for atom, _ in truth.expression.terms)
    if isinstance(truth, Combination):
        unknown = [part for part in truth.parts if not isinstance(part, bool | np.ndarray)]
        return all(map(rests_on_data, unknown))
    return False


def sum_of(totals: "dict[Atom, int]", offset: "int | NDArray[np.int64]", bits: int) -> Value:
    """The ``bits``-wide value with these coefficients; what a width cannot hold is reduced modulo 2**bits."""
    terms = []
    for atom, factor in totals.items():
        kept = factor if -(1 << bits) < factor < (1 << bits) else signed(factor & ((1 << bits) - 1), bits)
        if kept:
            terms.append((atom, kept))
    if not isinstance(offset, int) and (offset == offset[0]).all():
        offset = int(offset[0])
    if not terms:
        if isinstance(offset, int):
            return offset & ((1 << bits) - 1)
        return wrap(offset.view(np.uint64), bits)
    if isinstance(offset, int) and not -(1 << bits) < offset < (1 << bits):
        offset = signed(offset & ((1 << bits) - 1), bits)
    terms.sort(key=lambda term: term[0].identity)
    return Affine(tuple(terms), offset)


def plus(first: "int | NDArray[np.int64]", second: "int | NDArray[np.int64]") -> "int | NDArray[np.int64]":
    """Sum of offsets; with lanes modulo 2**64."""
    if isinstance(first, int) and isinstance(second, int):
        return first + second
    parts = (np.int64(signed(p & ((1 << 64) - 1), 64)) if isinstance(p, int) else p for p in (first, second))
    left, right = parts
    result: NDArray[np.int64] = np.add(left, right)
    return result


def bounds_of(value: Value) -> tuple[int | None, int | None]:
    """The least and the greatest integer that the value may be in any lane, where known."""
    if isinstance(value, int):
        return value, value
    if isinstance(value, np.ndarray):
        return int(value.min()), int(value.max())
    offset = value.offset
    low: int | None = offset if isinstance(offset, int) else int(offset.min())
    high: int | None = offset if isinstance(offset, int) else int(offset.max())
    for atom, factor in value.terms:
        least, most = (atom.low, atom.high) if factor > 0 else (atom.high, atom.low)
        low = None if low is None or least is None else low + factor * least
        high = None if high is None or most is None else high + factor * most
    return low, high


def may_be_negative(value: Affine) -> bool:
    """Whether an atom is known to take values below zero (an atom of unknown sign does not count)."""
    return any(atom.low is not None and _LEAST_WORD < atom.low < 0 for atom, _ in value.terms)


def is_natural(value: Value) -> bool:
    """Whether nothing suggests that the value is negative as an integer."""
    if not isinstance(value, Affine):
        return True
    low, _ = bounds_of(value)
    if low is not None and low >= 0:
        return True
    offset_low = value.offset if isinstance(value.offset, int) else int(value.offset.min())
    positive = offset_low >= 0 and all(factor > 0 for _, factor in value.terms)
    return positive and not may_be_negative(value)


def narrow(value: Affine) -> None:
    """Note that every atom of the value fits a 32-bit register, as a signed or as an unsigned number."""
    for atom, _ in value.terms:
        if atom.low is None:
            atom.low = _LEAST_WORD
        if atom.high is None:
            atom.high = _GREATEST_WORD


def fits(value: Value, bits: int) -> bool:
    """Whether the integer is known to be a ``bits``-wide number, signed or unsigned."""
    low, high = bounds_of(value)
    return low is not None and high is not None and low >= -(1 << (bits - 1)) and high < 1 << bits


def integer_of(value: Value, bits: int, is_signed: bool) -> Value:
    """A known value as the ``bits + 2``-wide number of the integer it stands for."""
    if isinstance(value, int):
        return signed(value, bits) & ((4 << bits) - 1) if is_signed else value
    if isinstance(value, np.ndarray) and is_signed:
        return signed_lanes(value, bits).view(np.uint64)
    return value


def sign_unknown(value: Affine, bits: int) -> bool:
    """Whether an atom's range is one of unsigned numbers, some of them negative as signed ones."""
    ranges = (atom.high for atom, _ in value.terms)
    return any(high is not None and high >> (bits - 1) > 0 and high != _GREATEST_WORD for high in ranges)


def has_large_factor(value: Affine, bits: int) -> bool:
    """Whether a factor is so large that the product must be taken to wrap around."""
    return any(abs(factor) >> (bits - 4) for _, factor in value.terms)


def may_overflow(value: Affine, bits: int) -> bool:
    """Whether the range is wider than a register, or a factor too large."""
    low, high = bounds_of(value)
    limit = 1 << bits
    beyond = (low is not None and low < -limit) or (high is not None and high > limit)
    return beyond or has_large_factor(value, bits)


def settled(relation: str, difference: Affine, bits: int, is_signed: bool) -> bool | None:
    """Whether ``difference relation 0`` follows from the ranges of the atoms and their factors."""
    low, high = bounds_of(difference)
    if relation in ("eq", "ne"):
        modulus = 1 << bits
        granule = min(granule_of(difference), modulus)
        apart = bool(np.all(np.asarray(difference.offset) % granule != 0)) if granule > 1 else False
        if low is not None and high is not None:
            apart = apart or (low % modulus != 0 and low // modulus == high // modulus)
        return relation == "ne" if apart else None
    if (is_signed and sign_unknown(difference, bits)) or may_overflow(difference, bits):
        return None
    if low is not None and (low > 0 or (low == 0 and relation in ("lt", "ge"))):
        return relation in ("gt", "ge")
    if high is not None and (high < 0 or (high == 0 and relation in ("gt", "le"))):
        return relation in ("lt", "le")
    return None


def granule_of(value: Affine) -> int:
    """The greatest power of two that divides every coefficient."""
    granule = 1 << 62
    for _, factor in value.terms:
        granule = min(granule, factor & -factor)
    return granule


def normalised(relation: str, difference: Affine) -> Comparison:
    """The comparison with its first coefficient positive, so that equal conditions look equal."""
    if difference.terms[0][1] < 0:
        turned = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}.get(relation, relation)
        terms = tuple((atom, -factor) for atom, factor in difference.terms)
        return Comparison(turned, Affine(terms, -difference.offset))
    return Comparison(relation, difference)
