"""Conflicting accesses of one execution that are not ordered, and which link is missing.

Two accesses conflict when they touch a common byte of shared memory (or a common column of tensor
memory), at least one writes, and they are not both strong atomics. They are ordered when the clock of
the later one (see ``clocks``) reaches the earlier one, in causality order, through the proxies that both
use. What is missing otherwise is a :class:`Link`.

Direction: forward, beside the walk of ``clocks``. Join: none; of the pairs of accesses by the same two
instructions the first counts. An access that everything still to come is ordered after is forgotten, which
changes nothing. Known limits: of the accesses of one component by one instruction to one place only the
latest is kept; stores by one instruction are not compared with each other; memory behind different pointers
is taken to be different.
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxaudit.analysis.order.byte_counts import ByteConflict, ByteCounts
from ptxaudit.analysis.order.clocks import ClockWalk
from ptxaudit.analysis.order.completion import is_collective
from ptxaudit.analysis.order.flags import is_strong
from ptxaudit.analysis.order.footprints import LEAST_COPY
from ptxaudit.analysis.order.gaps import GapFinder
from ptxaudit.analysis.order.knowledge import (
    OUTER,
    OUTER_PROXIED,
    PROXIED,
    SHARED,
    TIME,
    WEAKLY_OUTER_PROXIED,
    WEAKLY_PROXIED,
    Agent,
    Clocks,
    FailedLink,
    Moment,
    PhaseRecord,
    is_commit,
    ordered,
    phase_known,
)
from ptxaudit.analysis.order.tensor_fences import TensorFences
from ptxaudit.analysis.order.trace import BarrierKey, Execution, Footprint, Step
from ptxaudit.ir import events as ev
from ptxaudit.stopwatch import STOPWATCH, Stage

# A store by a thread of its own: where it begins and ends, and its block.
_Store = tuple[int, int, int]
_Memory = tuple[str, int]
# A log is looked through for what may be forgotten when it is full; it has room for so many at least.
_LEAST_ROOM = 256


class Link(StrEnum):
    """The link that is missing between two conflicting accesses."""

    NONE = "no synchronisation at all"
    IN_FLIGHT = "the asynchronous operation may still be in flight"
    NOT_VISIBLE = "synchronised in time, but not made visible"
    WARP = "lanes of one warp without a warp barrier"
    PROXY = "no proxy fence"
    PROXY_BY_OTHER = "a proxy fence by another thread than the writer"
    READ_PROXY = "no proxy fence after the generic read"
    TENSOR_FENCE = "a CTA barrier without the tcgen05 fences"


@dataclass(slots=True)
class Race:
    """Two conflicting accesses without order. ``failed`` says why a synchronisation did not help.

    ``release`` is the last arrive (or barrier) of the first access's warp after its issue that the
    second access is ordered after: what lets the second one run. ``doubtful`` tells that the only
    execution that shows it rests on decisions that no launch may ever take together.
    """

    first: Moment
    second: Moment
    link: Link
    failed: FailedLink | None = None
    release: Step | None = None
    certain: bool = True
    execution: Execution | None = None
    fence: Step | None = None
    doubtful: bool = False


@dataclass(slots=True)
class Alias:
    """An arrive or a wait that may meet an earlier phase than in this execution.

    ``missing`` is a contribution to the phase before that need not have happened yet; ``doubtful`` is as
    for races.
    """

    step: Step
    record: PhaseRecord
    missing: Step | None
    execution: Execution
    doubtful: bool = False


class _Columns(NamedTuple):
    """What is asked of the accesses in a log, by slot: ``position`` is the index in the component."""

    low: "NDArray[np.int64]"
    high: "NDArray[np.int64]"
    component: "NDArray[np.int64]"
    position: "NDArray[np.int64]"
    instruction: "NDArray[np.int64]"
    reads: "NDArray[np.bool_]"
    writes: "NDArray[np.bool_]"
    generic: "NDArray[np.bool_]"

    @classmethod
    def of(cls, room: int) -> "_Columns":
        """Columns of so many slots."""
        return cls(*np.zeros((5, room), dtype=np.int64), *np.zeros((3, room), dtype=np.bool_))


class _Log:
    """The latest access of each component, instruction and footprint to one memory."""

    def __init__(self, room: int) -> None:
        self.moments: list[Moment] = []
        self._slots: dict[Hashable, int] = {}
        self._columns = _Columns.of(room)

    @property
    def is_full(self) -> bool:
        return len(self.moments) == len(self._columns.low)

    def overlapping(self, low: int, high: int, writes: bool) -> "NDArray[np.intp]":
        count = len(self.moments)
        hit = (self._columns.low[:count] < high) & (self._columns.high[:count] > low)
        if not writes:
            hit &= self._columns.writes[:count]
        found: NDArray[np.intp] = hit.nonzero()[0]
        return found

    def not_in(self, clock: "NDArray[np.int32]", slots: "NDArray[np.intp]") -> "NDArray[np.intp]":
        """Those of the slots whose accesses a clock does not know."""
        unknown: NDArray[np.intp] = slots[
            clock[self._columns.component[slots]] < self._columns.position[slots]
        ]
        return unknown

    def not_passed(
        self, clocks: Clocks, outside: bool, in_shared: bool, slots: "NDArray[np.intp]"
    ) -> "NDArray[np.intp]":
        """Those of the slots whose accesses are not ordered before an access through the async proxy.

        What went through the generic proxy needs a proxy fence besides: a write one by its own thread, a
        read (in shared memory) one by any.
        """
        if not len(slots):
            return slots
        component, index = self._columns.component[slots], self._columns.position[slots]
        known = clocks[OUTER if outside else SHARED][component] >= index
        written = clocks[OUTER_PROXIED if outside else PROXIED][component] >= index
        read = clocks[WEAKLY_PROXIED][component] >= index if in_shared else np.True_
        passed = ~self._columns.generic[slots] | np.where(self._columns.writes[slots], written, read)
        left: NDArray[np.intp] = slots[~(known & passed)]
        return left

    def not_replicated(self, step: Step, slots: "NDArray[np.intp]") -> "NDArray[np.intp]":
        """Those of the slots that are not stores by the instruction of a step that stores only.

        Compilers let every warp that holds a copy of a value store it; which copy comes last is no matter.
        """
        if not len(slots) or _reads(step):
            return slots
        same = self._columns.instruction[slots] == step.instruction.index
        left: NDArray[np.intp] = slots[~same | self._columns.reads[slots]]
        return left

    def not_by(self, instructions: Collection[int], slots: "NDArray[np.intp]") -> "NDArray[np.intp]":
        """Those of the slots that are not accesses by some instructions."""
        if not len(slots) or not instructions:
            return slots
        left: NDArray[np.intp] = slots[~np.isin(self._columns.instruction[slots], list(instructions))]
        return left

    def add(self, key: Hashable, moment: Moment, low: int, high: int) -> None:
        """Keep an access in the place of the earlier one with its key; there must be room."""
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = len(self.moments)
            self.moments.append(moment)
        self.moments[slot] = moment
        columns, step = self._columns, moment.step
        columns.low[slot], columns.high[slot] = low, high
        columns.component[slot], columns.position[slot] = moment.component, moment.index
        columns.instruction[slot] = step.instruction.index
        columns.reads[slot], columns.writes[slot] = _reads(step), _writes(step)
        columns.generic[slot] = _proxy(step) is ev.Proxy.GENERIC

    def forget(self, kept: "NDArray[np.intp]") -> None:
        """Keep some slots only, and make room for at least as many more."""
        columns = _Columns.of(max(len(self._columns.low), 2 * len(kept)))
        for new, old in zip(columns, self._columns, strict=True):
            new[: len(kept)] = old[kept]
        keys = list(self._slots)
        self._slots = {keys[slot]: number for number, slot in enumerate(kept)}
        self.moments = [self.moments[slot] for slot in kept]
        self._columns = columns


class RaceFinder:
    """Finds the races and phase aliases of one execution; one of each kind per pair of instructions.

    ``room`` is how many accesses a log takes before it is first looked for what may be forgotten.
    """

    def __init__(
        self, execution: Execution, only_certain_flags: bool = False, room: int | None = None
    ) -> None:
        self.execution = execution
        self.races: dict[Hashable, Race] = {}
        self.aliases: dict[Hashable, Alias] = {}
        self.unfenced: dict[Hashable, Race] = {}
        self.byte_conflicts: list[ByteConflict] = []
        self._logs: dict[_Memory, _Log] = {}
        # By the later instruction, the earlier ones of pairs whose race stands whatever else shows.
        self._settled: dict[int, set[int]] = defaultdict(set)
        self._releases: dict[int, list[tuple[int, Step]]] = {}
        self._copies = _copy_bases(execution)
        self._awaited = _awaited(execution)
        steps = [entry for entry in execution.entries if isinstance(entry, Step)]
        self._wgmma_reads = any(map(_reads_for_wgmma, steps))
        self._stored: dict[_Memory, list[_Store]] | None = None
        self.walk = ClockWalk(execution, self._access, self._phase, only_certain_flags)
        self.gaps = GapFinder(execution, self.walk)
        self._room = room or max(_LEAST_ROOM, 2 * sum(map(len, self.walk.agents_of_warp)))
        self._last_access = _last_accesses(steps, self.walk)
        self._byte_counts = ByteCounts(execution)
        self._tensor_fences = TensorFences(self.walk.agents_of_warp)
        self.walk.on_step = self._step

    @STOPWATCH.stage(Stage.RACES)
    def run(self) -> "RaceFinder":
        """Walk the execution."""
        self.walk.run()
        self.gaps.finish()
        self.byte_conflicts = self._byte_counts.conflicts()
        self._drop_what_rests_on_wrong_sizes()
        for key, race in list(self.races.items()):
            if race.link is Link.PROXY_BY_OTHER and self._writer_fences_too(race):
                del self.races[key]
        return self

    def _drop_what_rests_on_wrong_sizes(self) -> None:
        """Forget races of copies that their expectations make larger than they can be."""
        wrong = {copy.number: copy for found in self.byte_conflicts for copy in found.operations}
        for copy in wrong.values():
            copy.bytes = self._byte_counts.room(copy)
        for key, race in list(self.races.items()):
            sides = (race.first, race.second)
            copied = any(side.step.operation and side.step.operation.number in wrong for side in sides)
            if copied and not _touches(*(_sized(side) for side in sides)):
                del self.races[key]

    def _writer_fences_too(self, race: Race) -> bool:
        """Whether the writer, too, executes a proxy fence after its write.

        That it does so only after the barrier is how compilers place a fence by all threads; the issuing
        thread's own fence then follows the barrier, which the ISA does not rule out (8.6).
        """
        first = race.first
        together = is_collective(first.step)
        writers = self.walk.acting(first.step.warp, first.step.lanes) if together else [first.agent]
        fences = (self.walk.proxy_fences.get(writer.component, ()) for writer in writers)
        return all(any(fence.number > first.step.number for _, fence in found) for found in fences)

    def _step(self, step: Step, agents: list[Agent]) -> None:
        self.gaps.step(step, agents)
        self._tensor_fences.step(step, agents)

    # Phases ------------------------------------------------------------------------------------------

    def _phase(self, step: Step, agents: list[Agent], record: PhaseRecord, walk: ClockWalk) -> None:
        if isinstance(step.event, ev.MbarrierArrive | ev.CtaBarrier):
            for agent in agents:
                index = int(agent.clocks[TIME, agent.component])
                self._releases.setdefault(agent.component, []).append((index, step))
        if record.phase < 1 or not self._is_observed(record.key):
            return
        agent, before = agents[0], walk.record(record.key, record.phase - 1)
        key = (step.instruction.index, record.key[0])
        if key in self.aliases or phase_known(agent, before) or _only_commits_of(agent, before):
            return
        self.aliases[key] = Alias(
            step, record, _missing_contribution(agent, before, walk.agents_of_warp), self.execution
        )

    def _is_observed(self, key: BarrierKey) -> bool:
        """Whether any thread waits on a barrier.

        A multicast also arrives in CTAs where nothing does: nobody minds in which phase.
        """
        return key[0] != "mbarrier" or key in self._awaited or None in self._awaited

    # Accesses ----------------------------------------------------------------------------------------

    def _access(self, moment: Moment, walk: ClockWalk) -> None:
        moment.footprint = footprint = self._extent(moment)
        self._byte_counts.access(moment)
        writes = _writes(moment.step)
        if self._wgmma_reads and (writes or _reads_for_wgmma(moment.step)):
            moment.time = moment.agent.clocks[TIME].copy()
        low, high = footprint.low, footprint.high
        log = self._logs.get(footprint.memory)
        if log is None:
            log = self._logs[footprint.memory] = _Log(self._room)
        slots = log.overlapping(low, high, writes)
        slots = self._unordered(log, footprint.memory, moment.agent.clocks, _proxy(moment.step), slots)
        slots = log.not_replicated(moment.step, slots)
        for slot in log.not_by(self._settled[moment.step.instruction.index], slots):
            self._compare(log.moments[slot], moment, footprint)
        key = (
            moment.component,
            moment.step.instruction.index,
            writes,
            footprint.starts.tobytes(),
            footprint.size,
        )
        if log.is_full:
            self._forget(log, footprint.memory, moment.step)
        log.add(key, moment, low, high)

    def _unordered(
        self, log: _Log, memory: _Memory, clocks: Clocks, proxy: ev.Proxy, slots: "NDArray[np.intp]"
    ) -> "NDArray[np.intp]":
        """Those of the slots that an access through a proxy, with these clocks, has to be compared with."""
        if memory[0] == "tmem":
            return slots
        outside = memory[0].startswith("global")
        if proxy is ev.Proxy.GENERIC:
            # Of what is visible to a generic access nothing more is asked: no fence of a proxy or of tcgen05.
            return log.not_in(clocks[OUTER if outside else SHARED], slots)
        if proxy is ev.Proxy.ASYNC:
            return log.not_passed(clocks, outside, memory[0] == "shared", slots)
        return slots

    def _forget(self, log: _Log, memory: _Memory, now: Step) -> None:
        """Make room in a full log: forget what all that is to come is ordered after.

        That is what the least of the clocks says that the agents have now which have an access to come: but
        for the row of time, which is not asked, clocks only grow.
        """
        agents = [
            agent
            for agents in self.walk.agents_of_warp
            for agent in agents
            if self._last_access.get(agent.component, -1) >= now.number
        ]
        least = agents[0].clocks.copy()
        for agent in agents[1:]:
            np.minimum(least, agent.clocks, out=least)
        proxy = ev.Proxy.ASYNC if self.walk.through_async_proxy else ev.Proxy.GENERIC
        log.forget(self._unordered(log, memory, least, proxy, np.arange(len(log.moments))))

    def _extent(self, moment: Moment) -> Footprint:
        """The footprint of an access; a tensor store reads on to the end of what was written there.

        How much it reads only its tensor map tells. It cannot be more than is stored without a gap from
        its start on, up to where another copy starts. Stores that this execution has later count, too: that
        they come before is what has to be shown.
        """
        footprint = _sized(moment)
        if footprint.certain or footprint.memory[0] != "shared" or _writes(moment.step):
            return footprint
        start = int(footprint.starts[0])
        stop = min((base for base in self._copies[footprint.memory] if base > start), default=1 << 62)
        size = _written_from(self._stores(footprint.memory), start, stop) - start
        return Footprint(footprint.memory, footprint.starts, size, None, False)

    def _stores(self, memory: _Memory) -> list[_Store]:
        """The stores to a memory, in the order of their places."""
        if self._stored is None:
            self._stored = _stores_of(self.execution)
        return self._stored.get(memory, [])

    def _compare(self, earlier: Moment, later: Moment, footprint: Footprint) -> None:
        first, second = earlier.step, later.step
        if _program_place(first) > _program_place(second) and _both_plain(earlier, later):
            first, second = second, first
        key = (first.instruction.index, second.instruction.index)
        alike = earlier.component == later.component and not _unordered_copies(earlier, later)
        known = self.races.get(key)
        if _is_between_warps(known) and not _both_plain(earlier, later):
            self._settled[second.instruction.index].add(first.instruction.index)
        same = first is second or alike
        if same or _settles(known, earlier, later) or _morally_strong(earlier, later):
            return
        if _allocates_or_frees(earlier, later):
            return
        if _in_pipeline(earlier, later):
            return
        link = missing_link(earlier, later)
        if link is None:
            self._compare_read(key, earlier, later, footprint)
            self._compare_fences(key, earlier, later, footprint)
            return
        other = _sized(earlier)
        if (known is not None and link is not Link.NONE) or not _touches(other, footprint):
            return
        overwrites = link in (Link.IN_FLIGHT, Link.NONE)
        turned = first is later.step or (overwrites and _reads_for_wgmma(later.step))
        turned = turned or (link is Link.NONE and _is_stored_by(earlier, later))
        pair = (later, earlier) if turned else (earlier, later)
        race = Race(*pair, link, execution=self.execution)
        race.certain = _touches(_sure(other), _sure(footprint)) and not (first.may or second.may)
        if known is not None and known.certain > race.certain:
            return
        if link is Link.NOT_VISIBLE:
            race.failed = self._failed_link(earlier, later.agent)
        if link is Link.PROXY_BY_OTHER:
            race.fence = self._fence_between(earlier, later)
        if overwrites and _reads_for_wgmma(race.first.step):
            race.release = self._warpgroup_release(race.first, race.second)
        elif link is Link.IN_FLIGHT:
            race.release = self._release_between(earlier, later)
        self.races[key] = race

    def _compare_read(self, key: Hashable, earlier: Moment, later: Moment, footprint: Footprint) -> None:
        """A generic-proxy read that an async-proxy write follows, in causality but through no proxy fence."""
        if key in self.unfenced or footprint.memory[0] != "shared" or _writes(earlier.step):
            return
        if _proxy(earlier.step) is not ev.Proxy.GENERIC or _proxy(later.step) is not ev.Proxy.ASYNC:
            return
        clocks, place = later.agent.clocks, (earlier.component, earlier.index)
        if not ordered(clocks, SHARED, *place) or ordered(clocks, WEAKLY_PROXIED, *place):
            return
        other = _sized(earlier)
        if _touches(other, footprint):
            race = Race(earlier, later, Link.READ_PROXY, execution=self.execution)
            race.certain = other.certain and footprint.certain
            self.unfenced[key] = race

    def _compare_fences(self, key: Hashable, earlier: Moment, later: Moment, footprint: Footprint) -> None:
        """Two ordered tcgen05 accesses of different warps, without the fences that a CTA barrier asks for."""
        if key in self.unfenced or footprint.memory[0] != "tmem":
            return
        if not all(isinstance(one.step.event, ev.Access) for one in (earlier, later)):
            return
        if self._tensor_fences.missing(earlier, later) and _touches(earlier.footprint, footprint):
            self.unfenced[key] = Race(earlier, later, Link.TENSOR_FENCE, execution=self.execution)

    def _failed_link(self, earlier: Moment, agent: Agent) -> FailedLink | None:
        """The synchronisation that knew of the earlier access but did not make it visible.

        It is the agent's own, or that of another thread whose wait the agent has learnt of since.
        """
        time = agent.clocks[TIME]
        learnt = [failed for failed in self.walk.failed_links if time[failed.component] >= failed.index]
        known = [
            failed
            for kind in (SHARED, TIME)
            for failed in learnt
            if ordered(failed.contribution.clocks, kind, earlier.component, earlier.index)
        ]
        fenced = [failed for failed in known if failed.reason == "fence-too-narrow"]
        best = fenced or known
        return best[0] if best else None

    def _fence_between(self, earlier: Moment, later: Moment) -> Step | None:
        """The latest proxy fence of another thread that stands between the two accesses."""
        fences = self.walk.proxy_fences.get(later.agent.component, [])
        return fences[-1][1] if fences else None

    def _release_between(self, earlier: Moment, later: Moment) -> Step | None:
        """The last release by the first access's warp, after its issue, that the second one is after."""
        known = int(later.agent.clocks[TIME, earlier.agent.component])
        candidates = [
            step
            for index, step in self._releases.get(earlier.agent.component, ())
            if earlier.issue_index < index <= known
        ]
        return candidates[-1] if candidates else None

    def _warpgroup_release(self, reading: Moment, writing: Moment) -> Step | None:
        """The last release by the warpgroup whose wgmma reads that the writer had observed."""
        first = reading.agent.warp - self.execution.warps[reading.agent.warp].warp % 4
        candidates = [
            step
            for agents in self.walk.agents_of_warp[first : first + 4]
            for agent in agents
            for index, step in self._releases.get(agent.component, ())
            if index <= writing.time[agent.component]
        ]
        return max(candidates, key=lambda step: step.number, default=None)


