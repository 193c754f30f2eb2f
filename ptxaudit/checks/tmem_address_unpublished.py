"""The address that tcgen05.alloc wrote to shared memory is read with no barrier in between."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.knowledge import Moment
from ptxaudit.analysis.order.races import Link
from ptxaudit.checks._order import outcome, place, races_of, violation
from ptxaudit.checks._tensor_memory import has_action
from ptxaudit.ir import events as ev
from ptxaudit.ir.function import Language
from ptxaudit.rules.model import Outcome, Violation

NEEDS = (ev.TensorOperation,)

_PLAIN_STORE = "SASS stores the address by an ordinary store, which shared-memory-race judges"


def check(analysis: FunctionAnalysis) -> Outcome:
    """Reads of the slot by threads that nothing orders after the allocation."""
    allocates = has_action(analysis, ev.TensorAction.ALLOCATE)
    if allocates and analysis.function.language is Language.SASS:
        return Outcome.of([], _PLAIN_STORE)
    return outcome(analysis, allocates, _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in races_of(report, Link.NONE, Link.WARP, Link.NOT_VISIBLE):
        writing, reading = race.first, race.second
        if not _is_allocation(writing):
            writing, reading = reading, writing
        event = reading.step.event
        if _is_allocation(writing) and isinstance(event, ev.Access) and event.reads:
            details = {"allocation": place(writing.step.instruction), "missing": race.link.value}
            yield violation(report, race, reading.step.instruction, details)


def _is_allocation(moment: Moment) -> bool:
    event = moment.step.event
    return isinstance(event, ev.Access) and event.operation == "tcgen05.alloc"
