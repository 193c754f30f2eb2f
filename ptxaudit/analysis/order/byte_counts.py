"""Whether the bytes that an mbarrier phase expects can be those that its tensor copies bring.

How much a tensor copy brings only its tensor map tells, yet the rest of the kernel bounds it:

1. It is a multiple of 16 bytes, and at least 16 (PTX ISA 5.5.1: the box's inner dimension is one).
2. Copies that may be under way together write different bytes, and none of an mbarrier in use: a copy has
   room from its start to where the next one, or the next mbarrier, begins.
3. Copies by one tensor map, of one form, bring the same number of bytes wherever they stand.

Property: every completed phase whose expected bytes, less those of copies that state their size, contradict
one of these gives a :class:`ByteConflict`. Whether two copies may be under way together is asked of the
clocks (``clocks``): the later one's issuer does not know that the earlier one has completed. Direction:
forward, beside that walk; the phases are compared at its end. Join: none; of the phases of one expectation
the first that is in conflict counts. Known limits: too few bytes show by (1) and (3) only; a tensor map is
known by its address, and one whose box is replaced while copies go by it is left out of (3).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from math import gcd

import numpy as np
from numpy.typing import NDArray

from ptxaudit.analysis.order.gaps import expects_bytes
from ptxaudit.analysis.order.knowledge import TIME, Moment
from ptxaudit.analysis.order.trace import (
    AsyncOperation,
    BarrierKey,
    Delivery,
    Execution,
    PhaseComplete,
    Step,
)
from ptxaudit.ir import events as ev

_GRANULE = 16
_UNBOUNDED = 1 << 62
_BOX_FIELDS = (".box_dim", ".elemtype", ".interleave_layout")

# The tensor maps that the copies of a phase go by, with how often each.
_Maps = tuple[tuple[str, int], ...]


@dataclass(slots=True)
class ByteConflict:
    """An expectation that its phase's tensor copies cannot meet: by which step, and why, in words.

    ``other`` is a step that says otherwise, if there is one; ``operations`` are the tensor copies of the
    phase. ``doubtful`` is as for races.
    """

    step: Step
    mismatch: str
    execution: Execution
    other: Step | None = None
    operations: tuple[AsyncOperation, ...] = ()
    doubtful: bool = False

    @property
    def key(self) -> BarrierKey:
        """The mbarrier."""
        assert self.step.key is not None
        return self.step.key


@dataclass(slots=True)
class _Phase:
    expects: list[Step] = field(default_factory=list)
    copies: list[AsyncOperation] = field(default_factory=list)
    complete: bool = False

    def sizeless(self) -> list[AsyncOperation]:
        return [copy for copy in self.copies if copy.tensor_map is not None]

    def remainder(self) -> int | None:
        """The bytes that are expected of the copies that do not state their size."""
        expected = [step.bytes for step in self.expects]
        stated = [copy.bytes for copy in self.copies if copy.tensor_map is None]
        if None in expected or None in stated:
            return None
        return sum(amount or 0 for amount in expected) - sum(amount or 0 for amount in stated)


class _Latest:
    """The latest copy of each component, instruction and start into one memory, with the room it has had.

    Kept in arrays: a kernel may have thousands of copies under way, each of which is asked about all others.
    """

    def __init__(self) -> None:
        self._slots: dict[tuple[int, int, int], int] = {}
        self._numbers: list[int] = []
        # Component, index, start, whether the copy is sure to be made, room; a column for each copy.
        self._columns: NDArray[np.int64] = np.zeros((5, 64), dtype=np.int64)

    def room_beside(self, start: int, time: "NDArray[np.int32]") -> int:
        """The room from a start to the next copy that need not be over; takes from those before it."""
        component, index, starts, sure, rooms = self._columns[:, : len(self._numbers)]
        distance = starts - start
        under_way = (time[component] < index) & (sure != 0)
        before = under_way & (distance < 0)
        np.minimum(rooms, -distance, out=rooms, where=before)
        behind = distance[under_way & (distance > 0)]
        return int(behind.min()) if len(behind) else _UNBOUNDED

    def add(self, moment: Moment, number: int, start: int, room: int) -> list[tuple[int, int, int]]:
        """Take up a copy with the room that it has; gives the bounds of the one that it replaces."""
        place = (moment.component, moment.step.instruction.index, start)
        slot = self._slots.get(place)
        replaced: list[tuple[int, int, int]] = []
        if slot is None:
            slot = self._slots[place] = len(self._numbers)
            self._numbers.append(number)
            if slot == self._columns.shape[1]:
                self._columns = np.concatenate((self._columns, np.zeros_like(self._columns)), axis=1)
        else:
            replaced = self._bounds_of([slot])
        self._numbers[slot] = number
        self._columns[:, slot] = moment.component, moment.index, start, not moment.step.may, room
        return replaced

    def bounds(self) -> list[tuple[int, int, int]]:
        """Operation, start and room of each copy whose room is bounded."""
        return self._bounds_of(range(len(self._numbers)))

    def _bounds_of(self, slots: Iterable[int]) -> list[tuple[int, int, int]]:
        found = ((self._numbers[slot], *map(int, self._columns[2::2, slot])) for slot in slots)
        return [(number, start, room) for number, start, room in found if room < _UNBOUNDED]


class ByteCounts:
    """Collects the copies of one walk; ``conflicts`` compares the phases when it is over."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._room: dict[tuple[int, int], int] = {}
        self._writes: dict[int, Step] = {}
        self._latest: dict[tuple[str, int], _Latest] = {}
        self._barriers = _lifetimes(execution)

    def access(self, moment: Moment) -> None:
        """Look at an access: what room a copy into shared memory has, and leaves to others under way."""
        step = moment.step
        event, operation = step.event, step.operation
        if operation is None or not isinstance(event, ev.Access) or not event.writes:
            return
        memory = moment.footprint.memory
        if event.completion is not ev.Completion.MBARRIER or memory[0] != "shared":
            return
        self._writes[operation.number] = step
        latest = self._latest.get(memory)
        if latest is None:
            latest = self._latest[memory] = _Latest()
        for start in map(int, moment.footprint.starts):
            room = _UNBOUNDED if step.may else latest.room_beside(start, moment.agent.clocks[TIME])
            for offset, first, last in self._barriers.get(memory[1], ()):
                if start < offset < start + room and first < step.number < last:
                    room = offset - start
            self._bound(latest.add(moment, operation.number, start, room))

    def _bound(self, bounds: Iterable[tuple[int, int, int]]) -> None:
        for number, start, room in bounds:
            self._room[number, start] = min(room, self._room.get((number, start), room))

    def room(self, operation: AsyncOperation) -> int | None:
        """The bytes that a copy by one thread has room for; ``None`` where nothing bounds them.

        To be asked after :meth:`conflicts`.
        """
        step = self._writes.get(operation.number)
        if step is None or step.footprint is None:
            return None
        return self._room.get((operation.number, int(step.footprint.starts[0])))

    # Phases ------------------------------------------------------------------------------------------

    def conflicts(self) -> list[ByteConflict]:
        """The expectations that the copies of their phases cannot meet."""
        for latest in self._latest.values():
            self._bound(latest.bounds())
        phases = [phase for phase in self._phases() if phase.sizeless() and phase.remainder() is not None]
        found: dict[int, ByteConflict] = {}
        sound: list[_Phase] = []
        for phase in phases:
            mismatch = self._impossible(phase)
            if mismatch is None:
                sound.append(phase)
            else:
                self._add(found, phase, mismatch)
        if not _replaces_boxes(self._execution):
            for phase, other, mismatch in _disagreeing(sound):
                self._add(found, phase, mismatch, other)
        return list(found.values())

    def _add(
        self, found: dict[int, ByteConflict], phase: _Phase, mismatch: str, other: Step | None = None
    ) -> None:
        step = phase.expects[-1]
        conflict = ByteConflict(step, mismatch, self._execution, other, tuple(phase.sizeless()))
        known = found.setdefault(step.instruction.index, conflict)
        if known is not conflict:
            known.operations += conflict.operations

    def _phases(self) -> Iterator[_Phase]:
        """The completed phases of mbarriers all of whose bytes are expected, with single copies only."""
        phases: dict[tuple[BarrierKey, int], _Phase] = defaultdict(_Phase)
        for entry in self._execution.entries:
            if isinstance(entry, Step):
                if entry.key is not None and expects_bytes(entry.event):
                    phases[entry.key, entry.phase].expects.append(entry)
            elif isinstance(entry, Delivery):
                phases[entry.key, entry.phase].copies.append(entry.operation)
            elif isinstance(entry, PhaseComplete):
                phases[entry.key, entry.phase].complete = True
        astray = {key for (key, _), phase in phases.items() if phase.copies and not phase.expects}
        for (key, _), phase in phases.items():
            certain = all(self._is_single(copy) for copy in phase.sizeless())
            doubt = any(step.may for step in phase.expects) or not certain
            if phase.complete and phase.expects and key not in astray and not doubt:
                yield phase

    def _is_single(self, copy: AsyncOperation) -> bool:
        step = self._writes.get(copy.number)
        return step is not None and not step.may and step.lanes.bit_count() == 1

    def _impossible(self, phase: _Phase) -> str | None:
        """Why the tensor copies of a phase cannot bring what is left of its bytes, or ``None``."""
        remainder, copies = phase.remainder(), phase.sizeless()
        assert remainder is not None
        many = _in_words(len(copies))
        if remainder < _GRANULE * len(copies):
            return f"{max(remainder, 0)} bytes are left for {many}"
        units = reduce(gcd, Counter(copy.tensor_map for copy in copies).values())
        if remainder % (_GRANULE * units):
            each = f" by {units} equal parts" if units > 1 else ""
            return f"{many} cannot bring {remainder} bytes{each} in multiples of {_GRANULE}"
        rooms = [self.room(copy) for copy in copies]
        room = sum(one or 0 for one in rooms)
        if None not in rooms and remainder > room:
            return f"{remainder} bytes are expected of {many} with room for {room}"
        return None


