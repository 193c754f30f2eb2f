"""What an exploration may take: counted in operations, for one execution and for all together."""

from test_order_kernels import STORE, analysis

from ptxaudit.analysis.order.explore import Limits, OrderReport, explore, global_order_of, order_of
from ptxaudit.analysis.order.program import compile_program

CONDITION = """
    ld.global.u32 %r{n}, [%rd0+{offset}];
    setp.eq.u32 %p{p}, %r{n}, 7;
    @%p{p} bra SKIP{n};
    @%p0 st.shared.u32 [data], 1;
SKIP{n}:
    bar.sync 1, 64;
"""
# Operations that are no steps of the search for races.
ARITHMETIC = (
    "    mov.u32 %r3, 0;\n" + "    add.u32 %r3, %r3, 4;\n" * 20 + "    st.shared.u32 [data+%r3], 1;\n"
)
CONDITIONS = "".join(CONDITION.format(n=n, p=n - 7, offset=4 * n) for n in range(10, 14))
ENDLESS = "ROUND:\n    @%p0 ld.shared.u32 %r3, [data];\n    bar.sync 1, 64;\n    bra ROUND;"


# Lanes of which each executes something alone are apart in the clocks from then on.
APART = "    mov.u32 %r4, %laneid;\n" + "".join(
    f"    setp.eq.u32 %p1, %r4, {lane};\n    @%p1 st.shared.u32 [data+{4 * lane}], 1;\n" for lane in range(31)
)
ROUNDS = "    st.shared.u32 [data+256], 1;\n    bar.sync 0;\n" * 12


def spent(report: OrderReport) -> int:
    return sum(execution.operations for execution in report.executions)


def test_all_executions_together_are_bounded() -> None:
    busy = f"{ARITHMETIC}{CONDITIONS}"
    enough = explore(analysis(busy), Limits())
    assert enough.reason is None
    half = spent(enough) // 2
    stopped = explore(analysis(busy), Limits(in_all=half))
    assert stopped.reason == f"executing the kernel was stopped after {half} operations in all"
    assert 1 < len(stopped.executions) < len(enough.executions)
    assert half <= spent(stopped) < spent(enough)


def test_lanes_that_are_apart_count_each() -> None:
    together, apart = (explore(analysis(f"{first}{ROUNDS}", 64), Limits()) for first in ("", APART))
    assert together.reason is apart.reason is None
    assert apart.walked > 20 * together.walked
    stopped = explore(analysis(f"{APART}{ROUNDS}", 64), Limits(in_all=apart.walked))
    few = apart.walked // 2
    assert stopped.reason == f"the search for races would have taken more than {few} steps in all"
    assert stopped.walked <= few


def test_what_a_kernel_may_take_grows_with_its_code() -> None:
    small, large = (compile_program(analysis(f"{STORE}\n" * times)) for times in (1, 600))
    least, more = Limits().budget(small), Limits().budget(large)
    assert least.each == 150_000 < more.each
    assert 200_000 < least.total < more.total


def test_a_launch_that_is_cut_short_is_not_followed_again_with_more() -> None:
    kernel = analysis(ENDLESS)
    first, second = order_of(kernel), global_order_of(kernel)
    assert first.reason == second.reason == "executing the kernel was stopped after 150000 operations"
    assert first.executions
    assert not second.executions
