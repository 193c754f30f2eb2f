"""Synchronisation that a kernel can do without, looked for in runs long enough to tell.

``rings`` has loops followed until rings of mbarriers come round twice. A ring that is kept by commit groups
and CTA barriers alone has none: a run of a few iterations never comes back to a stage, and would show order
where there is none.

Property: an access in a loop *comes round* in an execution that goes through the loop three times when each
warp that makes it at several places has come to each of them twice, and to one of them again. In a loop that
every run follows to its end it need not.
Direction and join do not apply. Known limit: an access that walks on through memory never comes round.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.machine import Bounds
from ptxaudit.analysis.order.program import compile_program
from ptxaudit.analysis.order.trace import Execution, Step
from ptxaudit.analysis.order.whatif import Weakening, dispensable, shows_nothing_new
from ptxaudit.ir import events as ev
from ptxaudit.ir.cfg import Loop
from ptxaudit.words import counted

# Iterations of loops whose trip count is not known; the greater is for rings of up to eight stages.
_ITERATIONS = (9, 17)
# Times that a loop is entered again before it is taken to show what its iterations do to each other.
_LEAST_ROUNDS = 2
# A longer run may take as many operations as the exploration took in all, or so many.
_LEAST_OPERATIONS = 6_000
_Unit = TypeVar("_Unit")


@dataclass(frozen=True, slots=True)
class Repeated:
    """Accesses, by instruction index, the headers of the loops around them, and what leaves those loops."""

    accesses: frozenset[int]
    headers: frozenset[int]
    exits: frozenset[int]


@dataclass(frozen=True, slots=True)
class Found(Generic[_Unit]):
    """``units`` can be done without, all together. ``untried`` would have taken too long to ask for; the
    accesses of ``unclear`` do not come round in any run."""

    units: tuple[_Unit, ...]
    untried: int = 0
    unclear: int = 0

    @property
    def reason(self) -> str | None:
        """What could not be decided, in words."""
        if self.untried:
            return (
                f"not tried: {counted(self.untried, 'change')}, for each of which all executions would be "
                "walked once more"
            )
        if self.unclear:
            return (
                "the explored executions end before the buffers of a loop are used again (--launch can state "
                "the trip count)"
            )
        return None


def repeated(analysis: FunctionAnalysis, accesses: Iterable[int], loops: Sequence[Loop]) -> Repeated:
    """The accesses with what is to know of the loops around them."""
    headers = frozenset(loop.header for loop in loops)
    exits = {index for loop in loops for index in _exits(analysis, loop)}
    return Repeated(frozenset(accesses), headers, frozenset(exits))


def _exits(analysis: FunctionAnalysis, loop: Loop) -> Iterator[int]:
    """The branches out of a loop, and the instructions in it that end the thread."""
    for number in loop.blocks:
        block = analysis.function.blocks[number]
        if not loop.blocks.issuperset(block.successors):
            yield block.end - 1
        for index in range(block.start, block.end):
            if any(isinstance(event, ev.Transfer) for event in analysis.events[index]):
                yield index


def find_dispensable(
    analysis: FunctionAnalysis,
    report: OrderReport,
    units: Sequence[_Unit],
    weaken: Callable[[Sequence[_Unit]], Weakening],
    guarded: Callable[[_Unit], Repeated],
) -> Found[_Unit]:
    """Like :func:`dispensable`, of those units alone whose ``guarded`` accesses come round."""
    answer = dispensable(report, units, weaken)
    short = [unit for unit in answer.units if lacking(report, guarded(unit))]
    if not short:
        return Found(answer.units, answer.untried)
    longer = _with_longer_runs(analysis, report, [guarded(unit) for unit in short])
    unclear = [unit for unit in short if lacking(longer, guarded(unit))]
    clear = [unit for unit in answer.units if unit not in unclear]
    added = len(report.executions)
    new = replace(longer, executions=longer.executions[added:], runs=longer.runs[added:])
    again = dispensable(new, clear, weaken)
    return Found(again.units, answer.untried + again.untried, len(unclear))


def lacking(report: OrderReport, guarded: Repeated) -> bool:
    """Whether some of the accesses come round in no execution, though they may go on."""
    sampled = any(run.sample is not None for run in report.runs)
    sites = {decision.site for one in report.executions for decision in one.decisions}
    if not sampled and not sites & guarded.exits:
        return False
    left = guarded.accesses
    for execution in report.executions:
        if left and all(_rounds(execution, header) > _LEAST_ROUNDS for header in guarded.headers):
            left &= _not_round(execution, left)
    return bool(left)


def _rounds(execution: Execution, header: int) -> int:
    return max((times for (loop, _), times in execution.loop_visits.items() if loop == header), default=0)


def _with_longer_runs(
    analysis: FunctionAnalysis, report: OrderReport, guarded: Sequence[Repeated]
) -> OrderReport:
    """The report with longer runs until the accesses come round.

    One that does not come to its end, or that shows what the report does not hold, is left out.
    """
    for iterations in _ITERATIONS:
        longer = _longer(analysis, report, iterations)
        if longer is None:
            return report
        report = longer
        if not any(lacking(report, one) for one in guarded):
            return report
    return report


def _longer(analysis: FunctionAnalysis, report: OrderReport, iterations: int) -> OrderReport | None:
    run = report.runs[0]
    known: Mapping[int, int] = run.bounds.iterations or {}
    explored = sum(execution.operations for execution in report.executions)
    operations = max(_LEAST_OPERATIONS, explored)
    bounds = Bounds(operations, iterations, {loop: max(n, iterations) for loop, n in known.items()})
    longer = replace(run, bounds=bounds)
    key = f"run of {iterations} iterations"
    execution = analysis.memo(key, lambda: longer.machine(compile_program(analysis)).run())
    if not execution.complete or not shows_nothing_new(report, execution):
        return None
    return replace(report, executions=[*report.executions, execution], runs=[*report.runs, longer])


def _not_round(execution: Execution, accesses: frozenset[int]) -> frozenset[int]:
    places: dict[tuple[int, int], list[bytes]] = defaultdict(list)
    for step in execution.entries:
        if isinstance(step, Step) and step.instruction.index in accesses:
            footprint = step.footprint
            if footprint is not None and footprint.memory[0] in ("shared", "tmem"):
                places[step.warp, step.instruction.index].append(footprint.starts.tobytes())
    seen = {index for _, index in places}
    short = {index for (_, index), starts in places.items() if 1 < len(set(starts)) > (len(starts) - 1) // 2}
    return frozenset(short | (accesses - seen))
