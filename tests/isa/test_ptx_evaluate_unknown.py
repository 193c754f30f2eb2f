"""Evaluation of PTX instructions on unknown values: sums of atoms and conditions over them."""

from evaluation_support import WORD, evaluate, signed
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxaudit.ir.affine import may_overflow
from ptxaudit.ir.values import LANE_INDEX, Affine, Comparison, Domain, Value, bounds_of


def test_aligned_unknowns_keep_their_form_under_masks_and_shifts() -> None:
    domain = Domain()
    block = domain.atom("ctaid", "ctaid", low=0, high=(1 << 31) - 1)
    (base,) = evaluate("shl.b32", block, 7, domain=domain)
    assert domain.key(evaluate("or.b32", base, LANE_INDEX, domain=domain)[0]) == domain.key(
        evaluate("add.s32", base, LANE_INDEX, domain=domain)[0]
    )
    (sum_,) = evaluate("add.s32", base, 5, domain=domain)
    assert evaluate("and.b32", sum_, 127, domain=domain) == [5]
    assert domain.key(evaluate("and.b32", sum_, 0xFFFFFF80, domain=domain)[0]) == domain.key(base)
    assert domain.key(evaluate("shr.u32", sum_, 7, domain=domain)[0]) == domain.key(block)
    assert domain.key(evaluate("shr.s32", sum_, 6, domain=domain)[0]) == domain.key(
        evaluate("mul.lo.s32", block, 2, domain=domain)[0]
    )
    assert domain.key(evaluate("div.u32", sum_, 128, domain=domain)[0]) == domain.key(block)
    assert evaluate("rem.u32", sum_, 128, domain=domain) == [5]


def test_low_bits_of_a_sum_do_not_depend_on_its_multiples() -> None:
    domain = Domain()
    n, m = domain.atom("n", "n"), domain.atom("m", "m")
    (sum_,) = evaluate("mad.lo.s32", m, 64, n, domain=domain)
    assert domain.key(evaluate("and.b32", sum_, 31, domain=domain)[0]) == domain.key(
        evaluate("and.b32", n, 31, domain=domain)[0]
    )
    (shifted,) = evaluate("shr.s32", sum_, 5, domain=domain)
    (other,) = evaluate("shr.s32", n, 5, domain=domain)
    (difference,) = evaluate("sub.s32", shifted, other, domain=domain)
    assert domain.key(difference) == domain.key(evaluate("shl.b32", m, 1, domain=domain)[0])


def test_sign_bit_is_not_taken_for_an_arithmetic_shift() -> None:
    domain = Domain()
    n = domain.atom("n", "n")
    (sign,) = evaluate("shr.s32", n, 31, domain=domain)
    (bit,) = evaluate("shr.u32", n, 31, domain=domain)
    assert domain.key(sign) != domain.key(bit)
    (bias,) = evaluate(
        "shr.u32",
        evaluate("shr.s32", evaluate("cvt.s32.s16", n, domain=domain)[0], 31, domain=domain)[0],
        27,
        domain=domain,
    )
    assert isinstance(bias, Affine)


def test_equal_sums_compare_as_known_and_conditions_have_one_form() -> None:
    domain = Domain()
    n, m = domain.atom("n", "n"), domain.atom("m", "m")
    (first,) = evaluate("add.s32", n, m, domain=domain)
    (second,) = evaluate("add.s32", m, n, domain=domain)
    assert evaluate("setp.eq.s32", first, second, domain=domain) == [True]
    (next_,) = evaluate("add.s32", first, 1, domain=domain)
    assert evaluate("setp.lt.s32", first, next_, domain=domain) == [True]
    less, more = (
        evaluate(f"setp.{name}.s32", *pair, domain=domain)[0]
        for name, pair in (("lt", (n, m)), ("gt", (m, n)))
    )
    assert isinstance(less, Comparison)
    assert domain.key(less) == domain.key(more)
    (not_less,) = evaluate("setp.ge.s32", n, m, domain=domain)
    assert domain.key(not_less) == domain.key(domain.negate(less))


