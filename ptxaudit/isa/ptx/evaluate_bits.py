"""Logic, shifts and bit fields (PTX ISA 9.7.1, 9.7.8, 9.7.9.7)."""

from collections.abc import Callable, Sequence
from functools import lru_cache

from ptxaudit.ir import algebra
from ptxaudit.ir.values import Affine, Domain, Value, collapse
from ptxaudit.isa.evaluation import Compute, LaneState, Result, as_numbers, per_lane
from ptxaudit.isa.ptx import bitfields
from ptxaudit.isa.ptx.evaluate_base import Compiler, Shape
from ptxaudit.isa.ptx.evaluate_compare import predicate_logic


def _compile_logic(shape: Shape) -> Compute | None:
    if shape.kind == "pred":
        return predicate_logic(shape)
    operator, bits = shape.name, shape.bits
    if not bits or bits > 64:
        return None
    direct: dict[str, Callable[[int, int], int]] = {
        "and": int.__and__,
        "or": int.__or__,
        "xor": int.__xor__,
    }
    function = direct[operator]

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        first, second = as_numbers(values)
        if type(first) is int and type(second) is int:
            return (function(first, second),)
        return (algebra.bitwise(domain, operator, first, second, bits),)

    return compute


def _compile_not(shape: Shape) -> Compute | None:
    if shape.kind == "pred":
        return predicate_logic(shape)
    bits = shape.bits
    if not bits or bits > 64:
        return None
    full = (1 << bits) - 1

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        value = as_numbers(values)[0]
        if type(value) is int:
            return (value ^ full,)
        return (algebra.bitwise(domain, "xor", value, full, bits),)

    return compute


def _compile_is_zero(shape: Shape) -> Compute | None:
    """``cnot``: one for zero, else zero."""
    bits = shape.bits
    if not bits or bits > 64:
        return None

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        return (domain.number_of(domain.compare("eq", as_numbers(values)[0], 0, bits, False)),)

    return compute


def _compile_shift_left(shape: Shape) -> Compute | None:
    bits = shape.bits
    if not bits or bits > 64:
        return None
    mask = (1 << bits) - 1

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        value, amount = as_numbers(values)
        if type(value) is int and type(amount) is int:
            return (value << amount & mask if amount < bits else 0,)
        shifted = domain.shift_left(value, amount, bits)
        if isinstance(shifted, Affine):
            return (algebra.within(domain, shifted, bits),)
        return (shifted if isinstance(shifted, int) else collapse(shifted),)

    return compute


def _compile_shift_right(shape: Shape) -> Compute | None:
    bits, arithmetic = shape.bits, shape.is_signed
    if not bits or bits > 64:
        return None

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        value, amount = as_numbers(values)
        if type(value) is int and type(amount) is int and not arithmetic:
            return (value >> amount,)
        return (algebra.shift_right(domain, value, amount, bits, arithmetic),)

    return compute


def _compile_extract(shape: Shape) -> Compute | None:
    bits, is_signed = shape.bits, shape.is_signed
    if bits not in (32, 64):
        return None

    def function(value: int, start: int, length: int) -> int:
        return bitfields.extract(value, start, length, bits, is_signed)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        value = as_numbers(values)[0]
        start, length = values[1], values[2]
        if isinstance(value, Affine) and type(start) is int and type(length) is int and not is_signed:
            moved = algebra.shift_right(domain, value, start & 0xFF, bits, False)
            kept = (1 << min(length & 0xFF, bits)) - 1
            return (algebra.bitwise(domain, "and", moved, kept, bits),)
        return (per_lane(domain, shape.opcode, function, *as_numbers(values)),)

    return compute


def _compile_insert(shape: Shape) -> Compute | None:
    bits = shape.bits
    if bits not in (32, 64):
        return None

    def function(field: int, base: int, start: int, length: int) -> int:
        return bitfields.insert(field, base, start, length, bits)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        field, base, start, length = as_numbers(values)
        unknown = isinstance(field, Affine) or isinstance(base, Affine)
        if unknown and type(start) is int and type(length) is int and start & 0xFF < bits:
            place, kept = start & 0xFF, (1 << min(length & 0xFF, bits)) - 1
            hole = ~(kept << place) & ((1 << bits) - 1)
            part = algebra.bitwise(domain, "and", field, kept, bits)
            around = algebra.bitwise(domain, "and", base, hole, bits)
            return (domain.add(around, domain.shift_left(part, place, bits), bits),)
        return (per_lane(domain, shape.opcode, function, *as_numbers(values)),)

    return compute


