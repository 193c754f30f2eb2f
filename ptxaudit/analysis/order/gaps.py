"""Order that an execution lacks beyond that of two accesses to one location.

Property: of every step that was executed, whether in every schedule

* an mbarrier has been initialised, and its initialisation published, before another thread uses it
  (PTX ISA 9.7.13.15.9; for other CTAs also ``fence.mbarrier_init``, 9.7.13.4);
* a CTA whose shared memory is accessed has begun to execute, and does not exit before the access is over
  (PTX ISA 9.7.13.3 and 9.7.13.15.13 leave accesses to a CTA that is not there undefined); the other CTA of
  a pair that allocates tensor memory has begun, too (9.7.16.7.1);
* bytes are expected (``expect_tx`` alone) while the phase that they are meant for cannot complete: it needs
  an arrival, or a copy whose bytes it expects already, that comes after (9.7.13.15.6);
* bulk stores have read their source when the CTA whose shared memory it is ends: the memory is the CTA's
  while it executes (PTX ISA 5.1.7), and a bulk copy reads it until a wait for its group says otherwise
  (9.7.9.25.1);
* bulk stores to global memory have been written when a thread that knows their sources to have been
  read releases a flag in global memory (9.7.9.25.1: ``.read`` waits for the reads alone).

Direction: forward, beside the walk of ``clocks``, whose clocks it asks. Join: none of its own. Known
limits: an mbarrier that is used before an initialisation that the walk never sees is not judged; what a
flag says is not known, so that one which has nothing to do with the stores looks the same.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from ptxaudit.analysis.order.clocks import ClockWalk
from ptxaudit.analysis.order.completion import Place
from ptxaudit.analysis.order.knowledge import SHARED, TIME, Agent, is_commit, ordered
from ptxaudit.analysis.order.trace import BarrierKey, Delivery, Execution, Step
from ptxaudit.ir import events as ev


class GapKind(Enum):
    """What is missing."""

    INIT_UNPUBLISHED = auto()
    INIT_WITHOUT_FENCE = auto()
    PEER_NOT_STARTED = auto()
    PEER_MAY_EXIT = auto()
    SOURCE_MAY_END = auto()
    EXPECT_MAY_SLIP = auto()
    STORE_NOT_WRITTEN = auto()


@dataclass(slots=True)
class Gap:
    """A step that comes too early (``PEER_MAY_EXIT``, ``SOURCE_MAY_END``: too late), and what it relies on.

    ``cta`` is the other CTA that it concerns, if any. ``on_its_way`` tells of a signal by ``tcgen05.commit``
    that what it waits for is known to be done in time, so that only its own way there is left.
    ``doubtful`` is as for races.
    """

    kind: GapKind
    step: Step
    other: Step | None
    execution: Execution
    cta: int | None = None
    on_its_way: bool = False
    doubtful: bool = False

    @property
    def pair(self) -> tuple[GapKind, int, int]:
        """What tells gaps apart: the kind and the instructions."""
        other = -1 if self.other is None else self.other.instruction.index
        return self.kind, self.step.instruction.index, other


@dataclass(slots=True)
class _Initialisation:
    step: Step
    agents: list[tuple[Agent, int]]


@dataclass(slots=True)
class _InitFence:
    """A ``fence.mbarrier_init`` and what its thread knew in causality order then."""

    component: int
    index: int
    known: "NDArray[np.int32]"


@dataclass(slots=True)
class _Expectation:
    """An ``expect_tx`` alone: its agent, the index there, and the bytes that the phase expects already.

    ``before`` is ``None`` where that is not known.
    """

    step: Step
    agent: Agent
    index: int
    before: int | None


@dataclass(slots=True)
class _Store:
    """A bulk store to global memory: its issuer, the index of its issue, its group."""

    step: Step
    agent: Agent
    index: int
    group: int


class GapFinder:
    """Finds the gaps of one execution; ``step`` is called for each step before its effect on the clocks."""

    def __init__(self, execution: Execution, walk: ClockWalk) -> None:
        self.execution = execution
        self.gaps: dict[tuple[GapKind, int, int], Gap] = {}
        self._walk = walk
        self._initialised: dict[BarrierKey, _Initialisation] = {}
        self._used_before: dict[BarrierKey, list[tuple[Step, Agent]]] = defaultdict(list)
        self._init_fences: list[_InitFence] = []
        self._stores: list[_Store] = []
        self._remote: dict[tuple[int, int], tuple[int, Step]] = {}
        # What the last signal by a commit to another CTA tracks, by agent and CTA.
        self._tracked: dict[tuple[int, int], Place] = {}
        self._sources: dict[tuple[int, int], tuple[int, Step]] = {}
        self._expectations: list[_Expectation] = []
        self._expecting: dict[tuple[BarrierKey, int], list[tuple[Step, int, int]]] = defaultdict(list)
        self._deliveries: dict[int, list[Delivery]] = defaultdict(list)
        for entry in execution.entries:
            if isinstance(entry, Delivery):
                self._deliveries[entry.operation.number].append(entry)
        self._ctas: dict[int, list[Agent]] = defaultdict(list)
        for agents in walk.agents_of_warp:
            for agent in agents:
                self._ctas[agent.cta].append(agent)

    def step(self, step: Step, agents: list[Agent]) -> None:
        """Look at one step."""
        if step.key is not None and expects_bytes(step.event):
            for agent in agents:
                self._expect(step, step.key, agent)
        match step.event:
            case ev.MbarrierInit():
                self._initialise(step, agents)
            case ev.MbarrierArrive() | ev.MbarrierWait() | ev.MbarrierExpect():
                for agent in agents:
                    self._use(step, agent, step.key)
                    if step.key is not None and not isinstance(step.event, ev.MbarrierWait):
                        self._reach(step, agent, step.key[1], agent.component, _now(agent))
                        if is_commit(step.event):
                            tracked = self._walk.completions.tensor_operations(agent)
                            self._tracked[agent.component, step.key[1]] = tracked
            case ev.Fence(mbarrier_init=True):
                for agent in agents:
                    fence = _InitFence(agent.component, _now(agent), agent.clocks[SHARED].copy())
                    self._init_fences.append(fence)
            case ev.Access():
                for agent in agents:
                    self._access(step, step.event, agent)
            case ev.TensorOperation(action=ev.TensorAction.ALLOCATE, pair=True):
                for agent in agents:
                    self._needs(step, agent, agent.cta ^ 1)
            case _:
                pass

    def finish(self) -> None:
        """Look at the end: is every access to a CTA over before that CTA exits?"""
        if not self.execution.complete:
            return
        for expected in self._expectations:
            if not self._is_held(expected):
                self._add(Gap(GapKind.EXPECT_MAY_SLIP, expected.step, None, self.execution))
        for kind, last in ((GapKind.PEER_MAY_EXIT, self._remote), (GapKind.SOURCE_MAY_END, self._sources)):
            for (component, cta), (index, step) in last.items():
                if not self._is_known_in(cta, component, index):
                    tracked = self._tracked.get((component, cta)) if is_commit(step.event) else None
                    on_its_way = tracked is not None and self._is_known_in(cta, *tracked)
                    self._add(Gap(kind, step, None, self.execution, cta, on_its_way))

    def _is_known_in(self, cta: int, component: int, index: int) -> bool:
        """Whether some thread of a CTA knows, when it ends, that a place has been passed."""
        return any(ordered(agent.clocks, TIME, component, index) for agent in self._ctas[cta])

    def _add(self, gap: Gap) -> None:
        self.gaps.setdefault(gap.pair, gap)

    # Expected bytes ----------------------------------------------------------------------------------

    def _expect(self, step: Step, key: BarrierKey, agent: Agent) -> None:
        places = self._expecting[key, step.phase]
        if isinstance(step.event, ev.MbarrierExpect):
            earlier = [one.bytes for one, *place in places if ordered(agent.clocks, TIME, *place)]
            self._expectations.append(_Expectation(step, agent, _now(agent), _total(earlier)))
        places.append((step, agent.component, _now(agent)))

    def _is_held(self, expected: _Expectation) -> bool:
        """Whether what a phase needs comes after an expectation of its bytes.

        That is an arrival, or a copy without which the bytes that were expected before are not all there.
        """
        step = expected.step
        assert step.key is not None
        copied: list[int | None] = []
        for contribution in self._walk.record(step.key, step.phase).contributions:
            after = ordered(contribution.clocks, TIME, expected.agent.component, expected.index)
            operation = contribution.steps[-1].operation
            if after and operation is None:
                return True
            if not after and operation is not None:
                copied.append(operation.bytes)
        done = _total(copied)
        return expected.before is None or done is None or done < expected.before

    # Mbarrier objects --------------------------------------------------------------------------------

    def _initialise(self, step: Step, agents: list[Agent]) -> None:
        if step.key is None:
            return
        self._initialised[step.key] = _Initialisation(step, [(agent, _now(agent)) for agent in agents])
        for used, agent in self._used_before.pop(step.key, ()):
            if agent not in agents:
                self._add(Gap(GapKind.INIT_UNPUBLISHED, used, step, self.execution, step.key[1]))

    def _use(self, step: Step, agent: Agent, key: BarrierKey | None) -> None:
        if key is None:
            return
        initialisation = self._initialised.get(key)
        if initialisation is None:
            earlier = self._used_before[key]
            if all(agent is not other for _, other in earlier):
                earlier.append((step, agent))
            return
        if any(self._published(agent, *place) for place in initialisation.agents):
            return
        in_time = any(
            ordered(agent.clocks, TIME, one.component, index) for one, index in initialisation.agents
        )
        kind = GapKind.INIT_WITHOUT_FENCE if in_time else GapKind.INIT_UNPUBLISHED
        self._add(Gap(kind, step, initialisation.step, self.execution, key[1]))

    def _published(self, user: Agent, initialiser: Agent, index: int) -> bool:
        clocks, component = user.clocks, initialiser.component
        if user is initialiser or ordered(clocks, SHARED, component, index):
            return True
        if not ordered(clocks, TIME, component, index):
            return False
        # SASS shows no mbarrier_init fence; lanes of one warp that met have come past the initialisation.
        if self.execution.lanes_in_order or user.warp == initialiser.warp:
            return True
        return any(
            fence.known[component] >= index and ordered(clocks, TIME, fence.component, fence.index)
            for fence in self._init_fences
        )

    # Other CTAs --------------------------------------------------------------------------------------

    def _reach(self, step: Step, agent: Agent, cta: int, component: int, index: int) -> None:
        """A step reaches into a CTA's shared memory, and is over with ``index`` of ``component``."""
        if cta == agent.cta:
            return
        self._needs(step, agent, cta)
        last = self._remote.get((component, cta))
        if last is None or index >= last[0]:
            self._remote[component, cta] = (index, step)

    def _needs(self, step: Step, agent: Agent, cta: int) -> None:
        """A step is undefined unless another CTA of the cluster has started."""
        peers = self._ctas.get(cta, ())
        if peers and not any(ordered(agent.clocks, TIME, one.component, 1) for one in peers):
            self._add(Gap(GapKind.PEER_NOT_STARTED, step, None, self.execution, cta))

    def _access(self, step: Step, event: ev.Access, agent: Agent) -> None:
        if step.operation is not None:
            for delivery in self._deliveries.get(step.operation.number, ()):
                self._use(step, agent, delivery.key)
                component = self._walk.completions.component(("copy", agent.component, delivery.key))
                self._reach(step, agent, delivery.key[1], component, delivery.phase + 1)
        footprint = step.footprint
        if footprint is not None and footprint.memory[0] == "shared":
            if event.completion is ev.Completion.SYNCHRONOUS:
                self._reach(step, agent, footprint.memory[1], agent.component, _now(agent))
            elif event.completion is ev.Completion.BULK_GROUP and event.reads:
                component = self._walk.completions.component(("bulk read", agent.component))
                group = self._walk.completions.open_group(agent, ev.GroupKind.BULK)
                self._sources[component, footprint.memory[1]] = (group, step)
        elif event.space in (ev.StateSpace.GLOBAL, ev.StateSpace.GENERIC) and event.writes:
            self._write_outside(step, event, agent)

    # Flags -------------------------------------------------------------------------------------------

    def _write_outside(self, step: Step, event: ev.Access, agent: Agent) -> None:
        if event.completion is ev.Completion.BULK_GROUP:
            group = self._walk.completions.open_group(agent, ev.GroupKind.BULK)
            self._stores.append(_Store(step, agent, _now(agent), group))
            return
        strong = event.semantics is not ev.Semantics.WEAK or event.kind is ev.AccessKind.UPDATE
        if event.completion is not ev.Completion.SYNCHRONOUS or not strong:
            return
        released = agent.clocks if event.semantics.releases else agent.released
        if released is None:
            return
        for store in reversed(self._stores):
            issuer = store.agent.component
            kinds = ("bulk read", "bulk")
            reading, writing = (self._walk.completions.component((kind, issuer)) for kind in kinds)
            if not ordered(released, TIME, issuer, store.index):
                continue
            if ordered(released, TIME, reading, store.group) and not ordered(
                released, TIME, writing, store.group
            ):
                self._add(Gap(GapKind.STORE_NOT_WRITTEN, step, store.step, self.execution))
                return


def expects_bytes(event: ev.Event) -> bool:
    """Whether an event adds to the bytes that a phase waits for."""
    if isinstance(event, ev.MbarrierArrive):
        return event.expect_bytes is not None
    return isinstance(event, ev.MbarrierExpect)


def _total(amounts: Iterable[int | None]) -> int | None:
    """The sum of some amounts, ``None`` where one is not known."""
    known = list(amounts)
    return None if None in known else sum(amount or 0 for amount in known)


def _now(agent: Agent) -> int:
    """The index of the step that an agent is at."""
    return int(agent.clocks[TIME, agent.component])