def _last_accesses(steps: Iterable[Step], walk: ClockWalk) -> dict[int, int]:
    """The number of the last step with a footprint that each agent makes, by its component."""
    last: dict[tuple[int, int], int] = {}
    for step in steps:  # those of a weakened execution need not be in the order of their numbers
        if step.footprint is not None:
            place = step.warp, step.lanes
            last[place] = max(step.number, last.get(place, -1))
    found: dict[int, int] = {}
    for place, number in last.items():
        for agent in walk.acting(*place):
            found[agent.component] = max(number, found.get(agent.component, -1))
    return found


def _copy_bases(execution: Execution) -> dict[_Memory, set[int]]:
    """Where the bulk copies of an execution start, by memory."""
    bases: dict[_Memory, set[int]] = defaultdict(set)
    bulk = (ev.Completion.BULK_GROUP, ev.Completion.MBARRIER)
    for entry in execution.entries:
        if not isinstance(entry, Step) or not isinstance(entry.event, ev.Access) or entry.footprint is None:
            continue
        if entry.event.completion in bulk:
            bases[entry.footprint.memory].update(int(start) for start in entry.footprint.starts)
    return bases


def _stores_of(execution: Execution) -> dict[_Memory, list[_Store]]:
    """What threads themselves store, by memory."""
    stores: dict[_Memory, set[_Store]] = defaultdict(set)
    for entry in execution.entries:
        if not isinstance(entry, Step) or entry.footprint is None or not isinstance(entry.event, ev.Access):
            continue
        if entry.event.writes and entry.event.completion is ev.Completion.SYNCHRONOUS:
            place = entry.footprint.low, entry.footprint.high
            stores[entry.footprint.memory].add((*place, entry.block))
    return {memory: sorted(found) for memory, found in stores.items()}


