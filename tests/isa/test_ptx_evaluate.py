"""PTX integer operations against a direct reference: one number, a number per lane, a mixture."""

from collections.abc import Callable

import numpy as np
import pytest
from evaluation_support import (
    ALL,
    WORD,
    check_everywhere,
    evaluate,
    examples,
    instruction,
    numbers,
    r,
    signed,
    spread,
)
from hypothesis import strategies as st

from ptxaudit.ir.values import LANES, Domain
from ptxaudit.isa.ptx.evaluate import (
    compile_evaluation,
)


def quotient(a: int, b: int) -> int:
    size = abs(a) // abs(b)
    return -size if (a < 0) != (b < 0) else size


def binary_reference(name: str, bits: int, is_signed: bool) -> Callable[[int, int], int]:
    def view(n: int) -> int:
        return signed(n, bits) if is_signed else n

    table: dict[str, Callable[[int, int], int]] = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul.lo": lambda a, b: a * b,
        "mul.hi": lambda a, b: view(a) * view(b) >> bits,
        "min": lambda a, b: min(view(a), view(b)),
        "max": lambda a, b: max(view(a), view(b)),
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "shl": lambda a, b: a << b if b < bits else 0,
        "shr": lambda a, b: view(a) >> min(b, bits),
    }
    return lambda a, b: table[name](a, b) % (1 << bits)


WIDTHS = (16, 32, 64)
BINARY = [
    *(
        f"{name}.{kind}{bits}"
        for name in ("add", "sub", "min", "max")
        for kind in "us"
        for bits in (16, 32, 64)
    ),
    *(f"mul.{part}.{kind}{bits}" for part in ("lo", "hi") for kind in "us" for bits in (16, 32, 64)),
    *(f"{name}.b{bits}" for name in ("and", "or", "xor") for bits in (16, 32, 64)),
]
SHIFTS = [f"{name}{bits}" for name in ("shl.b", "shr.u", "shr.s", "shr.b") for bits in (16, 32, 64)]
SAMPLES = 4


@pytest.mark.parametrize("opcode", BINARY)
@examples(data=st.data())
def test_binary_operations(opcode: str, data: st.DataObject) -> None:
    name, kind = opcode.rsplit(".", 1)
    bits = int(kind[1:])
    rows = [(data.draw(numbers(bits)), data.draw(numbers(bits))) for _ in range(SAMPLES)]
    check_everywhere(opcode, binary_reference(name, bits, kind[0] == "s"), rows)


@pytest.mark.parametrize("opcode", SHIFTS)
@examples(data=st.data())
def test_shifts(opcode: str, data: st.DataObject) -> None:
    name, kind = opcode.rsplit(".", 1)
    bits = int(kind[1:])
    rows = [(data.draw(numbers(bits)), data.draw(numbers(32))) for _ in range(SAMPLES)]
    check_everywhere(opcode, binary_reference(name, bits, kind[0] == "s"), rows)


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
@examples(data=st.data())
def test_division(kind: str, data: st.DataObject) -> None:
    bits = int(kind[1:])
    divisors = numbers(bits).filter(bool)
    rows = [(data.draw(numbers(bits)), data.draw(divisors)) for _ in range(SAMPLES)]

    def view(n: int) -> int:
        return signed(n, bits) if kind[0] == "s" else n

    full = 1 << bits
    check_everywhere(f"div.{kind}", lambda a, b: quotient(view(a), view(b)) % full, rows)
    check_everywhere(
        f"rem.{kind}", lambda a, b: (view(a) - quotient(view(a), view(b)) * view(b)) % full, rows
    )


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32"])
@examples(data=st.data())
def test_widening_and_multiply_add(kind: str, data: st.DataObject) -> None:
    bits = int(kind[1:])
    wide = 1 << (2 * bits)

    def view(n: int) -> int:
        return signed(n, bits) if kind[0] == "s" else n

    row = [
        (data.draw(numbers(bits)), data.draw(numbers(bits)), data.draw(numbers(bits))) for _ in range(SAMPLES)
    ]
    check_everywhere(f"mul.wide.{kind}", lambda a, b: view(a) * view(b) % wide, [n[:2] for n in row])
    check_everywhere(f"mad.wide.{kind}", lambda a, b, c: (view(a) * view(b) + c) % wide, row)
    check_everywhere(f"mad.lo.{kind}", lambda a, b, c: (a * b + c) % (1 << bits), row)
    check_everywhere(f"mad.hi.{kind}", lambda a, b, c: ((view(a) * view(b) >> bits) + c) % (1 << bits), row)


