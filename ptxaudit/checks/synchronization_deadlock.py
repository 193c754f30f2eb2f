"""A wait that no arrival can satisfy."""

from collections.abc import Iterator
from functools import partial

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport, order_of
from ptxaudit.analysis.order.trace import Stuck
from ptxaudit.checks._order import barrier_name, outcome
from ptxaudit.checks._waiting import independent_counts, severity_of_waiting
from ptxaudit.ir import events as ev
from ptxaudit.ir.function import Language
from ptxaudit.rules.model import Outcome, Verdict, Violation

NEEDS = (ev.MbarrierWait, ev.CtaBarrier, ev.ClusterBarrier)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Executions in which warps wait for a phase that cannot complete any more."""
    waits = analysis.has(*NEEDS)
    found = outcome(analysis, waits, partial(_violations, analysis))
    if found.verdict is Verdict.NOT_APPLICABLE:
        return found
    report = order_of(analysis)
    in_sass = analysis.function.language is Language.SASS
    if in_sass and report.deadlock and not report.deadlock_certain:
        return Outcome.of([], STUCK_IN_SASS)
    if found.verdict is Verdict.CLEAN and report.stuck_if_possible:
        return Outcome.of([], STUCK_IF_POSSIBLE)
    return found


STUCK_IN_SASS = "warps wait for ever in a run of the SASS, which may be for lack of a value; the PTX decides"


STUCK_IF_POSSIBLE = (
    "warps wait for ever in a run whose conditions need not be possible together (--launch can settle it)"
)


def _violations(analysis: FunctionAnalysis, report: OrderReport) -> Iterator[Violation]:
    for stuck in report.deadlock:
        if stuck.key is not None:
            yield Violation(
                stuck.instruction,
                {"reason": _reason(stuck)},
                evidence=("A launch that is possible ends with this warp waiting.",),
                severity=severity_of_waiting(analysis, report, stuck),
                assumptions=(*report.assumptions, *independent_counts(analysis, report, stuck)),
            )


def _reason(stuck: Stuck) -> str:
    assert stuck.key is not None
    kinds = {"mbarrier": barrier_name(stuck.key), "bar": f"barrier {stuck.key[2]}"}
    what = kinds.get(stuck.key[0], "the cluster barrier")
    return f"phase {stuck.phase} of {what} never completes: all other threads have ended or wait, too"
