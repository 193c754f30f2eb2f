"""Tiny programs for the oracle: a few threads in one or two CTAs of a cluster, each a list of instructions.

Each logical thread stands for one warp of which one lane acts (`render` writes it so).  There are no
branches: a thread waits (`AwaitFlag`, barriers, `MbarrierWait`, group waits) or goes on.  Every location is
16 bytes, and every asynchronous copy moves one location.

Section numbers are those of PTX ISA 9.0, to the section that holds the instruction named.
"""

from dataclasses import dataclass

from .events import Scope

BYTES = 16


class ProgramError(Exception):
    """The program is not one that the oracle gives a meaning to; the message says why."""


@dataclass(frozen=True, slots=True)
class Location:
    """A location of memory: in global memory (`cta` None) or in the shared memory of a CTA."""

    name: str
    cta: int | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """`ld` (9.7.9); semantics weak, relaxed or acquire."""

    location: str
    semantics: str = "weak"
    scope: Scope = Scope.CTA


@dataclass(frozen=True, slots=True)
class Store:
    """`st` (9.7.9); semantics weak, relaxed or release."""

    location: str
    semantics: str = "weak"
    scope: Scope = Scope.CTA
    value: int = 1


@dataclass(frozen=True, slots=True)
class Atomic:
    """`atom.add` (9.7.13); semantics relaxed, acquire, release or acq_rel."""

    location: str
    semantics: str = "relaxed"
    scope: Scope = Scope.GPU
    add: int = 1


@dataclass(frozen=True, slots=True)
class AwaitFlag:
    """A loop of `ld` that ends when the value is read; only the read that ends it is an event."""

    location: str
    value: int = 1
    semantics: str = "acquire"
    scope: Scope = Scope.GPU


@dataclass(frozen=True, slots=True)
class Fence:
    """`fence` (9.7.13): acq_rel, sc, acquire or release.

    `restrict` is ``shared::cta`` (release only) or ``shared::cluster`` (acquire only): the fence orders
    operations on objects in that window only, and synchronizes through objects in shared memory only.
    """

    semantics: str = "acq_rel"
    scope: Scope = Scope.GPU
    restrict: str | None = None


@dataclass(frozen=True, slots=True)
class MbarrierInitFence:
    """`fence.mbarrier_init.release.cluster` (9.7.13): a release fence for prior `mbarrier.init` only."""


@dataclass(frozen=True, slots=True)
class ProxyFence:
    """`fence.proxy.async` (9.7.13).

    `space` None, ``global``, ``shared::cta`` or ``shared::cluster`` limits it.  `release` is the
    uni-directional form (`.async::generic.release.sync_restrict::shared::cta.cluster`): it orders generic
    accesses to the own shared memory before asynchronous ones, not the other way round.
    """

    space: str | None = None
    release: bool = False


@dataclass(frozen=True, slots=True)
class BarrierSync:
    """`barrier.sync` of `count` logical threads (9.7.13); `aligned` changes the spelling only."""

    identifier: int
    count: int
    aligned: bool = True


@dataclass(frozen=True, slots=True)
class BarrierArrive:
    """`barrier.arrive` of `count` logical threads (9.7.13)."""

    identifier: int
    count: int
    aligned: bool = True


@dataclass(frozen=True, slots=True)
class ClusterArrive:
    """`barrier.cluster.arrive` (9.7.13); semantics release or relaxed."""

    semantics: str = "release"


@dataclass(frozen=True, slots=True)
class ClusterWait:
    """`barrier.cluster.wait.acquire` (9.7.13)."""


@dataclass(frozen=True, slots=True)
class MbarrierInit:
    """`mbarrier.init` (9.7.13.15): the expected arrival count of every phase."""

    mbarrier: str
    count: int


@dataclass(frozen=True, slots=True)
class MbarrierArrive:
    """`mbarrier.arrive` (9.7.13.15), with `expect_tx` bytes if not zero; release or relaxed."""

    mbarrier: str
    count: int = 1
    expect_tx: int = 0
    semantics: str = "release"
    scope: Scope = Scope.CTA


@dataclass(frozen=True, slots=True)
class MbarrierExpectTx:
    """`mbarrier.expect_tx` (9.7.13.15), relaxed."""

    mbarrier: str
    transactions: int = BYTES


@dataclass(frozen=True, slots=True)
class MbarrierWait:
    """A loop of `mbarrier.try_wait.parity` (9.7.13.15): acquire or relaxed."""

    mbarrier: str
    parity: int
    semantics: str = "acquire"
    scope: Scope = Scope.CTA


@dataclass(frozen=True, slots=True)
class BulkCopy:
    """`cp.async.bulk` (9.7.9.25): completes on an mbarrier, or joins the thread's bulk group (None)."""

    source: str
    target: str
    mbarrier: str | None = None


@dataclass(frozen=True, slots=True)
class BulkCommit:
    """`cp.async.bulk.commit_group` (9.7.9.25)."""


@dataclass(frozen=True, slots=True)
class BulkWait:
    """`cp.async.bulk.wait_group` (9.7.9.25), of the reads of the sources only if `read`."""

    pending: int = 0
    read: bool = False


