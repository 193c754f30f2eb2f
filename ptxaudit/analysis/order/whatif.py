"""Whether a kernel stays ordered without a synchronisation, or with a weaker wait.

An execution is one order in which its steps could happen, and ``clocks`` says what is ordered in every
schedule. Taking a barrier or a fence out, or letting a wait leave more pending, forbids no schedule: what
was executed can still happen as it was. So the same steps are walked again without the synchronisation.

Property: the weakened kernel is called *ordered* when the walk of each explored execution shows no race, no
phase alias, no gap and no missing proxy fence that the kernel itself does not show; by the claims of the
engine this then holds for every schedule of these executions. No warp can hang that did not before: nothing
is waited for that was not. Direction and join are those of ``clocks``. Known limits: those of the engine;
what it does not see (global memory behind different pointers, lanes of one warp) a caller has to look at.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.races import Alias, Link, Race, RaceFinder
from ptxaudit.analysis.order.trace import (
    BarrierKey,
    Consumption,
    Convergence,
    Delivery,
    Execution,
    PhaseComplete,
    Step,
)
from ptxaudit.ir import events as ev
from ptxaudit.ir.cfg import Loop

Entry = Step | PhaseComplete | Delivery | Convergence | Consumption
"""What an execution is made of."""

Weakening = Callable[[Execution], Execution]
"""Makes of an execution the same one with less synchronisation."""

_Unit = TypeVar("_Unit")
# What may be walked for the answers of one rule: some steps of agents whatever the exploration took, else a
# multiple of what it walked. One time of these is the last look at every execution.
_LEAST_STEPS = 20_000
_SHARE = 1.0


@dataclass(frozen=True, slots=True)
class Dispensable(Generic[_Unit]):
    """The units that the kernel stays ordered without, all together, and how many could not be asked for."""

    units: tuple[_Unit, ...]
    untried: int


def dispensable(
    report: OrderReport, units: Sequence[_Unit], weaken: Callable[[Sequence[_Unit]], Weakening]
) -> Dispensable[_Unit]:
    """The units of synchronisation that a kernel can do without in every explored execution.

    ``weaken`` makes the weakening for some of them. They are found by halves in one execution after the
    other, the shortest first: a kernel that is ordered without some is so without fewer. Where that takes
    more than its share of the exploration, counted in steps and not in time, nothing is said of the rest.
    """
    search = _Search(report, weaken, max(_LEAST_STEPS, int(report.walked * _SHARE)))
    left = list(units)
    try:
        for execution in sorted(report.executions, key=lambda one: len(one.entries)):
            left = search.ordered_without(execution, [], left)
    except _Exhausted:
        return Dispensable((), len(left))
    return Dispensable(tuple(left), 0)


class _Search(Generic[_Unit]):
    def __init__(
        self, report: OrderReport, weaken: Callable[[Sequence[_Unit]], Weakening], allowance: int
    ) -> None:
        self._report = report
        self._weaken = weaken
        self._steps_left = allowance

    def ordered_without(self, execution: Execution, gone: list[_Unit], units: list[_Unit]) -> list[_Unit]:
        """Those of the units that can go in an execution, together, besides those that are gone."""
        if not units or self._is_ordered(execution, [*gone, *units]):
            return units
        if len(units) == 1:
            return []
        half = len(units) // 2
        first = self.ordered_without(execution, gone, units[:half])
        return first + self.ordered_without(execution, [*gone, *first], units[half:])

    def _is_ordered(self, execution: Execution, units: list[_Unit]) -> bool:
        if self._steps_left <= 0:
            raise _Exhausted
        finder = _finder(self._report, self._weaken(units)(execution))
        try:
            finder.run()
        except _NewlyShown as shown:
            self._steps_left -= finder.walk.work * shown.number // len(execution.entries)
            return False
        self._steps_left -= finder.walk.work
        return _is_known(self._report, finder)


def shows_nothing_new(report: OrderReport, execution: Execution) -> bool:
    """Whether an execution shows nothing that the report does not hold."""
    try:
        return _is_known(report, _finder(report, execution).run())
    except _NewlyShown:
        return False


def _finder(report: OrderReport, execution: Execution) -> RaceFinder:
    """A walk of an execution that raises :class:`_NewlyShown` at the first race or alias."""
    finder = RaceFinder(execution, only_certain_flags=True)
    finder.races = _NoRaces()
    finder.aliases = _NoAliases()
    finder.unfenced = _OnlyKnown({_pair(race) for race in report.unfenced})
    return finder


def _is_known(report: OrderReport, finder: RaceFinder) -> bool:
    known = {gap.pair for gap in report.gaps}
    return not finder.races and finder.gaps.gaps.keys() <= known


class _Exhausted(Exception):
    """The allowance is used up."""


def why_not(report: OrderReport) -> str | None:
    """Why a report is no ground to ask what a synchronisation is needed for, or ``None``."""
    if not report.executions:
        return "no execution of this function could be explored, so that nothing can be left out of one"
    if not all(execution.complete for execution in report.executions):
        return "an explored execution did not run to its end, so that what it needs is not known"
    if report.races or report.aliases:
        return (
            "the kernel as it stands has accesses or mbarrier phases that nothing orders, so that leaving a "
            "synchronisation out cannot be judged: mend the correctness findings first (--strict shows those "
            "in doubt, too)"
        )
    return None


def races_of_weakened(execution: Execution) -> list[Race]:
    """Every race of a weakened execution."""
    return list(RaceFinder(execution, only_certain_flags=True).run().races.values())


class _NewlyShown(Exception):
    """A walk shows what the kernel itself does not, at the step of this ``number``."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class _NoRaces(dict[Hashable, Race]):
    """Ends the walk at the first race, save one by another thread's fence: that is judged at the end."""

    def __setitem__(self, key: Hashable, shown: Race) -> None:
        if shown.link is not Link.PROXY_BY_OTHER:
            raise _NewlyShown(shown.second.step.number)
        super().__setitem__(key, shown)


