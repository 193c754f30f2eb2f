"""Instructions on one barrier id disagree about how many threads take part."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.trace import BarrierKey, Step
from ptxaudit.checks._order import barrier_name, has, outcome, place
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Related, Violation


def check(analysis: FunctionAnalysis) -> Outcome:
    """Arrivals at one phase of a barrier with different thread counts, or one not whole in warps."""
    return outcome(analysis, has(analysis, ev.CtaBarrier), _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    for execution in report.executions:
        first: dict[tuple[BarrierKey, int], Step] = {}
        for entry in execution.entries:
            if not isinstance(entry, Step) or not isinstance(entry.event, ev.CtaBarrier) or entry.key is None:
                continue
            earlier = first.setdefault((entry.key, entry.phase), entry)
            if entry.threads is not None and entry.threads % 32:
                yield _violation(entry, "the count is no multiple of the warp size", ())
            elif earlier.threads != entry.threads:
                mismatch = f"{place(earlier.instruction)} counts {_count(earlier)} for the same phase"
                other = Related(earlier.instruction, f"counts {_count(earlier)} threads")
                yield _violation(entry, mismatch, (other,))


def _violation(step: Step, mismatch: str, related: tuple[Related, ...]) -> Violation:
    assert step.key is not None
    details = {"barrier": barrier_name(step.key), "count": _count(step), "mismatch": mismatch}
    return Violation(step.instruction, details, related)


def _count(step: Step) -> str:
    return "all" if step.threads is None else str(step.threads)
