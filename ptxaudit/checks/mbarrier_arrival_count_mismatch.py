"""A phase of an mbarrier gets more arrivals than it was initialised for, or some but for ever too few."""

from collections import Counter
from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport, order_of
from ptxaudit.analysis.order.trace import BarrierKey, Execution, Step
from ptxaudit.checks._executions import (
    arrivals,
    by_instruction,
    certainty,
    lacking_arrivals,
    sound_executions,
    starved,
    steps_of,
    undecided,
)
from ptxaudit.checks._order import barrier_name
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Related, Severity, Violation

NEEDS = (ev.MbarrierArrive,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """The counts of every phase in the explored executions."""
    if not analysis.has(*NEEDS) or not analysis.function.is_entry:
        return Outcome.not_applicable()
    report = order_of(analysis)
    found = (
        violation
        for execution in sound_executions(report)
        for violation in (*_too_many(report, execution), *_too_few(report, execution))
    )
    return Outcome.of(by_instruction(found), undecided(report))


def _too_many(report: OrderReport, execution: Execution) -> Iterator[Violation]:
    """Arrivals that are more than the whole phase needs: its pending count would fall below zero.

    Those of a phase whose bytes are still to come count together, whoever arrives; the bytes may come that
    late in every launch that makes the same decisions.
    """
    totals: Counter[tuple[BarrierKey, int]] = Counter()
    stated: dict[BarrierKey, int | None] = {}
    for step in steps_of(execution):
        if isinstance(step.event, ev.MbarrierInit) and step.key is not None:
            # Its phases count from 0 again, and may need another number (PTX ISA 9.7.13.15.9).
            totals = Counter({place: total for place, total in totals.items() if place[0] != step.key})
            stated[step.key] = step.count or None
        if not isinstance(step.event, ev.MbarrierArrive) or step.key is None or step.may or step.event.drop:
            continue
        expected = stated.get(step.key, execution.barrier_counts.get(step.key))
        counted = step.event.source is not ev.ArriveSource.CP_ASYNC or step.event.no_increment
        if expected is None or not counted:
            continue
        totals[step.key, step.phase] += step.count
        total = totals[step.key, step.phase]
        if step.count > expected:
            mismatch = f"{step.count} arrivals come from one warp, and the phase needs {expected}"
            yield _violation(report, execution, step, step.key, mismatch)
        elif total - step.count <= expected < total:
            mismatch = f"phase {step.phase} gets arrival {total} before it completes, and needs {expected}"
            yield _violation(report, execution, step, step.key, mismatch)


def _too_few(report: OrderReport, execution: Execution) -> Iterator[Violation]:
    for stuck, key in starved(execution):
        came = arrivals(execution, key, stuck.phase)
        lacking = lacking_arrivals(execution, key, stuck.phase)
        expects = any(
            isinstance(step.event, ev.MbarrierExpect) and (step.key, step.phase) == (key, stuck.phase)
            for step in steps_of(execution)
        )
        if came and lacking is not None and lacking > 0 and not expects:
            number = sum(step.count for step in came)
            mismatch = f"phase {stuck.phase} gets {number} arrivals and needs {number + lacking}"
            yield _violation(
                report, execution, came[-1], key, mismatch, (Related(stuck.instruction, "waits"),)
            )


def _violation(
    report: OrderReport,
    execution: Execution,
    step: Step,
    key: BarrierKey,
    mismatch: str,
    related: tuple[Related, ...] = (),
) -> Violation:
    inits = {
        other.instruction.index: other.instruction
        for other in steps_of(execution)
        if isinstance(other.event, ev.MbarrierInit) and other.key == key
    }
    lanes = Counter(other.warp for other in steps_of(execution) if other.instruction is step.instruction)
    severity = certainty(report, execution) if not execution.possible or related else None
    return Violation(
        step.instruction,
        {"barrier": barrier_name(key), "mismatch": mismatch},
        (*related, *(Related(init, "states the count") for init in inits.values())),
        (f"{len(lanes)} warps execute the instruction.",),
        severity=severity or (None if execution.possible else Severity.WARNING),
        assumptions=tuple(report.assumptions),
    )
