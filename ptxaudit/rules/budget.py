"""What a function's synchronisation costs, place by place and loop by loop: a record that holds no IR.

Cycles are of one warp's way through the code, on the multiprocessor that was measured. A cost is *local* when
it is of one instruction where it stands, per execution, and *global* when it is a share of a loop's
synchronisation. Where the architecture was not measured there are no cycles, only counts and ranks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ptxaudit.source import Location


class Part(StrEnum):
    """What the cycles of a synchronisation go to.

    ``FLUSH`` is a memory barrier wider than the CTA, which waits for stores; ``INVALIDATE`` are loads that
    have to be fetched again because L1 was emptied; ``FENCE`` are fences that do neither.
    """

    WAIT = "wait"
    BARRIER = "barrier"
    ARRIVE = "arrive"
    FENCE = "fence"
    FLUSH = "flush"
    INVALIDATE = "invalidate"


class Executions(StrEnum):
    """How often a place is executed, by what is around it."""

    ONCE = "once"
    CALL = "once per call"
    ATTEMPT = "every poll attempt"
    SUCCESS = "once per successful wait"
    ITERATION = "every iteration"
    OUTER = "every iteration of an outer loop"


@dataclass(frozen=True, slots=True)
class Cycles:
    """An estimate in cycles, and the range that it may be wrong by."""

    estimate: float = 0.0
    low: float = 0.0
    high: float = 0.0

    def __add__(self, other: "Cycles") -> "Cycles":
        return Cycles(self.estimate + other.estimate, self.low + other.low, self.high + other.high)


@dataclass(frozen=True, slots=True)
class PlaceCost:
    """A synchronisation where it stands.

    ``index`` is the instruction that names it, ``instructions`` are all that belong to it; ``operation`` is
    its name in the measured tables. ``loop`` is the header block of the innermost loop around it that does
    more than poll. ``waits_for`` and ``forces`` say in words what it waits for and what has to be done again
    after it. ``roles`` are the warps that execute it, none where the function was not executed; ``critical``
    says whether one of them is likely on the critical path, ``None`` where that cannot be told.

    ``cycles`` are per execution (local), ``added`` those of them by which it is dearer than the plain form of
    the operation, ``parts`` what they go to, ``share`` the part of its loop's synchronisation that they are
    (global), where it stands on the way that the loop's cycles are of. ``priced_as`` is the measured
    operation whose cycles they are. ``rank`` is 1 for the dearest of the function. ``counted_at`` is the
    place that the cost of this one is counted at: a repeated attempt of the same wait.
    """

    index: int
    instructions: tuple[int, ...]
    location: Location
    text: str
    operation: str
    part: Part
    executions: Executions
    loop: int | None = None
    waits_for: str | None = None
    forces: str | None = None
    roles: tuple[str, ...] = ()
    critical: bool | None = None
    cycles: Cycles | None = None
    added: Cycles | None = None
    parts: Mapping[Part, float] = field(default_factory=dict)
    share: float | None = None
    rank: int | None = None
    extrapolated: bool = False
    counted_at: int | None = None
    priced_as: str | None = None


@dataclass(frozen=True, slots=True)
class LoopCost:
    """What one iteration of a loop spends on synchronisation: ``cycles``, and ``parts`` that they go to. Both
    are of the way that costs most, of the role that it costs most; ``on_way`` are the places on it, by index.

    ``header`` is the loop's header block, ``location`` its first instruction. Loops in this one come on top.
    ``instructions`` counts those of an iteration, by the way that costs most; ``places`` are the
    synchronisations in the loop, but not in loops in it, by index.
    """

    header: int
    location: Location
    depth: int
    innermost: bool
    instructions: int
    places: tuple[int, ...]
    cycles: Cycles | None = None
    parts: Mapping[Part, float] = field(default_factory=dict)
    roles: tuple[str, ...] = ()
    critical: bool | None = None
    on_way: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Budget:
    """The synchronisation of a function, by place and by loop, loops from the outermost.

    ``measured`` names the architecture whose measurements the cycles are from, and ``device`` the device;
    both are ``None`` where that of the function was not measured. ``once`` and ``once_parts`` are what stands
    in no loop, of the roles ``once_roles``, which spend most there. ``threads`` of a CTA are what was counted
    with. ``assumptions`` are what the numbers rest on.
    """

    places: tuple[PlaceCost, ...]
    loops: tuple[LoopCost, ...]
    threads: int
    measured: str | None = None
    device: str | None = None
    once: Cycles | None = None
    once_parts: Mapping[Part, float] = field(default_factory=dict)
    once_roles: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    def place(self, index: int) -> PlaceCost | None:
        """The place that an instruction belongs to."""
        return next((one for one in self.places if index in one.instructions), None)

    def as_reported(self) -> "Budget":
        """What reports need of it, which are made of thousands: repeated attempts, which nothing is counted
        at, and the instructions that belong to a place are left out."""
        counted = (one for one in self.places if one.counted_at is None)
        return replace(self, places=tuple(replace(one, instructions=()) for one in counted))


def summed(parts: Iterable[Mapping[Part, float]]) -> dict[Part, float]:
    """The parts of several costs, added up."""
    total: dict[Part, float] = {}
    for one in parts:
        for part, cycles in one.items():
            total[part] = total.get(part, 0.0) + cycles
    return total