def _written_from(stores: list[_Store], start: int, stop: int) -> int:
    """Where the stores that follow each other from ``start`` on end, at ``stop`` at the latest.

    Only stores by the blocks that store to ``start`` count: what other code puts behind it is another buffer.
    """
    blocks = {block for low, high, block in stores if low <= start < high}
    end = start + LEAST_COPY
    for low, high, block in stores:
        if low <= end and high > start and block in blocks:
            end = max(end, high)
    return min(end, stop)


def missing_link(earlier: Moment, later: Moment) -> Link | None:
    """What is missing for ``earlier`` to be ordered before ``later``; ``None`` when it is."""
    clocks = later.agent.clocks
    component, index = earlier.component, earlier.index
    outside = later.footprint.memory[0].startswith("global")
    if ordered(clocks, OUTER if outside else SHARED, component, index):
        return _missing_proxy(earlier, later)
    if ordered(clocks, TIME, component, index):
        if not _writes(earlier.step) or _deallocates(later.step):
            return None  # what is over cannot be disturbed: visibility matters to who takes the value
        same_warp = earlier.agent.warp == later.agent.warp
        return Link.WARP if same_warp and not earlier.asynchronous else Link.NOT_VISIBLE
    if earlier.asynchronous and ordered(clocks, TIME, earlier.agent.component, earlier.issue_index):
        return Link.IN_FLIGHT
    return Link.NONE


