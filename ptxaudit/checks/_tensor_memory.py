"""What the rules on tensor memory share: operations, deallocations, and accesses that waits complete."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Link, Race
from ptxaudit.analysis.order.trace import Step
from ptxaudit.checks._order import place, races_of, violation
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Violation


def has_action(analysis: FunctionAnalysis, action: ev.TensorAction) -> bool:
    """Whether the function has a tcgen05 operation of that kind."""
    return any(one.action is action for _, one in analysis.occurrences(ev.TensorOperation))


def is_deallocation(race: Race) -> bool:
    """Whether one of the two accesses frees the columns."""
    return any(_frees(one.step) for one in (race.first, race.second))


def freeing_and_using(race: Race) -> tuple[Step, Step]:
    """The deallocation of a race, and the other step."""
    first, second = race.first.step, race.second.step
    return (second, first) if _frees(second) else (first, second)


def _frees(step: Step) -> bool:
    event = step.event
    return isinstance(event, ev.TensorOperation) and event.action is ev.TensorAction.DEALLOCATE


def handed_over_in_flight(report: OrderReport, kind: ev.AccessKind) -> Iterator[Violation]:
    """Loads or stores that another warp is let go after, but that may still be in flight.

    Named at the arrive or barrier that lets it go.
    """
    races = [race for race in races_of(report, Link.IN_FLIGHT) if _is_awaited(race, kind)]
    overwritten = {race.first.step.instruction.index for race in races if not is_deallocation(race)}
    for race in races:
        if is_deallocation(race) and race.first.step.instruction.index in overwritten:
            continue
        release = race.second.step if race.release is None else race.release
        details = {
            "access": place(race.first.step.instruction),
            "next": place(race.second.step.instruction),
        }
        yield violation(report, race, release.instruction, details)


def _is_awaited(race: Race, kind: ev.AccessKind) -> bool:
    event = race.first.step.event
    if race.first.agent.cta != race.second.agent.cta:
        return False
    if not isinstance(event, ev.Access) or event.kind is not kind:
        return False
    return event.completion is ev.Completion.TCGEN05_WAIT
