"""How far addresses move an iteration, in PTX and in SASS."""

from pathlib import Path

import pytest
from cost_support import kernel, of_file, repeated

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.pollloops import poll_loops
from ptxaudit.analysis.strides import stride
from ptxaudit.ir.events import Access

SASS = (
    Path(__file__).parents[2]
    / "fixtures"
    / "performance"
    / "l1-invalidate-in-poll-loop"
    / "flag_acquire_gpu.sm_90a.cubin"
)
LOAD = "ld.global.u32 %r5, [%rd3];"


def strides(analysis: FunctionAnalysis) -> list[int | None]:
    """Those of the global accesses in the innermost loops."""
    loops = poll_loops(analysis)
    found = []
    for instruction, access in analysis.occurrences(Access):
        loop = loops.working_of(analysis.function.block_of(instruction.index).id)
        if loop is not None and access.space == "global":
            address = access.address
            found.append(stride(analysis, loops.definitions, address, instruction.index, loop.blocks))
    return found


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("mov.u64 %rd3, %rd1;" + LOAD, 0),
        ("ld.global.u32 %r5, [%rd1+64];", 0),
        ("ld.global.u32 %r5, [%rd2]; add.s64 %rd2, %rd2, 512;", 512),
        ("add.s64 %rd2, %rd2, 512; ld.global.u32 %r5, [%rd2];", 512),
        ("ld.global.u32 %r5, [%rd2]; sub.s64 %rd2, %rd2, 16;", -16),
        ("mul.wide.u32 %rd3, %r6, 4; add.s64 %rd3, %rd3, %rd1;" + LOAD, 4),
        ("mad.lo.u32 %r8, %r6, 256, %r1; mul.wide.u32 %rd3, %r8, 4; add.s64 %rd3, %rd3, %rd1;" + LOAD, 1024),
        ("ld.global.u32 %r5, [%rd2]; add.s64 %rd4, %rd2, 256; mov.u64 %rd2, %rd4;", 256),
        ("ld.global.u32 %r5, [%rd2]; @%p1 add.s64 %rd2, %rd2, 512;", None),
        ("and.b32 %r8, %r6, 3; mul.wide.u32 %rd3, %r8, 512; add.s64 %rd3, %rd3, %rd1;" + LOAD, None),
        (
            "ld.param.u32 %r8, [trips]; ld.global.u32 %r5, [%rd2]; cvt.u64.u32 %rd4, %r8;"
            " add.s64 %rd2, %rd2, %rd4;",
            None,
        ),
    ],
)
def test_the_stride_of_an_address(body: str, expected: int | None) -> None:
    assert strides(kernel(repeated(body))) == [expected]


def test_a_loaded_address_has_none() -> None:
    assert strides(kernel(repeated("ld.global.u64 %rd3, [%rd1];" + LOAD))) == [0, None]


def test_sass_is_read_alike() -> None:
    assert strides(of_file(SASS)) == strides(of_file(SASS.with_name("flag_acquire_gpu.ptx")))
    assert 65536 in strides(of_file(SASS))
