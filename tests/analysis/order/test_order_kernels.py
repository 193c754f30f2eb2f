"""Clocks, slices and executions of the order engine, on tiny kernels whose answer is plain."""

import pytest

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import Limits, OrderReport, explore
from ptxaudit.analysis.order.program import compile_program
from ptxaudit.analysis.order.races import Link
from ptxaudit.frontends.ptx import load_ptx
from ptxaudit.source import SourceText

HEAD = """\
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 count)
.reqntid {threads}, 1, 1
.reqnctapercluster {ctas}, 1, 1
{{
    .reg .pred %p<8>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    .shared .align 128 .b8 data[256];
    .shared .align 8 .b64 bar;
    .shared .align 4 .b32 flag;
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %tid.x;
    and.b32 %r1, %r0, 31;
    shr.u32 %r2, %r0, 5;
    setp.eq.u32 %p0, %r1, 0;
    setp.eq.u32 %p1, %r2, 0;
    mov.u32 %r9, %cluster_ctarank;
"""


def analysis(body: str, threads: int = 64, ctas: int = 1) -> FunctionAnalysis:
    text = HEAD.format(threads=threads, ctas=ctas) + body + "\n    ret;\n}\n"
    module = load_ptx(SourceText("tiny.ptx", text))
    return FunctionAnalysis(module.functions[0], module)


def roles(first: str, second: str, threads: int = 64, ctas: int = 1) -> OrderReport:
    """Warp 0 does the first, the others the second."""
    body = f"    @!%p1 bra OTHER;\n{first}\n    bra DONE;\nOTHER:\n{second}\nDONE:"
    return explore(analysis(body, threads, ctas), Limits())


def links(report: OrderReport) -> set[Link]:
    assert report.reason is None
    return {race.link for race in report.races}


STORE = "    @%p0 st.shared.u32 [data], 1;"
LOAD = "    @%p0 ld.shared.u32 %r3, [data];"
INIT = "    @%p0 mbarrier.init.shared.b64 [bar], 1;\n    bar.sync 1, 64;"
MEET = "    bar.sync 1, 64;"
COPY = (
    "    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;\n"
    "    @%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [data], [%rd0], 16, [bar];"
)


def wait(parity: int, name: str) -> str:
    return f"{name}:\n    mbarrier.try_wait.parity.shared.b64 %p3, [bar], {parity};\n    @!%p3 bra {name};"


def test_nothing_between_two_warps_is_no_order() -> None:
    assert links(roles(STORE, LOAD)) == {Link.NONE}
    assert links(roles(LOAD, LOAD)) == set()


@pytest.mark.parametrize("arrive", ["bar.sync 2, 64;", "bar.arrive 2, 64;"])
def test_a_cta_barrier_orders_arrivals_before_waits(arrive: str) -> None:
    assert links(roles(f"{STORE}\n    {arrive}", f"    bar.sync 2, 64;\n{LOAD}")) == set()


def test_an_arrival_orders_nothing_that_comes_after_it() -> None:
    assert links(roles(f"    bar.arrive 2, 64;\n{STORE}", f"    bar.sync 2, 64;\n{LOAD}")) == {Link.NONE}


def test_another_barrier_orders_nothing() -> None:
    report = roles(f"{STORE}\n    bar.arrive 2, 64;", "    bar.arrive 3, 64;\n" + LOAD)
    assert links(report) == {Link.NONE}


def test_the_phase_of_an_mbarrier_orders() -> None:
    arrive = "    @%p0 mbarrier.arrive.shared.b64 _, [bar];"
    assert links(roles(f"{INIT}\n{STORE}\n{arrive}", f"{MEET}\n{wait(0, 'W')}\n{LOAD}")) == set()
    assert links(roles(f"{INIT}\n{arrive}\n{STORE}", f"{MEET}\n{wait(0, 'W')}\n{LOAD}")) == {Link.NONE}


def test_a_wait_on_the_parity_before_orders_nothing() -> None:
    arrive = "    @%p0 mbarrier.arrive.shared.b64 _, [bar];"
    report = roles(f"{INIT}\n{MEET}\n{STORE}\n{arrive}", f"{MEET}\n{wait(1, 'W')}\n{MEET}\n{LOAD}")
    assert links(report) == {Link.NONE}


