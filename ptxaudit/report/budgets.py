"""Budgets of synchronisation as data and as lines of text, shared by the reports that show them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ptxaudit.rules.budget import Budget, Cycles, LoopCost, Part, PlaceCost
from ptxaudit.source import Location
from ptxaudit.words import counted

_PART_WORDS = {
    Part.WAIT: "waits",
    Part.BARRIER: "barriers",
    Part.ARRIVE: "arrivals",
    Part.FENCE: "fences",
    Part.FLUSH: "flushes",
    Part.INVALIDATE: "invalidates",
}


def document(budget: Budget) -> dict[str, Any]:
    """A budget as plain data; places that cost nothing are only counted, in their loops."""
    return {
        "threads": budget.threads,
        **_optional(measured=budget.measured, device=budget.device),
        "once": {
            **_spent(budget.once, budget.once_parts),
            "operations": operations(budget, None),
            **_optional(roles=list(budget.once_roles) or None),
        },
        "loops": [_loop(budget, loop) for loop in budget.loops if loop.places],
        "places": [_place(place) for place in budget.places if place.rank is not None],
        "assumptions": list(budget.assumptions),
    }


def operations(budget: Budget, header: int | None) -> dict[str, int]:
    """How many places of each operation a loop has (``None``: what stands in none), but for repetitions."""
    found = (one.operation for one in budget.places if one.loop == header and one.counted_at is None)
    return dict(sorted(Counter(found).items()))


def _loop(budget: Budget, loop: LoopCost) -> dict[str, Any]:
    return {
        **_position(loop.location),
        "depth": loop.depth,
        "innermost": loop.innermost,
        "instructions": loop.instructions,
        **_spent(loop.cycles, loop.parts),
        "operations": operations(budget, loop.header),
        **_optional(roles=list(loop.roles) or None, critical=loop.critical),
    }


def _spent(cycles: Cycles | None, parts: Mapping[Part, float]) -> dict[str, Any]:
    if cycles is None:
        return {}
    return {"cycles": _cycles(cycles), "parts": {part.value: round(value) for part, value in parts.items()}}


def _place(place: PlaceCost) -> dict[str, Any]:
    local = None if place.cycles is None else _cycles(place.cycles)
    share = None if place.share is None else round(place.share, 3)
    return {
        **_position(place.location),
        "text": place.text,
        "operation": place.operation,
        "part": place.part.value,
        "executions": place.executions.value,
        "rank": place.rank,
        **_optional(
            local=local,
            share_of_loop=share,
            waits_for=place.waits_for,
            forces=place.forces,
            roles=list(place.roles) or None,
            critical=place.critical,
            extrapolated=place.extrapolated or None,
        ),
    }


def _position(location: Location) -> dict[str, int]:
    return {"line": location.line or 0} if location.offset is None else {"offset": location.offset}


def _cycles(cycles: Cycles) -> list[int]:
    """Estimate, low and high."""
    return [round(cycles.estimate), round(cycles.low), round(cycles.high)]


def _optional(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


# Text ------------------------------------------------------------------------------------------------


def place_name(location: Location) -> str:
    """A line of PTX or an offset of SASS."""
    return f"line {location.line}" if location.offset is None else f"+{location.offset:#06x}"


def cycles_text(cycles: Cycles) -> str:
    """The estimate, and the range where there is one."""
    low, high = round(cycles.low), round(cycles.high)
    most = f"{round(cycles.estimate):,} cycles"
    return most if low == high else f"{most} ({low:,} to {high:,})"


def shares(parts: Mapping[Part, float]) -> list[tuple[Part, int]]:
    """The parts in whole per cent, the greatest first, without those of less than half of one."""
    total = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda one: -one[1])
    return [(part, round(100 * value / total)) for part, value in ordered if total and value / total >= 0.005]


def parts_text(parts: Mapping[Part, float]) -> str:
    """The shares of the parts, the greatest first."""
    return ", ".join(f"{_PART_WORDS[part]} {share}%" for part, share in shares(parts))


LEGEND = (
    "cycles are of one warp and one execution; a range in brackets is from the least to the most that what is"
    " not known leaves open (loads in L1, stores in flight, the way taken)",
    "a share is of what its loop spends, by the way and the role that spend most; elsewhere there is none",
    "'besides' are synchronisations that were measured as next to nothing, or are not measured",
    "'likely critical': the role issues matrix products, or is the CTA's only one; 'likely not critical':"
    " another role of the CTA issues them",
)


def lines(budget: Budget) -> Iterator[str]:
    """A budget for a terminal: loops from the outermost with their places, the dearest first."""
    for loop in budget.loops:
        if loop.places:
            yield from _loop_lines(budget, loop)
    if any(one.loop is None for one in budget.places):
        spent = "" if budget.once is None else f": {cycles_text(budget.once)}"
        yield f"outside loops{_paid_by(budget.once_roles, None)}{spent}{_split(budget.once_parts)}"
        yield from _place_lines(budget, None, budget.once_roles)
    for assumption in budget.assumptions:
        yield f"assumes: {assumption}"


def _loop_lines(budget: Budget, loop: LoopCost) -> Iterator[str]:
    nesting = "innermost loop" if loop.innermost else "outer loop"
    name = f"{nesting} at {place_name(loop.location)}"
    spent = "" if loop.cycles is None else f": {cycles_text(loop.cycles)} an iteration"
    yield f"{name}{_paid_by(loop.roles, loop.critical)}{spent}{_split(loop.parts)}"
    yield f"  of {counted(loop.instructions, 'instruction')}"
    yield from _place_lines(budget, loop.header, loop.roles)


def _split(parts: Mapping[Part, float]) -> str:
    return f"; {parts_text(parts)}" if sum(parts.values()) > 0 else ""


def _paid_by(roles: tuple[str, ...], critical: bool | None) -> str:
    if not roles:
        return ""
    path = {True: ", likely critical", False: ", likely not critical", None: ""}[critical]
    return f" ({'; '.join(roles)}{path})"


def _place_lines(budget: Budget, header: int | None, roles: tuple[str, ...]) -> Iterator[str]:
    """The places of a loop; who executes one is said where that is not who the loop's line names."""
    own = [one for one in budget.places if one.loop == header and one.counted_at is None]
    dear = sorted((one for one in own if one.rank is not None), key=lambda one: one.rank or 0)
    for place in dear:
        yield f"  {_cost(budget, place):>15}  {place_name(place.location)}: {place.operation}"
        paid = f"by {'; '.join(place.roles)}" if place.roles and place.roles != roles else None
        details = (place.executions.value, paid, place.waits_for, place.forces)
        yield f"{'':19}{'; '.join(detail for detail in details if detail)}"
    rest = Counter(one.operation for one in own if one.rank is None)
    if rest:
        names = ", ".join(f"{number} x {name}" for name, number in sorted(rest.items()))
        yield f"  {'no cost known' if not dear else 'besides':>15}  {names}"


def _cost(budget: Budget, place: PlaceCost) -> str:
    if place.cycles is None:
        return f"rank {place.rank}"
    share = "" if place.share is None else f" {place.share:4.0%}"
    return f"{round(place.cycles.estimate):,}{share}"