TRIPLES = st.tuples(numbers(32), numbers(32), numbers(32))


def field(value: int, low: int, length: int) -> list[int]:
    return [value >> place & 1 for place in range(low, low + length)]


def number(bits: list[int]) -> int:
    return sum(bit << place for place, bit in enumerate(bits))


def reference_bfe(bits: int, is_signed: bool) -> Callable[[int, int, int], int]:
    def bfe(value: int, start: int, length: int) -> int:
        start, length = start & 0xFF, length & 0xFF
        fill = value >> min(start + length - 1, bits - 1) & 1 if is_signed and length else 0
        inside = [i < length and start + i < bits for i in range(bits)]
        return number([value >> (start + i) & 1 if inside[i] else fill for i in range(bits)])

    return bfe


def reference_bfi(bits: int) -> Callable[[int, int, int, int], int]:
    def bfi(part: int, base: int, start: int, length: int) -> int:
        result = field(base, 0, bits)
        for place in range(length & 0xFF):
            if (start & 0xFF) + place < bits:
                result[(start & 0xFF) + place] = part >> place & 1
        return number(result)

    return bfi


@pytest.mark.parametrize("bits", [32, 64])
@examples(data=st.data())
def test_bit_fields(bits: int, data: st.DataObject) -> None:
    small = st.one_of(st.integers(0, 70), st.integers(0, WORD))
    rows = [
        (data.draw(numbers(bits)), data.draw(numbers(bits)), data.draw(small), data.draw(small))
        for _ in range(SAMPLES)
    ]
    picks = [(row[0], row[2], row[3]) for row in rows]
    check_everywhere(f"bfe.u{bits}", reference_bfe(bits, False), picks)
    check_everywhere(f"bfe.s{bits}", reference_bfe(bits, True), picks)
    check_everywhere(f"bfi.b{bits}", reference_bfi(bits), rows)


@pytest.mark.parametrize("bits", [32, 64])
@examples(data=st.data())
def test_unary_operations(bits: int, data: st.DataObject) -> None:
    rows = [(data.draw(numbers(bits)),) for _ in range(SAMPLES)]
    full = (1 << bits) - 1

    def digits(n: int) -> str:
        return format(n, f"0{bits}b")

    def highest(n: int) -> int:
        return bits - 1 - digits(n).index("1") if n else WORD

    check_everywhere(f"not.b{bits}", lambda n: full - n, rows)
    check_everywhere(f"cnot.b{bits}", lambda n: int(n == 0), rows)
    check_everywhere(f"neg.s{bits}", lambda n: -n & full, rows)
    check_everywhere(f"abs.s{bits}", lambda n: abs(signed(n, bits)) & full, rows)
    check_everywhere(f"popc.b{bits}", lambda n: digits(n).count("1"), rows)
    check_everywhere(f"clz.b{bits}", lambda n: (digits(n) + "1").index("1"), rows)
    check_everywhere(f"brev.b{bits}", lambda n: number(field(n, 0, bits)[::-1]), rows)
    check_everywhere(f"bfind.u{bits}", highest, rows)
    check_everywhere(f"bfind.s{bits}", lambda n: highest(full - n if n >> (bits - 1) else n), rows)
    check_everywhere(f"bfind.shiftamt.u{bits}", lambda n: bits - 1 - highest(n) if n else WORD, rows)


@examples(
    st.lists(st.tuples(numbers(32), numbers(32), numbers(32)), min_size=1, max_size=4), st.integers(0, 255)
)
def test_three_input_logic(rows: list[tuple[int, int, int]], table: int) -> None:
    def lop3(a: int, b: int, c: int, lut: int) -> int:
        picks = zip(field(a, 0, 32), field(b, 0, 32), field(c, 0, 32), strict=True)
        return number([lut >> (x * 4 + y * 2 + z) & 1 for x, y, z in picks])

    for row in rows:
        assert evaluate("lop3.b32", *row, table) == [lop3(*row, table)]
    columns = [np.array([rows[i % len(rows)][k] for i in range(LANES)], dtype=np.uint64) for k in range(3)]
    wanted = [lop3(*rows[i % len(rows)], table) for i in range(LANES)]
    assert spread(evaluate("lop3.b32", *columns, table)[0]) == wanted


