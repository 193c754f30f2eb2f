"""The vocabulary that PTX and SASS lower to: what an instruction does to memory and to order.

Everything that knows the spelling of an instruction is below this line (``ptxaudit.isa``), everything
that knows rules is above it. An event's fields are ``None`` where the evidence cannot tell: SASS, for
one, shows the same instruction for a wait at ``.acquire.cta`` and for a ``.relaxed`` one.

An instruction may give several events. They are in program order, save that the accesses of an
asynchronous operation happen at any time after its issue until its completion.

Terms follow the PTX ISA: state spaces (5.1), memory consistency model (8), asynchronous operations and
their completion (9.7.9.25), mbarrier (9.7.13.15), wgmma (9.7.15) and tcgen05 (9.7.16).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from ptxaudit.ir.operands import Operand, Register


class StateSpace(StrEnum):
    """Where an access goes. ``GENERIC`` is an address whose window is not told by the instruction."""

    GLOBAL = "global"
    SHARED = "shared::cta"
    CLUSTER = "shared::cluster"
    LOCAL = "local"
    PARAM = "param"
    CONST = "const"
    GENERIC = "generic"
    TENSOR = "tmem"


class Semantics(StrEnum):
    """Memory-ordering semantics of an access, a fence or a barrier operation."""

    WEAK = "weak"
    VOLATILE = "volatile"
    MMIO = "mmio"
    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"
    SC = "sc"

    @property
    def acquires(self) -> bool:
        """Whether later accesses of the thread are ordered after it."""
        return self in (Semantics.ACQUIRE, Semantics.ACQ_REL, Semantics.SC)

    @property
    def releases(self) -> bool:
        """Whether earlier accesses of the thread are ordered before it."""
        return self in (Semantics.RELEASE, Semantics.ACQ_REL, Semantics.SC)


class Scope(IntEnum):
    """Which threads an operation's ordering holds for; wider scopes compare greater (PTX ISA 8.5)."""

    CTA = 1
    CLUSTER = 2
    GPU = 3
    SYS = 4

    def __str__(self) -> str:
        return f".{self.name.lower()}"


class Proxy(StrEnum):
    """The path of an access to memory; accesses by different proxies need a proxy fence (PTX ISA 8.6)."""

    GENERIC = "generic"
    ASYNC = "async"
    TENSORMAP = "tensormap"
    ALIAS = "alias"
    TEXTURE = "texture"
    CONSTANT = "constant"


class Completion(StrEnum):
    """How an operation's completion is observed (PTX ISA 9.7.9.25.1)."""

    SYNCHRONOUS = "synchronous"
    MBARRIER = "mbarrier"
    BULK_GROUP = "bulk group"
    ASYNC_GROUP = "cp.async group"
    WGMMA_GROUP = "wgmma group"
    TCGEN05_COMMIT = "tcgen05.commit"
    TCGEN05_WAIT = "tcgen05.wait"
    UNOBSERVABLE = "unobservable"


class AccessKind(StrEnum):
    """What an access does to its location."""

    READ = "read"
    WRITE = "write"
    UPDATE = "read-modify-write"


class Addressing(StrEnum):
    """How the address operand names memory."""

    POINTER = "pointer"
    MATRIX_DESCRIPTOR = "matrix descriptor"
    TENSOR_MAP = "tensor map"
    TENSOR_MEMORY = "tensor memory address"


@dataclass(frozen=True, slots=True)
class MatrixOperand:
    """The shape of a matrix in shared memory that a descriptor names.

    ``role`` is ``a`` or ``b``; ``rows`` is its extent in M or N, ``None`` where the instruction
    descriptor (``shape``, an operand of tcgen05.mma) tells it; ``depth_bytes`` the bytes of one row in K.
    ``mn_major`` tells that M or N is the contiguous dimension, ``None`` where ``shape`` tells it.
    """

    role: str
    rows: int | None
    depth_bytes: int
    mn_major: bool | None
    shape: Operand | None = None
    pair: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """A read or write of memory.

    ``size`` is in bytes for one thread, ``None`` when the instruction does not tell (descriptors,
    tensor maps); ``size_operand`` holds a byte count that is an operand. ``barrier`` is the mbarrier
    that a ``Completion.MBARRIER`` access completes on. ``cache`` is the cache operator or ``nc``.
    ``remote`` tells that the address may be in another CTA of the cluster. ``multicast`` tells that the
    write goes to every CTA of ``cta_mask``, which is ``None`` where the mask is not known.
    """

    kind: AccessKind
    space: StateSpace
    address: Operand
    size: int | None
    semantics: Semantics = Semantics.WEAK
    scope: Scope | None = None
    proxy: Proxy = Proxy.GENERIC
    completion: Completion = Completion.SYNCHRONOUS
    addressing: Addressing = Addressing.POINTER
    barrier: Operand | None = None
    size_operand: Operand | None = None
    cache: str | None = None
    multicast: bool = False
    cta_mask: Operand | None = None
    value: Operand | None = None
    operation: str | None = None
    matrix: MatrixOperand | None = None

    @property
    def reads(self) -> bool:
        """Whether the location is read."""
        return self.kind is not AccessKind.WRITE

    @property
    def writes(self) -> bool:
        """Whether the location is written."""
        return self.kind is not AccessKind.READ


