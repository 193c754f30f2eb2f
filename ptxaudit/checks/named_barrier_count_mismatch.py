"""Instructions on one barrier id disagree about how many threads take part."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.trace import BarrierKey, Step
from ptxaudit.checks._order import barrier_name, outcome, place
from ptxaudit.checks._waiting import execution_of, independent_counts, severity_of_waiting
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Related, Violation

NEEDS = (ev.CtaBarrier,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Arrivals at one phase of a barrier with different thread counts, or one not whole in warps."""
    return outcome(analysis, analysis.has(*NEEDS), partial(_violations, analysis))


def _violations(analysis: FunctionAnalysis, report: OrderReport) -> Iterator[Violation]:
    reported: set[int] = set()
    for execution in report.executions:
        first: dict[tuple[BarrierKey, int], Step] = {}
        for entry in execution.entries:
            if not isinstance(entry, Step) or not isinstance(entry.event, ev.CtaBarrier) or entry.key is None:
                continue
            earlier = first.setdefault((entry.key, entry.phase), entry)
            if entry.key[2] in reported:
                continue
            if entry.threads is not None and entry.threads % 32:
                reported.add(entry.key[2])
                yield _violation(entry, "the count is no multiple of the warp size", ())
            elif _threads(report, earlier) != _threads(report, entry):
                reported.add(entry.key[2])
                mismatch = f"{place(earlier.instruction)} counts {_count(earlier)} for the same phase"
                other = Related(earlier.instruction, f"counts {_count(earlier)} threads")
                yield _violation(entry, mismatch, (other,))
    yield from _never_complete(analysis, report, reported)


def _never_complete(
    analysis: FunctionAnalysis, report: OrderReport, reported: set[int]
) -> Iterator[Violation]:
    """Barriers whose last phase got some arrivals, but not as many as counted.

    Where the host's choice of several trip counts decides whether a role arrives at all, the counts agree
    and it is the deadlock's rule that speaks.
    """
    for stuck in report.deadlock:
        if stuck.key is None or stuck.key[0] != "bar" or stuck.key[2] in reported:
            continue
        if independent_counts(analysis, report, stuck):
            continue
        steps = [
            entry
            for entry in execution_of(report, stuck).entries
            if isinstance(entry, Step)
            and isinstance(entry.event, ev.CtaBarrier)
            and (entry.key, entry.phase) == (stuck.key, stuck.phase)
        ]
        waiting = next((step for step in steps if step.instruction is stuck.instruction), None)
        if waiting is None or waiting.threads is None:
            continue
        reported.add(stuck.key[2])
        mismatch = f"only {sum({step.warp: step.count for step in steps}.values())} threads arrive"
        yield replace(
            _violation(waiting, mismatch, ()),
            severity=severity_of_waiting(analysis, report, stuck),
            assumptions=tuple(report.assumptions),
        )


def _violation(step: Step, mismatch: str, related: tuple[Related, ...]) -> Violation:
    assert step.key is not None
    details = {"barrier": barrier_name(step.key), "count": _count(step), "mismatch": mismatch}
    return Violation(step.instruction, details, related)


def _threads(report: OrderReport, step: Step) -> int:
    """The threads a barrier instruction counts: all of the CTA when it names no number."""
    assert report.shape is not None
    return report.shape.threads if step.threads is None else step.threads


def _count(step: Step) -> str:
    return "all" if step.threads is None else str(step.threads)