@examples(st.lists(st.tuples(numbers(32), numbers(32), numbers(32)), min_size=4, max_size=4))
def test_funnel_shifts_and_permutation(rows: list[tuple[int, int, int]]) -> None:
    def left(a: int, b: int, n: int) -> int:
        return (b << 32 | a) << n >> 32 & WORD

    def right(a: int, b: int, n: int) -> int:
        return (b << 32 | a) >> n & WORD

    check_everywhere("shf.l.wrap.b32", lambda a, b, c: left(a, b, c % 32), rows)
    check_everywhere("shf.l.clamp.b32", lambda a, b, c: left(a, b, min(c, 32)), rows)
    check_everywhere("shf.r.wrap.b32", lambda a, b, c: right(a, b, c % 32), rows)
    check_everywhere("shf.r.clamp.b32", lambda a, b, c: right(a, b, min(c, 32)), rows)

    def prmt(a: int, b: int, c: int) -> int:
        pool = a.to_bytes(4, "little") + b.to_bytes(4, "little")
        picked = []
        for place in range(4):
            nibble = c >> (4 * place) & 15
            byte = pool[nibble & 7]
            picked.append((255 if byte > 127 else 0) if nibble > 7 else byte)
        return int.from_bytes(bytes(picked), "little")

    check_everywhere("prmt.b32", prmt, rows)


@pytest.mark.parametrize(
    ("mode", "control", "wanted"),
    [
        ("f4e", 1, 0x04030201),
        ("b4e", 1, 0x06070001),
        ("rc8", 2, 0x02020202),
        ("ecl", 2, 0x03020202),
        ("ecr", 1, 0x01010100),
        ("rc16", 1, 0x03020302),
    ],
)
def test_permutation_modes(mode: str, control: int, wanted: int) -> None:
    assert evaluate(f"prmt.b32.{mode}", 0x03020100, 0x07060504, control) == [wanted]


RELATIONS = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
@examples(data=st.data())
def test_comparisons(kind: str, data: st.DataObject) -> None:
    bits = int(kind[1:])
    rows = [(data.draw(numbers(bits)), data.draw(numbers(bits))) for _ in range(SAMPLES)]
    view: Callable[[int], int] = (lambda n: signed(n, bits)) if kind[0] == "s" else int
    for name, relation in RELATIONS.items():
        check_everywhere(f"setp.{name}.{kind}", lambda a, b, f=relation: f(view(a), view(b)), rows)
        check_everywhere(f"set.{name}.u32.{kind}", lambda a, b, f=relation: f(view(a), view(b)) * WORD, rows)
    for name, plain in UNSIGNED_NAMES.items():
        check_everywhere(f"setp.{name}.u{bits}", RELATIONS[plain], rows)


@examples(numbers(32), numbers(32), st.booleans())
def test_comparison_with_predicate_logic(a: int, b: int, third: bool) -> None:
    assert evaluate("setp.lt.and.s32", a, b, third, outputs=2) == [
        signed(a, 32) < signed(b, 32) and third,
        signed(a, 32) >= signed(b, 32) and third,
    ]
    assert evaluate("setp.eq.xor.u32", a, b, third) == [(a == b) != third]


CONVERSIONS = [
    (f"{to}{to_bits}", f"{of}{of_bits}")
    for to in "us"
    for of in "us"
    for to_bits in (16, 32, 64)
    for of_bits in (8, 16, 32, 64)
]


@pytest.mark.parametrize(("to", "of"), CONVERSIONS)
@examples(data=st.data())
def test_integer_conversions(to: str, of: str, data: st.DataObject) -> None:
    of_bits, to_bits = int(of[1:]), int(to[1:])
    rows = [(data.draw(numbers(of_bits)),) for _ in range(SAMPLES)]
    view: Callable[[int], int] = (lambda n: signed(n, of_bits)) if of[0] == "s" else int
    check_everywhere(f"cvt.{to}.{of}", lambda n: view(n) % (1 << to_bits), rows)


def test_narrow_conversion_fills_the_declared_register() -> None:
    convert = instruction("cvt.s8.s32", r(0), r(1))
    for declared, wanted in ((".b32", 0xFFFFFF80), ("b16", 0xFF80)):
        found = compile_evaluation(convert, {"%r0": declared})
        assert found is not None
        assert found.compute(Domain(), ALL, [0x1280]) == (wanted,)
