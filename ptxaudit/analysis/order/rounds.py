"""Synchronisation that a kernel can do without, looked for in runs long enough to tell.

``rings`` has loops followed until barriers and buffers come round, where they do within its bounds. A run
that never comes back to a stage would show order where there is none.

Property: an access in a loop *comes round* in an execution that goes through the loop three times when each
warp that makes it at several places has come to each of them twice, and to one of them again. In a loop that
every run follows to its end it need not.
Direction and join do not apply. Known limit: an access that walks on through memory never comes round.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.rings import buffer_of, came_round
from ptxaudit.analysis.order.trace import Execution, Step
from ptxaudit.analysis.order.whatif import Weakening, dispensable
from ptxaudit.ir import events as ev
from ptxaudit.ir.cfg import Loop
from ptxaudit.words import counted

# Times that a loop is entered again before it is taken to show what its iterations do to each other.
_LEAST_ROUNDS = 2
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
    report: OrderReport,
    units: Sequence[_Unit],
    weaken: Callable[[Sequence[_Unit]], Weakening],
    guarded: Callable[[_Unit], Repeated],
) -> Found[_Unit]:
    """Like :func:`dispensable`, of those units alone whose ``guarded`` accesses come round."""
    answer = dispensable(report, units, weaken)
    clear = tuple(unit for unit in answer.units if not lacking(report, guarded(unit)))
    return Found(clear, answer.untried, len(answer.units) - len(clear))


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


def _not_round(execution: Execution, accesses: frozenset[int]) -> frozenset[int]:
    places: dict[tuple[int, int], list[bytes]] = defaultdict(list)
    for step in execution.entries:
        if isinstance(step, Step) and step.instruction.index in accesses:
            footprint = buffer_of(step)
            if footprint is not None:
                places[step.warp, step.instruction.index].append(footprint.starts.tobytes())
    seen = {index for _, index in places}
    short = {index for (_, index), starts in places.items() if not came_round(starts, 2)}
    return frozenset(short | (accesses - seen))
