"""Data movement (PTX ISA 9.7.9): mov with packing, cvt between integers, cvta, isspacep, selp, slct."""

from collections.abc import Sequence

from ptxaudit.ir import algebra
from ptxaudit.ir.affine import Affine, bounds_of
from ptxaudit.ir.values import Domain, Truth, Value
from ptxaudit.isa.evaluation import SHARED_WINDOW, Compute, LaneState, Result, as_numbers, truth_of
from ptxaudit.isa.ptx.evaluate_base import Compiler, Shape, integer_width

# Shared addresses of the own CTA, and of any CTA of the cluster, lie this far into the window at most.
_CTA_WINDOW = 1 << 24


def _identity(_: Domain, __: LaneState, values: Sequence[Result]) -> Sequence[Result]:
    return values


def _move_predicate(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
    return (truth_of(domain, values[0]),)


def _compile_move(shape: Shape) -> Compute | None:
    if shape.kind == "pred":
        return _move_predicate
    count_in, count_out = len(shape.sources), len(shape.destinations)
    if count_in == count_out:
        return _identity
    width = integer_width(shape.kind) or 0
    if count_out == 1 and count_in > 1 and width and width % count_in == 0:
        return _compile_pack(width, count_in)
    if count_in == 1 and count_out > 1 and width and width % count_out == 0:
        return _compile_unpack(width, count_out)
    return None


def _compile_pack(width: int, count: int) -> Compute:
    part = width // count

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        elements = tuple(as_numbers(values))
        known = [element for element in elements if isinstance(element, int)]
        if len(known) == len(elements):
            return (sum(number << (part * index) for index, number in enumerate(known)),)
        whole = domain.memory.get(("whole", width, *(domain.key(value) for value in elements)))
        if whole is not None:
            return whole
        if width > 64:
            packed: Value = domain.opaque(f"pack.b{width}", *elements)
        else:
            packed = algebra.extend(domain, elements[0], part, width, False)
            for index, element in enumerate(elements[1:], start=1):
                upper = algebra.extend(domain, element, part, width, False)
                packed = domain.add(packed, domain.shift_left(upper, part * index, width), width)
        domain.memory[("parts", count, width, domain.key(packed))] = elements
        return (packed,)

    return compute


def _compile_unpack(width: int, count: int) -> Compute:
    part = width // count
    mask = (1 << part) - 1

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        whole = as_numbers(values)[0]
        if type(whole) is int:
            return [whole >> (part * index) & mask for index in range(count)]
        key = domain.key(whole)
        known = domain.memory.get(("parts", count, width, key))
        if known is not None:
            return known
        if width > 64:
            parts: list[Value] = [domain.opaque(f"part{index}.b{width}", whole) for index in range(count)]
        else:
            parts = []
            for index in range(count):
                shifted = algebra.shift_right(domain, whole, part * index, width, False)
                parts.append(algebra.truncate(domain, shifted, part))
        domain.memory["whole", width, *(domain.key(element) for element in parts)] = (whole,)
        return parts

    return compute


def _compile_convert(shape: Shape) -> Compute | None:
    types = shape.types
    if len(types) != 2 or shape.has("sat", "pack"):
        return None
    to_bits, from_bits = (integer_width(kind) for kind in types)
    if not to_bits or not from_bits or max(to_bits, from_bits) > 64:
        return None
    to_signed, from_signed = (kind.startswith("s") for kind in types)
    destination = shape.destinations[0]
    declared = shape.register_types.get(destination.name, "") if destination is not None else ""
    # A result narrower than its register is extended to the register's width (PTX ISA 9.7.9.21).
    register = max(integer_width(declared.removeprefix(".")) or 16, to_bits)
    kept = min(to_bits, from_bits)
    from_mask, mask = (1 << kept) - 1, (1 << register) - 1
    sign = 1 << (kept - 1)
    widens_signed = from_signed if to_bits > from_bits else to_signed

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        value = as_numbers(values)[0]
        if type(value) is int:
            number = value & from_mask
            return ((number ^ sign) - sign & mask,) if widens_signed else (number,)
        low = algebra.truncate(domain, value, kept)
        if not isinstance(low, Affine):
            return (algebra.extend(domain, low, kept, register, widens_signed),)
        if kept == register:
            return (low,)
        return (algebra.extend(domain, low, kept, register, widens_signed),)

    extended_twice = register > to_bits > from_bits and from_signed and not to_signed
    return None if extended_twice else compute


def _compile_address(shape: Shape) -> Compute:
    spaces = {part.split("::")[0] for part in shape.modifiers}
    if "shared" not in spaces or shape.bits != 64:
        return _identity
    to_space = shape.has("to")

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        value = as_numbers(values)[0]
        change = domain.subtract if to_space else domain.add
        return (change(value, SHARED_WINDOW, 64),)

    return compute


def _compile_is_space(shape: Shape) -> Compute | None:
    space = shape.modifiers[0] if shape.modifiers else ""
    operation = shape.opcode

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        value = as_numbers(values)[0]
        distance = domain.subtract(value, SHARED_WINDOW, 64)
        low, high = bounds_of(distance)
        answer: Truth | None = None
        if low is not None and high is not None and low >= 0 and high < _CTA_WINDOW:
            answer = space.startswith("shared")
        elif space == "shared::cluster" and low is not None and high is not None:
            answer = True if low >= 0 and high < SHARED_WINDOW else None
        return (domain.truth_of(domain.opaque(operation, value)) if answer is None else answer,)

    return compute


def _compile_select(_: Shape) -> Compute:
    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        then, otherwise = as_numbers(values[:2])
        truth = truth_of(domain, values[2])
        if isinstance(truth, bool):
            return (then if truth else otherwise,)
        return (domain.select(truth, then, otherwise),)

    return compute


def _compile_select_by_sign(shape: Shape) -> Compute | None:
    """``slct d, a, b, c``: a where c >= 0, else b."""
    if shape.kind != "s32":
        return None

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        then, otherwise, key = as_numbers(values)
        truth = domain.compare("ge", key, 0, 32, True)
        return (domain.select(truth, then, otherwise),)

    return compute


COMPILERS: dict[str, Compiler] = {
    "mov": _compile_move,
    "cvt": _compile_convert,
    "cvta": _compile_address,
    "isspacep": _compile_is_space,
    "selp": _compile_select,
    "slct": _compile_select_by_sign,
}
