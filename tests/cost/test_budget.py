"""Budgets of small kernels by made-up measurements: circumstances, frequency, ways through loops."""

from pathlib import Path

import pytest
from cost_support import FakeTable, kernel, of_file, only_loop, priced, repeated, wait

from ptxaudit.analysis.order.explore import order_of
from ptxaudit.cost.budget import budget_by
from ptxaudit.cost.payers import executed_roles
from ptxaudit.cost.table import Circumstances, Estimate
from ptxaudit.rules.budget import Budget, Executions, Part

FIXTURES = Path(__file__).parents[2] / "fixtures"
MAILBOX = FIXTURES / "performance" / "l1-invalidate-in-poll-loop" / "mailbox_acquire_cluster_loop.ptx"
RING = FIXTURES / "kernels" / "gemm_ring" / "gemm_ring.cubin"

SAME = "ld.global.u32 %r5, [%rd1];"
OTHER = "ld.global.u32 %r7, [%rd1+4096];"
FORWARD = "ld.global.u32 %r5, [%rd2]; add.s64 %rd2, %rd2, {step};"
STORE = "st.global.u32 [%rd1+{offset}], %r6;"
ARRIVE = "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r10];"
CLUSTER = wait("acquire.cluster")
FENCE = "fence.acq_rel.gpu;"
USE = "add.u32 %r7, %r5, %r7;"


@pytest.mark.parametrize(
    ("behind", "cycles"),
    [
        ("", 0),
        (SAME, 200),
        (SAME + OTHER, 400),
        (SAME + SAME, 200),
        (FORWARD.format(step=4), 200),
        (FORWARD.format(step=128), 0),
        (FORWARD.format(step=65536), 0),
        ("ld.global.cg.u32 %r5, [%rd1];", 0),
        ("ld.relaxed.gpu.global.u32 %r5, [%rd1];", 0),
        ("ld.shared.u32 %r5, [%r10];", 0),
        ("ld.global.nc.u32 %r5, [%rd1];", 200),
    ],
)
def test_an_invalidate_costs_the_loads_behind_it_that_could_have_hit(behind: str, cycles: int) -> None:
    loop = only_loop(kernel(repeated(ARRIVE + CLUSTER + behind)))
    assert loop.cycles is not None
    assert loop.cycles.estimate == cycles
    assert loop.parts.get(Part.INVALIDATE, 0) == cycles


def test_an_address_that_is_loaded_may_repeat() -> None:
    gathered = "ld.global.cg.u64 %rd3, [%rd2]; add.s64 %rd2, %rd2, 8; ld.global.u32 %r5, [%rd3];"
    (place,) = (p for p in priced(kernel(repeated(ARRIVE + CLUSTER + gathered))).places if p.forces)
    assert place.cycles is not None
    assert (place.cycles.low, place.cycles.estimate) == (0, 200)
    assert place.forces == "1 load is fetched again if in L1: whether the address repeats is not known"


def test_loads_between_two_invalidates_count_for_the_first_of_them() -> None:
    body = ARRIVE + CLUSTER + SAME + wait("acquire.cluster", "V") + OTHER + ARRIVE
    first, second = (p for p in priced(kernel(repeated(body))).places if p.forces)
    assert first.forces == second.forces == "1 load is fetched again: the address stays within a line"
    loop = only_loop(kernel(repeated(ARRIVE + CLUSTER + wait("acquire.cluster", "V") + SAME + OTHER)))
    assert loop.cycles is not None
    assert loop.cycles.estimate == 400, "the misses are paid once"


@pytest.mark.parametrize(
    ("before", "stores"),
    [
        ("", 0),
        (STORE.format(offset=0), 1),
        (STORE.format(offset=0) + STORE.format(offset=4), 2),
        ("st.shared.u32 [%r10], %r6;", 0),
        (STORE.format(offset=0) + FENCE + STORE.format(offset=4), 1),
        (STORE.format(offset=0) + "fence.acq_rel.cta;", 1),
        ("red.global.add.u32 [%rd1], %r6;", 1),
    ],
)
def test_a_memory_barrier_waits_for_the_stores_since_the_last(before: str, stores: int) -> None:
    budget = priced(kernel(repeated(before + "fence.acq_rel.gpu;")))
    last = [place for place in budget.places if place.operation == "fence.acq_rel.gpu"][-1]
    assert last.cycles is not None
    assert last.cycles.estimate == 280 + 20 * stores
    assert last.cycles.low == pytest.approx(0.9 * 280), "none of them need be in flight"
    assert last.waits_for == f"{stores} store{'' if stores == 1 else 's'} since the last memory barrier"


