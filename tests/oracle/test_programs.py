"""Races, order and deadlocks of small programs: barriers, mbarriers, asynchronous copies, fences."""

from collections.abc import Sequence

import pytest

from .events import Scope
from .lowering import Reading
from .program import (
    Atomic,
    AwaitFlag,
    BarrierArrive,
    BarrierSync,
    BulkCommit,
    BulkCopy,
    BulkWait,
    ClusterArrive,
    ClusterWait,
    CpAsync,
    CpAsyncCommit,
    CpAsyncMbarrierArrive,
    CpAsyncWait,
    Fence,
    Instruction,
    Load,
    Location,
    MbarrierArrive,
    MbarrierExpectTx,
    MbarrierInit,
    MbarrierInitFence,
    MbarrierWait,
    Program,
    ProgramError,
    ProxyFence,
    Store,
    StoreAsync,
    Thread,
    Wgmma,
    WgmmaCommit,
    WgmmaWait,
)  # fmt: skip
from .questions import deadlocks, ordered, races

PLACES = (Location("x"), Location("y"), Location("f"), Location("s", 0), Location("t", 0), Location("r", 1))
MBARRIERS = (Location("m", 0), Location("n", 0), Location("q", 1))
SYNC = BarrierSync(0, 2)


PUBLISH: list[Instruction] = [ClusterArrive(), ClusterWait()]


def program(*threads: Sequence[Instruction], ctas: tuple[int, ...] | None = None) -> Program:
    homes = ctas or (0,) * len(threads)
    return Program(
        tuple(Thread(home, tuple(code)) for home, code in zip(homes, threads, strict=True)), PLACES, MBARRIERS
    )


def test_unsynchronised_accesses_race_and_strong_ones_do_not() -> None:
    assert races(program([Store("x")], [Load("x")])) == {((0, 0), (1, 0))}
    strong = [Store("x", "relaxed", Scope.GPU)], [Load("x", "relaxed", Scope.GPU)]
    assert races(program(*strong, ctas=(0, 1))) == set()
    narrow = [Store("x", "relaxed", Scope.CTA)], [Load("x", "relaxed", Scope.GPU)]
    assert races(program(*narrow, ctas=(0, 1))) == {((0, 0), (1, 0))}
    assert races(program([Load("x")], [Load("x")])) == set()


@pytest.mark.parametrize(
    ("release", "acquire", "ctas", "race"),
    [
        (Scope.GPU, Scope.GPU, (0, 1), False),
        (Scope.CLUSTER, Scope.CLUSTER, (0, 1), False),
        (Scope.CTA, Scope.GPU, (0, 1), True),
        (Scope.CTA, Scope.CTA, (0, 0), False),
    ],
)
def test_flag(release: Scope, acquire: Scope, ctas: tuple[int, int], race: bool) -> None:
    p = program(
        [Store("x"), Store("f", "release", release)],
        [AwaitFlag("f", 1, "acquire", acquire), Load("x")],
        ctas=ctas,
    )
    assert (((0, 0), (1, 1)) in races(p)) is race
    assert ordered(p, (0, 0), (1, 1)) is not race
    assert not deadlocks(p)


def test_flag_by_atomic_counter_collects_all_writers() -> None:
    add = Atomic("f", "release", Scope.GPU)
    p = program(
        [Store("x"), add], [Store("y"), add], [AwaitFlag("f", 2), Load("x"), Load("y")], ctas=(0, 1, 0)
    )
    assert races(p) == set()
    early = program([Store("x"), add], [Store("y"), add], [AwaitFlag("f", 1), Load("x"), Load("y")])
    assert races(early) == {((0, 0), (2, 1)), ((1, 0), (2, 2))}


