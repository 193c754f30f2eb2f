"""How many threads of a CTA execute an instruction, where the code tells by the threads' indices.

Property: of the threads of a CTA those that come to a block and execute an instruction in it, as far as
guards and branches are functions of the thread's index. A block that one edge alone leads to is executed by
those that take the edge of those that execute the block before; any other by those that execute its immediate
dominator. Direction: forward over the dominator tree, values backward (:mod:`ptxaudit.analysis.derivation`).
A condition of which a value is not known, because it is loaded, a parameter or differs by pass, keeps all. A
guarded exit inside a block takes away those threads for which its guard holds.

Known limits: dimensions of the block beyond those stated; threads that left the kernel by a loop's exit.
"""

from dataclasses import dataclass, field

import numpy as np

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.definitions import Reaching
from ptxaudit.analysis.derivation import Derivation, Result, TooMuch
from ptxaudit.analysis.pollloops import branch_condition, poll_loops
from ptxaudit.ir.events import Election, ends_thread
from ptxaudit.ir.instruction import Guard
from ptxaudit.ir.lanes import collapse_flags
from ptxaudit.ir.operands import Immediate, Operand, Register
from ptxaudit.ir.values import LANE_INDEX, LANES, Flags, Lanes, collapse


def participants(analysis: FunctionAnalysis, block: tuple[int, int, int]) -> "Participants":
    """The participants of a function with CTAs of these dimensions, worked out once."""
    return analysis.memo(f"participants {block}", lambda: Participants(analysis, block))


@dataclass(slots=True)
class Participants:
    """The threads that execute each place of a function whose CTA has ``block`` threads (x, y, z)."""

    analysis: FunctionAnalysis
    block: tuple[int, int, int]
    _warps: "list[_OfWarp]" = field(default_factory=list)
    _executing: dict[int, Flags] = field(default_factory=dict)

    def count(self, index: int) -> int:
        """The threads of a CTA that execute an instruction, at most."""
        instruction = self.analysis.function.instructions[index]
        block = self.analysis.function.block_of(index)
        flags = self._of_block(block.id) & self._stayed(block.id, index)
        if instruction.guard is not None:
            flags = flags & self._holds(instruction.guard, index)
        return int(np.count_nonzero(flags))

    def number(self, operand: Operand, index: int) -> int | None:
        """The value of an operand of an instruction where it is one known number for all warps."""
        if isinstance(operand, Immediate):
            return operand.value if isinstance(operand.value, int) else None
        values: set[int] = set()
        for warp in self._of_warps():
            value = _value(warp, operand, index)
            if not isinstance(value, int):
                return None
            values.add(value)
        return values.pop() if len(values) == 1 else None

    @property
    def _threads(self) -> int:
        x, y, z = self.block
        return x * y * z

    def _of_block(self, block: int) -> Flags:
        path: list[int] = []
        current: int | None = block
        parents = self.analysis.graph.immediate_dominators
        while current is not None and current not in self._executing:
            path.append(current)
            current = parents.get(current)
        flags = np.ones(self._threads, dtype=np.bool_) if current is None else self._executing[current]
        for one in reversed(path):
            before = parents.get(one)
            if before is not None:
                flags = flags & self._stayed(before) & self._along(before, one)
            self._executing[one] = flags
        return flags

    def _along(self, before: int, block: int) -> Flags:
        """The threads that go from a block to one that it dominates, as far as its end decides."""
        everyone = np.ones(self._threads, dtype=np.bool_)
        graph = self.analysis.graph
        end = graph.blocks[before].end - 1
        branch = self.analysis.function.instructions[end]
        successors = graph.blocks[before].successors
        if any(one != before and not graph.dominates(block, one) for one in graph.predecessors[block]):
            return everyone
        condition = branch_condition(branch)
        if len(successors) != 2 or condition is None:
            return everyone
        taken = block == successors[1]
        return self._holds(condition, end, not taken)

    def _stayed(self, block: int, end: int | None = None) -> Flags:
        """The threads that no guarded exit of a block ends, up to an instruction or to the block's end."""
        flags = np.ones(self._threads, dtype=np.bool_)
        bounds = self.analysis.graph.blocks[block]
        for index in range(bounds.start, bounds.end if end is None else end):
            guard = self.analysis.function.instructions[index].guard
            if guard is not None and ends_thread(self.analysis.events[index]):
                flags = flags & self._holds(guard, index, True)
        return flags

    def _of_warps(self) -> "list[_OfWarp]":
        if not self._warps:
            self._warps = [_OfWarp(self.analysis, self.block, w) for w in range(-(-self._threads // LANES))]
        return self._warps

    def _holds(self, guard: Guard, index: int, opposite: bool = False) -> Flags:
        """The threads for which a guard may hold, or may not."""
        found: list[Flags] = []
        for warp in self._of_warps():
            value = _value(warp, guard.register, index)
            if not isinstance(value, int | np.ndarray):
                # What the first warp does not know, another does not know, either.
                return np.ones(self._threads, dtype=np.bool_)
            holds = np.broadcast_to(np.asarray(value, dtype=np.bool_), (LANES,))
            found.append(holds ^ (guard.negated != opposite))
        return np.concatenate(found)[: self._threads]


class _OfWarp(Derivation):
    """Values that the threads of one warp hold."""

    def __init__(self, analysis: FunctionAnalysis, block: tuple[int, int, int], warp: int) -> None:
        definitions = poll_loops(analysis).definitions
        super().__init__(analysis, definitions, definitions.everywhere)
        self._block = block
        self._linear = LANE_INDEX + np.uint64(warp * LANES)

    def at_the_start(self, name: str) -> Result:
        base, _, axis = name.replace("SR_", "%").lower().partition(".")
        match base:
            case "rz" | "urz" | "%rz":
                return 0
            case "pt" | "upt":
                return True
            case "%laneid":
                return LANE_INDEX
            case "%warpid":
                return int(self._linear[0]) // LANES
            case "%tid" if axis:
                return self._index("xyz".index(axis))
            case "%ntid" if axis:
                return self._block["xyz".index(axis)]
            case _:
                return self.domain.atom(("outside", name), name)

    def from_outside(self, name: str, index: int, turn: int, reaching: Reaching) -> Result:
        return self.unknown((name, index))

    def defined(self, name: str, definition: int, turn: int) -> Result:
        if any(_elects(event, name) for event in self.analysis.events[definition]):
            return collapse_flags(np.arange(LANES) == 0)
        return super().defined(name, definition, turn)

    def _index(self, axis: int) -> Result:
        before = int(np.prod(self._block[:axis], dtype=np.int64))
        index: Lanes = self._linear // np.uint64(before)
        return collapse(index % np.uint64(self._block[axis]) if axis < 2 else index)


def _value(warp: _OfWarp, operand: Operand, index: int) -> Result | None:
    """What an operand of an instruction is for a warp; ``None`` where that takes too long to work out."""
    try:
        return warp.operand(operand, index)
    except TooMuch:
        return None


def _elects(event: object, name: str) -> bool:
    return isinstance(event, Election) and event.predicate == Register(name)