class _NoAliases(dict[Hashable, Alias]):
    """Ends the walk at the first phase alias."""

    def __setitem__(self, key: Hashable, shown: Alias) -> None:
        raise _NewlyShown(shown.step.number)


class _OnlyKnown(dict[Hashable, Race]):
    """Ends the walk at the first pair that the kernel itself does not show."""

    def __init__(self, known: set[tuple[int, int]]) -> None:
        super().__init__()
        self._known = known

    def __setitem__(self, key: Hashable, shown: Race) -> None:
        if _pair(shown) not in self._known:
            raise _NewlyShown(shown.second.step.number)
        super().__setitem__(key, shown)


def _pair(race: Race) -> tuple[int, int]:
    return race.first.step.instruction.index, race.second.step.instruction.index


# Weakenings ------------------------------------------------------------------------------------------


def without(instructions: frozenset[int]) -> Weakening:
    """Leave out barriers and fences; the later phases of the barriers are numbered anew.

    All instructions that meet in one phase of a barrier have to go together.
    """

    def weaken(execution: Execution) -> Execution:
        gone: dict[BarrierKey, set[int]] = defaultdict(set)
        for entry in execution.entries:
            if isinstance(entry, Step) and entry.instruction.index in instructions and _is_barrier(entry):
                assert entry.key is not None
                gone[entry.key].add(entry.phase)
        phases = {key: sorted(numbers) for key, numbers in gone.items()}
        renumbered = (_without(entry, instructions, phases) for entry in execution.entries)
        entries = [entry for entry in renumbered if entry is not None]
        return replace(execution, entries=entries)

    return weaken


