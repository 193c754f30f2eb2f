"""The arithmetic that may run while a wait or a load is under way."""

import pytest
from cost_support import PROVENANCE, kernel, repeated, wait

from ptxaudit.cost.budget import budget_by
from ptxaudit.cost.table import Circumstances, Estimate, Provenance

STEP = "fma.rn.f32 %f1, %f1, %f1, %f1;"
OTHER_STEP = "fma.rn.f32 %f2, %f2, %f2, %f2;"
CLUSTER = wait("acquire.cluster")
LOAD = "ld.global.u32 %r5, [%rd1];"
USE = "add.u32 %r7, %r5, %r7;"
STAGED = "ld.shared.f32 %f1, [%r10];"
FLOATS = ".reg .f32 %f<4>;"


class WorkTable:
    """Every operation costs the work beside it."""

    provenance: Provenance = PROVENANCE

    def estimate(self, operation: str, circumstances: Circumstances) -> Estimate | None:
        if operation == "mbarrier.wait.acquire.cta":
            return Estimate(0, 0, 0, False, False)
        value = float(circumstances.work)
        return Estimate(value, value, value, False, False)


def work(body: str, threads: int = 128) -> int:
    """The work beside the first synchronisation of a loop, less that of the loop's own counter."""
    budget = budget_by(kernel(FLOATS + repeated(body), threads=threads), WorkTable(), None)
    cycles = budget.places[0].cycles
    assert cycles is not None
    return round(cycles.estimate)


@pytest.mark.parametrize(
    ("body", "cycles"),
    [
        (CLUSTER + STEP * 8, 32),
        (STEP * 8 + CLUSTER, 32),  # the loop comes round
        (CLUSTER + STEP * 5 + "bar.warp.sync 0xffffffff;" + STEP * 3, 32),
        (CLUSTER + LOAD + USE + STEP * 8, 32),
        (CLUSTER + LOAD + USE * 9 + STEP * 8, 32),  # what needs the load waits for it
        (CLUSTER + STAGED + STEP * 8, 8),  # the counter of the loop
        (CLUSTER + STEP * 8 + "bar.sync 0;" + STEP * 30, 32),
        (CLUSTER + "bar.sync 0;" + STEP * 8, 0),
        (CLUSTER + "bar.sync 0;" + LOAD + USE + STEP * 8, 32),  # beside the load, behind the barrier
        (CLUSTER + "@%p1 bra SKIP;" + STEP * 30 + "SKIP:" + STEP * 8, 32),  # not every iteration
    ],
)
def test_work_is_what_needs_nothing_that_is_waited_for(body: str, cycles: int) -> None:
    assert work(body) == cycles


def test_a_chain_takes_its_latency_and_other_instructions_their_issue() -> None:
    both = (STEP + OTHER_STEP) * 8
    assert work(CLUSTER + both) == 32
    # Sixteen warps share four schedulers: eighteen instructions with the counter's, four warps each.
    assert work(CLUSTER + both, threads=512) == 72


def test_outside_loops_nothing_is_hidden() -> None:
    budget = budget_by(kernel(FLOATS + CLUSTER + STEP * 8), WorkTable(), None)
    assert budget.places[0].cycles is not None
    assert budget.places[0].cycles.estimate == 0
