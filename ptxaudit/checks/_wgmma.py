"""Which of the two wgmma rules a race on a wgmma operand belongs to."""

from ptxaudit.analysis.order.races import Race
from ptxaudit.analysis.order.trace import Execution, Step
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
    return copies and race.release is None


def _warpgroup(execution: Execution, warp: int) -> tuple[int, int]:
    identity = execution.warps[warp]
    return identity.cta, identity.warp // 4
