"""Integer arithmetic (PTX ISA 9.7.1): sums, products, quotients, extrema."""

from collections.abc import Callable, Sequence

from ptxaudit.ir import algebra
from ptxaudit.ir.affine import has_large_factor, is_natural, may_be_negative, sign_unknown
from ptxaudit.ir.values import Affine, Domain, Value, bounds_of, collapse, signed
from ptxaudit.isa.evaluation import Compute, LaneState, Result, as_numbers, per_lane
from ptxaudit.isa.ptx.evaluate_base import Compiler, Shape


def _compile_sum(shape: Shape) -> Compute | None:
    bits, is_sum = shape.bits, shape.name == "add"
    if not bits or bits > 64:
        return None
    if shape.has("sat"):
        return _compile_saturated(shape)
    mask = (1 << bits) - 1

    def add(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        first, second = as_numbers(values)
        if type(first) is int and type(second) is int:
            return ((first + second) & mask,)
        return (_finished(domain, domain.add(first, second, bits), bits),)

    def subtract(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        first, second = as_numbers(values)
        if type(first) is int and type(second) is int:
            return ((first - second) & mask,)
        return (_finished(domain, domain.subtract(first, second, bits), bits),)

    return add if is_sum else subtract


def _finished(domain: Domain, value: Value, bits: int) -> Value:
    if isinstance(value, Affine):
        return value if bits >= 32 else algebra.within(domain, value, bits)
    return value if isinstance(value, int) else collapse(value)


def _compile_saturated(shape: Shape) -> Compute:
    bits, is_sum = shape.bits, shape.name == "add"
    least, greatest = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def saturated(first: int, second: int) -> int:
        left, right = signed(first, bits), signed(second, bits)
        total = left + right if is_sum else left - right
        return min(max(total, least), greatest) & ((1 << bits) - 1)

    return _lanewise(shape.opcode, saturated)


def _lanewise(operation: str, function: Callable[..., int]) -> Compute:
    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        return (per_lane(domain, operation, function, *as_numbers(values)),)

    return compute


def _product(shape: Shape) -> Callable[[Domain, Value, Value], Value] | None:
    """The product that mul and mad form, by their mode."""
    bits, is_signed = shape.bits, shape.is_signed
    if not bits or bits > 64:
        return None
    mask = (1 << bits) - 1
    if shape.has("wide"):
        wide = 2 * bits
        wide_mask = (1 << wide) - 1

        def widened(domain: Domain, first: Value, second: Value) -> Value:
            if type(first) is int and type(second) is int:
                if is_signed:
                    return (signed(first, bits) * signed(second, bits)) & wide_mask
                return first * second
            left = algebra.extend(domain, first, bits, wide, is_signed)
            return _times(domain, left, algebra.extend(domain, second, bits, wide, is_signed), wide)

        return widened if wide <= 64 else None
    if shape.has("hi"):

        def high(first: int, second: int) -> int:
            if is_signed:
                first, second = signed(first, bits), signed(second, bits)
            return (first * second >> bits) & mask

        def upper(domain: Domain, first: Value, second: Value) -> Value:
            if any(type(value) is int and value == 0 for value in (first, second)):
                return 0
            return per_lane(domain, f"mul.hi.{shape.kind}", high, first, second)

        return upper

    def lower(domain: Domain, first: Value, second: Value) -> Value:
        if type(first) is int and type(second) is int:
            return (first * second) & mask
        return _times(domain, first, second, bits)

    return lower


def _times(domain: Domain, first: Value, second: Value, bits: int) -> Value:
    return _finished(domain, algebra.multiply(domain, first, second, bits), bits)


def _compile_multiply(shape: Shape) -> Compute | None:
    product = _product(shape)
    if product is None:
        return None

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        first, second = as_numbers(values)
        return (product(domain, first, second),)

    return compute


def _compile_multiply_add(shape: Shape) -> Compute | None:
    product = _product(shape)
    if product is None or shape.has("sat"):
        return None
    width = 2 * shape.bits if shape.has("wide") else shape.bits
    mask = (1 << width) - 1

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        first, second, addend = as_numbers(values)
        term = product(domain, first, second)
        if type(term) is int and type(addend) is int:
            return ((term + addend) & mask,)
        return (_finished(domain, domain.add(term, addend, width), width),)

    return compute


def _compile_24_bits(shape: Shape) -> Compute | None:
    """``mul24`` and ``mad24``: the low or the high 32 bits of a product of 24-bit numbers (48 bits)."""
    if shape.bits != 32 or shape.has("sat"):
        return None
    is_signed, shift = shape.is_signed, 16 if shape.has("hi") else 0

    def function(first: int, second: int, addend: int = 0) -> int:
        first, second = first & 0xFFFFFF, second & 0xFFFFFF
        if is_signed:
            first, second = signed(first, 24), signed(second, 24)
        return ((first * second >> shift) + addend) & 0xFFFFFFFF

    return _lanewise(shape.opcode, function)


def _compile_divide(shape: Shape) -> Compute | None:
    bits, is_signed, is_quotient = shape.bits, shape.is_signed, shape.name == "div"
    if not bits or bits > 64:
        return None
    mask = (1 << bits) - 1

    def function(first: int, second: int) -> int:
        if is_signed:
            first, second = signed(first, bits), signed(second, bits)
        quotient = abs(first) // abs(second)
        if (first < 0) != (second < 0):
            quotient = -quotient
        return (quotient if is_quotient else first - quotient * second) & mask

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        first, second = as_numbers(values)
        if isinstance(first, Affine) and type(second) is int and second:
            return (_divide_unknown(domain, first, second, shape),)
        if isinstance(first, Affine) or isinstance(second, Affine) or _has_zero(second):
            return (domain.opaque(shape.opcode, first, second),)
        return (per_lane(domain, shape.opcode, function, first, second),)

    return compute


def _has_zero(value: Result) -> bool:
    return value == 0 if type(value) is int else bool((value == 0).any())  # type: ignore[union-attr]


def _divide_unknown(domain: Domain, value: Affine, divisor: int, shape: Shape) -> Value:
    bits, is_quotient = shape.bits, shape.name == "div"
    number = signed(divisor, bits) if shape.is_signed else divisor
    low, _ = bounds_of(value)
    certain = low is not None and low >= 0 and not sign_unknown(value, bits)
    if shape.is_signed:
        exact = all(factor % number == 0 for _, factor in value.terms) and (
            isinstance(value.offset, int) and value.offset % number == 0
        )
        usable = number > 0 and (certain or exact)
    else:
        usable = is_natural(value) and not may_be_negative(value)
    if not usable or has_large_factor(value, bits):
        return domain.opaque(shape.opcode, value, divisor)
    if is_quotient:
        return algebra.floor_divide(domain, value, number, bits, logical=not shape.is_signed)
    return algebra.remainder_of(domain, value, number)


def _compile_negate(shape: Shape) -> Compute | None:
    bits = shape.bits
    if not bits or bits > 64:
        return None

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        return (_finished(domain, domain.subtract(0, as_numbers(values)[0], bits), bits),)

    return compute


def _compile_absolute(shape: Shape) -> Compute | None:
    bits = shape.bits
    if not bits or bits > 64:
        return None

    def function(value: int) -> int:
        return abs(signed(value, bits)) & ((1 << bits) - 1)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        value = as_numbers(values)[0]
        if isinstance(value, Affine):
            sign = domain.compare("ge", value, 0, bits, True)
            if isinstance(sign, bool):
                return (value if sign else domain.subtract(0, value, bits),)
        return (per_lane(domain, shape.opcode, function, value),)

    return compute


def _compile_extremum(shape: Shape) -> Compute | None:
    bits, is_signed = shape.bits, shape.is_signed
    if not bits or bits > 64 or shape.has("relu"):
        return None
    relation = "le" if shape.name == "min" else "ge"

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        first, second = as_numbers(values[:2])
        chosen = domain.compare(relation, first, second, bits, is_signed)
        if isinstance(chosen, bool):
            return (first if chosen else second,)
        if isinstance(first, Affine) or isinstance(second, Affine):
            result = domain.opaque(shape.opcode, first, second)
            _bound_extremum(result, first, second, is_minimum=relation == "le")
            return (result,)
        return (domain.select(chosen, first, second),)

    return compute


def _bound_extremum(result: Affine, first: Value, second: Value, is_minimum: bool) -> None:
    """Note the range of an extremum where both operands have one."""
    (low_1, high_1), (low_2, high_2) = bounds_of(first), bounds_of(second)
    atom = result.terms[0][0]
    best = min if is_minimum else max
    limit = 1 << 31
    ranges = (low_1, low_2, high_1, high_2)
    if all(bound is not None and 0 <= bound < limit for bound in ranges):
        atom.low = best(low_1, low_2)  # type: ignore[type-var]
        atom.high = best(high_1, high_2)  # type: ignore[type-var]


def _compile_carry(shape: Shape) -> Compute | None:
    """``add.cc`` and ``sub.cc`` are plain sums; what reads the carry flag gives a new atom each time."""
    if shape.has("cc") and shape.name in ("add", "sub"):
        return _compile_sum(shape)
    operation = shape.opcode

    def compute(domain: Domain, _: LaneState, __: Sequence[Result]) -> Sequence[Result]:
        return (domain.atom((operation, object()), operation, True),)

    return compute


def _compile_add_or_carry(shape: Shape) -> Compute | None:
    return _compile_carry(shape) if shape.has("cc") else _compile_sum(shape)


def _compile_mad(shape: Shape) -> Compute | None:
    return None if shape.has("cc") else _compile_multiply_add(shape)


COMPILERS: dict[str, Compiler] = {
    "add": _compile_add_or_carry,
    "sub": _compile_add_or_carry,
    "addc": _compile_carry,
    "subc": _compile_carry,
    "madc": _compile_carry,
    "mul": _compile_multiply,
    "mad": _compile_mad,
    "mul24": _compile_24_bits,
    "mad24": _compile_24_bits,
    "div": _compile_divide,
    "rem": _compile_divide,
    "neg": _compile_negate,
    "abs": _compile_absolute,
    "min": _compile_extremum,
    "max": _compile_extremum,
}