def test_cta_barrier_orders_both_ways_and_arrive_one_way() -> None:
    assert races(program([Store("s"), SYNC, Load("t")], [Store("t"), SYNC, Load("s")])) == set()
    arrive = BarrierArrive(0, 2)
    p = program([Store("s"), arrive, Load("t")], [Store("t"), SYNC, Load("s")])
    assert races(p) == {((0, 2), (1, 0))}
    assert deadlocks(program([SYNC], [BarrierSync(1, 2)]))
    assert deadlocks(program([SYNC, BarrierSync(1, 2)], [BarrierSync(1, 2), SYNC]))
    assert not deadlocks(program([arrive, BarrierSync(1, 2)], [SYNC, BarrierSync(1, 2)]))


def test_race_before_a_deadlock_is_found() -> None:
    assert races(program([Store("s"), SYNC], [Load("s")])) == {((0, 0), (1, 0))}


def test_named_barrier_reused_by_a_producer_that_runs_ahead() -> None:
    full, empty = 1, 2
    producer: list[Instruction] = [Store("s"), BarrierArrive(full, 2), Store("s"), BarrierArrive(full, 2)]
    consumer: list[Instruction] = [BarrierSync(full, 2), Load("s"), BarrierSync(full, 2), Load("s")]
    assert ((0, 2), (1, 1)) in races(program(producer, consumer))
    producer.insert(2, BarrierSync(empty, 2))
    consumer.insert(2, BarrierArrive(empty, 2))
    assert races(program(producer, consumer)) == set()


def test_cluster_barrier() -> None:
    def both(*arrive: Instruction) -> Program:
        return program([Store("s"), *arrive, ClusterWait()], [*arrive, ClusterWait(), Load("s")], ctas=(0, 1))

    assert races(both(ClusterArrive())) == set()
    assert races(both(ClusterArrive("relaxed"))) == {((0, 0), (1, 2))}
    assert races(both(Fence("acq_rel", Scope.CLUSTER), ClusterArrive("relaxed"))) == set()
    assert races(both(Fence("acq_rel", Scope.CTA), ClusterArrive("relaxed"))) == {((0, 0), (1, 3))}


def test_mbarrier_initialisation_must_be_published() -> None:
    arrive, wait = MbarrierArrive("m"), MbarrierWait("m", 0)
    assert ((0, 0), (1, 0)) in races(program([MbarrierInit("m", 1), wait], [arrive]))
    assert races(program([MbarrierInit("m", 1), SYNC, wait], [SYNC, arrive])) == set()
    remote = MbarrierArrive("m", scope=Scope.CLUSTER)
    relaxed: list[Instruction] = [ClusterArrive("relaxed"), ClusterWait()]
    p = program([MbarrierInit("m", 1), *relaxed], [*relaxed, remote], ctas=(0, 1))
    assert races(p) == {((0, 0), (1, 2))}
    fenced = program([MbarrierInit("m", 1), MbarrierInitFence(), *relaxed], [*relaxed, remote], ctas=(0, 1))
    assert races(fenced) == set()


def handover(arrive: MbarrierArrive, *waits: Instruction, ctas: tuple[int, int] = (0, 0)) -> Program:
    """A generic write handed over on mbarrier m, initialised and published before."""
    return program(
        [*PUBLISH, Store("r"), arrive],
        [MbarrierInit("m", 1), *PUBLISH, *waits, Load("r")],
        ctas=(ctas[1], ctas[0]),
    )


WIDE = MbarrierArrive("m", scope=Scope.CLUSTER)


