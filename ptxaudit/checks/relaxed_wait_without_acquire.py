"""A relaxed wait is followed by reads of what it waited for, with no acquire fence in between."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Link
from ptxaudit.checks._order import place, races_of, scope_outcome, violation
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation

NEEDS = (ev.MbarrierWait,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Accesses that a relaxed wait orders in time, but does not make visible."""
    relaxed = any(
        wait.semantics in (ev.Semantics.RELAXED, None) for _, wait in analysis.occurrences(ev.MbarrierWait)
    )
    applicable = analysis.has(*NEEDS) and relaxed
    return scope_outcome(analysis, applicable, _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in races_of(report, Link.NOT_VISIBLE):
        if race.failed is not None and race.failed.reason == "wait-relaxed":
            details = {"access": place(race.second.step.instruction)}
            yield violation(report, race, race.failed.wait.instruction, details)
