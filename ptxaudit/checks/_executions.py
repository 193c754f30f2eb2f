"""What the checks that count over explored executions share: which runs count, and their steps."""

from collections.abc import Iterable, Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.trace import BarrierKey, Execution, Step, Stuck
from ptxaudit.checks._order import barrier_name, incomplete
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Severity, Violation


def sound_executions(report: OrderReport) -> Iterator[Execution]:
    """Executions that can happen as far as is known: they ran to their end, or their decisions can be."""
    for execution in report.executions:
        if execution.complete or (execution.possible and not execution.limits):
            yield execution


def by_instruction(violations: Iterable[Violation]) -> list[Violation]:
    """One violation an instruction, the first that was found."""
    unique: dict[int, Violation] = {}
    for violation in violations:
        unique.setdefault(violation.primary.index, violation)
    return list(unique.values())


def steps_of(execution: Execution) -> Iterator[Step]:
    """The steps of an execution in its order."""
    for entry in execution.entries:
        if isinstance(entry, Step):
            yield entry


def starved(execution: Execution) -> Iterator[tuple[Stuck, BarrierKey]]:
    """Warps that wait for ever on an mbarrier, once a phase; none where an address was not known."""
    if any(step.unresolved is not None for step in steps_of(execution)):
        return
    if any(stuck.key is None for stuck in execution.stuck):
        return
    seen: set[tuple[BarrierKey, int]] = set()
    for stuck in execution.stuck:
        if stuck.key is None or stuck.key[0] != "mbarrier" or (stuck.key, stuck.phase) in seen:
            continue
        seen.add((stuck.key, stuck.phase))
        yield stuck, stuck.key


def certainty(report: OrderReport, execution: Execution) -> Severity | None:
    """The pattern's own severity where nothing had to be decided or assumed, else a warning."""
    return None if not execution.decisions and not report.assumptions else Severity.WARNING


def arrivals(execution: Execution, key: BarrierKey, phase: int) -> list[Step]:
    """The arrivals that count for a phase of an mbarrier."""
    return [
        step
        for step in steps_of(execution)
        if isinstance(step.event, ev.MbarrierArrive)
        and (step.key, step.phase) == (key, phase)
        and (step.event.source is not ev.ArriveSource.CP_ASYNC or step.event.no_increment)
    ]


def counted_arrivals(execution: Execution, key: BarrierKey, phase: int) -> int:
    """How many arrivals a phase of an mbarrier got."""
    return sum(step.count for step in arrivals(execution, key, phase))


def lacking_arrivals(execution: Execution, key: BarrierKey, phase: int) -> int | None:
    """Arrivals that a phase still needs; ``None`` where the count is not known or changes."""
    expected = execution.barrier_counts.get(key)
    drops = any(
        isinstance(step.event, ev.MbarrierArrive) and step.event.drop and step.key == key
        for step in steps_of(execution)
    )
    return None if expected is None or drops else expected - counted_arrivals(execution, key, phase)


def undecided(report: OrderReport) -> str | None:
    """Why the counts of a report do not settle a question about mbarriers, or ``None``."""
    for execution in report.executions:
        for key, count in execution.barrier_counts.items():
            if count is None:
                return f"the number of arrivals that {barrier_name(key)} is initialised for is not known"
    return incomplete(report)


def has_unknown_code(analysis: FunctionAnalysis) -> bool:
    """Whether instructions or called functions may do what the events do not tell."""
    calls = any(event.kind is ev.TransferKind.CALL for _, event in analysis.occurrences(ev.Transfer))
    return calls or bool(analysis.occurrences(ev.UnknownEffect))