def _missing_proxy(earlier: Moment, later: Moment) -> Link | None:
    """A generic-proxy write needs a proxy fence before an async-proxy access."""
    if later.footprint.memory[0] == "tmem":
        return None
    if _proxy(later.step) is not ev.Proxy.ASYNC or _proxy(earlier.step) is not ev.Proxy.GENERIC:
        return None
    if not _writes(earlier.step):
        return None
    clocks = later.agent.clocks
    outside = later.footprint.memory[0].startswith("global")
    if ordered(clocks, OUTER_PROXIED if outside else PROXIED, earlier.component, earlier.index):
        return None
    weakly = WEAKLY_OUTER_PROXIED if outside else WEAKLY_PROXIED
    if ordered(clocks, weakly, earlier.component, earlier.index):
        return Link.PROXY_BY_OTHER
    return Link.PROXY


def _awaited(execution: Execution) -> set[BarrierKey | None]:
    """The barriers that threads wait on, ``None`` among them where it is not known on which."""
    waits = (step for step in execution.entries if isinstance(step, Step))
    seen = {step.key for step in waits if isinstance(step.event, ev.MbarrierWait)}
    return seen | {stuck.key for stuck in execution.stuck}


def _only_commits_of(agent: Agent, record: PhaseRecord) -> bool:
    """Whether all that a phase needs are commits of one agent: the next one cannot take their place.

    Each counts once it is done, whichever is first, so that the phases are over after as many.
    """
    return all(
        step.warp == agent.warp and is_commit(step.event)
        for contribution in record.contributions
        for step in contribution.steps
    )


