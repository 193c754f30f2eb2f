"""What happens before what in every schedule of an execution, by vector clocks.

The entries of an execution are one order in which its steps could happen. Walking them once, every
agent keeps clocks: entry ``c`` of a clock says up to which step of component ``c`` the agent knows that
it has happened. Components are agents (the lanes of a warp that always act together) and the asynchronous
operations of one issuer and kind that complete in order.

Property, for each of the clocks of an agent at a step:

1. ``time``: the step cannot begin before these steps have been performed, whatever their memory
   semantics. Edges: program order, convergence of lanes that had parted, CTA and cluster barriers,
   completion of an mbarrier phase to a wait that observed it, group waits.
2. ``shared`` and ``outer``: causality order of the PTX memory model (PTX ISA 8.9) for accesses to
   shared or tensor memory, and to other memory. Edges of (1) that are morally strong: the release's and
   the acquire's scope both include the other thread (8.5, 8.7), relaxed operations count with a fence on
   their side, ``sync_restrict`` fences order only the shared window.
3. ``proxied``: causality order of generic-proxy accesses up to a proxy fence that their own thread
   executed afterwards (8.6), so an async-proxy access ordered after it sees them. ``weakly_proxied`` is
   the same for a proxy fence that any thread executed after learning of them. ``outer_proxied`` and
   ``weakly_outer_proxied``: the same outside of shared memory, for fences not limited to it. There are
   none of these in an execution without an access through the async proxy.

Direction: forward, one pass. Join: componentwise maximum. Known limits: ``fence.sc`` order and atomics
on global memory give no edge; a CTA barrier is taken to order all threads that take part.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace

import numpy as np

from ptxaudit.analysis.order.completion import Completions, Place, is_collective
from ptxaudit.analysis.order.flags import FlagWrites
from ptxaudit.analysis.order.knowledge import (
    KINDS,
    OUTER,
    OUTER_PROXIED,
    PROXIED,
    SHARED,
    TIME,
    WEAKLY_OUTER_PROXIED,
    WEAKLY_PROXIED,
    Agent,
    Clocks,
    Contribution,
    FailedLink,
    Moment,
    PhaseRecord,
    contribute,
    join,
    join_all,
    join_time,
    reaches,
)
from ptxaudit.analysis.order.trace import (
    BarrierKey,
    Consumption,
    Convergence,
    Delivery,
    Execution,
    Footprint,
    PhaseComplete,
    Step,
)
from ptxaudit.ir import events as ev

# Numbers in one clock with which joining two takes as long as the rest of a step.
_LARGE_CLOCK = 32_768

AccessVisitor = Callable[[Moment, "ClockWalk"], None]
PhaseVisitor = Callable[[Step, list[Agent], "PhaseRecord", "ClockWalk"], None]
StepVisitor = Callable[[Step, list[Agent]], None]


class ClockWalk:
    """One pass over an execution, with every edge that polled flags may give or with the certain ones.

    ``on_access`` sees every access with a footprint, ``on_phase`` every
    arrive at and every successful wait on a phase, before the wait's own effect. The agents of a step have
    met by then, so that their times are the same."""

    def __init__(
        self,
        execution: Execution,
        on_access: AccessVisitor,
        on_phase: PhaseVisitor,
        only_certain_flags: bool = False,
    ) -> None:
        self.execution = execution
        self._flags = FlagWrites(execution)
        self._only_certain_flags = only_certain_flags
        self._on_access = on_access
        self._on_phase = on_phase
        self.on_step: StepVisitor | None = None
        self.completions = Completions(execution.warps)
        steps = (entry for entry in execution.entries if isinstance(entry, Step))
        self._steps_of_lanes = Counter((step.warp, step.lanes) for step in steps)
        self.agents_of_warp = self._partition()
        self._acting: dict[tuple[int, int], list[Agent]] = {}
        self.through_async_proxy = any(map(_is_through_async_proxy, execution.entries))
        self._foresee()
        self.phases: dict[tuple[BarrierKey, int], PhaseRecord] = {}
        self._ticks: dict[int, int] = {}
        self._issues: dict[int, list[Agent]] = {}
        # Clocks are large: those at the issue are kept for what a barrier is told of, not for groups.
        self._delivered = {
            entry.operation.number for entry in execution.entries if isinstance(entry, Delivery)
        }
        self._issue_clocks: dict[int, Clocks] = {}
        self._payloads: dict[int, list[Step]] = {}
        self.uncertain_flag: Step | None = None
        self.proxy_fences: dict[int, list[tuple[int, Step]]] = {}
        self.failed_links: list[FailedLink] = []

    # Components --------------------------------------------------------------------------------------

    def _partition(self) -> list[list[Agent]]:
        """Split each warp into the groups of lanes that no mask of a step divides."""
        masks: list[set[int]] = [set() for _ in self.execution.warps]
        for number, lanes in self._steps_of_lanes:
            masks[number].add(lanes)
        agents: list[list[Agent]] = []
        empty: Clocks = np.zeros((0, 0), dtype=np.int32)
        for number, warp in enumerate(self.execution.warps):
            classes = [(1 << warp.threads) - 1]
            for mask in masks[number]:
                classes = [part for one in classes for part in (one & mask, one & ~mask) if part]
            keys = [("agent", number, lanes) for lanes in classes]
            self.completions.foresee(keys)
            agents.append(
                [
                    Agent(number, lanes, warp.cta, self.completions.component(key), empty)
                    for lanes, key in zip(classes, keys, strict=True)
                ]
            )
        return agents

    def _foresee(self) -> None:
        """Give every component that this walk will ask for its entry."""
        seen: set[Hashable] = set()
        for entry in self.execution.entries:
            if isinstance(entry, Step):
                barrier = None if entry.operation is None else entry.operation.key
                place = entry.instruction.index, entry.warp, entry.lanes
                alike = *place, id(entry.event), entry.key, barrier
                if alike not in seen:
                    seen.add(alike)
                    for agent in self.acting(entry.warp, entry.lanes):
                        self.completions.foresee(self.completions.keys(entry, agent))
            elif isinstance(entry, Delivery):
                issuers = self.agents_of_warp[entry.operation.warp]
                self.completions.foresee(("copy", issuer.component, entry.key) for issuer in issuers)

    def _make_room(self) -> None:
        """Clocks that know of nothing; which proxies were passed matters to async-proxy accesses alone."""
        for agents in self.agents_of_warp:
            for agent in agents:
                agent.clocks = np.zeros((self._rows, len(self.completions)), dtype=np.int32)

    # The walk ----------------------------------------------------------------------------------------

    def run(self) -> None:
        """Walk all entries."""
        self._make_room()
        for entry in self.execution.entries:
            if isinstance(entry, Step):
                self._step(entry)
            elif isinstance(entry, Delivery):
                self._delivery(entry)
            elif isinstance(entry, Convergence):
                self._converge(entry)
            elif isinstance(entry, Consumption):
                self._consume(entry)
            else:
                self._completion(entry)

    def acting(self, warp: int, lanes: int) -> list[Agent]:
        """The agents of a warp that some of the lanes belong to."""
        found = self._acting.get((warp, lanes))
        if found is None:
            found = [agent for agent in self.agents_of_warp[warp] if agent.lanes & lanes]
            self._acting[warp, lanes] = found
        return found

    def _agents(self, step: Step) -> list[Agent]:
        return self.acting(step.warp, step.lanes)

    @property
    def work(self) -> int:
        """How many steps of agents there are to be walked: what lanes do apart counts for each.

        What a poll may observe counts as a step, and each of them more than once where clocks are large.
        """
        steps = sum(count * len(self.acting(*place)) for place, count in self._steps_of_lanes.items())
        steps += self._flags.most_observations(lambda step: len(self._agents(step)))
        return steps * (1 + self._clock_size // _LARGE_CLOCK)

    @property
    def clock_bytes(self) -> int:
        """What the clocks of all agents take, in bytes."""
        return sum(map(len, self.agents_of_warp)) * self._clock_size * np.dtype(np.int32).itemsize

    @property
    def _clock_size(self) -> int:
        return self._rows * len(self.completions)

    @property
    def _rows(self) -> int:
        return KINDS if self.through_async_proxy else PROXIED

    def _tick(self, agent: Agent) -> int:
        """Advance an agent's own component; its index."""
        index = self._ticks.get(agent.component, 0) + 1
        self._ticks[agent.component] = index
        agent.clocks[TIME : OUTER + 1, agent.component] = index
        return index

    def _converge(self, entry: Convergence) -> None:
        """Lanes that met again go on together: in time, but nothing is made visible."""
        self._meet(self.acting(entry.warp, entry.lanes))

    def _meet(self, agents: list[Agent]) -> None:
        if self.execution.lanes_in_order:
            join_all(agents)
        else:
            join_time(agents)

    def _step(self, step: Step) -> None:
        agents = self._agents(step)
        for agent in agents:
            self._tick(agent)
        if len(agents) > 1:
            self._meet(agents)
        if self.on_step is not None:
            self.on_step(step, agents)
        match step.event:
            case ev.Access():
                self._access(step, agents)
            case ev.MbarrierArrive():
                self._arrive(step, agents)
            case ev.MbarrierWait():
                self._wait(step, agents)
            case ev.CtaBarrier():
                self._cta_arrive(step, agents)
            case ev.ClusterBarrier():
                self._cluster(step, agents)
            case ev.Fence():
                for agent in agents:
                    self._fence(step, agent)
            case ev.WarpBarrier():
                join_all(agents)
            case ev.GroupCommit():
                for agent in agents:
                    self.completions.commit(agent, step.event.kind)
            case ev.GroupWait():
                for agent in agents:
                    _learn(agent, self.completions.awaited_groups(step.event, agent))
            case ev.TensorOperation():
                for agent in agents:
                    _learn(agent, self.completions.awaited_accesses(step.event.action, agent))
                if step.footprint is not None:
                    self._collective(step, agents)
            case _:
                pass

    # Accesses ----------------------------------------------------------------------------------------

    def _access(self, step: Step, agents: list[Agent]) -> None:
        event = step.event
        assert isinstance(event, ev.Access)
        if is_collective(step):
            self._collective(step, agents)
            return
        for agent in agents:
            index = self._ticks[agent.component]
            asynchronous = event.completion is not ev.Completion.SYNCHRONOUS
            component, number = agent.component, index
            if asynchronous:
                component, number = self.completions.place(step, agent)
            if step.operation is not None:
                issuers = self._issues.setdefault(step.operation.number, [])
                if agent not in issuers:
                    issuers.append(agent)
                if step.operation.number in self._delivered:
                    self._issue_clocks[step.operation.number] = agent.clocks.copy()
                self._payloads.setdefault(step.operation.number, []).append(step)
            elif not asynchronous:
                self._flag(step, agent, event)
            footprint = _of_lanes(step.footprint, agent.lanes, len(agents))
            if footprint is not None:
                self._on_access(Moment(step, component, number, agent, index, asynchronous, footprint), self)

    def _flag(self, step: Step, agent: Agent, event: ev.Access) -> None:
        """A strong access to a place that some thread polls: hand over, or observe what was handed over."""
        place = self._flags.place_of(step)
        if place is None:
            return
        if step.instruction.index in self.execution.polls:
            written = [c for c in self._flags.contributions[place] if c.steps[-1].warp != step.warp]
            certain = self._flags.has_one_writer(place, step)
            if written and not certain:
                self.uncertain_flag = step
            for contribution in written if certain or not self._only_certain_flags else ():
                self._observe_flag(step, agent, contribution, event)
        elif event.writes:
            clocks, scope = self._release(agent, event.semantics, event.scope or ev.Scope.GPU)
            if not event.semantics.releases and agent.released is not None:
                clocks[TIME] = agent.released[TIME]
            self._flags.contributions[place].append(Contribution(agent.cta, scope, clocks, [step], True))

    def _observe_flag(self, step: Step, agent: Agent, contribution: Contribution, event: ev.Access) -> None:
        """Observe a flag; where that gives no causality order, what came before it may still be under way."""
        before, failures = agent.clocks[TIME].copy(), len(self.failed_links)
        self._observe(step, agent, contribution, event.semantics, event.scope)
        if len(self.failed_links) > failures:
            agent.clocks[TIME] = before

    def _collective(self, step: Step, agents: list[Agent]) -> None:
        """An access that the lanes of a warp make together: each of them knows it as its own."""
        event = step.event
        agent = agents[0]
        component = self.completions.component(("collective", agent.warp))
        number = self._ticks.get(component, 0) + 1
        asynchronous = isinstance(event, ev.Access) and event.completion is not ev.Completion.SYNCHRONOUS
        if asynchronous:
            assert isinstance(event, ev.Access)
            component, number = self.completions.place(step, agent)
        else:
            self._ticks[component] = number
            for each in agents:
                each.clocks[TIME : OUTER + 1, component] = number
        if step.footprint is not None:
            index = self._ticks[agent.component]
            self._on_access(Moment(step, component, number, agent, index, asynchronous, step.footprint), self)

    # mbarriers ---------------------------------------------------------------------------------------

    def record(self, key: BarrierKey, phase: int) -> PhaseRecord:
        """The record of a phase."""
        found = self.phases.get((key, phase))
        if found is None:
            found = self.phases[key, phase] = PhaseRecord(key, phase)
        return found

    def _arrive(self, step: Step, agents: list[Agent]) -> None:
        event = step.event
        assert isinstance(event, ev.MbarrierArrive)
        if step.key is None:
            return
        record = self.record(step.key, step.phase)
        record.contributors.append(step)
        self._on_phase(step, agents, record, self)
        for agent in agents:
            if event.source is ev.ArriveSource.TCGEN05_COMMIT:
                self._commit_arrive(step, agent, record)
                continue
            clocks, scope = self._release(agent, event.semantics, event.scope)
            if event.source is ev.ArriveSource.CP_ASYNC:
                # It comes when the thread's earlier copies are done; of the rest it hands over nothing.
                clocks = self._carried(agent, clocks)
                component, done = self.completions.copies(agent)
                clocks[TIME : OUTER + 1, component] = done
            contribute(record, agent.cta, scope, clocks, step)
            if event.source is ev.ArriveSource.CP_ASYNC:
                self._need_later_arrival(step, agent, record)
            else:
                record.need(agent.component, self._ticks[agent.component])

    def _need_later_arrival(self, step: Step, agent: Agent, record: PhaseRecord) -> None:
        """An arrival that is triggered by earlier operations: the issuer goes on before it happens."""
        component = self.completions.component(("arrival", agent.component, step.key))
        record.need(component, step.phase + 1)

    def _commit_arrive(self, step: Step, agent: Agent, record: PhaseRecord) -> None:
        """tcgen05.commit: the barrier learns that all prior asynchronous tcgen05 operations are done."""
        component, done = self.completions.tensor_operations(agent)
        clocks = self._carried(agent, agent.clocks)
        clocks[TIME : OUTER + 1, component] = done
        clocks[PROXIED:, component] = clocks[TIME, component]
        contribute(record, agent.cta, ev.Scope.CLUSTER, clocks, step)
        record.contributions[-1].generic_payload = False
        self._need_later_arrival(step, agent, record)

    def _release(
        self, agent: Agent, semantics: ev.Semantics | None, scope: ev.Scope | None
    ) -> tuple[Clocks, ev.Scope | None]:
        """What an arrive or a barrier hands over, and at which scope."""
        if semantics is None:
            return agent.clocks.copy(), ev.Scope.SYS
        if semantics.releases:
            return agent.clocks.copy(), scope or ev.Scope.CTA
        if agent.released is None:
            clocks = np.zeros_like(agent.clocks)
            clocks[TIME] = agent.clocks[TIME]
            return clocks, None
        clocks = agent.released.copy()
        clocks[TIME] = agent.clocks[TIME]
        # A pattern with a fence needs its relaxed operation to reach the other thread, too (8.7, 8.8).
        return clocks, min(agent.released_scope or ev.Scope.SYS, scope or ev.Scope.CTA)

    def _delivery(self, entry: Delivery) -> None:
        operation = entry.operation
        agents = self._issues.get(operation.number, [])
        record = self.record(entry.key, entry.phase)
        if not agents:
            return
        agent = agents[0]
        issued = self._issue_clocks[operation.number]
        # A copy signals the phase that is current when it completes, which may be as early as its issue.
        self._on_phase(self._payloads[operation.number][-1], [replace(agent, clocks=issued)], record, self)
        clocks = self._carried(agent, issued)
        for issuer in agents:
            component = self.completions.component(("copy", issuer.component, entry.key))
            # Completion is an implicit proxy fence for what went through the async proxy only.
            clocks[: PROXIED if operation.generic_proxy else KINDS, component] = entry.phase + 1
            record.need(component, entry.phase + 1)
        steps = self._payloads.get(operation.number, [])
        contribution = Contribution(agent.cta, ev.Scope.CLUSTER, clocks, list(steps), operation.generic_proxy)
        record.contributions.append(contribution)

    def _carried(self, agent: Agent, clocks: Clocks) -> Clocks:
        """What the completion of an asynchronous operation says of others.

        The operation itself comes after all that its issuer knew, so its completion does; of the issuer's
        own accesses it makes nothing visible (PTX ISA 8.9.1.1).
        """
        carried = clocks.copy()
        for own in self.agents_of_warp[agent.warp]:
            carried[SHARED:, own.component] = 0
        return carried

    def _wait(self, step: Step, agents: list[Agent]) -> None:
        event = step.event
        assert isinstance(event, ev.MbarrierWait)
        if step.key is None:
            return
        record = self.record(step.key, step.phase)
        self._on_phase(step, agents, record, self)
        if step.phase < 0:
            return
        for agent in agents:
            for contribution in record.contributions:
                self._observe(step, agent, contribution, event.semantics, event.scope)
            components, indices = record.needed
            agent.clocks[TIME, components] = np.maximum(agent.clocks[TIME, components], indices)

    def _observe(
        self,
        step: Step,
        agent: Agent,
        contribution: Contribution,
        semantics: ev.Semantics | None,
        scope: ev.Scope | None,
    ) -> None:
        """An agent observed a phase to which others contributed: join what it may see."""
        np.maximum(agent.clocks[TIME], contribution.clocks[TIME], out=agent.clocks[TIME])
        crosses = contribution.cta != agent.cta
        if contribution.release_scope is None:
            self._fail(agent, "arrive-relaxed", step, contribution)
        elif crosses and contribution.release_scope < ev.Scope.CLUSTER:
            self._fail(agent, "arrive-scope", step, contribution)
        elif semantics is not None and not semantics.acquires:
            agent.observed.append((step, contribution))
            self._fail(agent, "wait-relaxed", step, contribution)
        elif reaches(agent, contribution, scope):
            join(agent, contribution.clocks)
        else:
            agent.observed.append((step, contribution))
            self._fail(agent, "wait-scope", step, contribution)

    def _fail(
        self, agent: Agent, reason: str, wait: Step, contribution: Contribution, fence: Step | None = None
    ) -> None:
        index = self._ticks[agent.component]
        self.failed_links.append(FailedLink(reason, wait, contribution, agent.component, index, fence))

    # Barriers ----------------------------------------------------------------------------------------

    def _cta_arrive(self, step: Step, agents: list[Agent]) -> None:
        if step.key is None:
            return
        record = self.record(step.key, step.phase)
        record.contributors.append(step)
        self._on_phase(step, agents, record, self)
        known = np.maximum.reduce([agent.clocks for agent in agents])
        contribute(record, agents[0].cta, ev.Scope.CTA, known, step)
        for agent in agents:
            record.need(agent.component, self._ticks[agent.component])

    def _completion(self, entry: PhaseComplete) -> None:
        """A CTA barrier completed: the threads that wait for it learn what all arrivals knew."""
        if entry.key[0] != "bar":
            return
        record = self.record(entry.key, entry.phase)
        for step in record.contributors:
            assert isinstance(step.event, ev.CtaBarrier)
            if step.event.action is ev.BarrierAction.ARRIVE:
                continue
            for agent in self._agents(step):
                for contribution in record.contributions:
                    np.maximum(agent.clocks, contribution.clocks, out=agent.clocks)

    def _cluster(self, step: Step, agents: list[Agent]) -> None:
        event = step.event
        assert isinstance(event, ev.ClusterBarrier)
        if step.key is None:
            return
        record = self.record(step.key, step.phase)
        if event.action is ev.BarrierAction.ARRIVE:
            record.contributors.append(step)
            for agent in agents:
                clocks, scope = self._release(agent, event.semantics, ev.Scope.CLUSTER)
                contribute(record, agent.cta, scope, clocks, step)
            return
        for agent in agents:
            for contribution in record.contributions:
                self._observe(step, agent, contribution, event.semantics, ev.Scope.CLUSTER)

    # Fences ------------------------------------------------------------------------------------------

    def _fence(self, step: Step, agent: Agent) -> None:
        event = step.event
        assert isinstance(event, ev.Fence)
        in_shared = event.space is not ev.StateSpace.GLOBAL
        if self.through_async_proxy and event.proxy is ev.Proxy.ASYNC and in_shared:
            self._proxy_fence(step, agent)
        if event.mbarrier_init or event.proxy is not None:
            return  # these forms order one kind of accesses only; nothing else is released by them
        if event.semantics is None or event.semantics.releases:
            agent.released = agent.clocks.copy()
            agent.released_scope = event.scope or ev.Scope.SYS
        if event.semantics is None or event.semantics.acquires:
            self._acquire_fence(step, agent, event)

    def _acquire_fence(self, step: Step, agent: Agent, event: ev.Fence) -> None:
        kept: list[tuple[Step, Contribution]] = []
        for wait, contribution in agent.observed:
            waited = wait.event.scope if isinstance(wait.event, ev.MbarrierWait | ev.Access) else None
            if not all(reaches(agent, contribution, scope) for scope in (event.scope, waited)):
                kept.append((wait, contribution))
                self._fail(agent, "fence-too-narrow", wait, contribution, step)
                continue
            if event.sync_restrict is None:
                join(agent, contribution.clocks)
                continue
            outside = [OUTER, OUTER_PROXIED, WEAKLY_OUTER_PROXIED] if self.through_async_proxy else [OUTER]
            before = agent.clocks[outside]
            join(agent, contribution.clocks)
            agent.clocks[outside] = before
            kept.append((wait, contribution))
            self._fail(agent, "fence-too-narrow", wait, contribution, step)
        agent.observed = kept

    def _proxy_fence(self, step: Step, agent: Agent) -> None:
        fence = (self._ticks[agent.component], step)
        self.proxy_fences.setdefault(agent.component, []).append(fence)
        copies = self.completions.known(("cp.async", agent.component))
        own = [agent.component] if copies is None else [agent.component, copies]
        for ordered_by, proxied, weakly in _fenced_rows(step.event):
            for component in own:
                known = agent.clocks[ordered_by, component]
                agent.clocks[proxied, component] = max(agent.clocks[proxied, component], known)
            np.maximum(agent.clocks[weakly], agent.clocks[ordered_by], out=agent.clocks[weakly])

    def _consume(self, entry: Consumption) -> None:
        """Registers of tensor-memory loads were used: the loads are done."""
        done = self.completions.loads(entry.warp, entry.loads)
        for agent in self.acting(entry.warp, entry.lanes):
            _learn(agent, done)


