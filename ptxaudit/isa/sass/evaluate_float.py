"""The floating point of integer division in SASS: I2F, MUFU.RCP, FMUL and F2I.

ptxas divides integers, and finds the CTA's index in its cluster, by single-precision reciprocals and then
corrects the quotient. Known numbers are their bit patterns. The product of an unknown integer and a known
reciprocal remembers both, so that its truncation is the integer quotient: the code that follows finds
nothing to correct then, and the result is what the hardware gets. Everything else is an atom.
"""

import math
import struct
from collections.abc import Callable, Sequence

import numpy as np

from ptxaudit.ir import algebra
from ptxaudit.ir.affine import Affine, is_natural
from ptxaudit.ir.lanes import signed
from ptxaudit.ir.values import Domain, Value
from ptxaudit.isa.evaluation import LaneState, Result, per_lane
from ptxaudit.isa.sass.evaluate_base import WORD, Compiler, Form, Plan, Unmodelled, Word, only

_INFINITY = 0x7F800000
_MODES = ("RZ", "RP", "RM")
_CLOSE = 2.0**-20


def _number(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def rounded_bits(value: float, mode: str = "") -> int:
    """The single-precision number for a double, to nearest or, by mode, to zero (RZ), up (RP), down (RM)."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.float32(value)
    nearest = float(found)
    limit = {"RZ": 0.0, "RP": math.inf, "RM": -math.inf}.get(mode)
    if limit is not None and math.isfinite(value) and nearest != value:
        beyond = abs(nearest) > abs(value) if mode == "RZ" else (nearest < value) == (mode == "RP")
        if beyond:
            found = np.nextafter(found, np.float32(limit))
    return int(struct.unpack("<I", struct.pack("<f", float(found)))[0])


def _mode(form: Form) -> str:
    return next((part for part in form.modifiers if part in _MODES), "")


def _plain(form: Form, position: int) -> Word:
    """A source without modifiers, which mean something else for floating point."""
    word = form.word(position)
    if word.negated or word.absolute or word.inverted or word.part is not None:
        raise Unmodelled
    return word


def _compile_from_integer(form: Form) -> Plan:
    form.allow("F32", "U32", "S32", *_MODES)
    form.expect(1)
    _, words = form.results()
    source, mode, is_signed = _plain(form, 0), _mode(form), not form.has("U32")

    def convert(value: int) -> int:
        return rounded_bits(float(signed(value, 32) if is_signed else value), mode)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        value = source.get(domain, values)
        result = per_lane(domain, form.opcode, convert, value)
        if isinstance(result, Affine):
            domain.memory["float of", domain.key(result)] = (value,)
        return (result,)

    return Plan((only(words),), compute)


def _reciprocal(bits: int) -> int:
    value = _number(bits)
    if value == 0:
        return _INFINITY
    return rounded_bits(1 / value)


def _compile_reciprocal(form: Form) -> Plan:
    if form.modifiers != ("RCP",):
        raise Unmodelled
    return _lanewise(form, 1, _reciprocal)


def _lanewise(form: Form, count: int, function: Callable[..., int]) -> Plan:
    form.expect(count)
    _, words = form.results()
    inputs = [_plain(form, position) for position in range(count)]

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        return (per_lane(domain, form.opcode, function, *(word.get(domain, values) for word in inputs)),)

    return Plan((only(words),), compute)


def _compile_product(form: Form) -> Plan:
    form.allow("FTZ", *_MODES)
    form.expect(2)
    _, words = form.results()
    first, second, mode = _plain(form, 0), _plain(form, 1), _mode(form)

    def multiply(left: int, right: int) -> int:
        return rounded_bits(_number(left) * _number(right), mode)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        left, right = first.get(domain, values), second.get(domain, values)
        result = per_lane(domain, form.opcode, multiply, left, right)
        for value, factor in ((left, right), (right, left)):
            dividend = domain.memory.get(("float of", domain.key(value)))
            divisor = _divisor(factor)
            if isinstance(result, Affine) and dividend is not None and divisor is not None:
                domain.memory["ratio", domain.key(result)] = (*dividend, divisor)
        return (result,)

    return Plan((only(words),), compute)


def _divisor(factor: Value) -> int | None:
    """The integer that a known number is the reciprocal of, as near as single precision tells."""
    if type(factor) is not int:
        return None
    value = _number(factor)
    if not math.isfinite(value) or not 2.0**-20 < value <= 1.001:
        return None
    divisor = round(1 / value)
    return divisor if abs(1 / value - divisor) <= divisor * _CLOSE else None


def _compile_to_integer(form: Form) -> Plan:
    form.allow("FTZ", "U32", "TRUNC", "NTZ")
    if not (form.has("TRUNC") and form.has("U32")):
        raise Unmodelled
    form.expect(1)
    _, words = form.results()
    source = _plain(form, 0)

    def truncate(bits: int) -> int:
        value = _number(bits)
        return 0 if math.isnan(value) else int(min(max(value, 0.0), float(WORD)))

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        value = source.get(domain, values)
        ratio = domain.memory.get(("ratio", domain.key(value)))
        if ratio is None:
            return (per_lane(domain, form.opcode, truncate, value),)
        dividend, divisor = ratio
        if not isinstance(dividend, Affine) or type(divisor) is not int or not is_natural(dividend):
            return (domain.opaque(form.opcode, value),)
        return (algebra.floor_divide(domain, dividend, divisor, 32, logical=True),)

    return Plan((only(words),), compute)


COMPILERS: dict[str, Compiler] = {
    "I2F": _compile_from_integer,
    "I2FP": _compile_from_integer,
    "MUFU": _compile_reciprocal,
    "FMUL": _compile_product,
    "F2I": _compile_to_integer,
}
