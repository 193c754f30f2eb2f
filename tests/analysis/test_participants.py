"""Which threads of a CTA execute an instruction, by guards and branches on their indices."""

from pathlib import Path

import pytest
from cost_support import kernel, of_file

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.participants import Participants
from ptxaudit.ir.events import Fence, GroupWait, MbarrierArrive

RING = Path(__file__).parents[2] / "fixtures" / "kernels" / "gemm_ring"
FENCE = "fence.acq_rel.gpu;"


def count(analysis: FunctionAnalysis, block: tuple[int, int, int]) -> int:
    ((instruction, _),) = analysis.occurrences(Fence)
    return Participants(analysis, block).count(instruction.index)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (FENCE, 96),
        ("@%p1 " + FENCE, 1),
        ("@!%p1 " + FENCE, 95),
        ("@!%p1 bra SKIP; " + FENCE + " SKIP:", 1),
        ("@%p1 bra SKIP; " + FENCE + " SKIP:", 95),
        ("@%p1 bra ON; bra SKIP; ON: " + FENCE + " SKIP:", 1),
        ("@%p1 bra SKIP; bar.sync 0; SKIP: " + FENCE, 96),
        ("setp.lt.u32 %p4, %r1, 32; @%p4 exit; " + FENCE, 64),
        ("setp.lt.u32 %p4, %r1, 32; @%p4 bra SKIP; @%p1 bra SKIP; " + FENCE + " SKIP:", 64),
        ("and.b32 %r8, %r1, 31; setp.eq.u32 %p4, %r8, 0; @%p4 " + FENCE, 3),
        ("elect.sync %r8|%p4, 0xffffffff; @%p4 " + FENCE, 3),
        ("ld.global.u32 %r8, [%rd1]; setp.eq.u32 %p4, %r8, 0; @%p4 " + FENCE, 96),
        ("setp.eq.u32 %p4, %r2, 0; @%p4 " + FENCE, 96),
        ("shr.u32 %r8, %r1, 5; setp.eq.u32 %p4, %r8, 1; @!%p4 bra SKIP; " + FENCE + " SKIP:", 32),
    ],
)
def test_the_threads_that_execute_a_fence(body: str, expected: int) -> None:
    assert count(kernel(body), (96, 1, 1)) == expected


def test_a_block_of_several_dimensions() -> None:
    body = "mov.u32 %r8, %tid.y; setp.eq.u32 %p4, %r8, 1; @%p4 fence.acq_rel.gpu;"
    assert count(kernel(body), (16, 4, 1)) == 16


@pytest.mark.parametrize("name", ["gemm_ring.ptx", "gemm_ring.cubin"])
def test_roles_and_elected_threads_of_a_gemm(name: str) -> None:
    analysis = of_file(RING / name)
    participants = Participants(analysis, (384, 1, 1))
    waits = {
        event.kind.value: participants.count(instruction.index)
        for instruction, event in analysis.occurrences(GroupWait)
    }
    assert waits == {"wgmma": 256, "cp.async.bulk": 2}
    producing = [
        participants.count(instruction.index)
        for instruction, event in analysis.occurrences(MbarrierArrive)
        if event.expect_bytes is not None
    ]
    assert producing == [1]