def _is_through_async_proxy(entry: object) -> bool:
    return (
        isinstance(entry, Step) and isinstance(entry.event, ev.Access) and entry.event.proxy is ev.Proxy.ASYNC
    )


def _fenced_rows(event: ev.Event) -> list[tuple[int, int, int]]:
    """The clocks that a proxy fence concerns, by the state space it is limited to (PTX ISA 9.7.13)."""
    assert isinstance(event, ev.Fence)
    rows: list[tuple[int, int, int]] = []
    if event.space is not ev.StateSpace.GLOBAL:
        rows.append((SHARED, PROXIED, WEAKLY_PROXIED))
    if event.space in (None, ev.StateSpace.GLOBAL) and event.sync_restrict is None:
        rows.append((OUTER, OUTER_PROXIED, WEAKLY_OUTER_PROXIED))
    return rows


def _of_lanes(footprint: Footprint | None, lanes: int, parts: int) -> Footprint | None:
    """The part of a footprint that belongs to some lanes, when the access is made lane by lane."""
    if footprint is None or footprint.lanes is None or parts == 1:
        return footprint
    chosen = (lanes >> footprint.lanes) & 1 == 1
    return Footprint(
        footprint.memory,
        footprint.starts[chosen],
        footprint.size,
        footprint.lanes[chosen],
        footprint.certain,
    )


def _learn(agent: Agent, done: Iterable[Place]) -> None:
    """Let an agent know that asynchronous operations have been performed."""
    for component, index in done:
        rows = agent.clocks[TIME : OUTER + 1, component]
        np.maximum(rows, index, out=rows)
