"""The async proxy overwrites what the generic proxy read, with no proxy fence in between."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Link
from ptxaudit.checks._order import outcome, place, violation
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Severity, Violation

NEEDS = (ev.Proxy.ASYNC,)

_SHARED = (ev.StateSpace.SHARED, ev.StateSpace.CLUSTER)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Asynchronous writes that are ordered after a generic read, but through no proxy fence."""
    writes = any(
        access.writes and access.proxy is ev.Proxy.ASYNC and access.space in _SHARED
        for _, access in analysis.occurrences(ev.Access)
    )
    return outcome(analysis, writes, _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in report.unfenced:
        if race.link is not Link.READ_PROXY:
            continue
        details = {"read": place(race.first.step.instruction)}
        yield violation(report, race, race.second.step.instruction, details, severity=Severity.NOTE)
