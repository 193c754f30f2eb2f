"""An mbarrier is used by a thread that nothing orders after its initialisation."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.gaps import GapKind
from ptxaudit.checks._gaps import gap_violation, gaps_of
from ptxaudit.checks._order import barrier_name, outcome, place, role_of
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Violation

NEEDS = (ev.MbarrierInit,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Uses of mbarriers before their initialisation is known to be visible; one finding an object."""
    return outcome(analysis, analysis.has(*NEEDS), _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    seen: set[int] = set()
    for gap in gaps_of(report, GapKind.INIT_UNPUBLISHED, GapKind.INIT_WITHOUT_FENCE):
        assert gap.other is not None
        if gap.other.instruction.index in seen or gap.other.key is None:
            continue
        seen.add(gap.other.instruction.index)
        fenced = gap.kind is GapKind.INIT_UNPUBLISHED
        missing = "no barrier in between" if fenced else "the barrier in between is relaxed, with no fence"
        details = {
            "object": barrier_name(gap.other.key),
            "init": place(gap.other.instruction),
            "user": role_of(gap.execution, gap.step),
            "missing": missing,
        }
        yield gap_violation(report, gap, details, missing)
