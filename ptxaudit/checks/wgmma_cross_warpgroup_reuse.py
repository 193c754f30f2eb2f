"""Threads overwrite shared memory that another warpgroup's wgmma may still read."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Link, Race
from ptxaudit.checks._order import is_wgmma_read, outcome, place, races_of, violation
from ptxaudit.checks._wgmma import is_cross_warpgroup, reads_pending_copy
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation

NEEDS = (ev.WgmmaIssue,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Overwrites by a warpgroup that waited for its own wgmma only."""
    return outcome(analysis, analysis.has(*NEEDS), _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in races_of(report, Link.IN_FLIGHT, Link.NONE):
        if is_wgmma_read(race.first) and is_cross_warpgroup(race) and not reads_pending_copy(race):
            details = {"wgmma": place(race.first.step.instruction), "missing": _missing(race)}
            yield violation(report, race, race.second.step.instruction, details)


def _missing(race: Race) -> str:
    if race.release is None:
        return "wgmma.wait_group waits for the executing warpgroup only and no barrier joins the two"
    let_go = place(race.release.instruction)
    return f"{let_go} lets the overwrite go ahead, and that wgmma has not been waited for before it"
