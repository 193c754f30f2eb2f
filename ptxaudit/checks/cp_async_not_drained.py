"""Shared memory is used while a cp.async copy into it may still be in flight."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.checks._async_groups import copies_met_early, depth_in_words, issuer_waits
from ptxaudit.checks._order import outcome, place, violation
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation

NEEDS = (ev.Completion.ASYNC_GROUP,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Accesses to the target of a copy that its issuer has not waited for."""
    return outcome(analysis, analysis.has(*NEEDS), _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in copies_met_early(report):
        if issuer_waits(race, ev.GroupKind.CP_ASYNC) is not None:
            continue
        details = {
            "copy": place(race.first.step.instruction),
            "pending": depth_in_words(race, ev.GroupKind.CP_ASYNC),
        }
        yield violation(report, race, race.second.step.instruction, details)
