"""Tensor memory is freed while another operation may still use its columns."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Race
from ptxaudit.checks._order import outcome, place, violation
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation


def check(analysis: FunctionAnalysis) -> Outcome:
    """Accesses to tensor memory that nothing orders before the deallocation."""
    frees = any(
        operation.action is ev.TensorAction.DEALLOCATE
        for _, operation in analysis.occurrences(ev.TensorOperation)
    )
    return outcome(analysis, frees, _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in report.races:
        if is_deallocation(race) and race.first.agent.cta == race.second.agent.cta:
            freeing, using = race.second.step, race.first.step
            if not frees(freeing.event):
                freeing, using = using, freeing
            details = {"access": place(using.instruction), "missing": race.link.value}
            yield violation(report, race, freeing.instruction, details)


def is_deallocation(race: Race) -> bool:
    """Whether one of the two accesses frees the columns."""
    return any(frees(one.step.event) for one in (race.first, race.second))


def frees(event: ev.Event) -> bool:
    """Whether an event is a deallocation of tensor memory."""
    return isinstance(event, ev.TensorOperation) and event.action is ev.TensorAction.DEALLOCATE
