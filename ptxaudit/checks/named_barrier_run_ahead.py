"""A barrier id is used again before its last phase has been observed."""

from collections import defaultdict
from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Alias
from ptxaudit.checks._order import alias_witness, barrier_name, certain_first, outcome, place
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Confidence, Outcome, Related, Severity, Violation

NEEDS = (ev.CtaBarrier,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Arrivals at a barrier that nothing orders after the completion of its phase before."""
    return outcome(analysis, analysis.has(*NEEDS), _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    by_barrier: dict[int, list[Alias]] = defaultdict(list)
    for alias in report.aliases:
        if alias.record.key[0] == "bar":
            by_barrier[alias.record.key[2]].append(alias)
    for aliases in by_barrier.values():
        yield _violation(report, max(certain_first(aliases), key=_runs_ahead))


def _runs_ahead(alias: Alias) -> tuple[bool, int]:
    """An arrive does not wait, so it is what runs ahead; of several the last is one phase further."""
    event = alias.step.event
    arrives = isinstance(event, ev.CtaBarrier) and event.action is ev.BarrierAction.ARRIVE
    return arrives, alias.step.instruction.index


def _violation(report: OrderReport, alias: Alias) -> Violation:
    other = "a thread" if alias.missing is None else place(alias.missing.instruction)
    note = "has not passed the phase before"
    related = () if alias.missing is None else (Related(alias.missing.instruction, note),)
    return Violation(
        alias.step.instruction,
        {"barrier": barrier_name(alias.record.key), "other": other},
        related,
        (f"Nothing orders it after the completion of phase {alias.record.phase - 1}.",),
        severity=Severity.NOTE if alias.doubtful else None,
        confidence=Confidence.LOW if alias.doubtful else None,
        witness=alias_witness(alias),
        assumptions=tuple(report.assumptions),
    )
