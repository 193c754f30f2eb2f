"""Bit-field operations on numbers as PTX defines them: extraction, insertion, permutation, truth tables."""

import itertools

# Source bytes of the result, the highest first, for selectors 0 to 3 (PTX ISA 9.7.9.7, prmt).
_PERMUTE_MODES: dict[str, tuple[str, str, str, str]] = {
    "f4e": ("3210", "4321", "5432", "6543"),
    "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"),
    "rc16": ("1010", "3232", "1010", "3232"),
}
_WORD = 0xFFFFFFFF


def extract(value: int, start: int, length: int, bits: int, is_signed: bool) -> int:
    """``bfe``: ``length`` bits from ``start`` on, filled up with the field's top bit if signed."""
    start, length = start & 0xFF, length & 0xFF
    kept = min(length, max(bits - start, 0))
    field = value >> start & ((1 << kept) - 1)
    top = value >> min(start + length - 1, bits - 1) & 1 if is_signed and length else 0
    if top and kept < bits:
        field |= ((1 << bits) - 1) ^ ((1 << kept) - 1)
    return field


def insert(field: int, base: int, start: int, length: int, bits: int) -> int:
    """``bfi``: the low ``length`` bits of ``field`` put into ``base`` at ``start``."""
    start, length = start & 0xFF, length & 0xFF
    kept = min(length, max(bits - start, 0))
    mask = ((1 << kept) - 1) << start
    return (base & ~mask) | (field << start & mask)


def find_leading(value: int, bits: int, is_signed: bool, as_amount: bool) -> int:
    """``bfind``: position of the highest bit that is no sign bit; all ones if there is none."""
    if is_signed and value >> (bits - 1) & 1:
        value ^= (1 << bits) - 1
    position = value.bit_length() - 1
    if position < 0:
        return _WORD
    return bits - 1 - position if as_amount else position


def bit_mask(start: int, length: int, wrap: bool) -> int:
    """``bmsk``: ``length`` ones from bit ``start`` on, clamped to the word or taken modulo 32."""
    if wrap:
        start, length = start & 31, length & 31
    elif start >= 32:
        return 0
    return ((1 << min(length, 32)) - 1) << start & _WORD


def extend_from(value: int, width: int, is_signed: bool, wrap: bool) -> int:
    """``szext``: the low ``width`` bits extended to a word."""
    if wrap:
        width &= 31
    if width >= 32:
        return value
    if width == 0:
        return 0
    field = value & ((1 << width) - 1)
    if is_signed and field >> (width - 1):
        field |= _WORD ^ ((1 << width) - 1)
    return field


def funnel(low: int, high: int, amount: int, left: bool, wrap: bool) -> int:
    """``shf``: the upper word of a 64-bit value shifted left, or its lower word shifted right."""
    amount = amount & 31 if wrap else min(amount, 32)
    pair = high << 32 | low
    return pair << amount >> 32 & _WORD if left else pair >> amount & _WORD


def permute(first: int, second: int, control: int, mode: str) -> int:
    """``prmt``: four bytes picked from the eight of ``second`` and ``first``."""
    pool = second << 32 | first
    if mode:
        picks = [int(digit) for digit in reversed(_PERMUTE_MODES[mode][control & 3])]
    else:
        picks = [control >> (4 * index) & 0xF for index in range(4)]
    result = 0
    for index, pick in enumerate(picks):
        byte = pool >> (8 * (pick & 7)) & 0xFF
        if pick & 8:
            byte = 0xFF if byte & 0x80 else 0
        result |= byte << (8 * index)
    return result


Step = tuple[int, str, int]


def logic_steps(table: int) -> tuple[Step, ...]:
    """A shortest chain of and, or and xor that computes the three-input truth table of ``lop3``.

    Nodes 0 to 2 are the inputs, 3 is zero, 4 all ones; each step appends the node that it computes from
    two earlier ones. A table that is a node itself gives one step that repeats it.
    """
    steps: list[Step] = []
    places = dict(zip(_LEAVES, range(len(_LEAVES)), strict=True))

    def place(wanted: int) -> int:
        if wanted not in places:
            left, operator, right = _PLANS[wanted]
            steps.append((place(left), operator, place(right)))
            places[wanted] = len(_LEAVES) + len(steps) - 1
        return places[wanted]

    root = place(table)
    return tuple(steps) or ((root, "or", 3),)


_LEAVES = (0xF0, 0xCC, 0xAA, 0x00, 0xFF)


def _plan() -> dict[int, Step]:
    """How each of the 256 truth tables is made of two cheaper ones."""
    plans: dict[int, Step] = {}
    levels: list[list[int]] = [list(_LEAVES)]
    seen = set(_LEAVES)
    while len(seen) < 256:
        level: list[int] = []
        cost = len(levels)
        for lower in range((cost + 1) // 2):
            for left, right in itertools.product(levels[lower], levels[cost - 1 - lower]):
                made = (("and", left & right), ("or", left | right), ("xor", left ^ right))
                for operator, result in made:
                    if result not in seen:
                        seen.add(result)
                        level.append(result)
                        plans[result] = (left, operator, right)
        levels.append(level)
    return plans


_PLANS = _plan()
