"""Shifts, logic and bit fields of SASS: SHF, SHL, LOP3, PRMT, SGXT, BMSK, FLO, POPC, BREV.

``SHF`` shifts the pair ``c:a`` by ``b``: ``.L`` left, ``.R`` right; ``.HI`` gives the upper word of the
result, else it is the lower; the type says how wide the amount counts (clamped to 32 or 64, ``.W`` modulo)
and whether a right shift fills in the sign.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

from ptxaudit.ir import algebra
from ptxaudit.ir.affine import Affine, bounds_of
from ptxaudit.ir.lanes import signed
from ptxaudit.ir.values import Domain, Value
from ptxaudit.isa.evaluation import LaneState, Result, per_lane
from ptxaudit.isa.ptx import bitfields
from ptxaudit.isa.sass.evaluate_arithmetic import funnel_high
from ptxaudit.isa.sass.evaluate_base import WORD, Compiler, Form, Plan, Unmodelled, only, simplified

_PERMUTE_MODES = {"F4E", "B4E", "RC8", "ECL", "ECR", "RC16"}


def funnel(low: int, high: int, amount: int, form: "tuple[bool, bool, bool, int, bool]") -> int:
    """SHF on numbers; ``form`` is (left, upper, signed, bits of the type, wrap)."""
    left, upper, is_signed, bits, wrap = form
    amount = amount & (bits - 1) if wrap else min(amount, bits)
    pair = high << 32 | low
    number = signed(pair, 64) if is_signed else pair
    moved = pair << amount if left else number >> amount
    return moved >> 32 & WORD if upper else moved & WORD


def _compile_funnel(form: Form) -> Plan:
    form.allow("L", "R", "W", "HI", "U32", "S32", "U64", "S64")
    form.expect(3)
    _, words = form.results()
    if form.has("L") == form.has("R"):
        raise Unmodelled
    left, upper, wrap = form.has("L"), form.has("HI"), form.has("W")
    is_signed, bits = form.has("S32", "S64"), 64 if form.has("U64", "S64") else 32
    shape = (left, upper, is_signed, bits, wrap)
    low, amount, high = form.word(0), form.word(1), form.word(2)

    def function(below: int, count: int, above: int) -> int:
        return funnel(below, above, count, shape)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        below, count, above = (word.get(domain, values) for word in (low, amount, high))
        if (isinstance(below, Affine) or isinstance(above, Affine)) and type(count) is int:
            shift = count & (bits - 1) if wrap else min(count, bits)
            result = _unknown_funnel(domain, below, above, shift, shape)
            if result is not None:
                return (result,)
        return (per_lane(domain, form.opcode, function, below, count, above),)

    return Plan((only(words),), compute)


def _unknown_funnel(
    domain: Domain, low: Value, high: Value, shift: int, form: "tuple[bool, bool, bool, int, bool]"
) -> Value | None:
    left, upper, is_signed, _, _ = form
    if shift >= 32:
        if left:
            return simplified(domain.shift_left(low, shift - 32, 32)) if upper else 0
        if not upper:
            return algebra.shift_right(domain, high, shift - 32, 32, is_signed)
        return algebra.shift_right(domain, high, 31, 32, True) if is_signed else 0
    if left and upper:
        return funnel_high(domain, low, high, shift)
    if left:
        return simplified(domain.shift_left(low, shift, 32))
    if upper:
        return algebra.shift_right(domain, high, shift, 32, is_signed)
    if shift == 0:
        return low
    below = algebra.shift_right(domain, low, shift, 32, False)
    above = simplified(domain.shift_left(high, 32 - shift, 32))
    return below if type(above) is int and above == 0 else simplified(domain.add(above, below, 32))


def _compile_shift(form: Form) -> Plan:
    """SHL and SHR: amounts clamp at 32, with ``.W`` they count modulo 32."""
    form.allow("W", "U32", "S32")
    form.expect(2)
    _, words = form.results()
    left, wrap, arithmetic = form.root == "SHL", form.has("W"), not form.has("U32")
    source, amount = form.word(0), form.word(1)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        value, count = source.get(domain, values), amount.get(domain, values)
        if wrap:
            count = algebra.bitwise(domain, "and", count, 31, 32)
        if left:
            return (simplified(domain.shift_left(value, count, 32)),)
        return (algebra.shift_right(domain, value, count, 32, arithmetic),)

    return Plan((only(words),), compute)


@lru_cache(maxsize=256)
def _steps(table: int) -> tuple[tuple[int, str, int], ...]:
    return bitfields.logic_steps(table)


def logic(domain: Domain, table: int, inputs: Sequence[Value]) -> Value:
    """The bitwise function of three words with this truth table."""
    unknown = [index for index, value in enumerate(inputs) if isinstance(value, Affine)]
    if len(unknown) == 1 and all(type(v) is int for i, v in enumerate(inputs) if i != unknown[0]):
        return _logic_of_one(domain, table, inputs, unknown[0])
    if not unknown and all(type(value) is int for value in inputs):
        return _table_of_numbers(table, *inputs)  # type: ignore[arg-type]
    nodes: list[Value] = [*inputs, 0, WORD]
    for left, operator, right in _steps(table):
        nodes.append(algebra.bitwise(domain, operator, nodes[left], nodes[right], 32))
    return nodes[-1]


def _table_of_numbers(table: int, first: int, second: int, third: int) -> int:
    result = 0
    for index in range(8):
        if table >> index & 1:
            a = first if index & 4 else ~first
            b = second if index & 2 else ~second
            c = third if index & 1 else ~third
            result |= a & b & c
    return result & WORD


def _logic_of_one(domain: Domain, table: int, inputs: Sequence[Value], place: int) -> Value:
    """With two words known, each bit is the unknown one's, its complement, or known."""
    low, high = list(inputs), list(inputs)
    low[place], high[place] = 0, WORD
    at_zero = _table_of_numbers(table, *low)  # type: ignore[arg-type]
    at_one = _table_of_numbers(table, *high)  # type: ignore[arg-type]
    ones, flipped = at_zero & at_one, at_zero & ~at_one
    value = algebra.bitwise(domain, "and", inputs[place], (at_zero ^ at_one) & WORD, 32)
    if flipped:
        value = algebra.bitwise(domain, "xor", value, flipped, 32)
    return algebra.bitwise(domain, "or", value, ones, 32) if ones else value


