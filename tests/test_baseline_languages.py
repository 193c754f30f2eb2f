"""A finding has the same fingerprint in PTX and in SASS, and a baseline of the one holds for the other."""

from functools import cache
from pathlib import Path

import pytest

from ptxaudit.api import audit
from ptxaudit.engine.baseline import entry_of, match
from ptxaudit.rules.model import Finding

FIXTURES = Path(__file__).parent.parent / "fixtures"
# What is found in both, by the rule that it is of.
KERNELS = {
    "performance/gpu-membar-in-hot-loop/remote_arrive_release_cluster": "gpu-membar-in-hot-loop",
    "performance/l1-invalidate-in-poll-loop/flag_acquire_gpu": "l1-invalidate-in-poll-loop",
    "performance/l1-invalidate-in-poll-loop/mailbox_acquire_cluster_loop": "l1-invalidate-in-poll-loop",
    "correctness/global-memory-race/leader_sum_no_barrier": "global-memory-race",
    "correctness/mbarrier-phase-alias/row_two_phases": "mbarrier-phase-alias",
    "correctness/wgmma-stage-released-early/current_depth1_s2": "wgmma-stage-released-early",
}


@cache
def findings(kernel: str, suffix: str, assemble: bool = False) -> tuple[Finding, ...]:
    return audit(FIXTURES / f"{kernel}{suffix}", select=[KERNELS[kernel]], assemble=assemble).findings


@pytest.mark.parametrize("kernel", KERNELS)
def test_fingerprints_are_those_of_the_other_language(kernel: str) -> None:
    ptx, sass = findings(kernel, ".ptx"), findings(kernel, ".sm_90a.cubin")
    assert ptx
    assert {one.fingerprint for one in ptx} == {one.fingerprint for one in sass}
    both = findings(kernel, ".ptx", assemble=True)
    assert {one.fingerprint for one in ptx} == {one.fingerprint for one in both}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("suffixes", [(".ptx", ".sm_90a.cubin"), (".sm_90a.cubin", ".ptx")])
def test_a_baseline_of_one_language_holds_for_the_other(kernel: str, suffixes: tuple[str, str]) -> None:
    first, second = (findings(kernel, suffix) for suffix in suffixes)
    matched = match(second, map(entry_of, first))
    assert len(matched.known) == len(second)
    assert matched.gone == ()


TWO_PLACES = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
.reqntid 128, 1, 1
{{
    .reg .b32 %r<20>;
    .reg .b64 %rd<4>;
    .shared .align 16 .b8 first[512];
    .shared .align 16 .b8 second[512];
    mov.u32 %r0, %tid.x;
    shl.b32 %r1, %r0, 2;
    xor.b32 %r2, %r1, 256;
    mov.u32 %r3, first;
    mov.u32 %r4, second;
    add.u32 %r6, %r3, %r1;
    add.u32 %r7, %r3, %r2;
    add.u32 %r8, %r4, %r1;
    add.u32 %r9, %r4, %r2;
    st.shared.u32 [%r6], %r0;
    {first}
    ld.shared.u32 %r10, [%r7];
    bar.sync 0;
    st.shared.u32 [%r8], %r10;
    {second}
    ld.shared.u32 %r11, [%r9];
    ld.param.u64 %rd0, [out];
    cvta.to.global.u64 %rd0, %rd0;
    mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd0, %rd0, %rd1;
    add.u32 %r11, %r11, %r10;
    st.global.u32 [%rd0], %r11;
    ret;
}}
"""


def races(path: Path, first: str, second: str) -> tuple[Finding, ...]:
    path.write_text(TWO_PLACES.format(first=first, second=second))
    return audit(path, select=["shared-memory-race"], assemble=False).findings


def test_a_race_at_another_place_is_new(tmp_path: Path) -> None:
    before = races(tmp_path / "k.ptx", "", "bar.sync 0;")
    after = races(tmp_path / "k.ptx", "bar.sync 0;", "")
    # Neither what the instruction is nor what it does tells the one place from the other.
    assert [one.fingerprint for one in before] == [one.fingerprint for one in after]
    entries = [entry_of(one) for one in before]
    assert match(after, entries).gone == tuple(entries)
    assert match(races(tmp_path / "k.ptx", "", ""), entries).gone == ()
