"""How sure it is that a warp which waits for ever in an explored execution does so in a real launch."""

from collections.abc import Hashable, Iterable

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.decisions import Decision
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.trace import Execution, Stuck
from ptxaudit.rules.model import Severity


def severity_of_waiting(analysis: FunctionAnalysis, report: OrderReport, stuck: Stuck) -> Severity | None:
    """The severity of a wait without end; ``None``, the rule's own, where nothing had to be decided.

    A launch that only some choice of two trip counts gets stuck in may be one that the host never makes:
    counts that are equal by contract are two parameters to the kernel.
    """
    if report.deadlock_certain:
        return None
    return Severity.NOTE if independent_counts(analysis, report, stuck) else Severity.WARNING


def independent_counts(analysis: FunctionAnalysis, report: OrderReport, stuck: Stuck) -> tuple[str, ...]:
    """What a wait without end takes for granted of the kernel's trip counts."""
    if not any(execution.complete for execution in report.executions):
        return ()  # whatever the counts are, it does not end
    every = (decision for execution in report.executions for decision in execution.decisions)
    counts = _trip_counts(analysis, every)
    number = len(counts & {decision.input for decision in execution_of(report, stuck).decisions})
    return (f"the host may choose {number} trip counts independently",) if number > 1 else ()


def execution_of(report: OrderReport, stuck: Stuck) -> Execution:
    """The explored execution that ends with this warp waiting."""
    return next(execution for execution in report.executions if stuck in execution.stuck)


def _trip_counts(analysis: FunctionAnalysis, decisions: Iterable[Decision]) -> set[Hashable]:
    """The inputs that decide whether a loop goes on."""
    return {decision.input for decision in decisions if _leaves_a_loop(analysis, decision.site)}


def _leaves_a_loop(analysis: FunctionAnalysis, site: int) -> bool:
    block = analysis.function.block_of(site).id
    return any(
        block in loop.blocks and not loop.blocks.issuperset(analysis.graph.blocks[block].successors)
        for loop in analysis.graph.loops
    )
