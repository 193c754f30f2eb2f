"""Reaching definitions of single registers, asked for one at a time.

Property: the instructions whose write of a register may be the last one before a point. Direction:
backward from the point, over the blocks of a region (a loop body, or the whole function). Join: union.
A guarded write does not hide the writes before it. Known limit: paths are those of the control-flow
graph, so a definition on a path that no execution takes counts.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from ptxaudit.ir.cfg import ControlFlowGraph
from ptxaudit.ir.events import Access, Event, StateSpace
from ptxaudit.ir.operands import Register

Region = frozenset[int]
Use = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Reaching:
    """Indices of the defining instructions; ``open`` tells that a value from outside the region may reach."""

    definitions: frozenset[int]
    open: bool


class Definitions:
    """Reaching definitions and backward slices of one function."""

    def __init__(self, graph: ControlFlowGraph, events: tuple[tuple[Event, ...], ...]) -> None:
        self.graph = graph
        self.instructions = graph.function.instructions
        self.everywhere: Region = graph.reachable
        self._events = events
        self._writes: dict[str, list[int]] = {}
        for instruction in self.instructions:
            for register in instruction.writes:
                self._writes.setdefault(register.name, []).append(instruction.index)
        self._known: dict[tuple[str, int, Region], Reaching] = {}

    def reaching(self, register: str, index: int, region: Region) -> Reaching:
        """The definitions in ``region`` that reach the point before instruction ``index``."""
        key = (register, index, region)
        if key not in self._known:
            self._known[key] = self._search(register, index, region)
        return self._known[key]

    def _search(self, register: str, index: int, region: Region) -> Reaching:
        found: set[int] = set()
        start = self.graph.function.block_of(index)
        pending = [(start.id, index)]
        seen: set[int] = set()
        is_open = False
        while pending:
            block_id, before = pending.pop()
            if self._last_writes(register, self.graph.blocks[block_id].start, before, found):
                continue
            predecessors = [p for p in self.graph.predecessors[block_id] if p in self.graph.reachable]
            is_open = is_open or block_id == 0 or any(p not in region for p in predecessors)
            for predecessor in predecessors:
                if predecessor in region and predecessor not in seen:
                    seen.add(predecessor)
                    pending.append((predecessor, self.graph.blocks[predecessor].end))
        return Reaching(frozenset(found), is_open)

    def _last_writes(self, register: str, start: int, before: int, found: set[int]) -> bool:
        """Adds the writes between ``start`` and ``before``; whether one of them always writes."""
        writes = self._writes.get(register, [])
        position = bisect_left(writes, before) - 1
        while position >= 0 and writes[position] >= start:
            found.add(writes[position])
            if self.instructions[writes[position]].guard is None:
                return True
            position -= 1
        return False

    def slice(self, uses: Iterable[Use], region: Region, through_memory: bool = True) -> frozenset[int]:
        """Instructions of ``region`` that the values of ``uses`` (register and point) derive from.

        A value loaded from shared memory derives from every value that the region stores there: that is
        how one thread tells the others what it has read. Without ``through_memory`` it derives from its
        address alone: that is what tells whether threads that load it get different values.
        """
        found: set[int] = set()
        pending = list(uses)
        while pending:
            register, index = pending.pop()
            for definition in self.reaching(register, index, region).definitions - found:
                found.add(definition)
                pending.extend(self._inputs(definition, region, through_memory))
        return frozenset(found)

    def _inputs(self, index: int, region: Region, through_memory: bool) -> list[Use]:
        instruction = self.instructions[index]
        uses = [(register.name, index) for register in instruction.reads]
        if through_memory and any(_is_shared(event) and event.reads for event in self._accesses(index)):
            for store in self._shared_stores(region):
                uses += [(register.name, store) for register in self.instructions[store].reads]
        return uses

    def _accesses(self, index: int) -> list[Access]:
        return [event for event in self._events[index] if isinstance(event, Access)]

    def _shared_stores(self, region: Region) -> list[int]:
        return [
            index
            for block in region
            for index in range(self.graph.blocks[block].start, self.graph.blocks[block].end)
            if any(_is_shared(event) and event.writes for event in self._accesses(index))
        ]

    def is_invariant(self, registers: Iterable[Register], index: int, region: Region) -> bool:
        """Whether the registers have the same values in every pass through a loop whose body is ``region``.

        They have when no definition they derive from derives from itself.
        """
        sources = self.slice(((register.name, index) for register in registers), region)
        return not any(
            source in self.slice(((r.name, source) for r in self.instructions[source].reads), region)
            for source in sources
        )


def _is_shared(access: Access) -> bool:
    return access.space is StateSpace.SHARED
