"""Shared memory of another CTA is accessed when that CTA may have exited."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.gaps import GapKind
from ptxaudit.checks._gaps import REACHING_PEERS, gap_violation, gaps_of, reaches_peers
from ptxaudit.checks._order import outcome, role_of
from ptxaudit.rules.model import Outcome, Severity, Violation

NEEDS = REACHING_PEERS


def check(analysis: FunctionAnalysis) -> Outcome:
    """Accesses to a CTA of the cluster that no thread of that CTA waits for before it leaves."""
    return outcome(analysis, reaches_peers(analysis), _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for gap in gaps_of(report, GapKind.PEER_MAY_EXIT):
        details = {"accessor": role_of(gap.execution, gap.step), "peer": f"CTA {gap.cta}"}
        missing = "no thread of the other CTA waits for it before leaving"
        if gap.on_its_way:
            # Debatable: the ISA does not say when a signal is there whose operations are done.
            missing = "the other CTA waits for what the commit tracks, not for its signal"
        yield gap_violation(report, gap, details, missing, Severity.NOTE if gap.on_its_way else None)
