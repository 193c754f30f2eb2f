"""tcgen05 operations of two warps are ordered by a CTA barrier without the tcgen05 fences."""

from collections.abc import Iterator
from itertools import islice

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Link
from ptxaudit.checks._order import outcome, place, violation
from ptxaudit.checks._tensor_memory import has_action
from ptxaudit.ir import events as ev
from ptxaudit.ir.function import Language
from ptxaudit.rules.model import Outcome, Severity, Violation

NEEDS = (ev.TensorOperation,)

_NEEDS_PTX = "tcgen05.fence leaves no instruction in SASS; the PTX decides"


def check(analysis: FunctionAnalysis) -> Outcome:
    """Ordered accesses to the same columns that lack a fence on either side of the barrier."""
    applicable = analysis.has(*NEEDS)
    if applicable and analysis.function.language is Language.SASS:
        return Outcome.of([], _NEEDS_PTX)
    fences = (ev.TensorAction.FENCE_BEFORE, ev.TensorAction.FENCE_AFTER)
    if not any(has_action(analysis, one) for one in fences):
        return outcome(analysis, applicable, _first_as_note)
    return outcome(analysis, applicable, lambda report: _violations(report, None))


def _first_as_note(report: OrderReport) -> Iterator[Violation]:
    """The first place, for code that has no such fence anywhere and relies on ptxas keeping the order."""
    yield from islice(_violations(report, Severity.NOTE), 1)


def _violations(report: OrderReport, severity: Severity | None) -> Iterator[Violation]:
    for race in report.unfenced:
        if race.link is Link.TENSOR_FENCE:
            details = {"earlier": place(race.first.step.instruction)}
            yield violation(report, race, race.second.step.instruction, details, severity=severity)
