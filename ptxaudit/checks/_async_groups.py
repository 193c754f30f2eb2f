"""What the rules on commit groups share: their races, and whether the issuer of an operation waits for it."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.knowledge import Moment
from ptxaudit.analysis.order.races import Link, Race
from ptxaudit.analysis.order.trace import Step
from ptxaudit.checks._order import races_of
from ptxaudit.checks._wgmma import reads_pending_copy
from ptxaudit.ir import events as ev

# Steps by which the issuing thread lets others go on.
_HAND_OVER = (ev.CtaBarrier, ev.ClusterBarrier, ev.MbarrierArrive)


def in_group(moment: Moment, completion: ev.Completion) -> ev.Access | None:
    """The access of a moment when it completes by that kind of group."""
    event = moment.step.event
    return event if isinstance(event, ev.Access) and event.completion is completion else None


def has_bulk_stores(analysis: FunctionAnalysis) -> bool:
    """Whether the function has bulk copies out of shared memory that complete by groups."""
    return any(
        access.completion is ev.Completion.BULK_GROUP
        and access.reads
        and access.space in (ev.StateSpace.SHARED, ev.StateSpace.CLUSTER)
        for _, access in analysis.occurrences(ev.Access)
    )


def overwritten_sources(report: OrderReport) -> Iterator[Race]:
    """Races of a bulk store's read with a later write."""
    for race in races_of(report, Link.IN_FLIGHT, Link.NONE):
        read = in_group(race.first, ev.Completion.BULK_GROUP)
        second = race.second.step.event
        if read is not None and read.reads and isinstance(second, ev.Access) and second.writes:
            yield race


def copies_met_early(report: OrderReport) -> Iterator[Race]:
    """Races of a cp.async write with an access that comes after its issue."""
    for found in races_of(report, Link.IN_FLIGHT, Link.NONE):
        race = found
        if reads_pending_copy(found):
            race = replace(found, first=found.second, second=found.first, release=None)
        written = in_group(race.first, ev.Completion.ASYNC_GROUP)
        if written is not None and written.writes:
            yield race


def issuer_waits(race: Race, kind: ev.GroupKind) -> Step | None:
    """The wait of the issuing thread that covers the race's first access, if only the others are not told.

    That is one before the thread itself comes to the second access. A thread that never does must wait
    before it uses the buffer again, behind one hand-over at most: a later wait belongs to the next use.
    """
    first, second = race.first, race.second
    if first.component == second.component or first.agent is second.agent:
        return None
    assert race.execution is not None
    commits = hand_overs = 0
    late: Step | None = None
    for entry in race.execution.entries[first.step.number + 1 :]:
        if not isinstance(entry, Step) or not _is_by(entry, first):
            continue
        event = entry.event
        if entry.instruction is second.step.instruction and entry.visit == second.step.visit:
            return late
        if entry.instruction is first.step.instruction and _same_place(entry, first):
            return None
        if isinstance(event, _HAND_OVER):
            hand_overs += 1
        elif isinstance(event, ev.GroupCommit) and event.kind is kind:
            commits += 1
        elif isinstance(event, ev.GroupWait) and event.kind is kind and _covers(event, commits):
            if hand_overs < 2:
                return entry
            late = late or entry
    return None


def _same_place(step: Step, moment: Moment) -> bool:
    """Whether a step touches memory from where a moment's access does."""
    one, other = step.footprint, moment.step.footprint
    if one is None or other is None or one.memory != other.memory:
        return False
    return step.visit != moment.step.visit and bool(np.intersect1d(one.starts, other.starts).size)


def depth_in_words(race: Race, kind: ev.GroupKind) -> str:
    """The last wait of the issuing thread between the two accesses, in words."""
    assert race.execution is not None
    first, second = race.first.step.number, race.second.step.number
    waits = [
        entry
        for entry in race.execution.entries[first + 1 : max(second, first)]
        if isinstance(entry, Step)
        and _is_by(entry, race.first)
        and isinstance(entry.event, ev.GroupWait)
        and entry.event.kind is kind
    ]
    if not waits:
        return "no wait for its group stands in between"
    event = waits[-1].event
    assert isinstance(event, ev.GroupWait)
    return f"the last wait in between leaves {event.depth or 0} of the newest groups pending"


def _is_by(step: Step, moment: Moment) -> bool:
    return step.warp == moment.agent.warp and bool(step.lanes & moment.agent.lanes)


def _covers(wait: ev.GroupWait, commits: int) -> bool:
    """Whether a wait covers the group that ``commits`` commits, the first of them its own, follow."""
    return wait.depth is None or (commits > 0 and wait.depth < commits)