def _compile_logic(form: Form) -> Plan:
    """LOP3: the predicate destination tells whether the result is not zero, or the predicate source holds."""
    form.allow("LUT", "PAND")
    form.expect(4, 5)
    flags, words = form.results()
    inputs = [form.word(position) for position in range(3)]
    table = form.number(3) & 0xFF
    also = form.flag(4) if len(form.operands) == 5 else None
    wanted = [flag for flag in flags if flag is not None]
    operator = "and" if form.has("PAND") else "or"
    if len(wanted) > 1:
        raise Unmodelled

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        result = logic(domain, table, [word.get(domain, values) for word in inputs])
        if not wanted:
            return (result,)
        truth = domain.compare("ne", result, 0, 32, False)
        if also is not None:
            truth = domain.combine(operator, truth, also.get(domain, values))
        return result, truth

    return Plan((only(words), *wanted), compute)


def _compile_permute(form: Form) -> Plan:
    mode = form.modifiers[0] if form.modifiers else ""
    if len(form.modifiers) > 1 or (mode and mode not in _PERMUTE_MODES):
        raise Unmodelled
    form.expect(3)
    _, words = form.results()
    first, control, second = form.word(0), form.word(1), form.word(2)
    lower = mode.lower()

    def function(low: int, picks: int, high: int) -> int:
        return bitfields.permute(low, high, picks, lower)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        low, picks, high = (word.get(domain, values) for word in (first, control, second))
        if not mode and type(picks) is int and (isinstance(low, Affine) or isinstance(high, Affine)):
            for value, other, base in ((low, high, 0), (high, low, 4)):
                mask = _kept_bytes(picks & 0xFFFF, base, type(other) is int and other == 0)
                if mask is not None:
                    return (algebra.bitwise(domain, "and", value, mask, 32),)
        return (per_lane(domain, form.opcode, function, low, picks, high),)

    return Plan((only(words),), compute)


def _kept_bytes(picks: int, base: int, other_is_zero: bool) -> int | None:
    """The mask that a permutation amounts to, when every byte stays in its place or is zero."""
    mask = 0
    for place in range(4):
        pick = picks >> (4 * place) & 0xF
        if pick == base + place:
            mask |= 0xFF << (8 * place)
        elif pick & 8 or not other_is_zero or pick & 4 == base:
            return None
    return mask


def _compile_extension(form: Form) -> Plan:
    """SGXT: the low bits of a word extended by the field's sign, with ``.U32`` by zeros."""
    form.allow("U32", "S32", "W")
    form.expect(2)
    _, words = form.results()
    source, width = form.word(0), form.word(1)
    is_signed, wrap = not form.has("U32"), form.has("W")

    def function(value: int, bits: int) -> int:
        return bitfields.extend_from(value, bits, is_signed, wrap)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        value, bits = source.get(domain, values), width.get(domain, values)
        if isinstance(value, Affine) and type(bits) is int:
            bits = bits & 31 if wrap else min(bits, 32)
            if bits == 32:
                return (value,)
            if not is_signed:
                return (algebra.bitwise(domain, "and", value, (1 << bits) - 1, 32),)
            low, high = bounds_of(value)
            if bits and low is not None and high is not None and low >= 0 and not high >> (bits - 1):
                return (value,)
        return (per_lane(domain, form.opcode, function, value, bits),)

    return Plan((only(words),), compute)


def _compile_mask(form: Form) -> Plan:
    form.allow("W", "C")
    wrap = form.has("W")
    return _per_lane_plan(form, 2, lambda start, length: bitfields.bit_mask(start, length, wrap))


def _compile_find(form: Form) -> Plan:
    form.allow("U32", "S32", "SH")
    is_signed, as_amount = not form.has("U32"), form.has("SH")
    return _per_lane_plan(form, 1, lambda value: bitfields.find_leading(value, 32, is_signed, as_amount))


def _compile_count(form: Form) -> Plan:
    form.allow()
    return _per_lane_plan(form, 1, int.bit_count)


def _compile_reverse(form: Form) -> Plan:
    form.allow()
    return _per_lane_plan(form, 1, lambda value: int(f"{value:032b}"[::-1], 2))


def _per_lane_plan(form: Form, count: int, function: Callable[..., int]) -> Plan:
    form.expect(count)
    flags, words = form.results()
    if any(flags):
        raise Unmodelled
    inputs = [form.word(position) for position in range(count)]

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        return (per_lane(domain, form.opcode, function, *(word.get(domain, values) for word in inputs)),)

    return Plan((only(words),), compute)


COMPILERS: dict[str, Compiler] = {
    "SHF": _compile_funnel,
    "SHL": _compile_shift,
    "SHR": _compile_shift,
    "LOP3": _compile_logic,
    "PRMT": _compile_permute,
    "SGXT": _compile_extension,
    "BMSK": _compile_mask,
    "FLO": _compile_find,
    "POPC": _compile_count,
    "BREV": _compile_reverse,
}