def test_a_copy_is_in_flight_until_its_phase_is_waited_for() -> None:
    assert links(roles(f"{INIT}\n{COPY}", f"{MEET}\n{wait(0, 'W')}\n{LOAD}")) == set()
    assert links(roles(f"{INIT}\n{COPY}\n    bar.sync 2, 64;", f"{MEET}\n    bar.sync 2, 64;\n{LOAD}")) == {
        Link.IN_FLIGHT
    }


def test_an_async_read_needs_a_proxy_fence_of_the_right_space() -> None:
    drain = "    @%p0 cp.async.bulk.commit_group;\n    @%p0 cp.async.bulk.wait_group 0;"
    copy = f"    @%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [data], 16;\n{drain}"
    answers = {
        fence: links(roles(f"{STORE}\n{fence}\n    bar.sync 2, 64;", f"    bar.sync 2, 64;\n{copy}"))
        for fence in ("", *(f"    fence.proxy.async{space};" for space in ("", ".shared::cta", ".global")))
    }
    assert list(answers.values()) == [{Link.PROXY}, set(), set(), {Link.PROXY}]


@pytest.mark.parametrize(("depth", "expected"), [(0, set()), (1, {Link.IN_FLIGHT})])
def test_a_group_wait_covers_all_but_the_newest_groups(depth: int, expected: set[Link]) -> None:
    copies = "".join(
        f"    @%p0 cp.async.cg.shared.global [data+{16 * n}], [%rd0], 16;\n    cp.async.commit_group;\n"
        for n in (0, 1)
    )
    first = f"{copies}    cp.async.wait_group {depth};\n    bar.sync 2, 64;"
    assert links(roles(first, "    bar.sync 2, 64;\n    @%p0 ld.shared.u32 %r3, [data+16];")) == expected
    assert links(roles(first, f"    bar.sync 2, 64;\n{LOAD}")) == set()


def test_a_copy_after_an_arrival_is_not_covered_by_it() -> None:
    copy = "    @%p0 cp.async.cg.shared.global [data], [%rd0], 16;"
    arrive = "    @%p0 cp.async.mbarrier.arrive.noinc.shared.b64 [bar];"
    after = f"{MEET}\n{wait(0, 'W')}\n{LOAD}"
    assert links(roles(f"{INIT}\n{copy}\n{arrive}", after)) == set()
    assert links(roles(f"{INIT}\n{arrive}\n{copy}", after)) != set()


def test_two_copies_of_one_thread_to_one_place_are_not_in_order() -> None:
    copy = "    @%p0 cp.async.cg.shared.global [data], [%rd0{}], 16;"
    both = "\n".join((copy.format(""), copy.format("+16")))
    assert links(roles(f"{both}\n    cp.async.wait_all;", "")) != set()
    drain = "    cp.async.wait_all;"
    waited = "\n".join((copy.format(""), drain, copy.format("+16"), drain))
    assert links(roles(waited, "")) == set()


# Flags -------------------------------------------------------------------------------------------------

POLL = """POLL:
    ld.{order}.{where} %r4, [{address}];
    setp.ne.u32 %p3, %r4, 1;
    @%p3 bra POLL;"""


def polled(
    store: str, order: str, address: str = "%rd0+64", where: str = "global.u32", fence: str = ""
) -> OrderReport:
    send = f"{STORE}\n{fence}\n    @%p0 st.{store}.{where} [{address}], 1;"
    receive = f"{POLL.format(order=order, where=where, address=address)}\n{fence}\n{LOAD}"
    return roles(send, receive)


@pytest.mark.parametrize(("address", "where"), [("%rd0+64", "global.u32"), ("flag", "shared.u32")])
def test_a_released_flag_orders_who_polls_it(address: str, where: str) -> None:
    assert links(polled("release.cta", "acquire.cta", address, where)) == set()
    assert links(polled("relaxed.cta", "relaxed.cta", address, where, "    fence.acq_rel.cta;")) == set()


@pytest.mark.parametrize(("store", "order"), [("relaxed.cta", "acquire.cta"), ("release.cta", "relaxed.cta")])
def test_a_relaxed_flag_without_fences_orders_nothing(store: str, order: str) -> None:
    assert links(polled(store, order)) & {Link.NONE, Link.NOT_VISIBLE}


