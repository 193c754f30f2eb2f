"""A wait acquires at a scope that leaves out the CTA whose operation completes the phase."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Link
from ptxaudit.checks._order import place, races_of, scope_outcome, violation
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation

NEEDS = (ev.MbarrierWait,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Accesses that such a wait orders in time, but does not make visible."""
    return scope_outcome(analysis, analysis.has(*NEEDS), _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in races_of(report, Link.NOT_VISIBLE):
        if race.failed is None or race.failed.reason != "wait-scope":
            continue
        wait = race.failed.wait
        assert isinstance(wait.event, ev.MbarrierWait)
        scope = str(wait.event.scope or ev.Scope.CTA)
        completer = race.failed.contribution.steps[-1].instruction
        details = {"wait_scope": scope, "completer": place(completer)}
        yield violation(report, race, wait.instruction, details)
