"""An aligned barrier is executed by some lanes of a warp while the others are elsewhere."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.trace import Convergence, Execution, Step
from ptxaudit.checks._executions import sound_executions, steps_of
from ptxaudit.checks._order import outcome
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Severity, Violation

NEEDS = (ev.CtaBarrier, ev.ClusterBarrier)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Aligned barriers of parts of warps."""
    ends = [i for i, event in analysis.occurrences(ev.Transfer) if event.kind is not ev.TransferKind.CALL]
    none_ends_early = len(ends) == 1 and ends[0].guard is None

    def find(report: OrderReport) -> Iterator[Violation]:
        yield from _violations(report)
        if none_ends_early:
            yield from _stuck(report)

    return outcome(analysis, analysis.has(*NEEDS), find)


def _stuck(report: OrderReport) -> Iterator[Violation]:
    """Parts of warps that wait at the barrier for ever, where no lane can have ended before."""
    for execution in sound_executions(report):
        at = {(stuck.warp, stuck.lanes, stuck.instruction.index) for stuck in execution.stuck}
        for step in steps_of(execution):
            absent = ((1 << execution.warps[step.warp].threads) - 1) & ~step.lanes
            waits = (step.warp, step.lanes, step.instruction.index) in at
            if waits and absent and _is_aligned(step.event) and not step.may:
                yield _violation(execution, step, absent)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for execution in sound_executions(report):
        later: dict[int, int] = {}
        found: list[tuple[Step, int]] = []
        for entry in reversed(execution.entries):
            if isinstance(entry, Step):
                if _is_aligned(entry.event) and not entry.may:
                    absent = later.get(entry.warp, 0) & ~entry.lanes
                    if absent:
                        found.append((entry, absent))
                later[entry.warp] = later.get(entry.warp, 0) | entry.lanes
            elif isinstance(entry, Convergence):
                later[entry.warp] = later.get(entry.warp, 0) | entry.lanes
        for step, absent in reversed(found):
            yield _violation(execution, step, absent)


def _is_aligned(event: ev.Event) -> bool:
    return isinstance(event, ev.CtaBarrier | ev.ClusterBarrier) and event.aligned


def _violation(execution: Execution, step: Step, absent: int) -> Violation:
    lanes = f"{step.lanes.bit_count()} lanes of warp {execution.warps[step.warp].warp}"
    return Violation(
        step.instruction,
        {"lanes": lanes, "absent": str(absent.bit_count())},
        evidence=(f"Lane {(absent & -absent).bit_length() - 1} goes on without it.",),
        severity=None if execution.possible else Severity.WARNING,
    )