def test_a_load_that_is_not_polled_observes_nothing_for_sure() -> None:
    once = f"    ld.acquire.cta.global.u32 %r4, [%rd0+64];\n{LOAD}"
    assert links(roles(f"{STORE}\n    @%p0 st.release.cta.global.u32 [%rd0+64], 1;", once)) == {Link.NONE}


def test_a_flag_that_several_warps_write_leaves_the_order_open() -> None:
    send = "    @%p0 st.release.cta.global.u32 [%rd0+64], 1;"
    branch = "    setp.eq.u32 %p4, %r2, 1;\n    @%p4 bra THIRD;"
    third = f"{branch}\n{POLL}\n{LOAD}\n    bra DONE;\nTHIRD:\n{send}"
    poll = third.format(order="acquire.cta", where="global.u32", address="%rd0+64")
    report = roles(f"{STORE}\n{send}", poll, threads=96)
    assert not report.races
    assert not report.complete
    assert "flag" in (report.unresolved[0].unresolved or "")


@pytest.mark.parametrize(("scope", "expected"), [("cta", True), ("cluster", False)])
def test_strong_accesses_race_when_a_scope_leaves_the_other_out(scope: str, expected: bool) -> None:
    report = explore(
        analysis(
            "    setp.eq.u32 %p2, %r9, 0;\n    mov.u32 %r5, data;\n"
            "    mapa.shared::cluster.u32 %r5, %r5, 0;\n    @%p2 bra HERE;\n"
            f"    @%p0 ld.relaxed.{scope}.shared::cluster.u32 %r3, [%r5];\n    bra MEET;\n"
            f"HERE:\n    @%p0 st.relaxed.{scope}.shared::cluster.u32 [%r5], 1;\nMEET:\n"
            "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;",
            threads=32,
            ctas=2,
        ),
        Limits(),
    )
    assert report.reason is None
    assert bool(report.races) is expected


# Phases and executions -----------------------------------------------------------------------------------


def test_a_copy_that_may_come_a_phase_early_is_named() -> None:
    expect = "    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;"
    first = f"{INIT}\n{COPY}\n{wait(0, 'V')}\n{expect}\n{wait(1, 'X')}"
    copy = COPY.splitlines()[1]

    def early(report: OrderReport) -> list[str]:
        return [a.step.instruction.opcode for a in report.aliases if "bulk" in a.step.instruction.opcode]

    assert early(roles(first, f"{MEET}\n{wait(0, 'W')}\n{copy}")) == []
    assert early(roles(first, f"{MEET}\n{copy}")) != []


def test_a_missing_arrival_leaves_a_warp_waiting() -> None:
    report = roles("    bar.sync 2, 96;", "    bar.sync 2, 96;")
    assert report.deadlock
    assert report.deadlock_certain
    assert not roles("    bar.sync 2, 64;", "    bar.sync 2, 64;").deadlock


def test_warps_that_left_count_as_arrived_at_the_cluster_barrier_once() -> None:
    first = "    barrier.cluster.arrive;"
    second = "    barrier.cluster.arrive;\n    barrier.cluster.wait;"
    assert not roles(first, second, threads=96, ctas=2).deadlock


def test_lanes_of_a_warp_need_a_warp_barrier() -> None:
    second = "    setp.eq.u32 %p4, %r1, 1;\n    @%p4 ld.shared.u32 %r3, [data];"
    assert links(roles(f"{STORE}\n{second}", "")) & {Link.NONE, Link.WARP}
    assert links(roles(f"{STORE}\n    bar.warp.sync -1;\n{second}", "")) == set()


def test_the_slice_keeps_what_decides_order_and_leaves_out_the_rest() -> None:
    body = (
        "    ld.param.u32 %r5, [count];\n    mov.f32 %f0, 0f3F800000;\n    add.f32 %f1, %f0, %f0;\n"
        "    setp.gt.u32 %p2, %r5, 3;\n    @%p2 bra END;\n    bar.sync 0;\n"
        "END:\n    st.global.f32 [%rd0], %f1;"
    )
    text = HEAD.replace(".reg .b64 %rd<8>;", ".reg .b64 %rd<8>;\n    .reg .f32 %f<2>;")
    module = load_ptx(SourceText("tiny.ptx", text.format(threads=32, ctas=1) + body + "\n    ret;\n}\n"))
    program = compile_program(FunctionAnalysis(module.functions[0], module))
    kept = {module.functions[0].instructions[index].opcode for index in program.kept}
    assert {"bar.sync", "setp.gt.u32", "bra", "ld.param.u32"} <= kept
    assert not {"add.f32", "mov.f32", "st.global.f32"} & kept