def _without(
    entry: Entry, instructions: frozenset[int], gone: Mapping[BarrierKey, Sequence[int]]
) -> Entry | None:
    """An entry, its phase numbered without those that are gone; ``None`` if it belongs to what is gone."""
    if isinstance(entry, Step):
        if entry.instruction.index in instructions:
            return None
        phases = gone.get(entry.key, ()) if _is_barrier(entry) and entry.key is not None else ()
        return replace(entry, phase=entry.phase - bisect_left(phases, entry.phase)) if phases else entry
    if not isinstance(entry, PhaseComplete) or entry.key not in gone:
        return entry
    before = bisect_left(gone[entry.key], entry.phase)
    if gone[entry.key][before : before + 1] == [entry.phase]:
        return None
    return PhaseComplete(entry.key, entry.phase - before)


def _is_barrier(step: Step) -> bool:
    return isinstance(step.event, ev.CtaBarrier) and step.key is not None


def deeper(depths: Mapping[int, int], loop: Loop) -> Weakening:
    """Let waits for commit groups in a loop leave more pending, and wait for all behind the loop.

    ``depths`` are the numbers of groups left pending, by the index of the wait.
    """

    def weaken(execution: Execution) -> Execution:
        entries: list[Entry] = []
        inside: dict[tuple[int, int], Step] = {}
        for entry in execution.entries:
            if isinstance(entry, Step):
                for waiting in [one for one in inside if one[0] == entry.warp and one[1] & entry.lanes]:
                    if entry.block not in loop.blocks:
                        entries.append(_drain(inside.pop(waiting)))
                depth = depths.get(entry.instruction.index)
                if depth is not None and isinstance(entry.event, ev.GroupWait):
                    inside[entry.warp, entry.lanes] = entry
                    entries.append(replace(entry, event=replace(entry.event, depth=depth)))
                    continue
            entries.append(entry)
        return replace(execution, entries=entries)

    return weaken


def weaker(changed: Mapping[int, tuple[ev.Event, ...]]) -> Weakening:
    """Let instructions, by index, have other events: the n-th of a class for the n-th that there was.

    An event of a class that the instruction has none of comes right behind it; one that has no counterpart
    any more is left out.
    """

    def weaken(execution: Execution) -> Execution:
        entries: list[Entry] = []
        for entry in execution.entries:
            events = changed.get(entry.instruction.index) if isinstance(entry, Step) else None
            if events is None or not isinstance(entry, Step):
                entries.append(entry)
                continue
            same = [event for event in events if type(event) is type(entry.event)]
            if same:
                entries.append(replace(entry, event=same[0]))
            if not isinstance(entry.event, ev.Fence):
                fences = [event for event in events if isinstance(event, ev.Fence)]
                entries += [replace(entry, event=fence, key=None, footprint=None) for fence in fences]
        return replace(execution, entries=entries)

    return weaken


def both(first: Weakening, second: Weakening) -> Weakening:
    """One weakening after the other."""
    return lambda execution: second(first(execution))


def _drain(wait: Step) -> Step:
    assert isinstance(wait.event, ev.GroupWait)
    return replace(wait, event=replace(wait.event, depth=0))


def met_together(report: OrderReport, barriers: frozenset[int]) -> list[frozenset[int]]:
    """The barrier instructions, those that some phase has both arrivals of in one set."""
    sets: dict[int, set[int]] = {index: {index} for index in barriers}
    for execution in report.executions:
        phases: dict[tuple[BarrierKey, int], int] = {}
        for entry in execution.entries:
            if not isinstance(entry, Step) or not _is_barrier(entry):
                continue
            assert entry.key is not None
            index = entry.instruction.index
            other = phases.setdefault((entry.key, entry.phase), index)
            one, two = sets.setdefault(index, {index}), sets.setdefault(other, {other})
            if one is not two:
                one |= two
                for member in two:
                    sets[member] = one
    unique = {id(found): frozenset(found) for found in sets.values()}
    return sorted(unique.values(), key=min)
