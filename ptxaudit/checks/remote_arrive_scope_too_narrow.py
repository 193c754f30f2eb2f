"""A remote arrive publishes writes to another CTA with a release that does not reach it."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Link
from ptxaudit.checks._order import crosses_ctas, place, races_of, scope_outcome, violation
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation

NEEDS = (ev.MbarrierArrive,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Writes that another CTA learns of in time, but need not see."""
    applicable = analysis.has(*NEEDS) and crosses_ctas(analysis)
    return scope_outcome(analysis, applicable, _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in races_of(report, Link.NOT_VISIBLE):
        if race.failed is None or race.failed.reason not in ("arrive-scope", "arrive-relaxed"):
            continue
        contribution = race.failed.contribution
        arrive = contribution.steps[-1]
        if not isinstance(arrive.event, ev.MbarrierArrive) or contribution.cta == race.second.agent.cta:
            continue
        semantics = f".{arrive.event.semantics or 'release'}{arrive.event.scope or ''}"
        details = {"semantics": semantics, "write": place(race.first.step.instruction)}
        yield violation(report, race, arrive.instruction, details)
