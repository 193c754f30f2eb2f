"""Reaching definitions of single registers, asked for one at a time.

Property: the instructions whose write of a register may be the last one before a point. Direction:
backward from the point, over the blocks of a region (a loop body, or the whole function). Join: union.
A guarded write does not hide the writes before it. Known limit: paths are those of the control-flow
graph, so a definition on a path that no execution takes counts.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ptxaudit.ir.cfg import ControlFlowGraph
from ptxaudit.ir.events import Access, Event, StateSpace
from ptxaudit.ir.operands import Register

Region = frozenset[int]
Use = tuple[str, int]
_SHARED_MEMORY = -1  # where the index of a definition is expected


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
        self._stored: dict[Region, list[Use]] = {}
        self._cyclic: dict[Region, dict[int, bool]] = {}

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
        awaits_stores = through_memory
        while pending:
            register, index = pending.pop()
            for definition in self.reaching(register, index, region).definitions - found:
                found.add(definition)
                pending += self._uses(definition)
                if awaits_stores and self._loads_shared(definition):
                    pending += self._uses_of_shared_stores(region)
                    awaits_stores = False
        return frozenset(found)

    def _uses(self, index: int) -> list[Use]:
        return [(register.name, index) for register in self.instructions[index].reads]

    def _accesses(self, index: int) -> list[Access]:
        return [event for event in self._events[index] if isinstance(event, Access)]

    def _loads_shared(self, index: int) -> bool:
        return any(_is_shared(event) and event.reads for event in self._accesses(index))

    def _uses_of_shared_stores(self, region: Region) -> list[Use]:
        if region not in self._stored:
            self._stored[region] = [
                use
                for block in region
                for index in range(self.graph.blocks[block].start, self.graph.blocks[block].end)
                if any(_is_shared(event) and event.writes for event in self._accesses(index))
                for use in self._uses(index)
            ]
        return self._stored[region]

    def is_invariant(self, registers: Iterable[Register], index: int, region: Region) -> bool:
        """Whether the registers have the same values in every pass through a loop whose body is ``region``.

        They have when no definition they derive from derives from itself.
        """
        return not any(
            self._leads_to_a_cycle(definition, region)
            for register in registers
            for definition in self.reaching(register.name, index, region).definitions
        )

    def _leads_to_a_cycle(self, definition: int, region: Region) -> bool:
        """Whether a definition derives from one that derives from itself."""
        known = self._cyclic.setdefault(region, {})
        if definition in known:
            return known[definition]
        path = [(definition, self._sources(definition, region))]
        active = {definition}
        while path:
            current, sources = path[-1]
            following = next(sources, None)
            if following is None:
                path.pop()
                active.remove(current)
                known[current] = False
            elif following in active or known.get(following, False):
                known.update(dict.fromkeys(active, True))
                return True
            elif following not in known:
                path.append((following, self._sources(following, region)))
                active.add(following)
        return False

    def _sources(self, definition: int, region: Region) -> Iterator[int]:
        """What a definition, or what is in shared memory, directly derives from."""
        is_stored = definition == _SHARED_MEMORY
        for register, index in self._uses_of_shared_stores(region) if is_stored else self._uses(definition):
            yield from self.reaching(register, index, region).definitions
        if not is_stored and self._loads_shared(definition):
            yield _SHARED_MEMORY


def _is_shared(access: Access) -> bool:
    return access.space is StateSpace.SHARED
