"""Shared memory is overwritten while a bulk store may still read it."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Link, Race
from ptxaudit.checks._async_groups import depth_in_words, in_group, issuer_waits
from ptxaudit.checks._order import outcome, place, races_of, violation
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation


def check(analysis: FunctionAnalysis) -> Outcome:
    """Overwrites of a bulk store's source that its issuer has not waited for."""
    return outcome(analysis, has_bulk_stores(analysis), _violations)


def has_bulk_stores(analysis: FunctionAnalysis) -> bool:
    """Whether the function has bulk copies out of shared memory that complete by groups."""
    return any(
        access.completion is ev.Completion.BULK_GROUP and access.reads and _in_shared(access)
        for _, access in analysis.occurrences(ev.Access)
    )


def overwritten_sources(report: OrderReport) -> Iterator[Race]:
    """Races of a bulk store's read with a later write."""
    for race in races_of(report, Link.IN_FLIGHT, Link.NONE):
        read = in_group(race.first, ev.Completion.BULK_GROUP)
        second = race.second.step.event
        if read is not None and read.reads and isinstance(second, ev.Access) and second.writes:
            yield race


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in overwritten_sources(report):
        if issuer_waits(race, ev.GroupKind.BULK) is not None:
            continue
        details = {
            "store": place(race.first.step.instruction),
            "pending": depth_in_words(race, ev.GroupKind.BULK),
        }
        yield violation(report, race, race.second.step.instruction, details)


def _in_shared(access: ev.Access) -> bool:
    return access.space in (ev.StateSpace.SHARED, ev.StateSpace.CLUSTER)
