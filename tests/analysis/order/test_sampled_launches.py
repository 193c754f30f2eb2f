"""Launches with sampled parameters: what they may show, and what they may not."""

import pytest

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import Limits, OrderReport, explore
from ptxaudit.frontends.ptx import load_ptx
from ptxaudit.source import SourceText

# Whether the CTA has a tile is a product of two parameters, which no range of one parameter settles.
KERNEL = """\
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 rows, .param .u32 columns)
{bounds}
{{
    .reg .pred %p<8>;
    .reg .b32 %r<16>;
    .reg .f32 %f<2>;
    .reg .b64 %rd<2>;
    .shared .align 8 .b64 bar;
    ld.param.u32 %r0, [rows];
    ld.param.u32 %r1, [columns];
    mul.lo.s32 %r2, %r0, %r1;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %tid.x;
    setp.ge.s32 %p0, %r3, %r2;
    @%p0 bra END;
    setp.eq.u32 %p1, %r4, 0;
    mov.b32 %r5, bar;
    @%p1 mbarrier.init.shared.b64 [%r5], {count};
    bar.sync 0;
    {body}
END:
    ret;
}}
"""
HANDOVER = """
    @%p1 mbarrier.arrive.shared.b64 %rd0, [%r5];
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0;
    @!%p2 bra WAIT;
"""
# Whether the branch is taken depends on numbers that the kernel computes.
VOTE = """
    cvt.rn.f32.u32 %f0, %r0;
    setp.gt.f32 %p4, %f0, 0f3F000000;
    vote.sync.ballot.b32 %r7, %p4, -1;
    setp.eq.u32 %p5, %r7, 0;
"""
STATED = ".reqntid 64, 1, 1"


def report(body: str, count: int = 1, bounds: str = STATED) -> OrderReport:
    text = KERNEL.format(bounds=bounds, count=count, body=body)
    module = load_ptx(SourceText("tiny.ptx", text))
    return explore(FunctionAnalysis(module.functions[0], module), Limits())


def test_a_sampled_launch_that_hangs_is_a_deadlock() -> None:
    found = report(HANDOVER, count=2)
    assert {stuck.instruction.opcode for stuck in found.deadlock} == {"mbarrier.try_wait.parity.shared.b64"}
    assert not found.deadlock_certain
    assert any("a launch was looked at, too" in text for text in found.assumptions)


def test_the_same_kernel_with_a_fitting_count_does_not_hang() -> None:
    found = report(HANDOVER)
    assert not found.deadlock and not found.stuck_if_possible


def test_no_launch_hangs_when_some_block_size_fits() -> None:
    """Eight warps are tried after four: with them the named barrier is complete."""
    found = report("bar.sync 1, 256;", bounds="")
    assert not found.deadlock
    assert found.shape is not None and found.shape.threads == 256


def test_a_hang_of_every_block_size_is_a_deadlock() -> None:
    found = report("setp.ne.u32 %p3, %r4, 0; @%p3 bra END; bar.sync 1, 64;", bounds="")
    assert {stuck.key for stuck in found.deadlock} == {("bar", 0, 1)}


@pytest.mark.parametrize("operation", ["shr.u32", "shl.b32", "mul.hi.u32"])
def test_zero_shifted_or_scaled_is_zero(operation: str) -> None:
    """A branch on it is no decision: the warps never wait at the barrier that only one of them reaches."""
    skip = f"{operation} %r6, 0, %r1; setp.eq.u32 %p3, %r6, 0; @%p3 bra END; @%p1 bar.sync 1, 64;"
    found = report(skip)
    assert not found.deadlock and not found.stuck_if_possible


def test_a_hang_that_the_data_cannot_avoid_is_a_deadlock() -> None:
    found = report(f"{VOTE} @%p5 bra NEXT; bar.sync 2, 64; NEXT: {HANDOVER}", count=2)
    assert ("mbarrier", 0, 1024) in {stuck.key for stuck in found.deadlock}


def test_a_hang_that_the_data_may_avoid_is_none() -> None:
    found = report(f"{VOTE} @%p5 bra END; {HANDOVER}", count=2)
    assert not found.deadlock
    assert found.stuck_if_possible


def test_a_hang_that_only_a_turned_condition_leads_to_is_looked_for_in_samples() -> None:
    large = (
        "setp.gt.s32 %p3, %r2, 64; @%p3 bra LARGE; bar.sync 2, 64; bar.sync 2, 64; bar.sync 2, 64; bra END;"
    )
    found = report(f"{large} LARGE: {HANDOVER}", count=2)
    assert found.executions[0].complete
    assert {stuck.key for stuck in found.deadlock} == {("mbarrier", 0, 1024)}


COUNTED = """
    mov.u32 %r8, 0;
ROUND:
    mbarrier.arrive.shared.b64 %rd0, [%r5];
    bar.sync 0;
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p3, %r8, {trips};
    @%p3 bra ROUND;
"""


@pytest.mark.parametrize(("trips", "may_be_bounded"), [("2", False), ("%r0", True)])
def test_only_bounds_that_had_a_say_are_noted(trips: str, may_be_bounded: bool) -> None:
    """A loop that the code ends itself runs alike whatever its bound is, and is not run again for it."""
    execution = report(COUNTED.format(trips=trips), count=64).executions[0]
    assert bool(execution.bounded) == may_be_bounded