def _missing_contribution(agent: Agent, record: PhaseRecord, agents: list[list[Agent]]) -> Step | None:
    """A contribution to a phase that need not have happened before the agent's step, by another warp."""
    time = agent.clocks[TIME]
    unknown = {component for component, index in record.needs.items() if time[component] < index}
    warps = {one.warp for together in agents for one in together if one.component in unknown}
    steps = [step for contribution in record.contributions for step in contribution.steps]
    missing = [step for step in steps if step.warp in warps] or [s for s in steps if s.warp != agent.warp]
    return missing[-1] if missing else None


def _is_stored_by(copy: Moment, store: Moment) -> bool:
    """Whether a bulk store reads what the program writes before, by another thread that nothing joins."""
    event = copy.step.event
    reads = isinstance(event, ev.Access) and event.reads and event.completion is ev.Completion.BULK_GROUP
    return reads and not store.asynchronous and _program_place(store.step) < _program_place(copy.step)


def _reads_for_wgmma(step: Step) -> bool:
    """Whether a step is the read of an operand in shared memory by an asynchronous wgmma."""
    return isinstance(step.event, ev.Access) and step.event.completion is ev.Completion.WGMMA_GROUP


def _proxy(step: Step) -> ev.Proxy:
    return step.event.proxy if isinstance(step.event, ev.Access) else ev.Proxy.GENERIC


