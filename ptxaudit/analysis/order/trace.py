"""What happened in one execution of the machine: steps in an order in which they could have happened."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ptxaudit.analysis.order.decisions import Decision
from ptxaudit.ir.events import Event
from ptxaudit.ir.instruction import Instruction

# A barrier object: ("mbarrier", cta, offset), ("bar", cta, id), ("cluster", 0, 0) or ("wgmma", cta, warp).
BarrierKey = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Footprint:
    """The bytes an access touches in one memory: ``starts[i]`` to ``starts[i] + size``, one per lane.

    ``memory`` is ``("shared", cta)`` or ``("tmem", cta)``; for tensor memory an address is
    ``lane << 16 | column`` and the size counts columns over all lanes of ``lane_count``. ``lanes`` are
    the lanes of the warp that the entries belong to (empty for accesses not made lane by lane).
    ``certain`` tells that the bytes are touched for sure; otherwise they are an upper bound.
    """

    memory: tuple[str, int]
    starts: "NDArray[np.int64]"
    size: int
    lanes: "NDArray[np.int64] | None" = None
    certain: bool = True

    @property
    def low(self) -> int:
        """The first byte."""
        return int(self.starts[0] if len(self.starts) == 1 else self.starts.min())

    @property
    def high(self) -> int:
        """The byte behind the last one."""
        return int(self.starts[0] if len(self.starts) == 1 else self.starts.max()) + self.size


@dataclass(slots=True)
class AsyncOperation:
    """An operation that goes on after its issue: a copy, a wgmma, a tcgen05.mma.

    ``warp`` issued it. ``key`` and ``phase`` are the mbarrier phase it completes on, once that is known;
    ``generic_proxy`` tells that its payload travels through the generic proxy (``st.async``).
    ``tensor_map`` names the tensor map that decides its size, and the form of the copy.
    """

    number: int
    kind: str
    warp: int
    key: BarrierKey | None = None
    phase: int | None = None
    bytes: int | None = None
    generic_proxy: bool = False
    tensor_map: str | None = None


@dataclass(slots=True)
class Step:
    """One event as one warp executed it, with what its operands were then.

    ``lanes`` is the mask of the lanes that executed it, ``visit`` counts how often the warp had executed
    the instruction before. ``may`` tells that it ran under a condition that varies by lane in a way that
    the analysis does not know. ``key``, ``phase`` and ``count`` belong to barrier operations: an arrive
    counted for ``phase``, a successful wait observed it; ``threads`` is the count a CTA barrier names, and
    ``bytes`` what the phase is told to expect, where that is known.
    ``pointers`` are, for an access to global memory, the unknown quantities that its address adds unscaled:
    one of them is the pointer. It is empty where none is left, and ``None`` for all other steps.
    """

    number: int
    warp: int
    lanes: int
    instruction: Instruction
    visit: int
    event: Event
    may: bool = False
    block: int = 0
    key: BarrierKey | None = None
    phase: int = 0
    count: int = 0
    threads: int | None = None
    bytes: int | None = None
    footprint: Footprint | None = None
    operation: AsyncOperation | None = None
    unresolved: str | None = None
    pointers: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class PhaseComplete:
    """An mbarrier or barrier phase completed; follows the step that completed it."""

    key: BarrierKey
    phase: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """An asynchronous operation completed on an mbarrier phase."""

    operation: AsyncOperation
    key: BarrierKey
    phase: int


@dataclass(frozen=True, slots=True)
class Convergence:
    """Lanes of a warp that had parted at a branch go on together."""

    warp: int
    lanes: int


@dataclass(frozen=True, slots=True)
class Consumption:
    """A warp used registers that tensor-memory loads (instruction indices) had filled: those are done."""

    warp: int
    lanes: int
    loads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WarpIdentity:
    """Which warp of which CTA of the cluster, and how many threads it has."""

    cta: int
    warp: int
    threads: int


@dataclass(slots=True)
class Stuck:
    """A fragment of a warp that could not go on, where, and for which barrier phase."""

    warp: int
    lanes: int
    instruction: Instruction
    key: BarrierKey | None
    phase: int


@dataclass(slots=True)
class Execution:
    """One execution: its steps, the decisions it rests on, and how it ended.

    ``lanes_in_order`` tells that lanes which execute together need no warp barrier between them. ``polls``
    are the instructions that read flags in polling loops. ``taken_to_fit`` are the mbarrier phases whose
    bytes were taken to be those expected, for want of the numbers. ``bounded`` are the loops, by their
    header blocks, that their bounds told to leave. ``invented`` tells that the contents of global
    memory were made up.
    """

    warps: tuple[WarpIdentity, ...]
    entries: list[Step | PhaseComplete | Delivery | Convergence | Consumption] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    stuck: list[Stuck] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    barrier_counts: dict[BarrierKey, int | None] = field(default_factory=dict)
    loop_visits: dict[tuple[int, int], int] = field(default_factory=dict)
    operations: int = 0
    bounded: set[int] = field(default_factory=set)
    taken_to_fit: list[PhaseComplete] = field(default_factory=list)
    lanes_in_order: bool = False
    invented: bool = False
    polls: frozenset[int] = frozenset()

    @property
    def possible(self) -> bool:
        """Whether some launch certainly takes these decisions."""
        return all(decision.possible for decision in self.decisions)

    @property
    def complete(self) -> bool:
        """Whether every warp ran to its end."""
        return not self.stuck and not self.limits
