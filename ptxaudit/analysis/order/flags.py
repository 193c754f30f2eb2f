"""Loops that poll a flag in memory, the third way to synchronise beside barriers and mbarriers.

Property: a loop is a polling loop when all that it does (of the synchronisation slice) is to read memory, at
least once by a strong read, and to wait or fence; ``reads`` are its strong reads, ``exits`` the branches that
may leave it. When such a loop ends, its last read has observed a write by another thread, if any thread of
the kernel writes the place: that the value was there from the start is taken not to happen. Known limits: a
lock taken by compare-and-swap is no polling loop; what the flag's value must be is not looked at.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from ptxaudit.analysis.order.knowledge import Contribution
from ptxaudit.analysis.order.program import Program
from ptxaudit.analysis.order.trace import Execution, Footprint, Step
from ptxaudit.ir import events as ev
from ptxaudit.ir.cfg import Loop

Place = tuple[tuple[str, int], int]
_BESIDE = (ev.Backoff, ev.L1Invalidate, ev.Fence, ev.WarpBarrier)


@dataclass(frozen=True, slots=True)
class FlagLoops:
    """Header blocks of the polling loops, instruction indices of their strong reads and of their exits."""

    headers: frozenset[int]
    reads: frozenset[int]
    exits: frozenset[int]


def flag_loops(program: Program) -> FlagLoops:
    """The polling loops of a program."""
    headers: set[int] = set()
    reads: set[int] = set()
    exits: set[int] = set()
    for loop in program.analysis.graph.loops:
        polled = _strong_reads(program, loop)
        if not polled:
            continue
        headers.add(loop.header)
        reads |= polled
        leaving = (program.blocks[block].exit for block in loop.blocks)
        exits |= {leave.instruction.index for leave in leaving if leave.instruction is not None}
    return FlagLoops(frozenset(headers), frozenset(reads), frozenset(exits))


def place_of(footprint: Footprint) -> Place:
    """What tells a flag from others: its memory and where it starts."""
    return footprint.memory, int(footprint.starts.min())


class StrongWrites:
    """Which warps have written which places by strong writes, in an execution that grows."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._seen = 0
        self._writers: dict[Place, set[int]] = {}

    def by_others(self, poll: Step) -> bool:
        """Whether a warp other than the one that polls has written the place that it polls."""
        entries = self._execution.entries
        for entry in entries[self._seen :]:
            if not isinstance(entry, Step) or entry.footprint is None:
                continue
            if isinstance(entry.event, ev.Access) and entry.event.writes and is_strong(entry.event):
                self._writers.setdefault(place_of(entry.footprint), set()).add(entry.warp)
        self._seen = len(entries)
        written = set() if poll.footprint is None else self._writers.get(place_of(poll.footprint), set())
        return bool(written - {poll.warp})


class FlagWrites:
    """The places that polling loops read, who writes them, and what those writes have handed over so far."""

    def __init__(self, execution: Execution) -> None:
        self.contributions: dict[Place, list[Contribution]] = {}
        self._writers: dict[Place, set[tuple[int, int, int]]] = {}
        steps = [entry for entry in execution.entries if isinstance(entry, Step)] if execution.polls else []
        for step in steps:
            if step.instruction.index in execution.polls and step.footprint is not None:
                self.contributions.setdefault(place_of(step.footprint), [])
        self._accesses = [(place, step) for step in steps if (place := self.place_of(step)) is not None]
        for place, step in self._accesses:
            if isinstance(step.event, ev.Access) and step.event.writes:
                written = (step.warp, step.instruction.index, step.visit)
                self._writers.setdefault(place, set()).add(written)

    def most_observations(self, agents: Callable[[Step], int]) -> int:
        """How many writes all polls together may observe at most, given the number of agents of a step."""
        polls, writes = Counter[Place](), Counter[Place]()
        for place, step in self._accesses:
            assert isinstance(step.event, ev.Access)
            counter = writes if step.event.writes else polls
            counter[place] += agents(step)
        return sum(count * writes[place] for place, count in polls.items())

    def place_of(self, step: Step) -> Place | None:
        """The polled place that a strong access touches."""
        if step.footprint is None or not isinstance(step.event, ev.Access) or not is_strong(step.event):
            return None
        place = place_of(step.footprint)
        return place if place in self.contributions else None

    def has_one_writer(self, place: Place, step: Step) -> bool:
        """Whether one write alone, of another warp, can be what a poll observes."""
        return len([warp for warp, _, _ in self._writers.get(place, ()) if warp != step.warp]) == 1


def is_strong(event: ev.Access) -> bool:
    """Whether an access is strong (PTX ISA 8.3): atomic, or of other than weak semantics."""
    return event.semantics is not ev.Semantics.WEAK or event.kind is ev.AccessKind.UPDATE


def _strong_reads(program: Program, loop: Loop) -> set[int]:
    """The strong reads of a loop that only polls; empty for any other loop."""
    found: set[int] = set()
    for block in loop.blocks:
        for operation in program.blocks[block].operations:
            for event in operation.events:
                if isinstance(event, _BESIDE):
                    continue
                if not isinstance(event, ev.Access) or event.kind is not ev.AccessKind.READ:
                    return set()
                if is_strong(event):
                    found.add(operation.instruction.index)
    return found
