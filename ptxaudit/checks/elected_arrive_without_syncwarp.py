"""One lane publishes what other lanes of its warp wrote, with no warp barrier in between."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Link, Race
from ptxaudit.analysis.order.trace import Step
from ptxaudit.checks._order import outcome, place, races_of, violation
from ptxaudit.ir import events as ev
from ptxaudit.ir.function import Language
from ptxaudit.rules.model import Outcome, Violation

NEEDS = (ev.MbarrierArrive, ev.GroupCommit)

_NEEDS_PTX = "ptxas keeps no instruction for a warp barrier of lanes that it knows to be together"


def check(analysis: FunctionAnalysis) -> Outcome:
    """Writes of a warp's lanes that another lane hands on, by an arrive or by an asynchronous operation."""
    applicable = analysis.has(*NEEDS)
    if applicable and analysis.function.language is Language.SASS:
        return Outcome.of([], _NEEDS_PTX)
    return outcome(analysis, applicable, _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in races_of(report, Link.NOT_VISIBLE, Link.WARP):
        handing_on = hands_on(race)
        if handing_on is not None:
            details = {"write": place(race.first.step.instruction)}
            yield violation(report, race, handing_on.instruction, details)


def hands_on(race: Race) -> Step | None:
    """The step by which a lane other than the writing ones lets the second access see the first, if any."""
    writing = race.first.step.event
    if not isinstance(writing, ev.Access) or not writing.writes or race.first.asynchronous:
        return None
    if race.link is Link.WARP:
        return race.second.step if race.second.asynchronous else None
    if race.failed is not None or race.first.agent.warp == race.second.agent.warp:
        return None
    assert race.execution is not None
    writer = race.first.agent
    for entry in race.execution.entries[race.first.step.number + 1 :]:
        if not isinstance(entry, Step) or entry.warp != writer.warp or entry.lanes & writer.lanes:
            continue
        if isinstance(entry.event, ev.MbarrierArrive):
            return entry
    return None
