"""Tensor memory of a CTA pair is freed while the other CTA may still use or allocate it."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Link
from ptxaudit.checks._order import outcome, place, races_of, role_of, violation
from ptxaudit.checks._tensor_memory import freeing_and_using, is_deallocation
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation

NEEDS = (ev.TensorOperation,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Accesses of one CTA of a pair that nothing orders before the other one's deallocation."""
    frees_pairs = any(
        one.pair and one.action is ev.TensorAction.DEALLOCATE
        for _, one in analysis.occurrences(ev.TensorOperation)
    )
    return outcome(analysis, frees_pairs, _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    # What has happened in time is over, whether or not its effects are visible to the CTA that frees.
    for race in races_of(report, Link.NONE, Link.IN_FLIGHT):
        if not is_deallocation(race) or race.first.agent.cta == race.second.agent.cta:
            continue
        freeing, using = freeing_and_using(race)
        details = {
            "user": role_of(race.execution, using),
            "use": place(using.instruction),
            "missing": race.link.value,
        }
        yield violation(report, race, freeing.instruction, details)