@pytest.mark.parametrize(
    ("arrive", "waits", "ctas", "race"),
    [
        (MbarrierArrive("m"), [MbarrierWait("m", 0)], (0, 0), False),
        (WIDE, [MbarrierWait("m", 0)], (0, 1), True),
        (WIDE, [MbarrierWait("m", 0, scope=Scope.CLUSTER)], (0, 1), False),
        (MbarrierArrive("m"), [MbarrierWait("m", 0, scope=Scope.CLUSTER)], (0, 1), True),
        (MbarrierArrive("m", semantics="relaxed"), [MbarrierWait("m", 0)], (0, 0), True),
        (WIDE, [MbarrierWait("m", 0, "relaxed", Scope.CLUSTER)], (0, 1), True),
        (
            WIDE,
            [MbarrierWait("m", 0, "relaxed", Scope.CLUSTER), Fence("acq_rel", Scope.CLUSTER)],
            (0, 1),
            False,
        ),
        (
            WIDE,
            [MbarrierWait("m", 0, "relaxed", Scope.CLUSTER), Fence("acquire", Scope.CLUSTER)],
            (0, 1),
            False,
        ),
        (WIDE, [MbarrierWait("m", 0, "relaxed", Scope.CLUSTER), Fence("acquire", Scope.CTA)], (0, 1), True),
        (
            WIDE,
            [
                MbarrierWait("m", 0, "relaxed", Scope.CLUSTER),
                Fence("acquire", Scope.CLUSTER, "shared::cluster"),
            ],
            (0, 1),
            False,
        ),
    ],
)
def test_mbarrier_handover(
    arrive: MbarrierArrive, waits: list[Instruction], ctas: tuple[int, int], race: bool
) -> None:
    p = handover(arrive, *waits, ctas=ctas)
    payload = ((0, 2), (1, 3 + len(waits)))
    assert (payload in races(p)) is race
    assert ordered(p, *payload) is not race
    assert not deadlocks(p)


def test_wait_for_the_preceding_phase_passes_at_once_or_hangs() -> None:
    p = handover(WIDE, MbarrierWait("m", 1))
    assert ((0, 2), (1, 4)) in races(p)
    assert deadlocks(p)


def test_restricted_fence_does_not_order_global_memory() -> None:
    wait = MbarrierWait("m", 0, "relaxed", Scope.CLUSTER)

    def hand(place: str, fence: Fence) -> set[object]:
        receiver = [MbarrierInit("m", 1), *PUBLISH, wait, fence, Load(place)]
        return set(races(program([*PUBLISH, Store(place), WIDE], receiver, ctas=(1, 0))))

    restricted = Fence("acquire", Scope.CLUSTER, "shared::cluster")
    assert hand("s", restricted) == set()
    assert hand("x", restricted) == {((0, 2), (1, 5))}
    assert hand("x", Fence("acquire", Scope.CLUSTER)) == set()


def test_restricted_release_fence_covers_the_own_shared_memory() -> None:
    relaxed = MbarrierArrive("m", semantics="relaxed", scope=Scope.CLUSTER)
    wait = MbarrierWait("m", 0, scope=Scope.CLUSTER)

    def hand(place: str) -> bool:
        sender = [*PUBLISH, Store(place), Fence("release", Scope.CLUSTER, "shared::cta"), relaxed]
        return bool(races(program(sender, [MbarrierInit("m", 1), *PUBLISH, wait, Load(place)], ctas=(1, 0))))

    assert not hand("r")
    assert hand("s")
    assert hand("x")


def test_phase_alias_by_an_arrival_that_may_come_early() -> None:
    """Unless a thread observes phase 0 between its two arrivals, the second may count for it too."""
    first, second = MbarrierWait("m", 0), MbarrierWait("m", 1)
    arrive = MbarrierArrive("m")
    late = program(
        [SYNC, arrive, Store("s"), arrive, second],
        [MbarrierInit("m", 2), SYNC, arrive, arrive, second, Load("s")],
    )
    assert ((0, 2), (1, 5)) in races(late)
    observed = program(
        [SYNC, arrive, first, Store("s"), arrive],
        [MbarrierInit("m", 2), SYNC, arrive, first, arrive, second, Load("s")],
    )
    assert races(observed) == set()
    assert ordered(observed, (0, 3), (1, 6))
    assert not deadlocks(observed)


def test_wait_orders_the_completed_phase_only_unless_read_otherwise() -> None:
    start, relaxed = BarrierSync(0, 3), MbarrierWait("m", 0, "relaxed")
    p = program(
        [start, Store("s"), MbarrierArrive("m")],
        [start, relaxed, MbarrierArrive("m")],
        [MbarrierInit("m", 1), start, relaxed, MbarrierWait("m", 1), Load("s")],
    )
    assert ((0, 1), (2, 4)) in races(p)
    assert ((0, 1), (2, 4)) not in races(p, Reading(cumulative_phases=True))


