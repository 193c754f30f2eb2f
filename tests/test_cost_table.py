"""The measured table: what it holds, and what lies between its points."""

import pytest

from ptxaudit.arch import Architecture
from ptxaudit.cost.table import Circumstances, CostTable, read_table, table_for

PROVENANCE = """
[provenance]
architecture = "sm_90"
device = "d"
driver = "1"
assembler = "a"
program = "p"
date = "2026-01-01"
method = "m"
"""
SMALL = (
    PROVENANCE
    + """
[operation."fence.acq_rel.gpu"]
instruction = "fence.acq_rel.gpu"
meaning = "after a wait"
points = [
  [31, 0, 0, 0, 100.0, 90.0, 110.0], [127, 0, 0, 0, 200.0, 190.0, 210.0],
  [31, 3, 0, 0, 300.0, 290.0, 310.0], [127, 3, 0, 0, 500.0, 490.0, 510.0],
]
"""
)


def hopper() -> CostTable:
    table = table_for(Architecture(90, "a"))
    assert table is not None
    return table


def cycles(table: CostTable, operation: str, **circumstances: int) -> float:
    estimate = table.estimate(operation, Circumstances(**circumstances))
    assert estimate is not None
    return estimate.cycles


def test_a_measured_point_is_given_as_it_is() -> None:
    estimate = read_table(SMALL).estimate("fence.acq_rel.gpu", Circumstances(127, 3))
    assert estimate is not None
    assert (estimate.cycles, estimate.low, estimate.high) == (500, 490, 510)
    assert not estimate.interpolated
    assert not estimate.extrapolated


def test_between_points_it_is_linear_in_the_logarithm() -> None:
    table = read_table(SMALL)
    # log2(1 + 63) is half way between log2(1 + 31) and log2(1 + 127); log2(1 + 1) between those of 0 and 3.
    assert cycles(table, "fence.acq_rel.gpu", threads=63) == pytest.approx(150)
    assert cycles(table, "fence.acq_rel.gpu", threads=63, loads=1) == pytest.approx(275)
    estimate = table.estimate("fence.acq_rel.gpu", Circumstances(63, 1))
    assert estimate is not None
    assert estimate.interpolated


def test_beyond_the_grid_the_border_stands_and_says_so() -> None:
    estimate = read_table(SMALL).estimate("fence.acq_rel.gpu", Circumstances(1023, 9))
    assert estimate is not None
    assert estimate.cycles == 500
    assert estimate.extrapolated


def test_an_axis_that_was_not_varied_is_no_extrapolation() -> None:
    estimate = read_table(SMALL).estimate("fence.acq_rel.gpu", Circumstances(31, stores=5))
    assert estimate is not None
    assert not estimate.extrapolated


def test_an_operation_that_was_not_measured_has_no_cycles() -> None:
    assert read_table(SMALL).estimate("fence.acq_rel.sys", Circumstances(31)) is None


def test_differences_below_zero_are_no_gain() -> None:
    noise = SMALL.replace("[31, 0, 0, 0, 100.0, 90.0, 110.0]", "[31, 0, 0, 0, -3.0, -5.0, 1.0]")
    estimate = read_table(noise).estimate("fence.acq_rel.gpu", Circumstances(31))
    assert estimate is not None
    assert (estimate.cycles, estimate.low, estimate.high) == (0, 0, 1)


WORKED = SMALL + "beside_work = [[31, 0, 0, 0.0, 0.0, 0.0], [31, 0, 40, 20.0, 10.0, 30.0]]"


@pytest.mark.parametrize(("work", "cycles"), [(0, 100), (10, 105), (40, 120), (400, 120)])
def test_work_changes_the_cycles_linearly(work: int, cycles: float) -> None:
    estimate = read_table(WORKED).estimate("fence.acq_rel.gpu", Circumstances(31, work=work))
    assert estimate is not None
    assert estimate.cycles == pytest.approx(cycles)
    assert not estimate.extrapolated, "more work hides no more"


def test_hopper_a_conditional_invalidate_shows_the_wait_that_work_would_hide() -> None:
    acquire = "mbarrier.wait.acquire.cluster"
    assert 20 < cycles(hopper(), acquire, threads=128, work=96) < 45
    # Of loads that miss, work hides a part.
    at = {"threads": 128, "loads": 1}
    assert cycles(hopper(), acquire, **at, work=96) < cycles(hopper(), acquire, **at) - 50


def test_a_hole_in_the_grid_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"fence\.acq_rel\.gpu: found no point \(31, 3, 0, 0\)"):
        read_table(SMALL.replace("[31, 3, 0, 0, 300.0, 290.0, 310.0],", ""))


def test_an_architecture_that_was_not_measured_has_no_table() -> None:
    assert table_for(Architecture(100, "a")) is None


def test_the_suffix_is_no_other_chip() -> None:
    assert table_for(Architecture(90)) is hopper()


def test_hoppers_table_says_where_it_comes_from() -> None:
    provenance = hopper().provenance
    assert provenance.device == "NVIDIA H200"
    assert provenance.architecture == "sm_90"
    assert provenance.program == "tests/benchmarks/gpu/costs/run.py"


@pytest.mark.parametrize("threads", [32, 128, 512])
def test_hopper_l1_invalidate_costs_by_the_loads_behind_it(threads: int) -> None:
    # ../shared/rules.md measured the same on another H200: 0 to 6 cycles without, 235 to 305 with loads.
    acquire = "mbarrier.wait.acquire.cluster"
    assert cycles(hopper(), acquire, threads=threads) < 15
    assert 225 < cycles(hopper(), acquire, threads=threads, loads=1) < 335


def test_hopper_restricted_fence_is_free_and_wider_fences_are_dearer() -> None:
    at = {"threads": 128, "loads": 1}
    scopes = [cycles(hopper(), f"fence.acq_rel.{scope}", **at) for scope in ("cta", "gpu", "sys")]
    assert scopes == sorted(scopes)
    assert cycles(hopper(), "fence.acquire.sync_restrict::shared::cluster.cluster", **at) < 5


def test_hopper_membar_waits_for_stores() -> None:
    without = cycles(hopper(), "fence.acq_rel.gpu", threads=128)
    assert cycles(hopper(), "fence.acq_rel.gpu", threads=128, stores=1) > 1.5 * without
