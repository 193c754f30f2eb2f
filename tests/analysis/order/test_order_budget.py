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
CONDITIONS = "".join(CONDITION.format(n=n, p=n - 7, offset=4 * n) for n in range(10, 14))
ENDLESS = "ROUND:\n    @%p0 ld.shared.u32 %r3, [data];\n    bar.sync 1, 64;\n    bra ROUND;"


def spent(report: OrderReport) -> int:
    return sum(execution.operations for execution in report.executions)


def test_all_executions_together_are_bounded() -> None:
    enough = explore(analysis(CONDITIONS), Limits())
    assert enough.reason is None
    half = spent(enough) // 2
    stopped = explore(analysis(CONDITIONS), Limits(in_all=half))
    assert stopped.reason == f"executing the kernel was stopped after {half} operations in all"
    assert 1 < len(stopped.executions) < len(enough.executions)
    assert half <= spent(stopped) < spent(enough)


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
