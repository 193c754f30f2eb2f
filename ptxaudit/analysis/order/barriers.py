"""The state of barrier objects while a kernel is executed: mbarriers, CTA barriers, the cluster barrier."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

from ptxaudit.analysis.order.trace import AsyncOperation
from ptxaudit.ir.values import Affine, Value

# In place of the generation of the cluster barrier that a lane has arrived in and not yet waited for.
NOT_ARRIVED = -1


@dataclass(slots=True)
class Mbarrier:
    """An mbarrier object (PTX ISA, mbarrier phase): ``phase`` counts completed phases.

    ``expected`` is ``None`` when the count is not known. ``transactions`` is the number of bytes still
    to come, to which ``unknown`` adds a multiple of each of some unknown quantities: the bytes of an
    expectation or a copy that is given in a register. ``unsized`` counts copies of this phase whose size the
    code does not tell.
    """

    expected: int | None
    pending: int = 0
    transactions: int = 0
    phase: int = 0
    arrivals: int = 0
    unsized: int = 0
    unknown: Counter[Hashable] = field(default_factory=Counter)
    copies: list[AsyncOperation] = field(default_factory=list)

    def arrive(self, count: int) -> None:
        """Count arrivals of the current phase."""
        self.pending -= count
        self.arrivals += count

    def is_complete(self, at_rest: bool) -> bool:
        """Whether the current phase has completed.

        ``at_rest`` tells that nothing else can go on: bytes whose number is not known then are those that
        are missing.
        """
        if self.expected is None:
            unsure = self.unsized > 0 or self.is_open
            return self.arrivals > 0 and (self.transactions <= 0 or unsure) and at_rest
        if self.pending > 0:
            return False
        return at_rest if self.unsized or self.is_open else self.transactions == 0

    @property
    def is_open(self) -> bool:
        """Whether it rests on quantities that are not known how many bytes are still to come."""
        return any(self.unknown.values())

    def transfer(self, amount: Value, times: int) -> None:
        """Expect ``times`` an amount of bytes, or with a negative number count them as arrived."""
        if isinstance(amount, int):
            self.transactions += amount * times
        elif isinstance(amount, Affine) and isinstance(amount.offset, int) and not amount.varying:
            self.transactions += amount.offset * times
            for atom, factor in amount.terms:
                self.unknown[atom.identity] += factor * times
        else:
            self.unknown[object()] += times  # differs by lane: nothing else is known to be equal to it

    def advance(self) -> None:
        """Begin the next phase."""
        self.phase += 1
        self.pending += self.expected or 0
        self.arrivals = 0
        self.transactions = 0 if self.unsized or self.is_open else self.transactions
        self.unsized = 0
        self.unknown = Counter()
        self.copies = []


@dataclass(slots=True)
class CtaBarrierState:
    """A named barrier: threads that have come in this generation, and how many it waits for."""

    generation: int = 0
    arrived: int = 0
    expected: int | None = None


@dataclass(slots=True)
class ClusterBarrierState:
    """The cluster barrier: threads that arrived in this generation; exited threads count as arrived."""

    generation: int = 0
    arrived: int = 0
