"""What the checks on gaps in order share: which gaps there are and how they become violations."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.gaps import Gap, GapKind
from ptxaudit.checks._order import crosses_ctas, role_of
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import (
    Confidence,
    Related,
    Severity,
    Violation,
    Witness,
    WitnessEdge,
    WitnessStep,
)
from ptxaudit.words import brief


def gaps_of(report: OrderReport, *kinds: GapKind) -> Iterator[Gap]:
    """The gaps of some kinds."""
    return (gap for gap in report.gaps if gap.kind in kinds)


def gap_violation(
    report: OrderReport,
    gap: Gap,
    details: dict[str, str],
    missing: str,
    severity: Severity | None = None,
) -> Violation:
    """A violation at the gap's step; ``missing`` names the order that is not there."""
    steps = [one for one in (gap.other, gap.step) if one is not None]
    shown = tuple(
        WitnessStep(
            role_of(gap.execution, one), brief(one.instruction.text), one.instruction.location, one.visit
        )
        for one in steps
    )
    edges = (WitnessEdge(0, 1, missing, missing=True),) if len(steps) > 1 else ()
    related = () if gap.other is None else (Related(gap.other.instruction, "what it relies on"),)
    return Violation(
        gap.step.instruction,
        details,
        related,
        (f"Missing link: {missing}.",),
        severity=Severity.NOTE if gap.doubtful else severity,
        confidence=Confidence.LOW if gap.doubtful else None,
        witness=Witness(shown, edges),
        assumptions=tuple(report.assumptions),
    )


REACHING_PEERS = (
    ev.AddressMapping,
    ev.MbarrierCompleteTx,
    ev.MbarrierArrive,
    ev.MbarrierExpect,
    ev.Proxy.ASYNC,
)
"""Without any of these a function cannot address what is in other CTAs."""


def reaches_peers(analysis: FunctionAnalysis) -> bool:
    """Whether the function may address shared memory or mbarriers of other CTAs of its cluster."""
    return crosses_ctas(analysis) or any(
        isinstance(event, ev.Access | ev.MbarrierArrive | ev.MbarrierCompleteTx) and event.multicast
        for events in analysis.events
        for event in events
    )
