"""Shared memory of another CTA is accessed, or tensor memory allocated with it, before that CTA is known to
have started."""

from collections.abc import Iterator
from dataclasses import replace

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.gaps import GapKind
from ptxaudit.checks._gaps import REACHING_PEERS, gap_violation, gaps_of, reaches_peers
from ptxaudit.checks._order import outcome, role_of
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Severity, Violation

NEEDS = (*REACHING_PEERS, ev.TensorOperation)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Accesses to a CTA of the cluster that nothing orders after anything that CTA did."""
    return outcome(analysis, reaches_peers(analysis) or _allocates_in_pairs(analysis), _violations)


def _allocates_in_pairs(analysis: FunctionAnalysis) -> bool:
    operations = analysis.occurrences(ev.TensorOperation)
    return any(event.pair and event.action is ev.TensorAction.ALLOCATE for _, event in operations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for gap in gaps_of(report, GapKind.PEER_NOT_STARTED):
        allocates = isinstance(gap.step.event, ev.TensorOperation)
        needs = "allocates tensor memory together with" if allocates else "reaches into the shared memory of"
        details = {
            "accessor": role_of(gap.execution, gap.step),
            "needs": needs,
            "peer": f"CTA {gap.cta}",
        }
        found = gap_violation(report, gap, details, "no cluster barrier before it")
        # The allocation of a pair may wait for the peer by itself; that it starts is asked for all the same.
        yield replace(found, severity=found.severity or Severity.WARNING) if allocates else found
