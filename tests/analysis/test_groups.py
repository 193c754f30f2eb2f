"""Pending commit groups: steps one by one, joins and loops, and random programs against a simulation."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.dump import render_dump
from ptxaudit.analysis.groups import Doubt, GroupFlow, Pending, ages, group_flow, held_registers
from ptxaudit.engine.inputs import load_module
from ptxaudit.ir.events import GroupKind
from ptxaudit.ir.operands import Register

SHAPE = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
RS = SHAPE + " {%f0, %f1, %f2, %f3}, {%a0, %a1, %a2, %a3}, %rd2, 1, 1, 1, 0;"
SS = SHAPE + " {%f4, %f5, %f6, %f7}, %rd2, %rd2, 1, 1, 1, 0, 0;"
COMMIT = "wgmma.commit_group.sync.aligned;"
MARK = "add.u32 %r9, %r9, 1;"


def wait(depth: int) -> str:
    return f"wgmma.wait_group.sync.aligned {depth};"


def analyse(body: str) -> FunctionAnalysis:
    text = f"""
.version 8.8
.target sm_90a
.address_size 64
.func callee ()
{{
    ret;
}}
.visible .entry k(.param .u64 out, .param .u32 trips)
{{
    .reg .pred %p<10>;
    .reg .b32 %r<20>;
    .reg .b32 %a<8>;
    .reg .f32 %f<20>;
    .reg .b64 %rd<5>;
    .shared .align 16 .b8 tile[1024];
    ld.param.u32 %r2, [trips];
    ld.param.u64 %rd1, [out];
    mov.u32 %r3, tile;
    setp.eq.u32 %p1, %r2, 0;
    mov.u32 %r9, 0;
{body}
    ret;
}}
"""
    module = load_module("k.ptx", text.encode())
    return FunctionAnalysis(module.functions[-1], module)


def at_marks(analysis: FunctionAnalysis, flow: GroupFlow) -> list[list[tuple[int, ...]]]:
    """The ages of each operation, in program order, at each mark."""
    marks = [i.index for i in analysis.function.instructions if i.text.startswith(MARK.rstrip(";"))]
    return [[ages(flow.before(mark).get(operation, 0)) for operation in flow.operations] for mark in marks]


def wgmma(body: str, doubt: Doubt = Doubt.LINGERS) -> list[list[tuple[int, ...]]]:
    analysis = analyse(body)
    return at_marks(analysis, group_flow(analysis, GroupKind.WGMMA, doubt))


@pytest.mark.parametrize(
    ("body", "due"),
    [
        (f"{MARK} {RS} {MARK}", [[()], [(0,)]]),
        (f"{RS} {COMMIT} {MARK}", [[(1,)]]),
        (f"{RS} {wait(0)} {MARK}", [[(0,)]]),
        (f"{RS} {COMMIT} {wait(0)} {MARK}", [[()]]),
        (f"{RS} {COMMIT} {wait(1)} {MARK}", [[(1,)]]),
        (f"{RS} {COMMIT} {SS} {COMMIT} {wait(1)} {MARK}", [[(), (1,)]]),
        (f"{RS} {SS} {COMMIT} {wait(1)} {MARK}", [[(1,), (1,)]]),
        (f"{RS} {COMMIT} {COMMIT} {wait(1)} {MARK}", [[()]]),
        (f"{RS} {COMMIT} {COMMIT} {COMMIT} {MARK} {wait(0)}", [[(1,)]]),
    ],
)
def test_straight_line(body: str, due: list[list[tuple[int, ...]]]) -> None:
    assert wgmma(body) == due


def test_paths_are_joined_by_union() -> None:
    body = f"{RS} {COMMIT} @%p1 bra L; {wait(0)} bra M; L: {COMMIT} M: {MARK} {wait(2)}"
    assert wgmma(body) == [[(2,)]]
    body = f"{RS} {COMMIT} @%p1 bra L; {COMMIT} L: {MARK} {wait(2)}"
    assert wgmma(body) == [[(1, 2)]]


def test_loop_keeps_one_age_for_each_trip_in_flight() -> None:
    body = f"T: {MARK} {RS} {COMMIT} {wait(2)} setp.lt.u32 %p2, %r9, %r2; @%p2 bra T; {MARK}"
    assert wgmma(body) == [[(1, 2)], [(1, 2)]]


def test_loop_without_wait_reaches_the_oldest_age() -> None:
    body = f"T: {MARK} {RS} {COMMIT} setp.lt.u32 %p2, %r9, %r2; @%p2 bra T; {MARK} {wait(1)}"
    assert wgmma(body) == [[(1, 2)], [(1, 2)]]


@pytest.mark.parametrize(
    ("step", "lingers"),
    [
        (f"@%p1 {wait(0)}", (1,)),
        ("call callee;", (1,)),
        (f"@%p1 {COMMIT} {wait(1)}", (1,)),
    ],
)
def test_doubtful_steps_bound_the_truth_from_both_sides(step: str, lingers: tuple[int, ...]) -> None:
    body = f"{RS} {COMMIT} {step} {MARK}"
    assert wgmma(body, Doubt.COMPLETES) == [[()]]
    assert wgmma(body, Doubt.LINGERS) == [[lingers]]


def test_held_registers_are_those_of_the_operands() -> None:
    analysis = analyse(f"{RS} {SS}")
    first, second = held_registers(analysis).values()
    assert first.accumulators == {Register(f"%f{i}") for i in range(4)}
    assert first.fragments == {Register(f"%a{i}") for i in range(4)}
    assert (second.fragments, second.shape) == (frozenset(), "m64n8k16")


def test_cp_async_groups_and_wait_all() -> None:
    copy = "cp.async.ca.shared.global [%r3], [%rd1], 16;"
    commit = "cp.async.commit_group;"
    body = f"{copy} {commit} {copy} {MARK} cp.async.wait_group 0; {MARK} cp.async.wait_all; {MARK}"
    analysis = analyse(body)
    flow = group_flow(analysis, GroupKind.CP_ASYNC)
    assert at_marks(analysis, flow) == [[(1,), (0,)], [(), (0,)], [(), ()]]
    assert group_flow(analysis, GroupKind.WGMMA).operations == ()


def test_bulk_read_wait_frees_the_sources_only() -> None:
    store = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 16;"
    body = f"{store} cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; {MARK}"
    analysis = analyse(body)
    assert at_marks(analysis, group_flow(analysis, GroupKind.BULK)) == [[(1,)]]
    assert at_marks(analysis, group_flow(analysis, GroupKind.BULK, sources_only=True)) == [[()]]


def test_dump_names_operations_and_what_is_pending() -> None:
    text = render_dump("groups", "text", [analyse(f"{RS} {COMMIT} {wait(1)} {SS} {COMMIT} {wait(0)}")])
    assert "holds accumulators %f0 %f1 %f2 %f3, A fragments %a0 %a1 %a2 %a3" in text
    assert "wgmma.wait_group.sync.aligned with line" in text
    assert "in no group yet" in text
    assert "in group -1" in text
    assert "no operation that a commit group covers" in render_dump("groups", "text", [analyse(MARK)])


STEPS = st.sampled_from([RS, SS, COMMIT, wait(0), wait(1), wait(3), "branch", "back"])


def random_program(steps: list[str]) -> str:
    """Steps with labels between all of them; ``branch`` may skip two steps, ``back`` may go back four."""
    lines = []
    for number, step in enumerate(steps):
        goal = {"branch": min(number + 3, len(steps)), "back": max(number - 4, 0)}.get(step)
        text = step if goal is None else f"@%p1 bra L{goal};"
        lines.append(f"L{number}: {text}")
    return "\n".join([*lines, f"L{len(steps)}: {MARK}"])


@given(st.lists(STEPS, max_size=14), st.integers(0, 2**32))
def test_random_walks_stay_within_the_flow(steps: list[str], seed: int) -> None:
    analysis = analyse(random_program(steps))
    flow = group_flow(analysis, GroupKind.WGMMA)
    states = {index: state for block in sorted(flow.reached) for index, state in flow.along(block)}
    if flow.operations:
        for index, truth in walk(analysis, random.Random(seed)):
            for operation, age in truth:
                assert states[index].get(operation, 0) >> min(age, flow.oldest) & 1, (index, operation, age)


def walk(analysis: FunctionAnalysis, dice: random.Random) -> list[tuple[int, list[tuple[int, int]]]]:
    """A random path of at most 200 blocks: each instruction with (operation, age) of all that is pending."""
    seen, block, pending = [], 0, list[tuple[int, int]]()
    for _ in range(200):
        for index in range(analysis.function.blocks[block].start, analysis.function.blocks[block].end):
            seen.append((index, pending))
            opcode = analysis.function.instructions[index].opcode
            if opcode.startswith("wgmma.mma_async"):
                pending = [*pending, (index, 0)]
            elif opcode.startswith("wgmma.commit_group"):
                pending = [(operation, age + 1) for operation, age in pending]
            elif opcode.startswith("wgmma.wait_group"):
                depth = int(analysis.function.instructions[index].text.rstrip("; ").split()[-1])
                pending = [(operation, age) for operation, age in pending if age <= depth]
        successors = analysis.function.blocks[block].successors
        if not successors:
            break
        block = dice.choice(successors)
    return seen


@given(st.lists(st.sampled_from([RS, SS, COMMIT, wait(0), wait(1), wait(3)]), max_size=16))
def test_straight_line_is_exact(steps: list[str]) -> None:
    analysis = analyse("\n".join([*steps, MARK]))
    flow = group_flow(analysis, GroupKind.WGMMA)
    for index, truth in walk(analysis, random.Random(0)):
        exact: dict[int, int] = {}
        for operation, age in truth:
            exact[operation] = exact.get(operation, 0) | 1 << min(age, flow.oldest)
        assert same(flow.before(index), exact)


def same(found: Pending, exact: dict[int, int]) -> bool:
    return {key: mask for key, mask in found.items() if mask} == exact
