"""Operations on unknown values beyond sums: products, division, masks, shifts and changes of width.

Property: a result that is exact modulo 2**bits, or an atom named after the operation and its reduced
operand, with the range that the operation guarantees. Low bits (masks, truncation) are exact whatever the
value; quotients, logical shifts and zero extension take an unknown value for the integer that its affine
form states, so a wrap-around in computing it is not seen. Where an atom is known to be negative, unsigned
operations fall back to an atom of their own instead.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxaudit.ir.affine import (
    Affine,
    Atom,
    Value,
    bounds_of,
    fits,
    granule_of,
    identical,
    is_natural,
    may_be_negative,
    narrow,
    sum_of,
)
from ptxaudit.ir.lanes import collapse, signed, signed_lanes, wrap
from ptxaudit.ir.values import Domain

_LONGEST_NAME = 32
_MOST_PRODUCT_TERMS = 16


def _name(operation: str, value: Affine, number: int) -> str:
    text = f"({value!r}){operation}{number}"
    return text if len(text) <= _LONGEST_NAME else f"(..){operation}{number}"


def _split(value: Affine, divisor: int) -> tuple[dict[Atom, int], Any, dict[Atom, int], Any]:
    """Quotient and remainder of every coefficient and of the offset."""
    quotient: dict[Atom, int] = {}
    rest: dict[Atom, int] = {}
    for atom, factor in value.terms:
        whole, part = divmod(factor, divisor)
        if whole:
            quotient[atom] = whole
        if part:
            rest[atom] = part
    offset: Any = value.offset
    return quotient, offset // divisor, rest, offset % divisor


def floor_divide(domain: Domain, value: Affine, divisor: int, bits: int, logical: bool) -> Value:
    """``value // divisor`` rounded down; ``logical`` when the value is to be read as unsigned."""
    if divisor >= 1 << 62 or (logical and not is_natural(value)):
        greatest = ((1 << bits) - 1) // divisor if logical else None
        least = 0 if logical else None
        whole = ("quotient", logical, bits, divisor, domain.key(value))
        found = domain.atom(whole, _name("/", value, divisor), value.varying, least, greatest)
        mask = (1 << bits) - 1 if logical else -1
        domain.definitions[found.terms[0][0]] = (lambda number: (number & mask) // divisor, value)
        return found
    quotient, offset, rest, part = _split(value, divisor)
    if not rest:
        return sum_of(quotient, offset, bits)
    remainder = sum_of(rest, part, bits)
    low, high = bounds_of(remainder)
    certain = low is not None and (low >= 0 or not logical)
    if certain and low is not None and high is not None and low // divisor == high // divisor:
        return sum_of(quotient, offset + low // divisor, bits)
    if not isinstance(remainder, Affine):
        return domain.opaque(f"div.{divisor}", value)
    least = low // divisor if certain and low is not None else None
    most = high // divisor if certain and high is not None else None
    if logical and not quotient and least is None:
        least, most = 0, ((1 << bits) - 1) // divisor
    key = ("quotient", logical and not (low is not None and low >= 0), divisor, domain.key(remainder))
    atom = domain.atom(key, _name("/", remainder, divisor), remainder.varying, least, most).terms[0][0]
    domain.definitions[atom] = (lambda number: number // divisor, remainder)
    quotient[atom] = quotient.get(atom, 0) + 1
    return sum_of(quotient, offset, bits)


def remainder_of(domain: Domain, value: Affine, divisor: int) -> Value:
    """``value`` modulo ``divisor``, from zero up; exact for powers of two whatever wrapped."""
    if divisor == 1:
        return 0
    _, _, rest, part = _split(value, divisor)
    remainder = sum_of(rest, part, 64)
    if not isinstance(remainder, Affine):
        return remainder
    low, high = bounds_of(remainder)
    if low is not None and high is not None and low >= 0 and high < divisor:
        return remainder
    key = ("remainder", divisor, domain.key(remainder))
    found = domain.atom(key, _name("%", remainder, divisor), remainder.varying, 0, divisor - 1)
    domain.definitions[found.terms[0][0]] = (lambda number: number % divisor, remainder)
    return found


def truncate(domain: Domain, value: Value, bits: int) -> Value:
    """The low ``bits`` of a wider value."""
    if isinstance(value, int):
        return value & ((1 << bits) - 1)
    if not isinstance(value, Affine):
        return collapse(wrap(value, bits))
    if bits >= 64 or fits(value, bits):
        return value
    if bits < 32:
        return remainder_of(domain, value, 1 << bits)
    totals: dict[Atom, int] = {}
    for atom, factor in value.terms:
        kept = signed(factor & ((1 << bits) - 1), bits)
        part = Affine(((atom, 1),), 0)
        if kept and not fits(part, bits):
            part = domain.atom(("low", bits, atom.identity), f"low({atom.name})", atom.varying)
            narrow(part)
        totals[part.terms[0][0]] = kept
    offset: Any = value.offset
    if isinstance(offset, int):
        return sum_of(totals, signed(offset & ((1 << bits) - 1), bits), bits)
    return sum_of(totals, signed_lanes(offset.view(np.uint64), bits), bits)


def extend(domain: Domain, value: Value, bits: int, wide: int, is_signed: bool) -> Value:
    """A ``bits``-wide value in a ``wide`` register, extended by its sign or by zeros."""
    if isinstance(value, int):
        number = value & ((1 << bits) - 1)
        return signed(number, bits) & ((1 << wide) - 1) if is_signed else number
    if not isinstance(value, Affine):
        if is_signed:
            return wrap(signed_lanes(value, bits).view(np.uint64), wide)
        return value
    if bits < 32:
        return _extend_narrow(domain, value, bits, is_signed)
    narrow(value)
    if not is_signed and may_be_negative(value):
        key = ("zero extension", bits, domain.key(value))
        return domain.atom(key, f"u{bits}({value!r})", value.varying, 0, (1 << bits) - 1)
    return value


def _extend_narrow(domain: Domain, value: Affine, bits: int, is_signed: bool) -> Value:
    """Extension from a width that values of 32 bits often exceed, so a wrap-around has to be seen."""
    low, high = bounds_of(value)
    half = 1 << (bits - 1)
    if not is_signed:
        return remainder_of(domain, value, 1 << bits)
    if low is not None and high is not None and low >= -half and high < half:
        return value
    field = remainder_of(domain, value, 1 << bits)
    if not isinstance(field, Affine):
        return field if isinstance(field, int) and field < half else domain.opaque(f"s{bits}", field)
    key = ("sign extension", bits, domain.key(field))
    return domain.atom(key, f"s{bits}({field!r})"[:_LONGEST_NAME], value.varying, -half, half - 1)


def within(domain: Domain, value: Value, bits: int) -> Value:
    """A result of arithmetic in a register narrower than 32 bits, with its wrap-around."""
    if bits >= 32 or not isinstance(value, Affine) or fits(value, bits):
        return value
    return remainder_of(domain, value, 1 << bits)


def multiply(domain: Domain, first: Value, second: Value, bits: int) -> Value:
    """Low ``bits`` of the product; products of sums are multiplied out, so that they compare."""
    if not (isinstance(first, Affine) and isinstance(second, Affine)):
        return domain.multiply(first, second, bits)
    plain = isinstance(first.offset, int) and isinstance(second.offset, int)
    if not plain or len(first.terms) * len(second.terms) > _MOST_PRODUCT_TERMS:
        return domain.opaque("mul", first, second)
    totals: dict[Atom, int] = {}
    for atom, factor in first.terms:
        for other, weight in second.terms:
            product = _product(domain, atom, other)
            totals[product] = totals.get(product, 0) + factor * weight
    for value, scale in ((first, second.offset), (second, first.offset)):
        for atom, factor in value.terms:
            totals[atom] = totals.get(atom, 0) + factor * int(scale)
    return sum_of(totals, int(first.offset) * int(second.offset), bits)


def _product(domain: Domain, first: Atom, second: Atom) -> Atom:
    left, right = sorted((first, second), key=lambda atom: atom.identity)
    low: int | None = None
    high: int | None = None
    if left.low is not None and right.low is not None and left.low >= 0 and right.low >= 0:
        low = left.low * right.low
        high = None if left.high is None or right.high is None else left.high * right.high
    key = ("product", left.identity, right.identity)
    return domain.atom(key, f"{left}*{right}", left.varying or right.varying, low, high).terms[0][0]


def shift_right(domain: Domain, value: Value, amount: Value, bits: int, arithmetic: bool) -> Value:
    """``value >> amount``; ``arithmetic`` shifts in the sign, amounts from ``bits`` up leave only that."""
    if not isinstance(value, Affine) or not isinstance(amount, int):
        return domain.shift_right(value, amount, bits, arithmetic)
    if amount == 0:
        return value
    if amount >= bits:
        if not arithmetic:
            return 0
        amount = bits - 1
    chosen = _over_choice(
        domain, value, amount, lambda n, m: domain.shift_right(n & ((1 << bits) - 1), m, bits, arithmetic)
    )
    if chosen is not None:
        return chosen
    aligned = alignment_of(value).bit_length() - 1
    if bits // 2 <= aligned < bits:
        # Shifted left before: only the bits that were not shifted out come back.
        kept = bits - aligned
        field = floor_divide(domain, value, 1 << aligned, bits, logical=False)
        field = extend(domain, truncate(domain, field, kept), kept, bits, arithmetic)
        if amount <= aligned:
            return domain.shift_left(field, aligned - amount, bits)
        return shift_right(domain, field, amount - aligned, bits, arithmetic)
    return floor_divide(domain, value, 1 << amount, bits, logical=not arithmetic)


def alignment_of(value: Value) -> int:
    """The greatest power of two that divides the value in every lane (2**62 for zero)."""
    if isinstance(value, int):
        return value & -value or 1 << 62
    offset: int | NDArray[np.int64]
    if not isinstance(value, Affine):
        combined = int(np.bitwise_or.reduce(value))
        return combined & -combined or 1 << 62
    offset = value.offset
    known = offset if isinstance(offset, int) else int(np.bitwise_or.reduce(offset))
    return min(granule_of(value), known & -known or 1 << 62)


def bitwise(domain: Domain, operator: str, first: Value, second: Value, bits: int) -> Value:
    """``and``, ``or``, ``xor`` of ``bits``-wide values, exact where masks and alignments allow."""
    if not isinstance(first, Affine):
        if not isinstance(second, Affine):
            return domain.bitwise(operator, first, second, bits)
        first, second = second, first
    if identical(first, second):
        return 0 if operator == "xor" else first
    for one, other in ((first, second), (second, first)):
        low, high = bounds_of(other)
        if low is not None and high is not None and low >= 0 and high < alignment_of(one):
            return 0 if operator == "and" else domain.add(one, other, bits)
    if isinstance(second, int):
        return _with_number(domain, operator, first, second & ((1 << bits) - 1), bits)
    if isinstance(second, Affine) and second.terms[0][0].identity < first.terms[0][0].identity:
        first, second = second, first
    return domain.opaque(f"{operator}.b{bits}", first, second)


def _with_number(domain: Domain, operator: str, value: Affine, number: int, bits: int) -> Value:
    full = (1 << bits) - 1
    if number in (0, full):
        if operator == "and":
            return value if number else 0
        if operator == "or" or not number:
            return full if number else value
        return domain.subtract(full, value, bits)
    chosen = _over_choice(domain, value, number, lambda n, m: domain.bitwise(operator, n & full, m, bits))
    if chosen is not None:
        return chosen
    if operator == "and":
        return _masked(domain, value, number, bits)
    granule = granule_of(value)
    if number < granule:
        low = value.offset % granule
        return Affine(value.terms, value.offset - low + (low | number if operator == "or" else low ^ number))
    return domain.opaque(f"{operator}.b{bits}", value, number)


def _masked(domain: Domain, value: Affine, mask: int, bits: int) -> Value:
    """``value & mask``: for a run of ones, what the bits below its end hold less those below its start."""
    start = mask & -mask
    end = mask + start
    if end & (end - 1):
        hole = ((1 << bits) - 1) ^ mask
        if (hole + (hole & -hole)) & hole == 0:
            return domain.subtract(value, _masked(domain, value, hole, bits), bits)
        limits = (0, mask) if not mask >> (bits - 1) else (None, None)
        return domain.atom(("and", mask, domain.key(value)), _name("&", value, mask), value.varying, *limits)
    if end == 1 << bits:  # rounded down: the same number as by a shift there and back
        return domain.multiply(floor_divide(domain, value, start, bits, logical=False), start, bits)
    return domain.subtract(remainder_of(domain, value, end), remainder_of(domain, value, start), bits)


def _over_choice(
    domain: Domain, value: Affine, number: int, operation: Callable[[int, int], Value]
) -> Value | None:
    """The operation applied to both numbers that a condition picks from."""
    choice = domain.selected(value)
    if choice is None:
        return None
    condition, then, otherwise = choice
    return domain.select(condition, operation(then, number), operation(otherwise, number))