@lru_cache(maxsize=256)
def _steps(table: int) -> tuple[tuple[int, str, int], ...]:
    return bitfields.logic_steps(table)


def _compile_logic_table(shape: Shape) -> Compute | None:
    """``lop3``: any function of three bits, by its truth table."""
    if shape.bits != 32 or len(shape.destinations) != 1 or len(shape.sources) != 4:
        return None

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        *operands, table = as_numbers(values)
        if type(table) is not int:
            return (domain.opaque(shape.opcode, *values),)
        nodes: list[Value] = [*operands, 0, 0xFFFFFFFF]
        for left, operator, right in _steps(table & 0xFF):
            nodes.append(algebra.bitwise(domain, operator, nodes[left], nodes[right], 32))
        return (nodes[-1],) if _steps(table & 0xFF) else (0,)

    return compute


def _compile_funnel(shape: Shape) -> Compute | None:
    if shape.bits != 32:
        return None
    left, wrap = shape.has("l"), shape.has("wrap")

    def function(low: int, high: int, amount: int) -> int:
        return bitfields.funnel(low, high, amount, left, wrap)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        low, high, amount = as_numbers(values)
        if type(amount) is int:
            count = amount & 31 if wrap else min(amount, 32)
            if count in (0, 32):
                return (high if left == (count == 0) else low,)
            if not left and type(high) is int and high == 0:
                return (algebra.shift_right(domain, low, count, 32, False),)
            if left and type(low) is int and low == 0:
                return (domain.shift_left(high, count, 32),)
        return (per_lane(domain, shape.opcode, function, *as_numbers(values)),)

    return compute


def _compile_permute(shape: Shape) -> Compute | None:
    if shape.kind != "b32":
        return None
    mode = next((part for part in shape.modifiers if part != "b32"), "")

    def function(first: int, second: int, control: int) -> int:
        return bitfields.permute(first, second, control, mode)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        first, second, control = as_numbers(values)
        if not mode and type(control) is int and control & 0xFFFF in (0x3210, 0x7654):
            return (first if control & 0xFFFF == 0x3210 else second,)
        return (per_lane(domain, shape.opcode, function, *as_numbers(values)),)

    return compute


def _per_lane_compiler(build: Callable[[Shape], Callable[..., int] | None]) -> Compiler:
    def compiler(shape: Shape) -> Compute | None:
        function = build(shape)
        if function is None:
            return None

        def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
            return (per_lane(domain, shape.opcode, function, *as_numbers(values)),)

        return compute

    return compiler


def _find(shape: Shape) -> Callable[..., int] | None:
    bits, is_signed, amount = shape.bits, shape.is_signed, shape.has("shiftamt")
    if bits not in (32, 64):
        return None
    return lambda value: bitfields.find_leading(value, bits, is_signed, amount)


def _reverse(shape: Shape) -> Callable[..., int] | None:
    bits = shape.bits
    return (lambda value: int(f"{value:0{bits}b}"[::-1], 2)) if bits in (32, 64) else None


def _count_ones(shape: Shape) -> Callable[..., int] | None:
    return int.bit_count if shape.bits in (32, 64) else None


def _count_leading_zeros(shape: Shape) -> Callable[..., int] | None:
    bits = shape.bits
    return (lambda value: bits - value.bit_length()) if bits in (32, 64) else None


def _bit_mask(shape: Shape) -> Callable[..., int] | None:
    if shape.kind != "b32":
        return None
    wrap = shape.has("wrap")
    return lambda start, length: bitfields.bit_mask(start, length, wrap)


def _extension(shape: Shape) -> Callable[..., int] | None:
    if shape.bits != 32:
        return None
    is_signed, wrap = shape.is_signed, shape.has("wrap")
    return lambda value, position: bitfields.extend_from(value, position, is_signed, wrap)


COMPILERS: dict[str, Compiler] = {
    "and": _compile_logic,
    "or": _compile_logic,
    "xor": _compile_logic,
    "not": _compile_not,
    "cnot": _compile_is_zero,
    "shl": _compile_shift_left,
    "shr": _compile_shift_right,
    "bfe": _compile_extract,
    "bfi": _compile_insert,
    "lop3": _compile_logic_table,
    "shf": _compile_funnel,
    "prmt": _compile_permute,
    "bfind": _per_lane_compiler(_find),
    "brev": _per_lane_compiler(_reverse),
    "popc": _per_lane_compiler(_count_ones),
    "clz": _per_lane_compiler(_count_leading_zeros),
    "bmsk": _per_lane_compiler(_bit_mask),
    "szext": _per_lane_compiler(_extension),
}
