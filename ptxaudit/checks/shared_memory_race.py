"""Two threads access the same shared memory through the generic proxy with no order between them."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.clocks import Moment
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Link
from ptxaudit.checks._order import has, outcome, place, races_of, violation
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation


def check(analysis: FunctionAnalysis) -> Outcome:
    """Unordered conflicting synchronous accesses to shared memory."""
    return outcome(analysis, _accesses_shared(analysis), _violations)


def _accesses_shared(analysis: FunctionAnalysis) -> bool:
    spaces = (ev.StateSpace.SHARED, ev.StateSpace.CLUSTER)
    return has(analysis, ev.Access) and any(
        access.space in spaces and access.completion is ev.Completion.SYNCHRONOUS
        for _, access in analysis.occurrences(ev.Access)
    )


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in races_of(report, Link.NONE):
        if _is_plain(race.first) and _is_plain(race.second):
            details = {
                "other": place(race.first.step.instruction),
                "memory": f"shared memory at {int(race.second.footprint.starts.min()):#x}",
                "missing": race.link.value,
            }
            yield violation(report, race, race.second.step.instruction, details)


def _is_plain(moment: Moment) -> bool:
    return (
        isinstance(moment.step.event, ev.Access)
        and not moment.asynchronous
        and moment.footprint.memory[0] == "shared"
    )