def load_by_copy(*before: Instruction, wait: Instruction, after: Instruction) -> Program:
    expect = MbarrierArrive("m", expect_tx=16)
    return program(
        [MbarrierInit("m", 1), SYNC, *before, expect, BulkCopy("x", "s", "m")], [SYNC, wait, after]
    )


def test_bulk_copy_into_shared_memory_completes_on_its_mbarrier() -> None:
    p = load_by_copy(wait=MbarrierWait("m", 0), after=Load("s"))
    assert races(p) == set()
    assert ordered(p, (0, 3), (1, 2))
    assert not deadlocks(p)
    assert races(load_by_copy(wait=MbarrierWait("m", 1), after=Load("s"))) == {((0, 3), (1, 2))}
    relaxed = load_by_copy(wait=MbarrierWait("m", 0, "relaxed"), after=Load("s"))
    assert races(relaxed) == {((0, 3), (1, 2))}


def test_bytes_that_never_come_deadlock() -> None:
    wait = MbarrierWait("m", 0)
    assert deadlocks(
        program([MbarrierInit("m", 1), MbarrierArrive("m", expect_tx=32), BulkCopy("x", "s", "m"), wait])
    )
    split: list[Instruction] = [
        MbarrierInit("m", 1),
        MbarrierExpectTx("m", 16),
        MbarrierArrive("m"),
        BulkCopy("x", "s", "m"),
        wait,
    ]
    assert not deadlocks(program(split))


def test_completion_does_not_publish_what_the_issuer_did_before() -> None:
    """PTX ISA 8.9.1.1: complete-tx is ordered after its own copy only."""
    init: list[Instruction] = [
        MbarrierInit("m", 1),
        SYNC,
        MbarrierArrive("m", expect_tx=16, semantics="relaxed"),
    ]
    p = program(
        [*init, Store("t"), BulkCopy("x", "s", "m")], [SYNC, MbarrierWait("m", 0), Load("t"), Load("s")]
    )
    assert races(p) == {((0, 3), (1, 2))}


@pytest.mark.parametrize(
    ("writer", "issuer", "race"),
    [
        ([ProxyFence()], [], False),
        ([ProxyFence("shared::cta")], [], False),
        ([ProxyFence("global")], [], True),
        ([ProxyFence(release=True)], [], False),
        ([], [ProxyFence()], False),
        ([], [], True),
    ],
)
def test_copy_out_of_shared_memory_needs_a_proxy_fence(
    writer: list[Instruction], issuer: list[Instruction], race: bool
) -> None:
    p = program([Store("s"), *writer, SYNC], [SYNC, *issuer, BulkCopy("s", "x"), BulkCommit(), BulkWait()])
    copy = (1, 1 + len(issuer))
    assert races(p) == ({((0, 0), copy)} if race else set())


def test_bulk_group_wait_of_reads_frees_the_source_not_the_target() -> None:
    def after(wait: BulkWait, access: Instruction) -> set[object]:
        return set(races(program([BulkCopy("s", "x"), BulkCommit(), wait, access])))

    assert after(BulkWait(0, read=True), Store("s")) == set()
    assert after(BulkWait(0, read=True), Load("x")) == {((0, 0), (0, 3))}
    assert after(BulkWait(0), Load("x")) == set()
    assert after(BulkWait(1), Store("s")) == {((0, 0), (0, 3))}


def test_group_wait_speaks_for_its_own_thread_only() -> None:
    copy: list[Instruction] = [BulkCopy("s", "x"), BulkCommit()]
    wait = BulkWait(0, read=True)
    assert races(program([*copy, wait, SYNC], [SYNC, Store("s")])) == set()
    assert races(program([*copy, SYNC, wait], [SYNC, wait, Store("s")])) == {((0, 0), (1, 2))}