@dataclass(frozen=True, slots=True)
class MbarrierInit:
    """``mbarrier.init``: a generic-proxy write of the barrier with an expected arrival count."""

    address: Operand
    count: Operand


@dataclass(frozen=True, slots=True)
class MbarrierInvalidate:
    """``mbarrier.inval``."""

    address: Operand


class ArriveSource(StrEnum):
    """Who performs an arrive-on operation."""

    THREAD = "thread"
    TCGEN05_COMMIT = "tcgen05.commit"
    CP_ASYNC = "cp.async.mbarrier.arrive"


@dataclass(frozen=True, slots=True)
class MbarrierArrive:
    """An arrive-on operation. ``count`` is ``None`` for one arrival.

    ``expect_bytes`` is the transaction count that ``.expect_tx`` adds before arriving. ``no_increment``
    is ``cp.async.mbarrier.arrive.noinc``. ``multicast`` tells that the barrier at the same offset in every
    CTA of ``cta_mask`` (``None`` where the mask is not known) is signalled.
    """

    address: Operand
    space: StateSpace
    semantics: Semantics | None
    scope: Scope | None
    count: Operand | None = None
    expect_bytes: Operand | None = None
    drop: bool = False
    source: ArriveSource = ArriveSource.THREAD
    multicast: bool = False
    cta_mask: Operand | None = None
    no_increment: bool = False
    state: Register | None = None


@dataclass(frozen=True, slots=True)
class MbarrierExpect:
    """``mbarrier.expect_tx``: adds to the transaction count without arriving."""

    address: Operand
    space: StateSpace
    bytes: Operand


@dataclass(frozen=True, slots=True)
class MbarrierCompleteTx:
    """Completion of transactions on an mbarrier: by ``mbarrier.complete_tx``, or by an async operation.

    ``scope`` is the scope of the release that the completion performs (cluster for all of them,
    PTX ISA 9.7.13.15.8). ``proxy`` is how the payload travels: a generic-proxy payload (``st.async``,
    ``red.async``) needs an acquire that reaches its writer, an async-proxy payload comes with an
    implicit proxy fence. ``bytes`` is ``None`` when a tensor map decides it. ``multicast`` and
    ``cta_mask`` are as for accesses. ``pair`` tells that a multicast signals, of each pair of CTAs
    that it reaches, the one with the parity of the CTA that the barrier is in (``.cta_group::2``,
    PTX ISA 9.7.9.25.5.2).
    """

    address: Operand
    space: StateSpace
    bytes: Operand | None
    scope: Scope
    proxy: Proxy
    multicast: bool = False
    cta_mask: Operand | None = None
    pair: bool = False


@dataclass(frozen=True, slots=True)
class MbarrierWait:
    """``mbarrier.test_wait`` or ``try_wait``; ``phase`` is a parity or a state operand.

    ``semantics`` is ``None`` when the evidence cannot tell acquire from relaxed (SASS). ``result`` is
    the predicate that is true when the phase has completed; ``blocking`` is true for ``try_wait``.
    """

    address: Operand
    phase: Operand
    by_parity: bool
    semantics: Semantics | None
    scope: Scope | None
    result: Operand | None
    blocking: bool


@dataclass(frozen=True, slots=True)
class Fence:
    """A memory or proxy fence.

    Plain fences have ``proxy`` ``None``. ``proxy`` with ``space`` is ``fence.proxy.async.shared::cta``
    and the like; a unidirectional proxy fence also has ``semantics`` and ``scope``.
    ``sync_restrict`` is the window of ``.sync_restrict::`` (the fence orders only accesses to it, with
    mbarriers as the synchronising objects). ``mbarrier_init`` is ``fence.mbarrier_init``, and
    ``address`` the operand of ``fence.proxy.tensormap``.
    """

    semantics: Semantics | None
    scope: Scope | None
    proxy: Proxy | None = None
    space: StateSpace | None = None
    sync_restrict: StateSpace | None = None
    mbarrier_init: bool = False
    address: Operand | None = None


class BarrierAction(StrEnum):
    """What a barrier instruction does."""

    SYNC = "sync"
    ARRIVE = "arrive"
    WAIT = "wait"
    REDUCE = "red"


@dataclass(frozen=True, slots=True)
class CtaBarrier:
    """``bar``/``barrier.cta``; ``barrier`` is the id, ``threads`` ``None`` for the whole CTA."""

    action: BarrierAction
    barrier: Operand
    threads: Operand | None
    aligned: bool


@dataclass(frozen=True, slots=True)
class WarpBarrier:
    """``bar.warp.sync``, and the convergence of ``.sync`` instructions that also order memory."""

    mask: Operand | None


@dataclass(frozen=True, slots=True)
class ClusterBarrier:
    """``barrier.cluster.arrive`` and ``.wait``."""

    action: BarrierAction
    semantics: Semantics | None
    aligned: bool


