"""A wait that no arrival can satisfy."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.trace import Stuck
from ptxaudit.checks._order import barrier_name, has, outcome
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Severity, Violation


def check(analysis: FunctionAnalysis) -> Outcome:
    """Executions in which warps wait for a phase that cannot complete any more."""
    waits = has(analysis, ev.MbarrierWait, ev.CtaBarrier, ev.ClusterBarrier)
    return outcome(analysis, waits, _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for stuck in report.deadlock:
        if stuck.key is not None:
            yield Violation(
                stuck.instruction,
                {"reason": _reason(stuck)},
                evidence=("A launch that is possible ends with this warp waiting.",),
                severity=None if report.deadlock_certain else Severity.WARNING,
                assumptions=tuple(report.assumptions),
            )


def _reason(stuck: Stuck) -> str:
    assert stuck.key is not None
    kinds = {"mbarrier": barrier_name(stuck.key), "bar": f"barrier {stuck.key[2]}"}
    what = kinds.get(stuck.key[0], "the cluster barrier")
    return f"phase {stuck.phase} of {what} never completes: all other threads have ended or wait, too"