def test_ranges_settle_comparisons() -> None:
    domain = Domain()
    (low,) = evaluate("and.b32", domain.atom("n", "n"), 3, domain=domain)
    assert evaluate("setp.lt.u32", low, 4, domain=domain) == [True]
    assert evaluate("setp.eq.s32", low, 9, domain=domain) == [False]
    assert isinstance(evaluate("setp.lt.u32", low, 3, domain=domain)[0], Comparison)
    (odd,) = evaluate("mad.lo.s32", domain.atom("m", "m"), 4, 1, domain=domain)
    assert evaluate("setp.eq.s32", odd, 0, domain=domain) == [False]


def test_unsigned_order_of_a_possibly_wrapped_value_is_no_signed_order() -> None:
    domain = Domain()
    (before,) = evaluate("add.s32", domain.atom("n", "n"), WORD, domain=domain)
    unsigned, as_signed = (evaluate(f"setp.lt.{k}32", before, 4, domain=domain)[0] for k in "us")
    assert domain.key(unsigned) != domain.key(as_signed)
    (large,) = evaluate("setp.lt.u32", domain.atom("m", "m", low=0), 0xFFFFFFF0, domain=domain)
    assert isinstance(large, Comparison)


def test_numbers_with_the_top_bit_set_are_the_largest_unsigned_ones() -> None:
    domain = Domain()
    (inverted,) = evaluate("not.b32", domain.atom("n", "n", low=0, high=1000), domain=domain)
    assert evaluate("setp.le.u32", inverted, WORD, domain=domain) == [True]
    assert evaluate("setp.gt.u32", 0xFFFFF000, inverted, domain=domain) == [False]
    (open_,) = evaluate("setp.lt.u32", inverted, 0xFFFFFFE0, domain=domain)
    (larger,) = evaluate("max.u32", inverted, 0xFFFFFFE0, domain=domain)
    assert not isinstance(open_, bool)
    assert domain.key(larger) != domain.key(inverted)


def test_a_choice_of_two_numbers_is_its_condition_again() -> None:
    domain = Domain()
    (condition,) = evaluate("setp.lt.s32", domain.atom("n", "n"), 4, domain=domain)
    (chosen,) = evaluate("selp.b32", 1, 0, condition, domain=domain)
    (again,) = evaluate("setp.ne.b32", chosen, 0, domain=domain)
    assert domain.key(again) == domain.key(condition)
    (turned,) = evaluate("xor.b32", chosen, 1, domain=domain)
    (opposite,) = evaluate("setp.eq.b32", turned, 1, domain=domain)
    assert domain.key(opposite) == domain.key(domain.negate(condition))
    assert evaluate(
        "setp.lt.s32", evaluate("selp.b32", WORD, 0, condition, domain=domain)[0], 0, domain=domain
    ) == [condition]


def test_products_of_sums_are_multiplied_out() -> None:
    domain = Domain()
    n, m = domain.atom("n", "n"), domain.atom("m", "m")
    (wide,) = evaluate("mad.lo.s32", n, m, m, domain=domain)
    (next_,) = evaluate("add.s32", n, 1, domain=domain)
    (product,) = evaluate("mul.lo.s32", m, next_, domain=domain)
    assert domain.key(wide) == domain.key(product)


ASSIGNMENTS = 6
LIMIT = 1000
UNARY = ("not.b32", "neg.s32", "abs.s32", "cnot.b32", "cvt.s32.s16", "cvt.s32.s8")
BINARY = (
    *("add.s32", "sub.s32", "and.b32", "or.b32", "xor.b32", "min.s32", "max.u32"),
    *("mul.lo.s32", "shl.b32", "shr.u32", "shr.s32", "div.u32", "div.s32", "rem.u32", "rem.s32"),
)
OTHERS = ("bfe.u32", "bfi.b32", "lop3.b32")
COMPARISONS = tuple(f"setp.{name}.{k}32" for name in ("eq", "ne", "lt", "le", "gt", "ge") for k in "us")
NUMBERS = (0, 1, 2, 4, 5, 7, 8, 15, 16, 31, 32, 33, 64, 100, 128, 0xF0, 0x7C, 0xFFFFFFE0, 0xFFFFFFFF)