def test_refill_after_a_generic_read() -> None:
    def ring(*before: Instruction) -> Program:
        fill: list[Instruction] = [MbarrierArrive("m", expect_tx=16), BulkCopy("x", "s", "m")]
        producer = [MbarrierInit("m", 1), MbarrierInit("n", 1), SYNC, *fill, MbarrierWait("n", 0), *fill]
        return program(producer, [SYNC, MbarrierWait("m", 0), *before])

    release: list[Instruction] = [Load("s"), MbarrierArrive("n")]
    assert races(ring(*release)) == set()
    assert races(ring(*reversed(release))) == {((0, 7), (1, 3))}
    strict = Reading(read_before_write_needs_proxy_fence=True)
    assert races(ring(*release), strict) == {((0, 7), (1, 2))}
    assert races(ring(release[0], ProxyFence(), release[1]), strict) == set()


def test_cp_async_by_groups_and_by_mbarrier() -> None:
    copy: list[Instruction] = [CpAsync("x", "s"), CpAsyncCommit()]
    assert races(program([*copy, CpAsyncWait(0), Load("s")])) == set()
    assert races(program([*copy, CpAsyncWait(1), Load("s")])) == {((0, 0), (0, 3))}
    assert races(program([*copy, CpAsyncWait(0), SYNC], [SYNC, Load("s")])) == set()
    assert races(program([*copy, CpAsyncWait(0)], [Load("s")])) == {((0, 0), (1, 0))}
    arrive: list[Instruction] = [
        MbarrierInit("m", 1),
        SYNC,
        CpAsync("x", "s"),
        CpAsyncMbarrierArrive("m"),
        Store("t"),
    ]
    assert races(program(arrive, [SYNC, MbarrierWait("m", 0), Load("s")])) == set()
    before: list[Instruction] = [MbarrierInit("m", 1), SYNC, Store("t"), CpAsyncMbarrierArrive("m")]
    assert races(program(before, [SYNC, MbarrierWait("m", 0), Load("t")])) == {((0, 2), (1, 2))}


def test_st_async_needs_a_wait_at_cluster_scope() -> None:
    def send(scope: Scope) -> Program:
        receiver: list[Instruction] = [MbarrierInit("q", 1), MbarrierArrive("q", expect_tx=16), *PUBLISH]
        wait = MbarrierWait("q", 0, scope=scope)
        return program([*PUBLISH, StoreAsync("r", "q")], [*receiver, wait, Load("r")], ctas=(0, 1))

    assert races(send(Scope.CLUSTER)) == set()
    assert races(send(Scope.CTA)) == {((0, 2), (1, 5))}


def test_wgmma_reads_until_its_group_is_waited_for() -> None:
    mma: list[Instruction] = [Wgmma(("s",)), WgmmaCommit()]
    assert races(program([*mma, WgmmaWait(0), SYNC], [SYNC, Store("s")])) == set()
    assert races(program([*mma, SYNC, WgmmaWait(0)], [SYNC, Store("s")])) == {((0, 0), (1, 1))}
    ring: list[Instruction] = [*mma, Wgmma(("t",)), WgmmaCommit(), WgmmaWait(1), SYNC]
    assert races(program(ring, [SYNC, Store("s"), Store("t")])) == {((0, 2), (1, 2))}
    assert races(program([Store("s"), *mma])) == {((0, 0), (0, 1))}
    assert races(program([Store("s"), ProxyFence(), *mma])) == set()


def test_programs_without_a_meaning_are_refused() -> None:
    with pytest.raises(ProgramError, match="undeclared name"):
        races(program([Store("nowhere")]))
    with pytest.raises(ProgramError, match="never initialised"):
        races(program([MbarrierArrive("m")]))
    with pytest.raises(ProgramError, match="only the own CTA"):
        races(program([MbarrierInit("m", 1)], [MbarrierWait("m", 0)], ctas=(0, 1)))
