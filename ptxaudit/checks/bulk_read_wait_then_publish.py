"""A flag in global memory is released when only the sources of bulk stores are known to have been read."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.gaps import GapKind
from ptxaudit.checks._async_groups import has_bulk_stores
from ptxaudit.checks._gaps import gap_violation, gaps_of
from ptxaudit.checks._order import outcome, place
from ptxaudit.ir.events import Completion
from ptxaudit.rules.model import Outcome, Violation

NEEDS = (Completion.BULK_GROUP,)

_MISSING = "no wait without .read before the release"


def check(analysis: FunctionAnalysis) -> Outcome:
    """Releases to global memory behind a ``.read`` wait for a bulk store."""
    return outcome(analysis, has_bulk_stores(analysis), _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for gap in gaps_of(report, GapKind.STORE_NOT_WRITTEN):
        assert gap.other is not None
        yield gap_violation(report, gap, {"store": place(gap.other.instruction)}, _MISSING)
