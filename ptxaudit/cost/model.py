"""The cost of a violation of a performance rule: what the synchronisation costs where it stands, and what its
cheaper form would save.

Property: the cycles of a violation are those of its place in the function's budget. Where the rule names a
cheaper form, by the events that instructions would have in it, the budget is worked out again with that form;
the saving is the difference of the two for an iteration of the loop around the place. What costs less than
the thresholds ask for is left out, or made a note. Known limits: those of :mod:`ptxaudit.cost.budget`.
"""

from collections.abc import Mapping
from dataclasses import replace

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.cost.budget import RANKED_BY, budget
from ptxaudit.rules.budget import Budget, Cycles, Executions, PlaceCost
from ptxaudit.rules.model import Cost, Severity, Violation
from ptxaudit.rules.thresholds import LEAST_CYCLES, LEAST_SHARE, WARNING_CYCLES, Thresholds
from ptxaudit.words import counted

# A saving is stated as such where at least this share of it rests on nothing that is not known.
_CERTAIN_SHARE = 0.25


def priced(
    analysis: FunctionAnalysis, violations: tuple[Violation, ...], thresholds: Thresholds
) -> tuple[Violation, ...]:
    """The violations of a performance rule with their costs, less those that cost too little to be told.

    One of nothing that is priced keeps its own cost and, as one without measurements, counts as dear enough.
    """
    now = budget(analysis)
    kept: list[Violation] = []
    for violation in violations:
        place = _priced_place(now, violation)
        if place is None:
            kept.append(violation)
        elif _is_dear_enough(place, thresholds):
            cost = _cost(analysis, now, place, violation)
            kept.append(replace(violation, cost=cost, severity=_severity(violation, place, thresholds)))
    return tuple(kept)


def _priced_place(now: Budget, violation: Violation) -> PlaceCost | None:
    place = now.place(violation.primary.index)
    if place is not None and place.counted_at is not None:
        return now.place(place.counted_at) or place
    return place


def _most_cycles(place: PlaceCost) -> int | None:
    """The upper end of what is shown as the cost of an execution; ``None`` where it was not measured."""
    return None if place.added is None else max(round(place.added.high), 0)


def _is_dear_enough(place: PlaceCost, thresholds: Thresholds) -> bool:
    cycles = _most_cycles(place)
    if cycles is not None and cycles < thresholds[LEAST_CYCLES]:
        return False
    return place.share is None or 100 * place.share >= thresholds[LEAST_SHARE]


def _severity(violation: Violation, place: PlaceCost, thresholds: Thresholds) -> Severity | None:
    cycles = _most_cycles(place)
    is_cheap = cycles is not None and cycles < thresholds[WARNING_CYCLES]
    return Severity.NOTE if is_cheap else violation.severity


def _cost(analysis: FunctionAnalysis, now: Budget, place: PlaceCost, violation: Violation) -> Cost:
    several = _alike(now, place, violation)
    frequency = place.executions.value + _around(now, place) + (f", {several} times" if several > 1 else "")
    sentences = [_measured(now, place), *_circumstances(place), *_saving(analysis, now, place, violation)]
    cycles = None if place.added is None else (round(place.added.low), round(place.added.high))
    return Cost(frequency, " ".join(sentences), cycles, now.measured if cycles is not None else None)


def _around(now: Budget, place: PlaceCost) -> str:
    """What a wait adds to how often it runs: whether a loop is around it."""
    if place.executions not in (Executions.ATTEMPT, Executions.SUCCESS):
        return ""
    return "; one wait per thread" if place.loop is None else ""


def _alike(now: Budget, place: PlaceCost, violation: Violation) -> int:
    """How many places the violation is of: the related ones of the same kind that are priced count."""
    same = (one for one in violation.related if one.note.startswith(("the same", "likewise")))
    related = (now.place(one.instruction.index) for one in same)
    alike = {
        one.index
        for one in related
        if one is not None and one.operation == place.operation and one.loop == place.loop
    }
    return len(alike | {place.index})


def _measured(now: Budget, place: PlaceCost) -> str:
    if place.cycles is not None:
        beyond = ", in circumstances beyond those measured" if place.extrapolated else ""
        return f"Priced as {place.priced_as or place.operation}, by measurements on an {now.device}{beyond}."
    known = f"; by what it costs on {RANKED_BY.name} it ranks"
    rank = "" if place.rank is None else f"{known} {_ordinal(place.rank)} here"
    return f"{place.operation} was not measured on this architecture{rank}."


def _ordinal(rank: int) -> str:
    return "first" if rank == 1 else f"number {rank}"


def _circumstances(place: PlaceCost) -> list[str]:
    facts = [fact for fact in (place.waits_for, place.forces) if fact is not None]
    if place.share is not None:
        facts.append(f"{place.share:.0%} of what its loop spends on synchronisation")
    return ["; ".join(facts)[:1].upper() + "; ".join(facts)[1:] + "."] if facts else []


def _saving(analysis: FunctionAnalysis, now: Budget, place: PlaceCost, violation: Violation) -> list[str]:
    """What the cheaper form saves, where the rule names one."""
    if not violation.cheaper or now.measured is None:
        return []
    then = budget(analysis.with_events(violation.cheaper))
    before, after = _around_place(now, place), _around_place(then, place)
    if before is None or after is None:
        return []
    saved, least = round(before.estimate - after.estimate), round(before.low - after.low)
    where = "an iteration" if place.loop is not None else "each time"
    if saved <= 0 and place.executions is Executions.ATTEMPT:
        return ["The cheaper form saves the invalidates of attempts that fail, and nothing at the first one."]
    if saved <= 0:
        return ["The cheaper form saves nothing that was measured."]
    # What rests on what is not known, such as loads that perhaps hit, is no more than possible.
    about = "about" if least >= _CERTAIN_SHARE * saved else "at most about"
    share = f", {saved / before.estimate:.0%} of the loop's synchronisation" if place.loop is not None else ""
    return [f"The cheaper form saves {about} {counted(saved, 'cycle')} {where}{share}."]


def _around_place(one: Budget, place: PlaceCost) -> Cycles | None:
    """What the loop around a place spends in an iteration; outside loops, what the function spends."""
    spent: Mapping[int | None, Cycles | None] = {loop.header: loop.cycles for loop in one.loops}
    return one.once or Cycles() if place.loop is None else spent.get(place.loop)
