"""The state of barrier objects while a kernel is executed: mbarriers, CTA barriers, the cluster barrier."""

from dataclasses import dataclass, field

from ptxaudit.analysis.order.trace import AsyncOperation

# In place of the generation of the cluster barrier that a lane has arrived in and not yet waited for.
NOT_ARRIVED = -1


@dataclass(slots=True)
class Mbarrier:
    """An mbarrier object (PTX ISA, mbarrier phase): ``phase`` counts completed phases.

    ``expected`` is ``None`` when the count is not known. ``transactions`` is the number of bytes still
    to come; ``unsized`` counts copies of this phase whose size the code does not tell.
    """

    expected: int | None
    pending: int = 0
    transactions: int = 0
    phase: int = 0
    arrivals: int = 0
    unsized: int = 0
    unknown_bytes: bool = False
    copies: list[AsyncOperation] = field(default_factory=list)

    def arrive(self, count: int) -> None:
        """Count arrivals of the current phase."""
        self.pending -= count
        self.arrivals += count

    def is_complete(self, at_rest: bool) -> bool:
        """Whether the current phase has completed.

        ``at_rest`` tells that nothing else can go on: bytes of unsized copies then count as arrived.
        """
        if self.expected is None:
            return self.arrivals > 0 and (self.transactions <= 0 or self.unsized > 0) and at_rest
        if self.pending > 0:
            return False
        if self.unsized or self.unknown_bytes:
            return at_rest and (self.unsized > 0 or self.transactions == 0)
        return self.transactions == 0

    def advance(self) -> None:
        """Begin the next phase."""
        self.phase += 1
        self.pending += self.expected or 0
        self.arrivals = 0
        self.transactions = 0 if self.unsized or self.unknown_bytes else self.transactions
        self.unsized = 0
        self.unknown_bytes = False
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