# A symbolic value, and the number it stands for under each assignment of the unknowns.
Pair = tuple[Value, list[int]]


def draw_operands(data: st.DataObject, opcode: str, pool: list[Pair]) -> list[Pair]:
    def literal(choices: st.SearchStrategy[int]) -> Pair:
        drawn = data.draw(choices)
        return drawn, [drawn] * ASSIGNMENTS

    def held() -> Pair:
        return data.draw(st.sampled_from(pool))

    if opcode in UNARY:
        return [held()]
    if opcode == "lop3.b32":
        return [held(), held(), held(), literal(st.integers(0, 255))]
    if opcode.startswith("bf"):
        values = [held()] if opcode.startswith("bfe") else [held(), held()]
        return [*values, literal(st.integers(0, 9)), literal(st.integers(0, 9))]
    if opcode.startswith("sh"):
        return [held(), literal(st.sampled_from((0, 1, 2, 3, 5, 7, 16, 24, 31, 32)))]
    if opcode[:3] in ("div", "rem"):
        return [held(), literal(st.integers(1, 40))]
    return [held(), held() if data.draw(st.booleans()) else literal(st.sampled_from(NUMBERS))]


def within_range(value: Affine, actual: int) -> bool:
    """Whether the range of a value has the number, as an unsigned or as a signed one."""
    low, high = bounds_of(value)
    return any(
        (low is None or n >= low) and (high is None or n <= high) for n in (actual, signed(actual, 32))
    )


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_unknowns_agree_with_the_numbers_they_stand_for(data: st.DataObject) -> None:
    """What is known of a symbolic result holds under every assignment; equal results are equal numbers."""
    domain = Domain()
    known: dict[object, list[int]] = {}
    pool: list[Pair] = [
        (
            domain.atom(name, name, low=0, high=LIMIT),
            data.draw(st.lists(st.integers(0, LIMIT), min_size=ASSIGNMENTS, max_size=ASSIGNMENTS)),
        )
        for name in "nm"
    ]
    for _ in range(data.draw(st.integers(1, 8))):
        opcode = data.draw(st.sampled_from((*UNARY, *BINARY, *OTHERS, *COMPARISONS)))
        operands = draw_operands(data, opcode, pool)
        (result,) = evaluate(opcode, *(symbolic for symbolic, _ in operands), domain=domain)
        actual = [
            evaluate(opcode, *(column[place] for _, column in operands))[0] for place in range(ASSIGNMENTS)
        ]
        if isinstance(result, int):
            assert all(number == result for number in actual), opcode
            continue
        key = (opcode.startswith("setp"), domain.key(result))
        assert known.setdefault(key, actual) == actual, opcode
        if isinstance(result, Affine) and not may_overflow(result, 31):
            assert all(within_range(result, number) for number in actual), opcode
            pool.append((result, actual))


def test_unmodelled_results_are_equal_for_equal_sources_and_differ_by_destination() -> None:
    domain = Domain()
    first, again, other = (
        evaluate("add.rn.f32", a, b, domain=domain)[0] for a, b in ((1, 2), (1, 2), (2, 2))
    )
    assert domain.key(first) == domain.key(again)
    assert domain.key(first) != domain.key(other)
    pair = evaluate("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 1, 2, 3, outputs=2, domain=domain)
    assert domain.key(pair[0]) != domain.key(pair[1])
    (below,) = evaluate("setp.lt.f32", 1, 2, domain=domain)
    assert isinstance(below, Comparison)
    carried = [evaluate("addc.u32", 1, 2, domain=domain)[0] for _ in range(2)]
    assert domain.key(carried[0]) != domain.key(carried[1])
