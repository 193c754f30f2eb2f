"""Threads read what others copied with cp.async; the others' wait is not followed by a barrier."""

from collections.abc import Iterator
from dataclasses import replace

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Link, Race
from ptxaudit.checks._async_groups import in_group, issuer_waits
from ptxaudit.checks._order import outcome, place, races_of, role_of, violation
from ptxaudit.checks._wgmma import reads_pending_copy
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation


def check(analysis: FunctionAnalysis) -> Outcome:
    """Accesses to another thread's copy that nothing orders after that thread's wait."""
    return outcome(analysis, has_copies(analysis), _violations)


def has_copies(analysis: FunctionAnalysis) -> bool:
    """Whether the function has cp.async copies that complete by groups."""
    return any(
        access.completion is ev.Completion.ASYNC_GROUP for _, access in analysis.occurrences(ev.Access)
    )


def copies_met_early(report: OrderReport) -> Iterator[Race]:
    """Races of a cp.async write with an access that comes after its issue."""
    for found in races_of(report, Link.IN_FLIGHT, Link.NONE):
        race = found
        if reads_pending_copy(found):
            race = replace(found, first=found.second, second=found.first, release=None)
        written = in_group(race.first, ev.Completion.ASYNC_GROUP)
        if written is not None and written.writes:
            yield race


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in copies_met_early(report):
        wait = issuer_waits(race, ev.GroupKind.CP_ASYNC)
        if wait is None:
            continue
        details = {
            "copy": place(race.first.step.instruction),
            "copier": role_of(race.execution, race.first.step),
            "wait": place(wait.instruction),
        }
        yield violation(report, race, race.second.step.instruction, details)
