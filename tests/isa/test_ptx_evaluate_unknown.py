"""Evaluation of PTX instructions on unknown values: sums of atoms and conditions over them."""

from evaluation_support import WORD, evaluate, examples
from hypothesis import strategies as st

from ptxaudit.ir.values import LANE_INDEX, Affine, Comparison, Domain, Truth, Value


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


@examples(st.data())
def test_unknowns_agree_with_every_number_they_may_stand_for(data: st.DataObject) -> None:
    """A chain of operations on an unknown small number, with the number put in afterwards."""
    domain = Domain()
    limit = 1 << 10
    actual = data.draw(st.integers(0, limit - 1))
    atom = domain.atom("n", "n", low=0, high=limit - 1)
    value: Value | Truth = atom
    known: Value | Truth = actual
    for _ in range(data.draw(st.integers(1, 5))):
        opcode = data.draw(
            st.sampled_from(
                ["add.u32", "mul.lo.u32", "shl.b32", "and.b32", "or.b32", "shr.u32", "div.u32", "rem.u32"]
            )
        )
        limit_of = 5 if opcode[:2] == "sh" else 16
        operand = data.draw(st.integers(1, limit_of))
        (value,) = evaluate(opcode, value, operand, domain=domain)
        (known,) = evaluate(opcode, known, operand)
        if not isinstance(value, Affine) or any(term is not atom.terms[0][0] for term, _ in value.terms):
            break
    if isinstance(value, int):
        assert value == known
    elif isinstance(value, Affine) and all(term is atom.terms[0][0] for term, _ in value.terms):
        assert (sum(c * actual for _, c in value.terms) + int(value.offset)) & WORD == known
    else:
        assert isinstance(value, Affine)


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
