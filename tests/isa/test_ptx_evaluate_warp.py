"""Moves, addresses, predicates and warp-wide PTX instructions; operand shapes."""

import numpy as np
import pytest
from evaluation_support import (
    ALL,
    WORD,
    evaluate,
    examples,
    instruction,
    numbers,
    r,
    spread,
)
from hypothesis import strategies as st

from ptxaudit.ir.operands import Immediate, Memory, Negated, Operand, Register, Vector
from ptxaudit.ir.values import LANE_INDEX, LANES, Affine, Comparison, Domain
from ptxaudit.isa.evaluation import SHARED_WINDOW, LaneState
from ptxaudit.isa.ptx.evaluate import compile_evaluation, is_special_register


@examples(numbers(64))
def test_vector_moves(whole: int) -> None:
    low, high = whole & WORD, whole >> 32
    assert evaluate("mov.b64", whole, outputs=2) == [low, high]
    pack = compile_evaluation(instruction("mov.b64", r(0), Vector((r(1), r(2)))))
    assert pack is not None
    assert pack.compute(Domain(), ALL, [low, high]) == (whole,)
    lanes = [np.array([low ^ i for i in range(LANES)], dtype=np.uint64), high]
    assert spread(pack.compute(Domain(), ALL, lanes)[0]) == [(low ^ i) | high << 32 for i in range(LANES)]


def test_vector_move_of_an_unknown_is_undone_by_the_opposite_move() -> None:
    domain = Domain()
    pointer = domain.atom("pointer", "pointer")
    parts = evaluate("mov.b64", pointer, outputs=2, domain=domain)
    pack = compile_evaluation(instruction("mov.b64", r(0), Vector((r(1), r(2)))))
    assert pack is not None
    assert domain.key(pack.compute(domain, ALL, parts)[0]) == domain.key(pointer)
    half = domain.atom("n", "n")
    (packed,) = pack.compute(domain, ALL, [half, 7])
    again = evaluate("mov.b64", packed, outputs=2, domain=domain)
    assert domain.key(again[0]) == domain.key(half)
    assert again[1] == 7


def test_negative_literals_are_read_in_the_width_of_the_instruction() -> None:
    for opcode, width in (("add.s32", 32), ("add.s64", 64), ("and.b16", 16)):
        found = compile_evaluation(instruction(opcode, r(0), r(1), Immediate(-2)))
        assert found is not None
        assert found.sources[1] == Immediate((1 << width) - 2)
    wide = compile_evaluation(instruction("mad.wide.s32", r(0), r(1), Immediate(-1), Immediate(-1)))
    assert wide is not None
    assert wide.sources[1:] == (Immediate(WORD), Immediate((1 << 64) - 1))


def test_generic_addresses_of_shared_memory() -> None:
    assert evaluate("cvta.shared.u64", 0x420) == [SHARED_WINDOW + 0x420]
    assert evaluate("cvta.to.shared::cluster.u64", SHARED_WINDOW + 0x420) == [0x420]
    assert evaluate("cvta.to.global.u64", 0x420) == [0x420]
    assert evaluate("isspacep.shared", SHARED_WINDOW + 4) == [True]
    assert evaluate("isspacep.global", SHARED_WINDOW + 4) == [False]
    assert isinstance(evaluate("isspacep.global", Domain().atom("p", "p"))[0], Comparison)


@examples(st.booleans(), st.booleans())
def test_predicate_logic(a: bool, b: bool) -> None:
    assert evaluate("and.pred", a, b) == [a and b]
    assert evaluate("or.pred", a, b) == [a or b]
    assert evaluate("xor.pred", a, b) == [a != b]
    assert evaluate("not.pred", a) == [not a]
    assert evaluate("mov.pred", a) == [a]
    assert evaluate("selp.b32", 7, 9, a) == [7 if a else 9]
    flags = LANE_INDEX % 2 == 0
    assert spread(evaluate("and.pred", flags, a)[0]) == [int(i % 2 == 0 and a) for i in range(LANES)]
    assert spread(evaluate("selp.b32", 7, 9, flags)[0]) == [7 if i % 2 == 0 else 9 for i in range(LANES)]


def test_literal_and_negated_predicates() -> None:
    moved = compile_evaluation(instruction("mov.pred", Register("%p1"), Immediate(-1)))
    assert moved is not None
    assert moved.compute(Domain(), ALL, [1]) == (True,)
    both = compile_evaluation(
        instruction("and.pred", Register("%p1"), Register("%p2"), Negated(Register("%p3")))
    )
    assert both is not None
    assert both.sources == (Register("%p2"), Negated(Register("%p3")))


def shuffle_reference(mode: str, lane: int, amount: int, clamp: int) -> tuple[int, bool]:
    segment, limit, amount = clamp >> 8 & 31, clamp & 31, amount & 31
    most, least = (lane & segment) | (limit & (31 - segment)), lane & segment
    source, inside = {
        "up": (lane - amount, lane - amount >= most),
        "down": (lane + amount, lane + amount <= most),
        "bfly": (lane ^ amount, lane ^ amount <= most),
        "idx": (least | (amount & (31 - segment)), (least | (amount & (31 - segment))) <= most),
    }[mode]
    return (source if inside else lane), inside


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@examples(st.integers(0, 31), st.sampled_from([0x1F, 0, 0x181F, 0x1C00, 0x1C1F, 0x100F]))
def test_shuffles(mode: str, amount: int, clamp: int) -> None:
    value = LANE_INDEX * 3 + 1
    wanted = [shuffle_reference(mode, lane, amount, clamp) for lane in range(LANES)]
    target = Vector((r(0), Register("%p0")))
    found = compile_evaluation(instruction(f"shfl.sync.{mode}.b32", target, r(1), r(2), r(3), Immediate(-1)))
    assert found is not None
    for spread_amount in (amount, np.full(LANES, amount, dtype=np.uint64)):
        result, inside = found.compute(Domain(), ALL, [value, spread_amount, clamp, WORD])
        assert spread(result) == [source * 3 + 1 for source, _ in wanted]
        assert spread(inside) == [int(ok) for _, ok in wanted]


