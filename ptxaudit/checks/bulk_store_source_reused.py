"""Shared memory is overwritten while a bulk store may still read it."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.checks._async_groups import depth_in_words, has_bulk_stores, issuer_waits, overwritten_sources
from ptxaudit.checks._order import outcome, place, violation
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation


def check(analysis: FunctionAnalysis) -> Outcome:
    """Overwrites of a bulk store's source that its issuer has not waited for."""
    return outcome(analysis, has_bulk_stores(analysis), _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for race in overwritten_sources(report):
        if issuer_waits(race, ev.GroupKind.BULK) is not None:
            continue
        details = {
            "store": place(race.first.step.instruction),
            "pending": depth_in_words(race, ev.GroupKind.BULK),
        }
        yield violation(report, race, race.second.step.instruction, details)