def test_both_sides_of_an_undecided_branch_are_followed() -> None:
    guarded = (
        "    ld.param.u32 %r5, [count];\n    setp.gt.u32 %p2, %r5, 3;\n    @%p2 bra SKIP;\n"
        "    bar.sync 2, 64;\nSKIP:\n"
    )
    report = roles(f"{STORE}\n{guarded}", guarded.replace("SKIP", "SKIP2") + LOAD)
    assert Link.NONE in {race.link for race in report.races}
    assert {execution.decisions[0].outcome for execution in report.executions} == {True, False}


def test_a_guarded_write_of_the_value_that_is_there_is_no_choice() -> None:
    again = (
        "    ld.param.u32 %r5, [count];\n    setp.ne.u32 %p2, %r5, 0;\n    @%p2 ld.param.u32 %r5, [count];\n"
        "    @!%p2 bra NONE;\n    setp.gt.u32 %p4, %r5, 3;\n    @%p4 bra NONE;\n    bar.sync 2, 64;\nNONE:\n"
    )
    report = roles(f"{STORE}\n{again}", again.replace("NONE", "NONE2") + LOAD)
    assert report.reason is None
    assert len(report.executions) > 2


def test_known_lanes_joined_with_an_unknown_condition_of_each_lane() -> None:
    """The unknown part is decided as if it were the same in all lanes; the known part divides them."""
    mixed = (
        "    ld.global.u32 %r5, [%rd0];\n    add.u32 %r6, %r5, %r0;\n    ld.global.u32 %r7, [%rd0+4];\n"
        "    mul.lo.u32 %r6, %r6, %r7;\n    setp.gt.u32 %p2, %r6, 3;\n"
        "    and.pred %p4, %p0, %p2;\n    @%p4 bra SKIP;\n    bar.warp.sync -1;\nSKIP:\n    bar.sync 2, 64;"
    )
    report = roles(f"{STORE}\n{mixed}", mixed.replace("SKIP", "SKIP2") + f"\n{LOAD}")
    assert links(report) == set()


def test_what_unfollowed_waits_order_is_in_doubt() -> None:
    """A ring of one stage: one warp fills it, two empty it; the awaited parities are loaded from memory."""

    def ring(parity: str) -> OrderReport:
        turn = "    add.u32 %r4, %r4, 1;\n    setp.lt.u32 %p4, %r4, 4;\n    @%p4 bra {0};"
        fills = (
            "    @%p0 mbarrier.init.shared.b64 [data], 1;\n    @%p0 mbarrier.init.shared.b64 [bar], 2;\n"
            "    mov.u32 %r4, 0;\n    bar.sync 1, 96;\nFILL:\n"
            f"    and.b32 %r5, %r4, 1;\n    xor.b32 %r5, %r5, 1;\n{parity}\n"
            "EMPTY:\n    mbarrier.try_wait.parity.shared.b64 %p3, [bar], %r5;\n    @!%p3 bra EMPTY;\n"
            f"    @%p0 mbarrier.arrive.shared.b64 _, [data];\n{turn.format('FILL')}"
        )
        empties = (
            f"    mov.u32 %r4, 0;\n    bar.sync 1, 96;\nDRAIN:\n    and.b32 %r5, %r4, 1;\n{parity}\n"
            "FULL:\n    mbarrier.try_wait.parity.shared.b64 %p3, [data], %r5;\n    @!%p3 bra FULL;\n"
            f"    @%p0 mbarrier.arrive.shared.b64 _, [bar];\n{turn.format('DRAIN')}"
        )
        return roles(fills, empties, threads=96)

    followed, unfollowed = ring(""), ring("    ld.global.u32 %r5, [%rd0];")
    assert followed.complete and not followed.aliases
    assert not unfollowed.complete
    assert [alias.doubtful for alias in unfollowed.aliases] == [True]
