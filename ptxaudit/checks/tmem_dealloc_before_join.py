"""Tensor memory is freed while another operation may still use its columns."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.checks._order import outcome, place, violation
from ptxaudit.checks._tensor_memory import freeing_and_using, has_action, is_deallocation
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation

NEEDS = (ev.TensorOperation,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Accesses to tensor memory that nothing orders before the deallocation."""
    return outcome(analysis, has_action(analysis, ev.TensorAction.DEALLOCATE), _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in report.races:
        if is_deallocation(race) and race.first.agent.cta == race.second.agent.cta:
            freeing, using = freeing_and_using(race)
            details = {"access": place(using.instruction), "missing": race.link.value}
            yield violation(report, race, freeing.instruction, details)