def _writes(step: Step) -> bool:
    """Whether a step writes; a deallocation counts as a write of its columns."""
    return step.event.writes if isinstance(step.event, ev.Access) else True


def _reads(step: Step) -> bool:
    return step.event.reads if isinstance(step.event, ev.Access) else False


def _morally_strong(one: Moment, other: Moment) -> bool:
    """Whether both accesses are strong and each one's scope includes the other's thread (PTX ISA 8.7)."""
    widest = ev.Scope.CTA if one.agent.cta == other.agent.cta else ev.Scope.CLUSTER
    return _is_strong_at(one.step, widest) and _is_strong_at(other.step, widest)


def _is_strong_at(step: Step, widest: ev.Scope) -> bool:
    event = step.event
    if not isinstance(event, ev.Access) or not is_strong(event):
        return False
    return event.scope is None or event.scope >= widest


def _unordered_copies(earlier: Moment, later: Moment) -> bool:
    """Whether both are copies that one thread issues, which nothing orders among themselves (8.9.1.1)."""
    groups = (ev.Completion.ASYNC_GROUP, ev.Completion.BULK_GROUP, ev.Completion.MBARRIER)
    events = earlier.step.event, later.step.event
    copies = all(isinstance(event, ev.Access) and event.completion in groups for event in events)
    return copies and earlier.footprint.certain and later.footprint.certain


