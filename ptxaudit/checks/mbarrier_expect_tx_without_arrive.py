"""Bytes are expected on an mbarrier phase, but the arrivals that it also needs do not come, or not after.

A phase that is waited for ever and got too few arrivals is this defect where as many threads did an
``expect_tx`` without an arrival as arrivals are lacking, and another one (a count) otherwise. One whose
arrivals may all come before the ``expect_tx`` can complete without the bytes.
"""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport, order_of
from ptxaudit.analysis.order.gaps import GapKind
from ptxaudit.analysis.order.trace import BarrierKey, Execution, Step, Stuck
from ptxaudit.checks._executions import (
    by_instruction,
    certainty,
    has_unknown_code,
    lacking_arrivals,
    sound_executions,
    starved,
    steps_of,
    undecided,
)
from ptxaudit.checks._gaps import gap_violation, gaps_of
from ptxaudit.checks._order import DOUBTFUL, barrier_name, is_doubtful
from ptxaudit.ir import events as ev
from ptxaudit.ir.describe import operand_text
from ptxaudit.rules.model import Outcome, Related, Severity, Violation

NEEDS = (ev.MbarrierExpect,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Every ``expect_tx`` whose phase lacks an arrival for ever."""
    if not analysis.has(*NEEDS) or not analysis.function.is_entry:
        return Outcome.not_applicable()
    report = order_of(analysis)
    found = by_instruction((*_in_executions(report), *_nobody_arrives(analysis), *_slipping(report)))
    doubt = DOUBTFUL if any(map(is_doubtful, found)) else None
    return Outcome.of(found, undecided(report) or doubt)


def _slipping(report: OrderReport) -> Iterator[Violation]:
    """Expectations that nothing the phase needs comes after: they may count for the next phase."""
    for gap in gaps_of(report, GapKind.EXPECT_MAY_SLIP):
        assert gap.step.key is not None
        lacking = f"phase {gap.step.phase} may complete before: none of its arrivals is ordered after"
        details = {"barrier": barrier_name(gap.step.key), "lacking": lacking}
        yield gap_violation(report, gap, details, "no arrival of the phase after it", Severity.WARNING)


def _in_executions(report: OrderReport) -> Iterator[Violation]:
    for execution in sound_executions(report):
        for stuck, key in starved(execution):
            expects = _expects(execution, key, stuck.phase)
            lacking = lacking_arrivals(execution, key, stuck.phase) or 0
            if expects and 0 < lacking <= sum(step.lanes.bit_count() for step in expects):
                yield _violation(report, execution, stuck, expects[0], lacking)


def _expects(execution: Execution, key: BarrierKey, phase: int) -> list[Step]:
    return [
        step
        for step in steps_of(execution)
        if isinstance(step.event, ev.MbarrierExpect) and (step.key, step.phase) == (key, phase)
    ]


def _violation(
    report: OrderReport, execution: Execution, stuck: Stuck, expect: Step, lacking: int
) -> Violation:
    assert stuck.key is not None
    arrivals = "1 arrival" if lacking == 1 else f"{lacking} arrivals"
    return Violation(
        expect.instruction,
        {"barrier": barrier_name(stuck.key), "lacking": f"phase {stuck.phase} lacks {arrivals} for ever"},
        (Related(stuck.instruction, "waits for this phase"),),
        (f"The barrier was initialised for {execution.barrier_counts[stuck.key]}.",),
        severity=certainty(report, execution),
        assumptions=tuple(report.assumptions),
    )


def _nobody_arrives(analysis: FunctionAnalysis) -> Iterator[Violation]:
    """Without a single arrive instruction no phase completes, whatever the addresses are."""
    if analysis.has(ev.MbarrierArrive) or has_unknown_code(analysis):
        return
    waits = analysis.occurrences(ev.MbarrierWait)
    if not waits or not analysis.has(ev.MbarrierInit):
        return
    for instruction, expect in analysis.occurrences(ev.MbarrierExpect):
        yield Violation(
            instruction,
            {
                "barrier": f"the mbarrier {operand_text(expect.address)}",
                "lacking": "the function has no arrive instruction",
            },
            (Related(waits[0][0], "a wait of the function"),),
            severity=Severity.WARNING,
        )
