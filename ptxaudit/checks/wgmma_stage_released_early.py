"""A stage is released while a wgmma group that reads it may still be in flight."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Link
from ptxaudit.checks._order import is_wgmma_read, outcome, place, races_of, violation
from ptxaudit.checks._wgmma import is_cross_warpgroup, reads_before_arrival
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation

NEEDS = (ev.WgmmaIssue,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Overwrites of a wgmma operand that come after its issue, but not after its completion."""
    return outcome(analysis, analysis.has(*NEEDS), _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in races_of(report, Link.IN_FLIGHT, Link.NONE):
        if not is_wgmma_read(race.first) or is_cross_warpgroup(race) or reads_before_arrival(race):
            continue
        release = race.second.step if race.release is None else race.release
        wgmma = race.first.step
        pending = (
            f"in iteration {wgmma.visit} its group has not been waited for when "
            f"{place(race.second.step.instruction)} overwrites the operand"
        )
        details = {"wgmma": place(wgmma.instruction), "pending": pending}
        yield violation(report, race, release.instruction, details)
