"""Which of the two wgmma rules a race on a wgmma operand belongs to."""

from ptxaudit.analysis.order.races import Race
from ptxaudit.analysis.order.trace import Execution, Step
from ptxaudit.checks._order import is_wgmma_read
from ptxaudit.ir import events as ev


def is_cross_warpgroup(race: Race) -> bool:
    """Whether the overwriting thread belongs to another warpgroup that executes wgmma of its own.

    A producer warp that is let go by an arrive of the reading warpgroup is not: there the release is
    early.
    """
    execution = race.execution
    assert execution is not None
    first, second = race.first.agent.warp, race.second.agent.warp
    if _warpgroup(execution, first) == _warpgroup(execution, second):
        return False
    if race.release is not None and isinstance(race.release.event, ev.MbarrierArrive):
        return False
    others = _warpgroup(execution, second)
    return any(
        isinstance(entry, Step)
        and isinstance(entry.event, ev.WgmmaIssue)
        and _warpgroup(execution, entry.warp) == others
        for entry in execution.entries
    )


def reads_before_arrival(race: Race) -> bool:
    """Whether a wgmma reads what a copy brings without waiting for it: nothing was released before."""
    event = race.second.step.event
    copies = isinstance(event, ev.Access) and event.completion is ev.Completion.MBARRIER
    return (copies and race.release is None) or reads_pending_copy(race)


def reads_pending_copy(race: Race) -> bool:
    """Whether a wgmma reads the target of a cp.async copy that was issued before it.

    The order engine puts the read of a wgmma first in such a pair, because the copy may also be the refill
    that overwrites its operand; a refill's issue the reading thread cannot know of.
    """
    read, copy = race.first, race.second
    event = copy.step.event
    if not isinstance(event, ev.Access) or event.completion is not ev.Completion.ASYNC_GROUP:
        return False
    return is_wgmma_read(read) and bool(read.time[copy.agent.component] >= copy.issue_index)


def _warpgroup(execution: Execution, warp: int) -> tuple[int, int]:
    identity = execution.warps[warp]
    return identity.cta, identity.warp // 4