def test_stores_behind_the_barrier_are_in_flight_when_the_loop_comes_round() -> None:
    budget = priced(kernel(repeated(FENCE + STORE.format(offset=0))))
    assert budget.places[0].waits_for == "1 store since the last memory barrier"
    assert priced(kernel(FENCE + STORE.format(offset=0))).places[0].waits_for == (
        "0 stores since the last memory barrier"
    )


def test_a_fence_is_split_into_flush_and_invalidate() -> None:
    loop = only_loop(kernel(repeated(FENCE + SAME + USE)))
    # Without the miss it would find as much in flight: the 300 of one store.
    assert loop.parts == {Part.FLUSH: 300, Part.INVALIDATE: 280}


def test_a_load_that_nothing_uses_before_the_next_fence_is_fetched_while_that_waits() -> None:
    (fence,) = priced(kernel(repeated(FENCE + SAME + STORE.format(offset=0)))).places
    assert fence.forces == "1 load is fetched again while the next memory barrier waits"
    assert fence.parts == {Part.FLUSH: 280 + 20}


def test_the_second_of_two_fences_finds_nothing_in_flight() -> None:
    budget = priced(kernel(repeated(STORE.format(offset=0) + SAME + USE + FENCE + FENCE)))
    first, second = budget.places
    assert first.waits_for == "1 store and loads from L2 since the last memory barrier"
    assert second.waits_for == "0 stores since the last memory barrier"
    assert first.parts == {Part.FLUSH: 280 + 20}
    # In the measured loops the loads behind a fence are traffic at the next one.
    assert second.parts == {Part.FLUSH: 280, Part.INVALIDATE: 300}


@pytest.mark.parametrize(
    ("before", "fetched"),
    [
        ("ld.relaxed.gpu.global.u32 %r5, [%rd1];" + USE, True),
        ("ld.global.cg.u32 %r5, [%rd1];" + USE, True),
        ("ld.shared.u32 %r5, [%r10];" + USE, False),
        (FORWARD.format(step=128) + USE, True),
        (SAME + USE, False),
    ],
)
def test_loads_that_hit_are_no_traffic(before: str, fetched: bool) -> None:
    body = before + "@%p1 mbarrier.arrive.release.cluster.shared::cta.b64 _, [%r10];"
    (place,) = priced(kernel(repeated(body))).places
    assert place.waits_for is not None
    assert ("loads from L2" in place.waits_for) is fetched


@pytest.mark.parametrize(
    ("body", "executions"),
    [
        (FENCE, Executions.ONCE),
        (repeated(FENCE), Executions.ITERATION),
        (repeated("mov.u32 %r7, 0;" + repeated(SAME, "INNER", "%r7") + FENCE), Executions.OUTER),
        (repeated(CLUSTER + SAME + FENCE), Executions.SUCCESS),
        (
            repeated(
                "F: ld.acquire.gpu.global.u32 %r7, [%rd1]; setp.eq.u32 %p2, %r7, 0; @%p2 bra F;" + FENCE
            ),
            Executions.ATTEMPT,
        ),
    ],
)
def test_how_often_a_place_is_executed(body: str, executions: Executions) -> None:
    assert priced(kernel(body)).places[0].executions is executions


def test_an_iteration_costs_what_its_dearest_way_does() -> None:
    choice = """
    @%p1 bra ONE;
    fence.acq_rel.gpu;
    bra JOINED;
ONE:
    fence.proxy.async.shared::cta;
JOINED:
"""
    loop = only_loop(kernel(repeated(choice + "bar.sync 0;")))
    assert loop.cycles is not None
    assert loop.cycles.estimate == 280 + 30
    assert loop.cycles.low == pytest.approx(0.9 * (20 + 30))


