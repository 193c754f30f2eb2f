"""The arithmetic that may run while a wait or a load is under way.

An iteration of a loop is cut into *stretches* by the synchronisations that nothing is moved across: waits,
barriers, fences and flushes (arrivals and commits cut nothing). The work of a stretch is the arithmetic in it
that needs no value that the stretch loads or waits for. It hides latencies of the stretch: of loads, and of a
wait whose result is not used at once. An instruction that uses the result at once, such as the conditional
invalidate of a wait at cluster scope, shows that latency again.

Property: over the blocks that every iteration executes, in order, values that derive from an event of the
stretch; the longest chain of what is left, in steps, and its number of instructions. Direction: forward, once
round the loop. Join: none, as the blocks are on every way.

Known limits: a step is taken to last ``CYCLES_OF_A_STEP``, an instruction one issue slot of its warp's
scheduler; inner loops and what only some iterations execute are not counted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.pollloops import poll_loops
from ptxaudit.cost.operations import Operation
from ptxaudit.ir.cfg import Loop
from ptxaudit.ir.events import Scope
from ptxaudit.ir.instruction import Instruction
from ptxaudit.rules.budget import Part

# Of dependent arithmetic on Hopper, as the benchmark's chain of multiply-adds has it.
CYCLES_OF_A_STEP = 4
_SCHEDULERS = 4


@dataclass(frozen=True, slots=True)
class Stretch:
    """Instructions, by index, that one iteration executes between two synchronisations."""

    instructions: tuple[int, ...]
    ended_by: Operation

    @property
    def fenced(self) -> bool:
        """Whether a fence wider than the CTA ends it, which waits for loads as for stores. Of releases, which
        do not empty L1, that was not measured."""
        flush = self.ended_by.flush
        return flush is not None and flush > Scope.CTA and self.ended_by.invalidates


@dataclass(slots=True)
class Overlap:
    """Answers about the stretches of one function; ``all_operations`` are its synchronisations."""

    analysis: FunctionAnalysis
    all_operations: tuple[Operation, ...]
    _stretches: dict[int, dict[int, Stretch]] = field(default_factory=dict)
    _work: dict[tuple[int, ...], tuple[int, int]] = field(default_factory=dict)

    def behind(self, operation: Operation, loop: Loop) -> Stretch | None:
        """The stretch that follows an operation; ``None`` where not every iteration executes it."""
        last = max(operation.instructions)
        stretch = self.around(last, loop)
        return stretch if stretch is not None and stretch.instructions[0] == last else None

    def around(self, index: int, loop: Loop) -> Stretch | None:
        """The stretch that an instruction stands in; ``None`` where not every iteration executes it."""
        return self._of(loop).get(index)

    def work(self, stretch: Stretch, threads: int) -> int:
        """Cycles of independent arithmetic of a warp in a stretch that ``threads`` of the CTA execute."""
        if stretch.instructions not in self._work:
            self._work[stretch.instructions] = self._independent(stretch.instructions)
        steps, count = self._work[stretch.instructions]
        warps = -(-threads // (32 * _SCHEDULERS))
        return max(CYCLES_OF_A_STEP * steps, count * warps)

    def used_in(self, load: int, stretch: Stretch) -> bool:
        """Whether a stretch uses the value of a load in it."""
        loaded = {one.name for one in self._instruction(load).writes}
        later = stretch.instructions[stretch.instructions.index(load) + 1 :]
        return any(loaded & {one.name for one in self._instruction(index).reads} for index in later)

    def _instruction(self, index: int) -> Instruction:
        return self.analysis.function.instructions[index]

    def _of(self, loop: Loop) -> dict[int, Stretch]:
        """The stretches of a loop by the instructions in them, each of which stands in one."""
        if loop.header not in self._stretches:
            stretches = self._cut(self._iteration(loop))
            by_index = {index: stretch for stretch in stretches for index in stretch.instructions}
            self._stretches[loop.header] = by_index
        return self._stretches[loop.header]

    def _iteration(self, loop: Loop) -> list[int]:
        """The instructions that every iteration executes, in order."""
        graph = self.analysis.graph
        loops = poll_loops(self.analysis)
        # A poll may have the header of the loop around it: its own repetition is no iteration of that.
        again = {block for poll in loops.polls if poll.header == loop.header for block in poll.blocks}
        latches = [latch for latch in loop.latches if latch not in again] or loop.latches
        own = [
            block
            for block in graph.reverse_postorder
            if block in loop.blocks
            and all(graph.dominates(block, latch) for latch in latches)
            and (inner := loops.working_of(block)) is not None
            and inner.header == loop.header
        ]
        return [index for block in own for index in range(graph.blocks[block].start, graph.blocks[block].end)]

    def _cut(self, iteration: Sequence[int]) -> Iterator[Stretch]:
        """The stretches of an iteration, each from the last instruction of one synchronisation on; the last
        one goes round to the first synchronisation."""
        place = {index: position for position, index in enumerate(iteration)}
        cuts = [
            (place[last], one)
            for one in self.all_operations
            if one.part is not Part.ARRIVE and (last := max(one.instructions)) in place
        ]
        cuts.sort(key=lambda cut: cut[0])
        for number, (start, _) in enumerate(cuts):
            end, ending = cuts[(number + 1) % len(cuts)]
            first = min(place.get(index, end) for index in ending.instructions)
            round_again = number + 1 == len(cuts)
            inside = [*iteration[start:], *iteration[:first]] if round_again else iteration[start:first]
            yield Stretch(tuple(inside), ending)

    def _independent(self, indices: Sequence[int]) -> tuple[int, int]:
        """The longest chain of independent arithmetic among instructions in order, and how many there are."""
        dependent: set[str] = set()
        steps: dict[str, int] = {}
        longest = count = 0
        for index in indices:
            one = self._instruction(index)
            read = {register.name for register in one.reads}
            written = {register.name for register in one.writes}
            if self.analysis.events[index] or not one.known or not dependent.isdisjoint(read):
                dependent |= written
                continue
            dependent -= written
            if not written:
                continue
            reached = 1 + max((steps.get(name, 0) for name in read), default=0)
            steps.update(dict.fromkeys(written, reached))
            longest, count = max(longest, reached), count + 1
        return longest, count
