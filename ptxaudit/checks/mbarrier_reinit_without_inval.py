"""An mbarrier is initialised again where the object before it is still live.

A note where the second initialisation writes what the first one wrote and nothing used the object in
between: it is undefined by the letter, yet no arrival, byte or wait can be lost. Kernels of which two roles
set up the same barrier do it.
"""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport, order_of
from ptxaudit.analysis.order.trace import BarrierKey, Execution, Step
from ptxaudit.checks._executions import by_instruction, sound_executions, steps_of
from ptxaudit.checks._order import barrier_name, is_doubtful, outcome_of
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Confidence, Outcome, Related, Severity, Violation

NEEDS = (ev.MbarrierInit,)

_USES = (ev.MbarrierArrive, ev.MbarrierExpect, ev.MbarrierWait)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Initialisations of a location that holds an mbarrier that was not invalidated."""
    if not analysis.has(*NEEDS) or not analysis.function.is_entry:
        return Outcome.not_applicable()
    report = order_of(analysis)
    unplaced = _unplaced_invalidations(analysis, report)
    if unplaced is not None:
        return Outcome.of([], unplaced)
    found = (
        violation for execution in sound_executions(report) for violation in _violations(report, execution)
    )
    return outcome_of(report, _once_a_pair(by_instruction(sorted(found, key=_rank))))


def _rank(violation: Violation) -> int:
    """What is worse comes first: an instruction is reported once."""
    if is_doubtful(violation):
        return 3
    return {None: 0, Severity.WARNING: 1}.get(violation.severity, 2)


def _once_a_pair(violations: list[Violation]) -> list[Violation]:
    """Two initialisations that nothing orders are one violation, whichever a schedule puts last."""
    unique: dict[frozenset[int], Violation] = {}
    for violation in violations:
        others = (related.instruction.index for related in violation.related)
        unique.setdefault(frozenset((violation.primary.index, *others)), violation)
    return list(unique.values())


def _unplaced_invalidations(analysis: FunctionAnalysis, report: OrderReport) -> str | None:
    """An invalidation whose address is not known may be the one that is missing elsewhere."""
    placed = {
        step.instruction.index
        for execution in report.executions
        for step in steps_of(execution)
        if isinstance(step.event, ev.MbarrierInvalidate)
    }
    for instruction, _ in analysis.occurrences(ev.MbarrierInvalidate):
        if instruction.index not in placed:
            return f"which mbarrier is invalidated at {instruction.location} is not known"
    return None


def _violations(report: OrderReport, execution: Execution) -> Iterator[Violation]:
    live: dict[BarrierKey, Step] = {}
    used: set[BarrierKey] = set()
    for step in steps_of(execution):
        if step.key is None:
            continue
        if isinstance(step.event, ev.MbarrierInvalidate):
            live.pop(step.key, None)
        elif isinstance(step.event, _USES):
            used.add(step.key)
        elif isinstance(step.event, ev.MbarrierInit):
            if step.key in live:
                yield _violation(report, execution, live[step.key], step, step.key in used)
            live[step.key] = step
            used.discard(step.key)


def _violation(
    report: OrderReport, execution: Execution, first: Step, again: Step, was_used: bool
) -> Violation:
    assert again.key is not None
    same = first.instruction is again.instruction
    earlier = "the same instruction" if same else "an earlier mbarrier.init"
    harmless = not was_used and 0 < first.count == again.count
    severity, confidence = _certainty(report, execution, was_used, harmless)
    return Violation(
        again.instruction,
        {"barrier": barrier_name(again.key), "earlier": earlier},
        () if same else (Related(first.instruction, "initialised it before"),),
        ("It was used in between." if was_used else "It was not used in between.",),
        severity=severity,
        confidence=confidence,
        assumptions=tuple(report.assumptions),
    )


def _certainty(
    report: OrderReport, execution: Execution, was_used: bool, harmless: bool
) -> tuple[Severity | None, Confidence | None]:
    if harmless:
        return Severity.NOTE, Confidence.MEDIUM
    if report.in_doubt(execution):
        return Severity.NOTE, Confidence.LOW
    certain = was_used and execution.possible
    return (None, None) if certain else (Severity.WARNING, Confidence.MEDIUM)
