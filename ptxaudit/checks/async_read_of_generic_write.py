"""The async proxy reads what the generic proxy wrote, with no proxy fence by the writer."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Link
from ptxaudit.checks._order import outcome, place, races_of, violation
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation

NEEDS = (ev.Proxy.ASYNC,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Asynchronous reads that are ordered after a generic write, but through no proxy fence."""
    reads = any(
        access.reads and access.proxy is ev.Proxy.ASYNC and access.space is not ev.StateSpace.TENSOR
        for _, access in analysis.occurrences(ev.Access)
    )
    return outcome(analysis, reads, _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in races_of(report, Link.PROXY):
        writer = race.first.step.instruction
        path = "the path between them" if race.certain else "a path between them"
        details = {"writer": place(writer), "path": path}
        yield violation(report, race, race.second.step.instruction, details)
