"""Sums, products and extrema of SASS: IADD3, VIADD, IMAD, LEA, IABS, VIMNMX and their uniform forms.

``IADD3`` and ``LEA`` give carries out of bit 31, their ``.X`` forms take them in, so that 64-bit sums are
exact for known words. ``IMAD.WIDE`` adds a 64-bit pair to a 64-bit product, and ``IMAD.HI`` gives the upper
word of such a sum.
"""

from collections.abc import Sequence

import numpy as np

from ptxaudit.ir import algebra
from ptxaudit.ir.affine import Affine, bounds_of, is_natural
from ptxaudit.ir.lanes import as_lanes, collapse, signed, signed_lanes
from ptxaudit.ir.operands import Register
from ptxaudit.ir.values import Domain, Truth, Value
from ptxaudit.isa.evaluation import LaneState, Result
from ptxaudit.isa.sass.evaluate_base import (
    CARRY,
    WORD,
    Compiler,
    Flag,
    Form,
    Plan,
    Term,
    Unmodelled,
    Word,
    absolute,
    carries_of,
    only,
    pair_destinations,
    simplified,
    total_of,
)

_LONG = (1 << 64) - 1


def _terms(domain: Domain, words: Sequence[Word], values: Sequence[Result]) -> list[Term]:
    return [(word.raw(domain, values), word.negated) for word in words]