def test_broadcast_makes_an_unknown_uniform() -> None:
    domain = Domain()
    varying = domain.atom("loaded", "loaded", varying=True)
    result, _ = evaluate("shfl.sync.idx.b32", varying, 0, 31, WORD, outputs=2, domain=domain)
    assert isinstance(result, Affine)
    assert not result.varying
    block = domain.atom("ctaid", "ctaid")
    (with_lanes,) = evaluate("add.s32", block, LANE_INDEX, domain=domain)
    (fourth,) = evaluate("shfl.sync.idx.b32", with_lanes, 4, 31, WORD, domain=domain)
    assert domain.key(fourth) == domain.key(evaluate("add.s32", block, 4, domain=domain)[0])


def test_election_votes_and_masks_see_the_executing_lanes() -> None:
    state = LaneState((LANE_INDEX >= 4) & (LANE_INDEX < 12))
    leader, flags = evaluate("elect.sync", WORD, outputs=2, state=state)
    assert leader == 4
    assert spread(flags) == [int(lane == 4) for lane in range(LANES)]
    leader, _ = evaluate("elect.sync", 0xF00, outputs=2, state=state)
    assert leader == 8
    found = compile_evaluation(instruction("activemask.b32", r(0)))
    assert found is not None
    assert found.compute(Domain(), state, []) == (0xFF0,)
    even = LANE_INDEX % 2 == 0
    assert evaluate("vote.sync.ballot.b32", even, WORD, state=state) == [0x550]
    assert evaluate("vote.sync.any.pred", even, 0x20, state=state) == [False]
    assert evaluate("vote.sync.all.pred", even, 0x50, state=state) == [True]
    assert evaluate("vote.sync.uni.pred", even, 0x30, state=state) == [False]
    assert evaluate("vote.sync.uni.pred", even, 0x20, state=state) == [True]


def test_votes_on_unknown_conditions() -> None:
    domain = Domain()
    (condition,) = evaluate("setp.lt.s32", domain.atom("n", "n"), 4, domain=domain)
    (every,) = evaluate("vote.sync.all.pred", condition, WORD, domain=domain)
    assert domain.key(every) == domain.key(condition)
    (ballot,) = evaluate("vote.sync.ballot.b32", condition, WORD, domain=domain)
    (back,) = evaluate("setp.ne.b32", ballot, 0, domain=domain)
    assert domain.key(back) == domain.key(condition)
    varying = domain.truth_of(domain.atom("x", "x", varying=True))
    (unknown,) = evaluate("vote.sync.any.pred", varying, WORD, domain=domain)
    assert isinstance(unknown, Comparison)
    assert not unknown.expression.varying


def test_reductions_over_the_members() -> None:
    assert evaluate("redux.sync.min.u32", LANE_INDEX + 5, 0xF0) == [9]
    assert evaluate("redux.sync.add.s32", 3, WORD) == [96]
    assert evaluate("redux.sync.max.s32", np.where(LANE_INDEX == 0, WORD, 0).astype(np.uint64), 1) == [WORD]


@pytest.mark.parametrize(
    ("opcode", "operands"),
    [
        ("st.shared.b32", (Memory((r(1),)), r(2))),
        ("bar.sync", (Immediate(0),)),
        ("ld.shared.b32", (r(0), Memory((r(1),)))),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", (Vector((r(0), r(1), r(2), r(3))), Memory((r(4),)))),
        ("mbarrier.try_wait.parity.shared.b64", (Register("%p1"), Memory((r(1),)), r(2))),
        ("mapa.shared::cluster.u32", (r(0), r(1), r(2))),
        ("atom.global.add.u32", (r(0), Memory((r(1),)), r(2))),
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32", (Vector((r(0),)), Memory((r(1),)))),
    ],
)
def test_what_the_engine_executes_has_no_evaluation(opcode: str, operands: tuple[Operand, ...]) -> None:
    assert compile_evaluation(instruction(opcode, *operands)) is None


@pytest.mark.parametrize(
    "opcode", ["add.s32", "mov.b64", "setp.lt.s32", "shfl.sync.idx.b32", "frob.u32", "lop3.b32"]
)
@pytest.mark.parametrize("count", [2, 3, 5, 7])
def test_odd_operand_counts_never_raise(opcode: str, count: int) -> None:
    found = compile_evaluation(instruction(opcode, *(r(index) for index in range(count))))
    assert found is not None
    results = found.compute(Domain(), ALL, [1] * len(found.sources))
    assert len(results) == len(found.destinations)


def test_sinks_and_special_registers() -> None:
    found = compile_evaluation(instruction("mov.b64", Vector((Register("_"), r(1))), r(2)))
    assert found is not None
    assert found.destinations == (None, r(1))
    assert is_special_register("%tid.x")
    assert is_special_register("%cluster_ctarank")
    assert not is_special_register("%r1")