def test_inner_loops_come_on_top() -> None:
    nested = "mov.u32 %r7, 0;" + repeated(FENCE, "INNER", "%r7") + "bar.sync 0;"
    outer, inner = priced(kernel(repeated(nested))).loops
    assert (outer.innermost, inner.innermost) == (False, True)
    assert outer.cycles is not None
    assert inner.cycles is not None
    assert (outer.cycles.estimate, inner.cycles.estimate) == (30, 280)


def test_what_stands_in_no_loop_is_added_up_once() -> None:
    budget = priced(kernel("bar.sync 0;" + repeated(FENCE) + "bar.sync 0;"))
    assert budget.once is not None
    assert budget.once.estimate == 60
    assert budget.once_parts == {Part.BARRIER: 60}


def test_places_know_their_share_and_rank() -> None:
    budget = priced(kernel(repeated(FENCE + "bar.sync 0;" + ARRIVE)))
    fence, barrier, arrive = budget.places
    assert (fence.rank, barrier.rank, arrive.rank) == (1, 2, None)
    assert fence.share == pytest.approx(280 / 310)
    assert arrive.share == 0


def test_an_operation_that_was_not_measured_has_no_cycles() -> None:
    budget = priced(kernel(repeated("barrier.cluster.arrive.relaxed.aligned;" + FENCE)))
    arrive, fence = budget.places
    assert arrive.cycles is None
    assert fence.share == 1


def test_an_architecture_that_was_not_measured_has_ranks_and_no_cycles() -> None:
    analysis = kernel(repeated(FENCE + "bar.sync 0;"), target="sm_100a")
    budget = budget_by(analysis, None, FakeTable())
    assert budget.measured is None
    assert [place.rank for place in budget.places] == [1, 2]
    assert all(place.cycles is None and not place.parts for place in budget.places)
    assert budget.loops[0].cycles is None
    assert not budget.loops[0].parts
    assert budget.once is None
    assert "sm_100a was not measured" in budget.assumptions[0]


def test_a_wait_that_finds_nothing_pending_costs_nothing() -> None:
    copy = "cp.async.ca.shared.global [%r10], [%rd1], 4; cp.async.commit_group;"
    first, second = priced(kernel(copy + "cp.async.wait_group 0; cp.async.wait_group 0;")).places
    assert first.cycles is not None
    assert second.cycles is not None
    assert (first.cycles.estimate, second.cycles.estimate) == (10, 0)
    assert first.waits_for == "1 cp.async copy in 1 group or more, leaves 0"
    assert second.waits_for == "nothing in flight"


def test_the_block_size_is_stated_or_assumed() -> None:
    assert priced(kernel(FENCE, threads=256)).threads == 256
    budget = priced(kernel(FENCE, threads=None))
    assert budget.threads == 128
    assert "the block size is not stated: 128 threads are taken" in budget.assumptions


def test_ptx_and_sass_of_a_loop_cost_the_same() -> None:
    ptx = only_loop(of_file(MAILBOX))
    sass = only_loop(of_file(MAILBOX.with_suffix(".sm_90a.cubin")))
    assert ptx.cycles == sass.cycles
    assert ptx.parts == sass.parts == {Part.INVALIDATE: 200, Part.BARRIER: 30, Part.FLUSH: 320}


def test_of_the_attempts_of_one_wait_in_sass_the_first_counts() -> None:
    budget = priced(of_file(MAILBOX.with_suffix(".sm_90a.cubin")))
    first, again = (p for p in budget.places if p.operation == "mbarrier.wait.acquire.cluster")
    assert first.counted_at is None
    assert first.cycles is not None
    assert (again.counted_at, again.cycles) == (first.index, None)


class ThreadsTable(FakeTable):
    """Every operation costs the threads that it is priced for."""

    def estimate(self, operation: str, circumstances: Circumstances) -> Estimate | None:
        value = float(circumstances.threads)
        return Estimate(value, value, value, False, False)