def _disagreeing(phases: list[_Phase]) -> Iterator[tuple[_Phase, Step, str]]:
    """Phases whose tensor maps bring another number of bytes elsewhere; where, and that in words.

    What most expectations say counts. Sizes of single maps are put into the phases that use several.
    """
    groups: dict[_Maps, list[tuple[_Phase, int]]] = defaultdict(list)
    for phase in phases:
        counts = Counter(copy.tensor_map or "" for copy in phase.sizeless())
        units = reduce(gcd, counts.values())
        maps = tuple(sorted((name, count // units) for name, count in counts.items()))
        groups[maps].append((phase, (phase.remainder() or 0) // units))
    agreed: dict[_Maps, tuple[int, Step]] = {}
    for maps, members in groups.items():
        sites: dict[int, set[int]] = defaultdict(set)
        for phase, size in members:
            sites[size].add(phase.expects[-1].instruction.index)
        usual = max(sites, key=lambda size: (len(sites[size]), -min(sites[size])))
        witness = next(phase.expects[-1] for phase, size in members if size == usual)
        agreed[maps] = usual, witness
        yield from (
            (phase, witness, f"{size} bytes are expected of tensor maps that bring {usual} elsewhere")
            for phase, size in members
            if size != usual
        )
    singles = {maps[0][0]: size for maps, (size, _) in agreed.items() if len(maps) == 1}
    for maps, (size, _) in agreed.items():
        if len(maps) == 1 or any(name not in singles for name, _ in maps):
            continue
        total = sum(count * singles[name] for name, count in maps)
        if total != size:
            _, witness = agreed[((maps[0][0], 1),)]
            mismatch = f"{size} bytes are expected of tensor maps that bring {total} elsewhere"
            yield groups[maps][0][0], witness, mismatch


def _lifetimes(execution: Execution) -> dict[int, list[tuple[int, int, int]]]:
    """The mbarriers of each CTA: offset, step that initialised it, last step that used it."""
    spans: dict[BarrierKey, tuple[int, int]] = {}
    for entry in execution.entries:
        if not isinstance(entry, Step) or entry.key is None or entry.key[0] != "mbarrier":
            continue
        if isinstance(entry.event, ev.MbarrierInit):
            spans.setdefault(entry.key, (entry.number, entry.number))
        elif entry.key in spans:
            spans[entry.key] = spans[entry.key][0], entry.number
    found: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for (_, cta, offset), (first, last) in spans.items():
        found[cta].append((offset, first, last))
    return found


def _replaces_boxes(execution: Execution) -> bool:
    """Whether the box of a tensor map is replaced when tensor copies have begun."""
    begun = False
    for entry in execution.entries:
        if not isinstance(entry, Step):
            continue
        begun = begun or (entry.operation is not None and entry.operation.tensor_map is not None)
        replaced = begun and isinstance(entry.event, ev.TensormapReplace)
        if replaced and any(name in entry.instruction.opcode for name in _BOX_FIELDS):
            return True
    return False


def _in_words(copies: int) -> str:
    return "one tensor copy" if copies == 1 else f"{copies} tensor copies"