def _settles(known: Race | None, earlier: Moment, later: Moment) -> bool:
    """Whether the race of a pair of instructions stands: one within a warp gives way to one of two warps."""
    return _is_between_warps(known) or (known is not None and earlier.agent.warp == later.agent.warp)


def _is_between_warps(known: Race | None) -> bool:
    return known is not None and known.first.agent.warp != known.second.agent.warp


def _program_place(step: Step) -> tuple[int, int]:
    return step.visit, step.instruction.index


def _both_plain(earlier: Moment, later: Moment) -> bool:
    """Neither access is asynchronous: which of the two comes later is then a matter of program order."""
    return not earlier.asynchronous and not later.asynchronous


def _allocates_or_frees(earlier: Moment, later: Moment) -> bool:
    """Whether one of two tensor-memory operations allocates or frees, with no say in what the other does.

    An allocation conflicts only with the other CTA of its pair freeing the columns, two of which do not.
    """
    if isinstance(earlier.step.event, ev.Access) and isinstance(later.step.event, ev.Access):
        return False
    kinds = {
        one.step.event.action if isinstance(one.step.event, ev.TensorOperation) else None
        for one in (earlier, later)
    }
    if kinds == {ev.TensorAction.ALLOCATE, ev.TensorAction.DEALLOCATE}:
        return earlier.agent.cta == later.agent.cta
    return ev.TensorAction.ALLOCATE in kinds or kinds == {ev.TensorAction.DEALLOCATE}