@dataclass(frozen=True, slots=True)
class CpAsync:
    """`cp.async` of 16 bytes from global to shared memory (9.7.9.25)."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class CpAsyncCommit:
    """`cp.async.commit_group` (9.7.9.25)."""


@dataclass(frozen=True, slots=True)
class CpAsyncWait:
    """`cp.async.wait_group` (9.7.9.25)."""

    pending: int = 0


@dataclass(frozen=True, slots=True)
class CpAsyncMbarrierArrive:
    """`cp.async.mbarrier.arrive.noinc` (9.7.13.15): arrives when the thread's copies are done."""

    mbarrier: str


@dataclass(frozen=True, slots=True)
class StoreAsync:
    """`st.async` to shared memory of the cluster (9.7.9), completing on an mbarrier of that CTA."""

    target: str
    mbarrier: str


@dataclass(frozen=True, slots=True)
class Wgmma:
    """`wgmma.mma_async` reading shared memory through its descriptors (9.7.15)."""

    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WgmmaCommit:
    """`wgmma.commit_group` (9.7.15)."""


@dataclass(frozen=True, slots=True)
class WgmmaWait:
    """`wgmma.wait_group` (9.7.15)."""

    pending: int = 0


Instruction = (
    Load
    | Store
    | Atomic
    | AwaitFlag
    | Fence
    | MbarrierInitFence
    | ProxyFence
    | BarrierSync
    | BarrierArrive
    | ClusterArrive
    | ClusterWait
    | MbarrierInit
    | MbarrierArrive
    | MbarrierExpectTx
    | MbarrierWait
    | BulkCopy
    | BulkCommit
    | BulkWait
    | CpAsync
    | CpAsyncCommit
    | CpAsyncWait
    | CpAsyncMbarrierArrive
    | StoreAsync
    | Wgmma
    | WgmmaCommit
    | WgmmaWait
)
EventId = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Thread:
    """A logical thread: the CTA it runs in and its instructions."""

    cta: int
    instructions: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """A program: its threads, data locations, and mbarriers (in the shared memory of their CTA)."""

    threads: tuple[Thread, ...]
    locations: tuple[Location, ...] = ()
    mbarriers: tuple[Location, ...] = ()

    @property
    def ctas(self) -> int:
        """The number of CTAs, which form one cluster."""
        homes = [place.cta or 0 for place in (*self.locations, *self.mbarriers)]
        return 1 + max([thread.cta for thread in self.threads] + homes)


def validate(program: Program) -> None:
    """Check names and places; raises ProgramError."""
    homes = {place.name: place.cta for place in (*program.locations, *program.mbarriers)}
    objects = {place.name for place in program.mbarriers}
    initialised = {
        i.mbarrier for thread in program.threads for i in thread.instructions if isinstance(i, MbarrierInit)
    }
    for number, thread in enumerate(program.threads):
        open_arrivals = 0
        for position, instruction in enumerate(thread.instructions):
            where = f"thread {number}, instruction {position}"
            open_arrivals += isinstance(instruction, ClusterArrive) - isinstance(instruction, ClusterWait)
            if open_arrivals not in (0, 1):
                raise ProgramError(f"{where}: cluster arrivals and waits do not alternate")
            for name in names(instruction):
                if name not in homes:
                    raise ProgramError(f"{where}: undeclared name {name!r}")
            mbarrier = getattr(instruction, "mbarrier", None)
            if mbarrier is not None and mbarrier not in objects:
                raise ProgramError(f"{where}: {mbarrier!r} is no mbarrier")
            if mbarrier is not None and mbarrier not in initialised:
                raise ProgramError(f"{where}: {mbarrier!r} is never initialised")
            local = isinstance(instruction, MbarrierWait | MbarrierInit | CpAsyncMbarrierArrive)
            if local and mbarrier is not None and homes[mbarrier] != thread.cta:
                raise ProgramError(f"{where}: only the own CTA may do this to {mbarrier!r}")
            data = [homes[n] for n in names(instruction) if n not in objects]
            foreign = any(home is not None and home != thread.cta for home in data)
            if isinstance(instruction, Wgmma) and (foreign or None in data):
                raise ProgramError(f"{where}: wgmma reads the shared memory of its own CTA")
            if isinstance(instruction, BulkCopy | StoreAsync):
                target = homes[instruction.target]
                if instruction.mbarrier is not None and homes[instruction.mbarrier] != target:
                    raise ProgramError(f"{where}: the mbarrier is not beside the target")
                if (instruction.mbarrier is None) is not (target is None):
                    raise ProgramError(f"{where}: copies to shared memory complete on an mbarrier")
            if isinstance(instruction, BulkCopy) and homes[instruction.source] not in (None, thread.cta):
                raise ProgramError(f"{where}: a bulk copy reads global or own shared memory")
            if isinstance(instruction, CpAsync):
                ends = homes[instruction.source], homes[instruction.target]
                if ends != (None, thread.cta):
                    raise ProgramError(f"{where}: cp.async goes from global to own shared memory")
            if isinstance(instruction, Fence) and instruction.restrict is not None:
                kind = {"shared::cta": "release", "shared::cluster": "acquire"}.get(instruction.restrict)
                if instruction.semantics != kind or instruction.scope is not Scope.CLUSTER:
                    raise ProgramError(f"{where}: no such restricted fence")


def names(instruction: Instruction) -> list[str]:
    """The names of memory that an instruction refers to."""
    found = [getattr(instruction, f, None) for f in ("location", "source", "target", "mbarrier")]
    sources = instruction.sources if isinstance(instruction, Wgmma) else ()
    return [name for name in (*found, *sources) if name is not None]