@pytest.mark.parametrize(
    ("body", "threads"),
    [
        ("bar.sync 0;", 128),
        ("setp.ge.u32 %p4, %r1, 32; @%p4 bra PAST; bar.sync 0; PAST:", 128),  # all threads are for it
        ("bar.sync 1, 64;", 64),
        ("mov.u32 %r7, 96; bar.sync 1, %r7;", 96),
        ("shl.b32 %r7, %r2, 5; setp.ge.u32 %p4, %r1, 64; @%p4 bra PAST; bar.sync 1, %r7; PAST:", 64),
        ("setp.ge.u32 %p4, %r1, 32; @%p4 ret; fence.acq_rel.gpu;", 32),
        ("setp.ge.u32 %p4, %r1, 32; @%p4 bra PAST; fence.acq_rel.gpu; PAST:", 32),
    ],
)
def test_the_threads_that_a_place_is_priced_for(body: str, threads: int) -> None:
    budget = budget_by(kernel(body), ThreadsTable(), None)
    assert budget.places[0].cycles is not None
    assert budget.places[0].cycles.estimate == threads


BY_WARP = """
    shr.u32 %r8, %r1, 5;
    setp.eq.u32 %p4, %r8, 0;
    @%p4 bra FIRST;
    fence.acq_rel.gpu;
    bra JOINED;
FIRST:
    fence.proxy.async;
JOINED:
"""


def executed(body: str) -> Budget:
    analysis = kernel(body)
    order_of(analysis)
    return budget_by(analysis, FakeTable(), None, executed_roles(analysis))


def test_what_other_roles_execute_is_not_added_up() -> None:
    one_after_the_other = BY_WARP + BY_WARP.replace("FIRST", "AGAIN").replace("JOINED", "DONE").replace(
        "%r8, 0", "%r8, 1"
    )
    budget = executed(one_after_the_other)
    assert budget.once is not None
    # Warps 2 and 3 execute two fences of 280, the others one fence and one proxy fence of 290.
    assert budget.once.estimate == 570
    assert budget.once_roles == ("warp 0", "warp 1")


def test_a_loop_costs_what_it_costs_one_role() -> None:
    budget = executed(repeated(BY_WARP))
    (loop,) = budget.loops
    assert loop.cycles is not None
    assert loop.cycles.estimate == 290
    shares = {place.operation: place.share for place in budget.places}
    assert shares == {"fence.proxy.async": 1.0, "fence.acq_rel.gpu": None}


def test_warps_that_left_pay_nothing() -> None:
    budget = executed("bar.sync 0; setp.ge.u32 %p4, %r1, 32; @%p4 exit; fence.acq_rel.gpu; fence.sc.gpu;")
    barrier, fence, last = budget.places
    assert barrier.roles == ("warp 0", "warps 1-3")
    assert fence.roles == last.roles == ("warp 0",)


def test_a_place_says_which_measurement_it_is_priced_by() -> None:
    (place,) = priced(kernel("fence.acquire.cluster;")).places
    assert (place.operation, place.priced_as) == ("fence.acquire.cluster", "l1.invalidate")


def test_what_a_place_adds_is_not_below_zero() -> None:
    cheap = dict(FakeTable().cycles) | {"barrier.cluster.release": (100, 0, 0)}
    budget = budget_by(kernel("barrier.cluster.arrive.release.aligned;"), FakeTable(cheap), None)
    assert budget.places[0].added is not None
    assert budget.places[0].added.low == 0


def test_roles_pay_where_the_function_was_executed() -> None:
    analysis = of_file(RING)
    assert all(not place.roles for place in priced(analysis).places)
    order_of(analysis)
    budget = budget_by(analysis, FakeTable(), None, executed_roles(analysis))
    waits = [place for place in budget.places if place.operation.startswith("wgmma")]
    assert waits
    assert all(place.critical for place in waits)
    assert all("warp 0" not in place.roles for place in waits)
    copying = [loop for loop in budget.loops if loop.roles == ("warp 0",)]
    assert copying
    assert not any(loop.critical for loop in copying)
    assert budget.assumptions[-1].startswith("on the critical path are")
