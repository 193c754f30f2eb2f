"""The bytes that a phase of an mbarrier expects are not those that the copies deliver.

Such a phase has all its arrivals and is waited for ever: only its transaction count can be left. Where
tensor maps decide the copies' sizes, the phase is compared with what these can be (``byte_counts``).
"""

from collections.abc import Iterator
from functools import partial

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.byte_counts import ByteConflict
from ptxaudit.analysis.order.explore import OrderReport, order_of
from ptxaudit.analysis.order.gaps import expects_bytes
from ptxaudit.analysis.order.trace import BarrierKey, Delivery, Execution, Step
from ptxaudit.checks._executions import (
    by_instruction,
    certainty,
    lacking_arrivals,
    sound_executions,
    starved,
    steps_of,
    undecided,
)
from ptxaudit.checks._order import DOUBTFUL, barrier_name, is_doubtful
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Confidence, Outcome, Related, Severity, Violation

NEEDS = (ev.MbarrierExpect, ev.MbarrierArrive)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Phases that have their arrivals and lack, or have too many, bytes."""
    if not _expects_bytes(analysis) or not analysis.function.is_entry:
        return Outcome.not_applicable()
    report = order_of(analysis)
    stated = (
        violation
        for execution in sound_executions(report)
        for violation in (*_violations(report, execution), *_left_over(report, execution))
    )
    found = by_instruction((*stated, *map(partial(_conflict, report), report.byte_conflicts)))
    doubt = DOUBTFUL if any(map(is_doubtful, found)) else None
    return Outcome.of(found, undecided(report) or doubt or _unknown_amount(report))


def _unknown_amount(report: OrderReport) -> str | None:
    """Which phase was only taken to get the bytes that it expects, as a reason not to decide."""
    for execution in report.executions:
        for phase in execution.taken_to_fit:
            expects = (step for step in steps_of(execution) if _expects_in(step, phase.key, phase.phase))
            place = next((f" ({step.instruction.location})" for step in expects), "")
            name = barrier_name(phase.key)
            return f"whether {name} gets the bytes that it expects{place} rests on a size that is not known"
    return None


def _conflict(report: OrderReport, conflict: ByteConflict) -> Violation:
    other = conflict.other
    related = () if other is None else (Related(other.instruction, "what the same tensor maps bring here"),)
    return Violation(
        conflict.step.instruction,
        {"barrier": barrier_name(conflict.key), "mismatch": conflict.mismatch},
        related,
        ("A tensor copy's size is in its tensor map; it is judged by its neighbours and by other phases.",),
        severity=Severity.NOTE if conflict.doubtful else certainty(report, conflict.execution),
        confidence=Confidence.LOW if conflict.doubtful else None,
        assumptions=tuple(report.assumptions),
    )


def _expects_bytes(analysis: FunctionAnalysis) -> bool:
    arrives = analysis.occurrences(ev.MbarrierArrive)
    return analysis.has(ev.MbarrierExpect) or any(event.expect_bytes is not None for _, event in arrives)


def _violations(report: OrderReport, execution: Execution) -> Iterator[Violation]:
    for stuck, key in starved(execution):
        expects = [step for step in steps_of(execution) if _expects_in(step, key, stuck.phase)]
        lacking = lacking_arrivals(execution, key, stuck.phase)
        deliveries = [
            entry
            for entry in execution.entries
            if isinstance(entry, Delivery) and (entry.key, entry.phase) == (key, stuck.phase)
        ]
        if (
            not expects
            or lacking is None
            or lacking > 0
            or any(d.operation.bytes is None for d in deliveries)
        ):
            continue
        delivered = sum(delivery.operation.bytes or 0 for delivery in deliveries)
        yield Violation(
            expects[0].instruction,
            {
                "barrier": barrier_name(key),
                "mismatch": f"{_expected(expects)}, and {delivered} are delivered",
            },
            (Related(stuck.instruction, f"waits for phase {stuck.phase} for ever"),),
            (f"{len(deliveries)} copies complete on this phase, and all its arrivals have come.",),
            severity=certainty(report, execution),
            assumptions=tuple(report.assumptions),
        )


def _left_over(report: OrderReport, execution: Execution) -> Iterator[Violation]:
    """Copies whose bytes nobody expects: the phase before has completed without them."""
    if not execution.complete or any(step.unresolved is not None for step in steps_of(execution)):
        return
    for delivery in execution.entries:
        if not isinstance(delivery, Delivery) or delivery.operation.bytes is None or delivery.phase == 0:
            continue
        key, phase = delivery.key, delivery.phase
        steps = list(steps_of(execution))
        before = [step for step in steps if _expects_in(step, key, phase - 1)]
        if before and not any(_expects_in(step, key, phase) for step in steps):
            mismatch = f"a copy of {delivery.operation.bytes} bytes comes after the phase it was meant for"
            yield Violation(
                before[0].instruction,
                {"barrier": barrier_name(key), "mismatch": mismatch},
                evidence=(f"Nothing expects bytes in phase {phase}.",),
                severity=certainty(report, execution),
                assumptions=tuple(report.assumptions),
            )
            return


def _expects_in(step: Step, key: BarrierKey, phase: int) -> bool:
    return (step.key, step.phase) == (key, phase) and expects_bytes(step.event)


def _expected(expects: list[Step]) -> str:
    known = [step.bytes for step in expects if step.bytes is not None]
    return f"{sum(known)} bytes are expected" if len(known) == len(expects) else "other bytes are expected"
