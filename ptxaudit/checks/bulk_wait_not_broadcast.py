"""The issuer of a bulk store waits for it, but the threads that overwrite its source are not held back."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.checks._async_groups import has_bulk_stores, issuer_waits, overwritten_sources
from ptxaudit.checks._order import outcome, place, role_of, violation
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation

NEEDS = (ev.Completion.BULK_GROUP,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Overwrites of a bulk store's source by threads that do not know of the issuer's wait."""
    return outcome(analysis, has_bulk_stores(analysis), _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in overwritten_sources(report):
        wait = issuer_waits(race, ev.GroupKind.BULK)
        if wait is None:
            continue
        details = {
            "store": place(race.first.step.instruction),
            "wait": place(wait.instruction),
            "issuer": role_of(race.execution, wait),
        }
        yield violation(report, race, race.second.step.instruction, details)