def _deallocates(step: Step) -> bool:
    return isinstance(step.event, ev.TensorOperation) and step.event.action is ev.TensorAction.DEALLOCATE


def _in_pipeline(earlier: Moment, later: Moment) -> bool:
    """Tensor-memory accesses that one warp issues are performed in the order of their issue."""
    in_tensor_memory = earlier.footprint.memory[0] == "tmem" and isinstance(later.step.event, ev.Access)
    return in_tensor_memory and earlier.asynchronous and earlier.agent.warp == later.agent.warp


def _sized(moment: Moment) -> Footprint:
    """An access's footprint, with the size that its mbarrier phase gave a tensor copy."""
    footprint = moment.footprint
    operation = moment.step.operation
    if footprint.certain or operation is None or operation.bytes is None:
        return footprint
    return Footprint(footprint.memory, footprint.starts, operation.bytes, footprint.lanes, True)


def _sure(footprint: Footprint) -> Footprint:
    """The bytes that an access touches for sure: of a copy of unknown size the first 16."""
    if footprint.certain:
        return footprint
    return Footprint(footprint.memory, footprint.starts, LEAST_COPY, footprint.lanes)


def _touches(first: Footprint, second: Footprint) -> bool:
    if first.memory[0] == "tmem" and first.lanes is not None and second.lanes is not None:
        return _intersects(first, second) and not _set_of(first.lanes).isdisjoint(_set_of(second.lanes))
    return _intersects(first, second)


def _set_of(lanes: "NDArray[np.int64]") -> frozenset[int]:
    return _set_of_bytes(lanes.tobytes(), lanes.dtype.str)


@lru_cache(maxsize=1024)
def _set_of_bytes(lanes: bytes, dtype: str) -> frozenset[int]:
    return frozenset(np.frombuffer(lanes, np.dtype(dtype)).tolist())


def _intersects(first: Footprint, second: Footprint) -> bool:
    if len(first.starts) == 1 and len(second.starts) == 1:
        distance = int(second.starts[0]) - int(first.starts[0])
        return -second.size < distance < first.size
    starts, others = first.starts[:, None], second.starts[None, :]
    return bool(((starts < others + second.size) & (others < starts + first.size)).any())