class GroupKind(StrEnum):
    """The kinds of commit groups. wgmma groups are per warpgroup (executed per warp), others per thread."""

    BULK = "cp.async.bulk"
    CP_ASYNC = "cp.async"
    WGMMA = "wgmma"


@dataclass(frozen=True, slots=True)
class GroupCommit:
    """``*.commit_group``: the uncommitted operations become the newest group."""

    kind: GroupKind


@dataclass(frozen=True, slots=True)
class GroupWait:
    """``*.wait_group``: at most ``depth`` of the newest groups remain pending; ``None`` waits for all
    prior operations (``cp.async.wait_all``). ``read_only`` is ``.read``: sources read, writes pending.
    """

    kind: GroupKind
    depth: int | None
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class WgmmaFence:
    """``wgmma.fence``: orders register accesses between wgmma and other operations."""


@dataclass(frozen=True, slots=True)
class WgmmaIssue:
    """``wgmma.mma_async``; the shared-memory operands are :class:`Access` events beside it."""

    accumulators: tuple[Register, ...]
    a_registers: tuple[Register, ...]
    shape: str


class TensorAction(StrEnum):
    """tcgen05 operations that are no plain memory access."""

    ALLOCATE = "alloc"
    DEALLOCATE = "dealloc"
    RELINQUISH = "relinquish_alloc_permit"
    MMA = "mma"
    COPY = "cp"
    SHIFT = "shift"
    LOAD = "ld"
    STORE = "st"
    COMMIT = "commit"
    WAIT_LOAD = "wait::ld"
    WAIT_STORE = "wait::st"
    FENCE_BEFORE = "fence::before_thread_sync"
    FENCE_AFTER = "fence::after_thread_sync"


@dataclass(frozen=True, slots=True)
class TensorOperation:
    """A tcgen05 operation. ``pair`` is ``cta_group::2``; TMEM accesses are :class:`Access` events beside
    it; ``columns`` and ``address`` as the instruction names them."""

    action: TensorAction
    pair: bool
    address: Operand | None = None
    columns: Operand | None = None
    registers: tuple[Register, ...] = ()


@dataclass(frozen=True, slots=True)
class L1Invalidate:
    """``CCTL.IVALL``, or a PTX operation that is certain to be assembled with one."""


@dataclass(frozen=True, slots=True)
class MemoryFlush:
    """``MEMBAR`` in SASS, or a PTX operation that is certain to be assembled with one: waits for the
    thread's outstanding stores to be visible at ``scope``. ``sc`` is ``MEMBAR.SC``."""

    scope: Scope
    sc: bool = False


@dataclass(frozen=True, slots=True)
class RegisterReconfigure:
    """``setmaxnreg``."""

    increase: bool
    registers: int


class GridAction(StrEnum):
    """Programmatic dependent launch."""

    WAIT = "wait"
    LAUNCH_DEPENDENTS = "launch_dependents"


@dataclass(frozen=True, slots=True)
class GridDependency:
    """``griddepcontrol``."""

    action: GridAction


@dataclass(frozen=True, slots=True)
class TensormapReplace:
    """``tensormap.replace`` and ``tensormap.cp_fenceproxy``: changes a tensor map in memory."""

    address: Operand
    space: StateSpace


@dataclass(frozen=True, slots=True)
class AddressMapping:
    """``mapa``: ``source`` as seen in CTA ``rank`` of the cluster."""

    result: Register
    source: Operand
    rank: Operand


@dataclass(frozen=True, slots=True)
class Election:
    """``elect.sync``: one lane of the mask gets ``predicate`` true."""

    predicate: Operand
    mask: Operand | None


class TransferKind(StrEnum):
    """Control transfers that matter to order."""

    EXIT = "exit"
    RETURN = "return"
    CALL = "call"
    TRAP = "trap"


@dataclass(frozen=True, slots=True)
class Transfer:
    """Leaves the function, the thread, or calls another function (``target`` ``None`` if indirect)."""

    kind: TransferKind
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Backoff:
    """``nanosleep`` and the suspend hint of a polling loop."""


@dataclass(frozen=True, slots=True)
class UnknownEffect:
    """An instruction the tables do not know; it may read, write and order anything."""

    opcode: str


Event = (
    Access
    | MbarrierInit
    | MbarrierInvalidate
    | MbarrierArrive
    | MbarrierExpect
    | MbarrierCompleteTx
    | MbarrierWait
    | Fence
    | CtaBarrier
    | WarpBarrier
    | ClusterBarrier
    | GroupCommit
    | GroupWait
    | WgmmaFence
    | WgmmaIssue
    | TensorOperation
    | L1Invalidate
    | MemoryFlush
    | RegisterReconfigure
    | GridDependency
    | TensormapReplace
    | AddressMapping
    | Election
    | Transfer
    | Backoff
    | UnknownEffect
)


def ends_thread(events: Iterable[Event]) -> bool:
    """Whether an instruction with these events ends the threads that execute it, or leaves the function."""
    ends = (TransferKind.EXIT, TransferKind.RETURN)
    return any(isinstance(event, Transfer) and event.kind in ends for event in events)
