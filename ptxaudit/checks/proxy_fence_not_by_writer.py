"""The proxy fence is executed by the issuing thread after the barrier, not by the writers before it."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Link
from ptxaudit.checks._order import outcome, place, races_of, role_of, violation
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation

NEEDS = (ev.Fence,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Asynchronous reads whose only proxy fence is that of another thread than the writer."""
    fences = any(event.proxy is ev.Proxy.ASYNC for _, event in analysis.occurrences(ev.Fence))
    return outcome(analysis, fences, _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in races_of(report, Link.PROXY_BY_OTHER):
        if race.fence is None:
            continue
        writer = race.first.step
        writers = f"{place(writer.instruction)} by {role_of(race.execution, writer)}"
        details = {"writers": writers, "memory": "shared memory"}
        yield violation(report, race, race.fence.instruction, details)
