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
