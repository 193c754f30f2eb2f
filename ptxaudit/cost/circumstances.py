"""What an operation finds where it stands: stores and groups in flight before it, loads that could hit
behind.

*Loads behind*: for an operation that invalidates L1, the loads that a run from it can come to before another
invalidate, in the innermost loop around it that does more than poll. A load is *sure* to have hit where its
address is the same in every pass, or moves by less than a cache line; it cannot hit where the address moves
by a line or more; else it *may*. Outside loops a load may have hit if a load can come before the operation.
Loads whose values are used only behind the next memory barrier miss while that waits, which costs nothing.
*Traffic before*: the stores, and the loads that go to L2, that a run to the operation can come by since the
last memory barrier as wide; without any the barrier has nothing to wait for.
Direction: forward and backward over the control-flow graph; join: union over paths, so that what stands on
two ways counts on both. *Work*: see :mod:`ptxaudit.cost.overlap`.

Known limits: whether other threads or CTAs hold or share the line; capacity of the cache; how long ago a
store was issued. Loads of one line between two invalidates count once where that shows.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.definitions import Region
from ptxaudit.analysis.groups import Doubt, finds_nothing_pending, group_flow
from ptxaudit.analysis.polling import can_hit_l1
from ptxaudit.analysis.pollloops import PollLoops, poll_loops
from ptxaudit.cost.operations import Operation
from ptxaudit.cost.overlap import Overlap
from ptxaudit.ir.cfg import Loop
from ptxaudit.ir.events import (
    Access,
    Completion,
    Event,
    GroupKind,
    GroupWait,
    Proxy,
    Scope,
    StateSpace,
    WgmmaIssue,
)
from ptxaudit.ir.operands import Memory, registers_in
from ptxaudit.words import counted

LINE_BYTES = 128
_COLUMNS = re.compile(r"n(\d+)")
_STORED = (StateSpace.GLOBAL, StateSpace.GENERIC, StateSpace.CLUSTER)
_FETCHED = (StateSpace.GLOBAL, StateSpace.GENERIC)
_ONE_AND_SEVERAL = {
    GroupKind.WGMMA: ("wgmma", "wgmma"),
    GroupKind.CP_ASYNC: ("cp.async copy", "cp.async copies"),
    GroupKind.BULK: ("bulk copy", "bulk copies"),
}


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a memory barrier finds in flight: stores by number, and whether there are loads from L2."""

    stores: int = 0
    fetched: bool = False


@dataclass(frozen=True, slots=True)
class Loads:
    """Loads behind an invalidate: those sure to have hit without it, and those that may.

    ``hidden`` are further ones that miss while a memory barrier waits anyway; ``first`` is one of the others,
    by its index.
    """

    sure: int = 0
    possible: int = 0
    hidden: int = 0
    first: int | None = None

    @property
    def all(self) -> int:
        """As many as could hit."""
        return self.sure + self.possible

    def in_words(self) -> str | None:
        """What the invalidate forces, or ``None`` if nothing."""
        if not self.all:
            return f"{_again(self.hidden)} while the next memory barrier waits" if self.hidden else None
        known = _again(self.all)
        if not self.possible:
            return f"{known}: the address stays within a line"
        if not self.sure:
            return f"{known} if in L1: whether the address repeats is not known"
        return f"{known}: {self.sure} at an address that stays within a line, {self.possible} perhaps"


def _again(loads: int) -> str:
    return counted(loads, "load") + (" is" if loads == 1 else " are") + " fetched again"


