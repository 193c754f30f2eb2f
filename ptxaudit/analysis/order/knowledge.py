"""What agents know at a point of an execution: their clocks, and what one of them hands to another.

The clocks of an agent are rows of one array, one for each kind of order; :mod:`.clocks` says what each row
means and keeps them.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ptxaudit.analysis.order.trace import BarrierKey, Footprint, Step
from ptxaudit.ir import events as ev

Clocks = NDArray[np.int32]
"""Rows of step indices by component; or one such row."""

TIME, SHARED, OUTER, PROXIED, WEAKLY_PROXIED, OUTER_PROXIED, WEAKLY_OUTER_PROXIED = range(7)
KINDS = 7


@dataclass(slots=True)
class Contribution:
    """Arrivals at one phase that release alike: who, at which scope, what they knew.

    ``release_scope`` is ``None`` for relaxed arrivals without a fence (only ``time`` holds).
    ``by_operations`` tells that asynchronous operations, and no thread, made them.
    """

    cta: int
    release_scope: ev.Scope | None
    clocks: Clocks
    steps: list[Step]
    generic_payload: bool = False
    by_operations: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.by_operations = any(map(_is_of_operation, self.steps))

    def add(self, step: Step) -> None:
        """Add a step that contributes, too; once, however many of a warp's agents take part in it."""
        if self.steps[-1] is not step:
            self.steps.append(step)
            self.by_operations = self.by_operations or _is_of_operation(step)


@dataclass(slots=True)
class FailedLink:
    """A synchronisation that took place in time but does not make accesses visible, and why.

    ``component`` and ``index`` are the agent that failed to acquire and its step, so that those who learn
    of it later can be told. ``reason`` is one of ``wait-scope``, ``wait-relaxed``, ``arrive-scope``,
    ``arrive-relaxed`` or ``fence-too-narrow``.
    """

    reason: str
    wait: Step
    contribution: Contribution
    component: int
    index: int
    fence: Step | None = None


@dataclass(slots=True, eq=False)
class Agent:
    """Lanes of one warp that act together. ``component`` is their entry in every clock."""

    warp: int
    lanes: int
    cta: int
    component: int
    clocks: Clocks
    released: Clocks | None = None
    released_scope: ev.Scope | None = None
    observed: list[tuple[Step, Contribution]] = field(default_factory=list)


@dataclass(slots=True)
class Moment:
    """A step's place in the order: its component and index, and its agent's clocks as they were.

    The access is ordered before another whose clock reaches ``index`` at ``component``; for an
    asynchronous access that is its completion, while ``issue_index`` is its issue by the agent. ``time``
    is what the agent knew then to have happened, kept where wgmma reads shared memory, for
    those reads and for writes.
    """

    step: Step
    component: int
    index: int
    agent: Agent
    issue_index: int
    asynchronous: bool
    footprint: Footprint
    time: Clocks = field(default_factory=lambda: np.zeros(0, dtype=np.int32))


@dataclass(slots=True)
class PhaseRecord:
    """One phase of a barrier: what each contribution needs to have happened for it to complete."""

    key: BarrierKey
    phase: int
    contributions: list[Contribution] = field(default_factory=list)
    needs: dict[int, int] = field(default_factory=dict)
    contributors: list[Step] = field(default_factory=list)
    _needed: "tuple[NDArray[np.intp], NDArray[np.int32]] | None" = None

    def need(self, component: int, index: int) -> None:
        """The phase cannot complete before step ``index`` of a component."""
        self.needs[component] = max(self.needs.get(component, 0), index)
        self._needed = None

    @property
    def needed(self) -> "tuple[NDArray[np.intp], NDArray[np.int32]]":
        """``needs`` as components and, for each, its index: a block has a thousand threads."""
        if self._needed is None:
            components = np.fromiter(self.needs.keys(), dtype=np.intp, count=len(self.needs))
            indices = np.fromiter(self.needs.values(), dtype=np.int32, count=len(self.needs))
            self._needed = components, indices
        return self._needed


def ordered(clocks: Clocks, kind: int, component: int, index: int) -> bool:
    """Whether a clock says that step ``index`` of a component comes before."""
    return bool(clocks[kind, component] >= index)


def phase_known(agent: Agent, record: PhaseRecord) -> bool:
    """Whether every contribution to a phase is known to have happened, so that it has completed."""
    components, indices = record.needed
    return bool((agent.clocks[TIME, components] >= indices).all())


def reaches(agent: Agent, contribution: Contribution, scope: ev.Scope | None) -> bool:
    """Whether an acquire at a scope takes in what a contribution released."""
    if contribution.cta == agent.cta or scope is None or scope >= ev.Scope.CLUSTER:
        return True
    return not contribution.generic_payload and contribution.by_operations


def _is_of_operation(step: Step) -> bool:
    return step.operation is not None or is_commit(step.event)


def is_commit(event: ev.Event) -> bool:
    """Whether an event is the arrival of a ``tcgen05.commit``, which comes when what it tracks is done."""
    return isinstance(event, ev.MbarrierArrive) and event.source is ev.ArriveSource.TCGEN05_COMMIT


def join(agent: Agent, clocks: Clocks) -> None:
    """Let an agent know what some clocks say."""
    np.maximum(agent.clocks, clocks, out=agent.clocks)


def join_time(agents: list[Agent]) -> None:
    """Agents that act together have come as far in time; nothing is made visible by that."""
    joined = np.maximum.reduce([agent.clocks[TIME] for agent in agents])
    for agent in agents:
        agent.clocks[TIME] = joined


def join_all(agents: list[Agent]) -> None:
    """Let each of some agents know what any of them knows."""
    if len(agents) < 2:
        return
    joined = np.maximum.reduce([agent.clocks for agent in agents])
    for agent in agents:
        agent.clocks[:] = joined


def contribute(record: PhaseRecord, cta: int, scope: ev.Scope | None, clocks: Clocks, step: Step) -> None:
    """Add an arrival to a phase; arrivals that release alike are kept as one."""
    for contribution in record.contributions:
        alike = contribution.cta == cta and contribution.release_scope == scope
        if alike and not contribution.by_operations:
            np.maximum(contribution.clocks, clocks, out=contribution.clocks)
            contribution.add(step)
            return
    record.contributions.append(Contribution(cta, scope, clocks, [step]))