def _sum_plan(
    flags: Sequence[Register | None], word: Register | None, words: list[Word], carry_in: list[Flag]
) -> Plan:
    """A sum of words and carries, with as many carries out as there are predicate destinations."""
    wanted = [flag for flag in flags if flag is not None]
    live = [flag for flag in carry_in if not flag.is_false]
    count = len(wanted)
    if not count and not live:

        def plain(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
            return (total_of(domain, _terms(domain, words, values)),)

        return Plan((word,), plain)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        terms = _terms(domain, words, values)
        carries = [flag.get(domain, values) for flag in live]
        total = total_of(domain, terms, carries)
        if not count:
            return (total,)
        return (total, *carries_of(domain, terms, carries, count))

    return Plan((word, *wanted), compute)


def _compile_sum(form: Form) -> Plan:
    """IADD3 and IADD, with ``.X`` for carries in; ``.64`` for pairs."""
    form.allow("X", "64")
    flags, words = form.results()
    if form.has("64"):
        return _compile_long_sum(form)
    count = len(form.operands)
    carry_in: list[Flag] = []
    if form.has("X"):
        while count and form.is_flag(count - 1):
            count -= 1
            carry_in.insert(0, form.flag(count))
    if len(flags) > 2 or count not in (2, 3):
        raise Unmodelled
    return _sum_plan(flags, only(words), [form.word(i) for i in range(count)], carry_in)


def _compile_long_sum(form: Form) -> Plan:
    flags, words = form.results()
    if any(flags) or len(form.operands) not in (2, 3):
        raise Unmodelled
    pairs = [form.pair(position) for position in range(len(form.operands))]
    low, high = [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        below, above = _terms(domain, low, values), _terms(domain, high, values)
        carries = carries_of(domain, below, (), 2)
        return total_of(domain, below), total_of(domain, above, carries)

    return Plan(pair_destinations(only(words)), compute)


def _compile_multiply(form: Form) -> Plan:
    form.allow("MOV", "U32", "SHL", "IADD", "X", "HI", "WIDE", "S32")
    carry: Flag | None = None
    if form.has("X"):
        form.expect(4)
        carry = form.flag(3)
    else:
        form.expect(3)
    if form.has("WIDE"):
        return _compile_wide(form, carry)
    flags, words = form.results()
    if any(flags):
        raise Unmodelled
    destination, first, second = only(words), form.word(0), form.word(1)
    if form.has("HI"):
        return _compile_high(form, destination) if carry is None else _refuse()
    addend = form.word(2)
    live = [] if carry is None or carry.is_false else [carry]
    if first.is_zero or second.is_zero:
        return _sum_plan((), destination, [addend], live)
    if addend.is_zero and not live:

        def product_only(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
            return (_product(domain, first.get(domain, values), second.get(domain, values)),)

        return Plan((destination,), product_only)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        product = _product(domain, first.get(domain, values), second.get(domain, values))
        terms: list[Term] = [(product, False), (addend.raw(domain, values), addend.negated)]
        return (total_of(domain, terms, [flag.get(domain, values) for flag in live]),)

    return Plan((destination,), compute)


def _refuse() -> Plan:
    raise Unmodelled


def _product(domain: Domain, first: Value, second: Value) -> Value:
    if type(first) is int and type(second) is int:
        return first * second & WORD
    return simplified(algebra.multiply(domain, first, second, 32))


def _long_product(first: Value, second: Value, is_signed: bool) -> Value | None:
    """The 64-bit product of known words, modulo 2**64."""
    if type(first) is int and type(second) is int:
        if is_signed:
            return signed(first, 32) * signed(second, 32) & _LONG
        return first * second
    if isinstance(first, Affine) or isinstance(second, Affine):
        return None
    left, right = as_lanes(first), as_lanes(second)
    if is_signed:
        left, right = signed_lanes(left, 32).view(np.uint64), signed_lanes(right, 32).view(np.uint64)
    return left * right


def _joined(low: Value, high: Value) -> Value | None:
    """Two known words as one 64-bit number."""
    if type(low) is int and type(high) is int:
        return high << 32 | low
    if isinstance(low, Affine) or isinstance(high, Affine):
        return None
    return as_lanes(high) << np.uint64(32) | as_lanes(low)


def _split(value: Value) -> tuple[Value, Value]:
    if isinstance(value, int):
        return value & WORD, value >> 32 & WORD
    assert isinstance(value, np.ndarray)
    return collapse(value & np.uint64(WORD)), collapse(value >> np.uint64(32))


def _compile_wide(form: Form, carry: Flag | None) -> Plan:
    flags, words = form.results()
    wanted = [flag for flag in flags if flag is not None]
    if len(wanted) > 1:
        raise Unmodelled
    is_signed = not form.has("U32")
    first, second = form.word(0), form.word(1)
    low_word, high_word = form.pair(2)
    name = form.opcode

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        left, right = first.get(domain, values), second.get(domain, values)
        low, high = low_word.raw(domain, values), high_word.raw(domain, values)
        carried = False if carry is None else carry.get(domain, values)
        product = _long_product(left, right, is_signed)
        if product is not None:
            below, above = _split(product)
        else:
            below = _product(domain, left, right)
            above = _high_of_product(domain, name, left, right, is_signed)
        terms_low: list[Term] = [(below, False), (low, low_word.negated)]
        terms_high: list[Term] = [(above, False), (high, False)]
        (middle,) = carries_of(domain, terms_low, [carried], 1)
        results: list[Result] = [
            total_of(domain, terms_low, [carried]),
            total_of(domain, terms_high, [middle]),
        ]
        if wanted:
            results.extend(carries_of(domain, terms_high, [middle], 1))
        return results

    return Plan((*pair_destinations(only(words)), *wanted), compute)


def _range_of_product(domain: Domain, left: Value, right: Value, is_signed: bool) -> Value | None:
    """The product as one integer, when nothing suggests that a factor is negative."""
    if not (is_natural(left) and is_natural(right)):
        return None
    factors = []
    for value in (left, right):
        low, high = bounds_of(value)
        if is_signed and not isinstance(value, Affine) and high is not None and high >> 31:
            return None
        factors.append((low, high))
    return algebra.multiply(domain, left, right, 64)


def _high_of_product(domain: Domain, name: str, left: Value, right: Value, is_signed: bool) -> Value:
    whole = _range_of_product(domain, left, right, is_signed)
    if whole is not None:
        low, high = bounds_of(whole)
        if low is not None and high is not None and low >= 0 and high < CARRY:
            return 0
    return domain.opaque(f"{name} high", left, right)


def _compile_high(form: Form, destination: Register | None) -> Plan:
    """``IMAD.HI``: the addend is a pair, of which only the upper word is written as the result."""
    is_signed = not form.has("U32")
    first, second = form.word(0), form.word(1)
    low_word, high_word = form.pair(2)
    name = form.opcode

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        left, right = first.get(domain, values), second.get(domain, values)
        low, high = low_word.raw(domain, values), high_word.raw(domain, values)
        product = _long_product(left, right, is_signed)
        if product is None:
            whole = _range_of_product(domain, left, right, is_signed)
            if whole is not None and isinstance(whole, Affine) and low_word.is_zero:
                above = algebra.floor_divide(domain, whole, CARRY, 64, logical=not is_signed)
                return (total_of(domain, [(above, False), (high, False)]),)
            return (domain.opaque(name, left, right, low, high),)
        below, above = _split(product)
        (carry,) = carries_of(domain, [(below, False), (low, low_word.negated)], (), 1)
        return (total_of(domain, [(above, False), (high, False)], [carry]),)

    return Plan((destination,), compute)


def _compile_scaled_sum(form: Form) -> Plan:
    """LEA: ``(a << n) + b``; ``.HI`` takes the upper word of the shifted pair ``c:a``, ``.SX32`` a's sign."""
    form.allow("HI", "X", "SX32")
    flags, words = form.results()
    carry_in: list[Flag] = []
    count = len(form.operands)
    if form.has("X"):
        carry_in.append(form.flag(count - 1))
        count -= 1
    amount = form.number(count - 1) & 31
    upper, extends = form.has("HI"), form.has("SX32")
    if count != (4 if upper and not extends else 3) or len(flags) > 1:
        raise Unmodelled
    base, addend = form.word(0), form.word(1)
    above = form.word(2) if count == 4 else None
    wanted = [flag for flag in flags if flag is not None]

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        value = base.get(domain, values)
        if upper:
            if above is not None:
                high = above.get(domain, values)
            else:
                high = algebra.shift_right(domain, value, 31, 32, True)
            shifted = funnel_high(domain, value, high, amount)
        else:
            shifted = simplified(domain.shift_left(value, amount, 32))
        terms: list[Term] = [(shifted, False), (addend.raw(domain, values), addend.negated)]
        carries: list[Truth] = [flag.get(domain, values) for flag in carry_in]
        total = total_of(domain, terms, carries)
        return (total, *carries_of(domain, terms, carries, 1)) if wanted else (total,)

    return Plan((only(words), *wanted), compute)


def funnel_high(domain: Domain, low: Value, high: Value, amount: int) -> Value:
    """The upper word of the pair ``high:low`` shifted left by less than 32."""
    if amount == 0:
        return high
    below = algebra.shift_right(domain, low, 32 - amount, 32, False)
    moved = simplified(domain.shift_left(high, amount, 32))
    if type(moved) is int and moved == 0:
        return below
    return simplified(domain.add(moved, below, 32))


def _compile_absolute(form: Form) -> Plan:
    form.allow()
    form.expect(1)
    _, words = form.results()
    source = form.word(0)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        return (absolute(domain, source.get(domain, values)),)

    return Plan((only(words),), compute)


def _extremum(domain: Domain, first: Value, second: Value, least: Truth, is_signed: bool) -> Value:
    """The lesser of two words where ``least`` holds, else the greater."""
    smaller = domain.compare("le", first, second, 32, is_signed)
    if isinstance(smaller, bool) and isinstance(least, bool):
        return first if smaller == least else second
    known = not (isinstance(first, Affine) or isinstance(second, Affine))
    if isinstance(least, bool | np.ndarray) and (known or isinstance(smaller, bool | np.ndarray)):
        chosen = domain.negate(domain.combine("xor", smaller, least))
        return domain.select(chosen, first, second)
    result = domain.opaque(f"extremum.{'s' if is_signed else 'u'}32", first, second, least)
    if isinstance(least, bool):
        _note_range(result, first, second, least)
    return result


def _note_range(result: Affine, first: Value, second: Value, is_minimum: bool) -> None:
    """Note the range of an extremum where both operands have one that no sign bit is part of."""
    (low_1, high_1), (low_2, high_2) = bounds_of(first), bounds_of(second)
    if low_1 is None or low_2 is None or high_1 is None or high_2 is None:
        return
    if min(low_1, low_2) < 0 or max(high_1, high_2) >> 31:
        return
    best = min if is_minimum else max
    atom = result.terms[0][0]
    atom.low, atom.high = best(low_1, low_2), best(high_1, high_2)


def compile_extremum(form: Form) -> Plan:
    """IMNMX, VIMNMX and VIMNMX3: the least where the predicate holds, else the greatest."""
    form.allow("U32", "S32")
    form.expect(3, 4)
    flags, words = form.results()
    if any(flags):
        raise Unmodelled
    is_signed = not form.has("U32")
    count = len(form.operands) - 1
    inputs, least = [form.word(position) for position in range(count)], form.flag(count)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        minimum = least.get(domain, values)
        result = inputs[0].get(domain, values)
        for word in inputs[1:]:
            result = _extremum(domain, result, word.get(domain, values), minimum, is_signed)
        return (result,)

    return Plan((only(words),), compute)


def _compile_sum_extremum(form: Form) -> Plan:
    """VIADDMNMX: the lesser or the greater of ``a + b`` and ``c``."""
    form.allow("U32", "S32")
    form.expect(4)
    flags, words = form.results()
    if any(flags):
        raise Unmodelled
    is_signed = not form.has("U32")
    summands, other, least = [form.word(0), form.word(1)], form.word(2), form.flag(3)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        total = total_of(domain, _terms(domain, summands, values))
        return (_extremum(domain, total, other.get(domain, values), least.get(domain, values), is_signed),)

    return Plan((only(words),), compute)


COMPILERS: dict[str, Compiler] = {
    "IADD3": _compile_sum,
    "IADD": _compile_sum,
    "VIADD": _compile_sum,
    "IADD32I": _compile_sum,
    "IMAD": _compile_multiply,
    "LEA": _compile_scaled_sum,
    "IABS": _compile_absolute,
    "VIMNMX3": compile_extremum,
    "VIADDMNMX": _compile_sum_extremum,
}
