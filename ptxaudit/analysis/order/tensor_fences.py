"""Whether tcgen05 operations of two warps that a CTA barrier orders have the tcgen05 fences on either side.

Property: ``missing`` tells which fence is not there: ``::before_thread_sync`` by the thread of the earlier
operation after it, or ``::after_thread_sync`` by the thread of the later one after it learnt of it (PTX ISA
9.7.16.6). An mbarrier stands for the fence on its side: an arrive or a tcgen05.commit for the first, an
acquiring wait for the second.

Direction: forward, beside the walk of ``clocks``. Join: none. Known limits: an mbarrier counts whichever
operation it is about, so that a fence is not asked for where one hand-over by mbarrier lies in between.
"""

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ptxaudit.analysis.order.knowledge import TIME, Agent, Moment
from ptxaudit.analysis.order.trace import Step
from ptxaudit.ir import events as ev

BEFORE, AFTER = "tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync"


@dataclass(slots=True)
class _HandOvers:
    """The fences and arrives by a thread, each with the steps of its warp's threads that it comes after.

    Both grow with time: of those up to a step the last one tells of all.
    """

    indices: list[int] = field(default_factory=list)
    after: list[dict[int, int]] = field(default_factory=list)

    def latest(self, index: int) -> dict[int, int]:
        """What the last one up to step ``index`` of the thread comes after."""
        place = bisect_right(self.indices, index)
        return self.after[place - 1] if place else {}


@dataclass(slots=True)
class TensorFences:
    """What fences the agents of one execution have executed; ``step`` is called for each step."""

    _agents_of_warp: list[list[Agent]]
    _handed_on: dict[int, dict[int, _HandOvers]] = field(default_factory=dict)
    _taken_over: dict[int, "NDArray[np.int32]"] = field(default_factory=dict)
    _waited: set[int] = field(default_factory=set)

    def step(self, step: Step, agents: list[Agent]) -> None:
        """Look at one step, before its effect on the clocks."""
        event = step.event
        for agent in agents:
            if agent.component in self._waited:
                # What a wait tells is in the clocks from the step after it on.
                self._waited.discard(agent.component)
                self._taken_over[agent.component] = agent.clocks[TIME].copy()
            action = event.action if isinstance(event, ev.TensorOperation) else None
            if action is ev.TensorAction.FENCE_AFTER:
                self._taken_over[agent.component] = agent.clocks[TIME].copy()
            elif action is ev.TensorAction.FENCE_BEFORE or isinstance(event, ev.MbarrierArrive):
                time = agent.clocks[TIME]
                after = {one.component: int(time[one.component]) for one in self._agents_of_warp[agent.warp]}
                of_warp = self._handed_on.setdefault(agent.warp, {})
                hand_over = of_warp.setdefault(agent.component, _HandOvers())
                hand_over.indices.append(int(time[agent.component]))
                hand_over.after.append(after)
            elif isinstance(event, ev.MbarrierWait) and event.semantics is not ev.Semantics.RELAXED:
                self._waited.add(agent.component)

    def missing(self, earlier: Moment, later: Moment) -> str | None:
        """The fence that is missing between two ordered accesses of different warps, or ``None``."""
        if earlier.agent.warp == later.agent.warp:
            return None
        time, component = later.agent.clocks[TIME], earlier.agent.component
        if not any(
            earlier.issue_index <= hand_over.latest(int(time[thread])).get(component, -1)
            for thread, hand_over in self._handed_on.get(earlier.agent.warp, {}).items()
        ):
            return BEFORE
        taken_over = self._taken_over.get(later.agent.component)
        if taken_over is None or taken_over[component] < earlier.issue_index:
            return AFTER
        return None
