"""Tensor memory is handed back while a tcgen05.ld from it may still be in flight."""

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.checks._order import outcome
from ptxaudit.checks._tensor_memory import handed_over_in_flight, has_action
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation

NEEDS = (ev.TensorOperation,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Loads that have not been waited for, nor their registers used, when others may write the columns."""
    return outcome(analysis, has_action(analysis, ev.TensorAction.LOAD), _violations)


def _violations(report: OrderReport) -> list[Violation]:
    return list(handed_over_in_flight(report, ev.AccessKind.READ))
