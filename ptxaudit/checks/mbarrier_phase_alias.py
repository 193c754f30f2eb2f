"""An arrive or a parity wait may meet an earlier phase than meant."""

from collections import defaultdict
from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Alias
from ptxaudit.checks._order import alias_witness, barrier_name, certain_first, outcome, place, role_of
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Confidence, Outcome, Related, Severity, Violation

NEEDS = (ev.MbarrierArrive,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Barriers with an arrive or wait that nothing orders after the completion of the phase before."""
    return outcome(analysis, analysis.has(*NEEDS), _violations)


def _violations(report: OrderReport) -> Iterator[Violation]:
    by_barrier: dict[int, list[Alias]] = defaultdict(list)
    for alias in report.aliases:
        if alias.record.key[0] == "mbarrier":
            by_barrier[alias.record.key[2]].append(alias)
    for aliases in by_barrier.values():
        yield _violation(report, certain_first(aliases))


def _violation(report: OrderReport, aliases: list[Alias]) -> Violation:
    waits = [alias for alias in aliases if isinstance(alias.step.event, ev.MbarrierWait)]
    arrives = [alias for alias in aliases if not isinstance(alias.step.event, ev.MbarrierWait)]
    main = (waits or arrives)[0]
    phase = main.record.phase
    arrival = (arrives or waits)[0].step
    consequence = (
        f"the wait for phase {phase} at {place(waits[0].step.instruction)} can then pass on the phase before"
        if waits
        else f"phase {phase - 1} can then complete with one of its own arrivals missing"
    )
    details = {
        "arrival": place(arrival.instruction),
        "arriver": role_of(main.execution, arrival),
        "consequence": f"{consequence} ({barrier_name(main.record.key)})",
    }
    related = [
        Related(alias.step.instruction, f"may count for phase {alias.record.phase - 1} instead")
        for alias in arrives
        if alias is not main
    ]
    if main.missing is not None:
        note = f"an arrival of phase {phase - 1} that nothing orders before"
        related.append(Related(main.missing.instruction, note))
    return Violation(
        main.step.instruction,
        details,
        tuple(related),
        (f"Nothing orders {place(main.step.instruction)} after the completion of phase {phase - 1}.",),
        severity=Severity.NOTE if main.doubtful else None,
        confidence=Confidence.LOW if main.doubtful else None,
        witness=alias_witness(main),
        assumptions=tuple(report.assumptions),
    )