@dataclass(slots=True)
class Surroundings:
    """Answers about the operations of one function; ``all_operations`` are its synchronisations."""

    analysis: FunctionAnalysis
    all_operations: tuple[Operation, ...]
    _loads: dict[int, list[int]] = field(default_factory=dict)
    _stores: dict[int, list[int]] = field(default_factory=dict)
    _invalidating: dict[int, int] = field(default_factory=dict)
    _flushing: dict[int, Scope] = field(default_factory=dict)
    _may_hit: dict[tuple[int, int], bool | None] = field(default_factory=dict)
    _strong_loads: dict[int, list[int]] = field(default_factory=dict)
    _overlap: Overlap = field(init=False)

    def __post_init__(self) -> None:
        self._overlap = Overlap(self.analysis, self.all_operations)
        for operation in self.all_operations:
            for index in operation.instructions:
                if operation.invalidates:
                    self._invalidating[index] = operation.index
                if operation.flush is not None:
                    self._flushing[index] = operation.flush
        block_of = self.analysis.function.block_of
        for instruction in self.analysis.function.instructions:
            if can_hit_l1(self.analysis, instruction):
                self._loads.setdefault(block_of(instruction.index).id, []).append(instruction.index)
            elif any(_is_load(event) for event in self.analysis.events[instruction.index]):
                self._strong_loads.setdefault(block_of(instruction.index).id, []).append(instruction.index)
            if any(_is_store(event) for event in self.analysis.events[instruction.index]):
                self._stores.setdefault(block_of(instruction.index).id, []).append(instruction.index)

    @property
    def _loops(self) -> PollLoops:
        return poll_loops(self.analysis)

    # Loads ---------------------------------------------------------------------------------------

    def loads_behind(self, operation: Operation, same: frozenset[int], loop: Loop | None) -> Loads:
        """What could hit behind an invalidate; ``same`` are the operations that are attempts of its wait."""
        if not operation.invalidates or not self._loads:
            return Loads()
        starts = [one for one in self.all_operations if one.index in same or one is operation]
        region = self.analysis.graph.reachable if loop is None else loop.blocks
        reached: set[int] = set()
        for start in starts:
            reached |= self._forward(max(start.instructions), same | {operation.index}, region)
        if loop is None:
            return Loads(0, len(reached) if self._has_load_before(operation) else 0)
        sure: dict[Hashable, int] = {}
        possible: list[int] = []
        hidden: set[Hashable] = set()
        for index in sorted(reached):
            hits = self._hits(index, loop)
            if hits is not False and self._waits_beside_barrier(index, loop):
                hidden.add(self._line(index))
            elif hits:
                sure.setdefault(self._line(index), index)
            elif hits is None:
                possible.append(index)
        first = min((*sure.values(), *possible), default=None)
        return Loads(len(sure), len(possible), len(hidden), first)

    def _waits_beside_barrier(self, load: int, loop: Loop) -> bool:
        """Whether nothing uses a load before a memory barrier has waited."""
        stretch = self._overlap.around(load, loop)
        return stretch is not None and stretch.fenced and not self._overlap.used_in(load, stretch)

    def work_beside(self, operation: Operation, loads: Loads, loop: Loop | None, threads: int) -> int:
        """Cycles of arithmetic that may run beside the loads behind an operation; beside the wait that it is
        or stands behind, where there are none."""
        if loop is None:
            return 0
        overlap = self._overlap
        around = None if loads.first is None else overlap.around(loads.first, loop)
        stretch = overlap.behind(operation, loop) if loads.first is None else around
        return 0 if stretch is None else overlap.work(stretch, threads)

    def _forward(self, index: int, same: frozenset[int], region: Region) -> set[int]:
        """The loads that control can come to from behind an instruction before another invalidate."""
        graph = self.analysis.graph
        found: set[int] = set()
        block = self.analysis.function.block_of(index)
        seen: set[int] = set()
        pending = [(block.id, index + 1)]
        while pending:
            current, start = pending.pop()
            end = graph.blocks[current].end
            stop = self._first(current, start, lambda i: self._invalidating.get(i, -1) not in {-1, *same})
            limit = end if stop is None else stop
            found.update(load for load in self._loads.get(current, ()) if start <= load < limit)
            if stop is None:
                fresh = [b for b in graph.blocks[current].successors if b in region and b not in seen]
                seen.update(fresh)
                pending += [(following, graph.blocks[following].start) for following in fresh]
        return found

    def _first(self, block: int, start: int, stops: Callable[[int], bool]) -> int | None:
        end = self.analysis.graph.blocks[block].end
        return next((index for index in self._marked(block) if start <= index < end and stops(index)), None)

    def _marked(self, block: int) -> Iterable[int]:
        bounds = self.analysis.graph.blocks[block]
        marked = self._invalidating.keys() | self._flushing.keys()
        return (index for index in range(bounds.start, bounds.end) if index in marked)

    def _has_load_before(self, operation: Operation) -> bool:
        graph = self.analysis.graph
        own = self.analysis.function.block_of(operation.index).id
        if any(load < operation.index for load in self._loads.get(own, ())):
            return True
        seen: set[int] = set()
        pending = [own]
        while pending:
            for predecessor in graph.predecessors[pending.pop()]:
                if predecessor in graph.reachable and predecessor not in seen:
                    if predecessor in self._loads:
                        return True
                    seen.add(predecessor)
                    pending.append(predecessor)
        return False

    def _hits(self, index: int, loop: Loop) -> bool | None:
        key = (index, loop.header)
        if key not in self._may_hit:
            self._may_hit[key] = self._would_hit(index, loop)
        return self._may_hit[key]

    def _would_hit(self, index: int, loop: Loop) -> bool | None:
        address = self._access(index).address
        definitions = self._loops.definitions
        if definitions.is_invariant(registers_in(address), index, loop.blocks):
            return True
        # It knows the values of registers, which takes a library that few audits need.
        from ptxaudit.analysis.strides import stride

        moved = stride(self.analysis, definitions, address, index, loop.blocks)
        return None if moved is None else abs(moved) < LINE_BYTES

    def _access(self, index: int) -> Access:
        return next(
            event
            for event in self.analysis.events[index]
            if isinstance(event, Access) and event.reads and event.proxy is Proxy.GENERIC
        )

    def _line(self, index: int) -> Hashable:
        """What tells lines apart: the operands as spelled, and the line of the offset."""
        address = self._access(index).address
        if isinstance(address, Memory):
            return address.terms, address.offset // LINE_BYTES
        return address

    # Traffic -------------------------------------------------------------------------------------

    def traffic_before(self, operation: Operation, loop: Loop | None) -> Traffic:
        """What is in flight since the last memory barrier as wide, on any way to this one."""
        flush = operation.flush
        if flush is None or flush is Scope.CTA:
            return Traffic()
        graph = self.analysis.graph
        region = graph.reachable if loop is None else loop.blocks
        first = min(operation.instructions)
        own = self.analysis.function.block_of(first)
        stores: set[int] = set()
        fetched = False
        seen: set[int] = set()
        pending = [(own.id, first)]
        while pending:
            current, end = pending.pop()
            start = graph.blocks[current].start
            last = [i for i in self._marked(current) if i < end and self._flushing.get(i, 0) >= flush]
            begin = last[-1] if last else start
            stores.update(store for store in self._stores.get(current, ()) if begin <= store < end)
            fetched = fetched or self._fetches(current, begin, end, loop)
            if not last:
                fresh = [p for p in graph.predecessors[current] if p in region and p not in seen]
                seen.update(fresh)
                pending += [(before, graph.blocks[before].end) for before in fresh]
        return Traffic(len(stores - set(operation.instructions)), fetched)

    def _fetches(self, block: int, begin: int, end: int, loop: Loop | None) -> bool:
        """Whether a load between two instructions of a block goes to L2."""
        if any(begin <= load < end for load in self._strong_loads.get(block, ())):
            return True
        weak = [load for load in self._loads.get(block, ()) if begin <= load < end]
        if loop is None:
            return bool(weak)
        emptied = any(self.analysis.function.block_of(i).id in loop.blocks for i in self._invalidating)
        return any(emptied or self._hits(load, loop) is False for load in weak)

    # Groups --------------------------------------------------------------------------------------

    def waits_for_nothing(self, operation: Operation) -> bool:
        """Whether a wait for commit groups is certain to find none pending."""
        event = operation.event
        return isinstance(event, GroupWait) and finds_nothing_pending(self.analysis, operation.index, event)

    def groups_waited_for(self, operation: Operation) -> int:
        """What a wait for commit groups has to wait for, in the units of the measured tables.

        Of wgmma the products, in those of N = 64; of copies the groups, and none where another group has been
        committed behind each of them: then they had an iteration's time.
        """
        wait = operation.event
        if not isinstance(wait, GroupWait):
            return 0
        depth = wait.depth or 0
        pending = self._pending(operation)
        waited = {index: ages >> depth + 1 for index, ages in pending.items() if ages >> depth + 1}
        if wait.kind is GroupKind.WGMMA:
            return sum(self._products(index) for index in waited)
        if depth or not pending:
            return 0
        return max((ages.bit_length() for ages in waited.values()), default=1)

    def groups_in_flight(self, operation: Operation) -> str | None:
        """In words, what a wait for commit groups finds pending, and how much it leaves."""
        wait = operation.event
        if not isinstance(wait, GroupWait):
            return None
        pending = self._pending(operation)
        if not pending:
            return "nothing in flight"
        flow = group_flow(self.analysis, wait.kind, Doubt.COMPLETES, wait.read_only)
        newest = max(ages.bit_length() - 1 for ages in pending.values())
        what = f"{len(pending)} {_ONE_AND_SEVERAL[wait.kind][len(pending) > 1]}"
        groups = counted(max(newest, 1), "group")
        # Groups older than the deepest wait of the function are not told apart.
        groups = f"{groups} or more" if newest == flow.oldest else f"up to {groups}"
        return f"{what} in {groups}" + ("" if wait.depth is None else f", leaves {wait.depth}")

    def _pending(self, operation: Operation) -> Mapping[int, int]:
        wait = operation.event
        assert isinstance(wait, GroupWait)
        flow = group_flow(self.analysis, wait.kind, Doubt.COMPLETES, wait.read_only)
        return flow.before(operation.index)

    def _products(self, index: int) -> int:
        issues = (event for event in self.analysis.events[index] if isinstance(event, WgmmaIssue))
        shapes = (_COLUMNS.search(issue.shape) for issue in issues)
        return sum(max(1, int(shape[1]) // 64) for shape in shapes if shape is not None)


def _is_load(event: Event) -> bool:
    return (
        isinstance(event, Access)
        and event.reads
        and not event.writes
        and event.space in _FETCHED
        and event.proxy is Proxy.GENERIC
        and event.completion is Completion.SYNCHRONOUS
    )


def _is_store(event: Event) -> bool:
    return (
        isinstance(event, Access)
        and event.writes
        and event.space in _STORED
        and event.proxy is Proxy.GENERIC
        and event.completion is Completion.SYNCHRONOUS
    )
