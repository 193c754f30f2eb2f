"""Threads read what others copied with cp.async; the others' wait is not followed by a barrier."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.checks._async_groups import copies_met_early, issuer_waits
from ptxaudit.checks._order import outcome, place, role_of, violation
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation

NEEDS = (ev.Completion.ASYNC_GROUP,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Accesses to another thread's copy that nothing orders after that thread's wait."""
    return outcome(analysis, analysis.has(*NEEDS), _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in copies_met_early(report):
        wait = issuer_waits(race, ev.GroupKind.CP_ASYNC)
        if wait is None:
            continue
        details = {
            "copy": place(race.first.step.instruction),
            "copier": role_of(race.execution, race.first.step),
            "wait": place(wait.instruction),
        }
        yield violation(report, race, race.second.step.instruction, details)
