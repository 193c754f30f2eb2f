"""The acquire fence after a relaxed wait does not cover the data that is read."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Link, Race
from ptxaudit.checks._order import place, races_of, scope_outcome, violation
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation

NEEDS = (ev.Fence,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Accesses that the fence would have to make visible and does not."""
    fences = any(
        event.proxy is None and event.semantics is not None and event.semantics.acquires
        for _, event in analysis.occurrences(ev.Fence)
    )
    return scope_outcome(analysis, analysis.has(ev.MbarrierWait) and fences, _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in races_of(report, Link.NOT_VISIBLE):
        if race.failed is None or race.failed.reason != "fence-too-narrow" or race.failed.fence is None:
            continue
        details = {
            "access": place(race.second.step.instruction),
            "writer": place(race.first.step.instruction),
            "gap": _gap(race, race.failed.fence.event),
        }
        yield violation(report, race, race.failed.fence.instruction, details)


def _gap(race: Race, fence: ev.Event) -> str:
    assert isinstance(fence, ev.Fence)
    if race.second.footprint.memory[0].startswith("global") and fence.sync_restrict is not None:
        return f"it is restricted to {fence.sync_restrict} and the data lies in global memory"
    return f"its scope {fence.scope} leaves out the writer, which is in another CTA"
