"""Two accesses to the same shared memory have no order between them, and no other rule says which link is
missing."""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.knowledge import Moment
from ptxaudit.analysis.order.races import Link, Race
from ptxaudit.checks._order import hands_over_nothing, is_wgmma_read, outcome, place, violation
from ptxaudit.checks._wgmma import reads_before_arrival, reads_pending_copy
from ptxaudit.checks.elected_arrive_without_syncwarp import hands_on
from ptxaudit.ir import events as ev
from ptxaudit.rules.model import Outcome, Severity, Violation

NEEDS = (ev.Access,)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Unordered conflicting accesses to shared memory that are left to this rule."""
    return outcome(analysis, _accesses_shared(analysis), _violations)


def _accesses_shared(analysis: FunctionAnalysis) -> bool:
    spaces = (ev.StateSpace.SHARED, ev.StateSpace.CLUSTER, ev.StateSpace.GENERIC)
    return any(access.space in spaces for _, access in analysis.occurrences(ev.Access))


def _violations(report: OrderReport) -> Iterator[Violation]:
    named = {_pair(race) for race in report.races if _has_its_own_rule(race)}
    lacking_a_warp_barrier: set[int] = set()
    for race in report.races:
        first = race.first.step.instruction.index
        if race.link is Link.WARP and first in lacking_a_warp_barrier:
            continue  # one barrier orders all that follows
        # Without any order the two may meet either way round: it is the same missing link.
        mirrored = race.link is Link.NONE and _pair(race)[::-1] in named
        if _in_shared_memory(race) and not _has_its_own_rule(race) and not mirrored:
            details = {
                "other": place(race.first.step.instruction),
                "memory": f"shared memory at {int(race.second.footprint.starts.min()):#x}",
                "missing": race.link.value,
            }
            severity = None
            if race.link is Link.WARP:
                lacking_a_warp_barrier.add(first)
                severity = Severity.WARNING
            yield violation(report, race, race.second.step.instruction, details, severity=severity)


def _pair(race: Race) -> tuple[int, int]:
    return race.first.step.instruction.index, race.second.step.instruction.index


def _in_shared_memory(race: Race) -> bool:
    return all(one.footprint.memory[0] == "shared" for one in (race.first, race.second))


def _has_its_own_rule(race: Race) -> bool:
    """Whether another rule names what is missing: this one takes what is left."""
    if race.link is Link.NOT_VISIBLE and hands_on(race) is not None:
        return True  # elected-arrive-without-syncwarp
    if race.link is Link.NOT_VISIBLE:
        return race.failed is not None and not hands_over_nothing(race.failed)
    if race.link is Link.WARP and hands_on(race) is not None:
        return True  # elected-arrive-without-syncwarp
    if race.link not in (Link.NONE, Link.IN_FLIGHT, Link.WARP):
        return True
    if any(_operation(one) == "tcgen05.alloc" for one in (race.first, race.second)):
        return True  # tmem-address-unpublished
    if is_wgmma_read(race.first):
        return not reads_before_arrival(race) or reads_pending_copy(race)
    return _completion(race.first) in _GROUPS


# Their rules are those on commit groups: what is pending until a group wait.
_GROUPS = (ev.Completion.ASYNC_GROUP, ev.Completion.BULK_GROUP)


def _completion(moment: Moment) -> ev.Completion | None:
    event = moment.step.event
    return event.completion if isinstance(event, ev.Access) else None


def _operation(moment: Moment) -> str | None:
    event = moment.step.event
    return event.operation if isinstance(event, ev.Access) else None
