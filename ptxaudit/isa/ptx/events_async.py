"""Asynchronous stores and copies, their groups, tensor maps, cluster launch control (PTX ISA 9.7.9.25).

Proxies: the bulk and tensor copies, and the responses of ``clusterlaunchcontrol.try_cancel``, go through
the async proxy; ``cp.async``, ``st.async`` and ``red.async`` are not among its operations and stay in the
generic proxy (PTX ISA 9.7.9.25.2, async proxy).

Completion on an mbarrier is a complete-tx with release semantics at cluster scope, whatever the copy.
The accesses of a copy carry the completion that frees their memory: a ``bulk_group`` read is finished
after ``wait_group.read``, its write after ``wait_group``.
"""

from ptxaudit.arch import Architecture
from ptxaudit.ir.events import (
    Access,
    AccessKind,
    Addressing,
    ArriveSource,
    Completion,
    Fence,
    GroupCommit,
    GroupKind,
    GroupWait,
    L1Invalidate,
    MbarrierArrive,
    MbarrierCompleteTx,
    MemoryFlush,
    Proxy,
    Scope,
    Semantics,
    StateSpace,
    TensormapReplace,
)
from ptxaudit.ir.operands import Immediate, Operand, Vector
from ptxaudit.isa.ptx.events_common import (
    Builder,
    Events,
    Lowering,
    UnexpectedOperands,
    byte_count,
    integer,
    is_measured,
    is_multicast,
    memory_positions,
    reduction_of,
    release_cost,
    scope_of,
    semantics_of,
    size_of,
    space_of,
    spaces_of,
)
from ptxaudit.isa.ptx.forms import InstructionForm
from ptxaudit.isa.shared_events import work_request

_TENSORMAP_BYTES = 128


def _async_store(form: InstructionForm, architecture: Architecture) -> Lowering:
    """``st.async`` and ``red.async``: with an mbarrier to the cluster, without one to global memory."""
    modifiers = form.modifiers
    reduction = reduction_of(modifiers)
    kind = AccessKind.WRITE if reduction is None else AccessKind.UPDATE
    multimem = form.name.startswith("multimem")
    operation = form.name if multimem else reduction
    size = size_of(modifiers)
    # The store of st.async is weak; red.async is relaxed at cluster scope (PTX ISA 9.7.9 and 9.7.13).
    semantics = semantics_of(modifiers, Semantics.WEAK)
    scope = scope_of(modifiers)
    if any(m.startswith("mbarrier::complete_tx") for m in modifiers):
        return _async_store_to_cluster(kind, size, semantics, scope, operation)
    before = _async_release_cost(architecture, semantics, scope)

    def lower(operands: tuple[Operand, ...]) -> Events:
        access = Access(
            kind,
            StateSpace.GLOBAL,
            operands[0],
            size,
            semantics,
            scope,
            completion=Completion.UNOBSERVABLE,
            value=operands[1],
            operation=operation,
        )
        return (*before, access)

    return lower


def _async_store_to_cluster(
    kind: AccessKind, size: int | None, semantics: Semantics, scope: Scope | None, operation: str | None
) -> Lowering:
    bytes_stored = None if size is None else Immediate(size)

    def lower(operands: tuple[Operand, ...]) -> Events:
        address, value, barrier = operands
        access = Access(
            kind,
            StateSpace.CLUSTER,
            address,
            size,
            semantics,
            scope,
            completion=Completion.MBARRIER,
            barrier=barrier,
            value=value,
            operation=operation,
        )
        complete = MbarrierCompleteTx(barrier, StateSpace.CLUSTER, bytes_stored, Scope.CLUSTER, Proxy.GENERIC)
        return (access, complete)

    return lower


def _async_release_cost(architecture: Architecture, semantics: Semantics, scope: Scope | None) -> Events:
    # With tensor memory came a store that releases by itself: only a CTA-wide barrier precedes it.
    if architecture.has_tensor_memory and semantics.releases and is_measured(architecture):
        return (MemoryFlush(Scope.CTA),)
    return release_cost(architecture, semantics, scope)


def _copy_async(form: InstructionForm, architecture: Architecture) -> Lowering:
    cache = next((m for m in form.modifiers if m in ("ca", "cg")), None)

    def lower(operands: tuple[Operand, ...]) -> Events:
        destination, source, size = operands[:3]
        width = integer(size)
        # A shorter src-size reads less and fills up with zeros; a register may also be ignore-src.
        read = byte_count(operands[3]) if len(operands) > 3 else width
        group = Completion.ASYNC_GROUP
        return (
            Access(
                AccessKind.READ,
                StateSpace.GLOBAL,
                source,
                width if read is None else min(read, width),
                completion=group,
                cache=cache,
            ),
            Access(AccessKind.WRITE, StateSpace.SHARED, destination, width, completion=group),
        )

    return lower


def _copy_async_arrive(form: InstructionForm, architecture: Architecture) -> Lowering:
    space = space_of(form.modifiers, StateSpace.SHARED)
    no_increment = "noinc" in form.modifiers

    def lower(operands: tuple[Operand, ...]) -> Events:
        arrive = MbarrierArrive(
            operands[0],
            space,
            Semantics.RELEASE,
            Scope.CTA,
            source=ArriveSource.CP_ASYNC,
            no_increment=no_increment,
        )
        return (arrive,)

    return lower


def _bulk_copy(form: InstructionForm, architecture: Architecture) -> Lowering:
    """Bulk and tensor copies and reductions, in every direction.

    The operands in brackets are destination, source and, for completion on an mbarrier, the mbarrier;
    the size follows the source, and is absent for a tensor, whose map decides it.
    """
    modifiers = form.modifiers
    spaces = spaces_of(modifiers)
    if len(spaces) < 2:
        return _raise_unexpected
    destination_space, source_space = spaces[:2]
    tensor = form.name.endswith(".tensor")
    on_mbarrier = any(m.startswith("mbarrier::complete_tx") for m in modifiers)
    completion = Completion.MBARRIER if on_mbarrier else Completion.BULK_GROUP
    multicast = is_multicast(modifiers)
    pair = "cta_group::2" in modifiers
    multimem = form.name.startswith("multimem")
    reduction = reduction_of(modifiers) if ".reduce" in form.name else None
    kind = AccessKind.WRITE if reduction is None else AccessKind.UPDATE
    operation = form.name if multimem else reduction
    semantics = semantics_of(modifiers, Semantics.WEAK)
    scope = scope_of(modifiers)

    def addressing(space: StateSpace) -> Addressing:
        return Addressing.TENSOR_MAP if tensor and space is StateSpace.GLOBAL else Addressing.POINTER

    def lower(operands: tuple[Operand, ...]) -> Events:
        positions = memory_positions(operands)
        destination, source = operands[positions[0]], operands[positions[1]]
        barrier = operands[positions[2]] if on_mbarrier else None
        mask = _cta_mask(operands[positions[2] + 1 :]) if multicast else None
        size = None if tensor else operands[positions[1] + 1]
        width = None if size is None else byte_count(size)
        read = Access(
            AccessKind.READ,
            source_space,
            source,
            width,
            proxy=Proxy.ASYNC,
            completion=completion,
            addressing=addressing(source_space),
            barrier=barrier,
            size_operand=size,
        )
        write = Access(
            kind,
            destination_space,
            destination,
            width,
            semantics,
            scope,
            proxy=Proxy.ASYNC,
            completion=completion,
            addressing=addressing(destination_space),
            barrier=barrier,
            size_operand=size,
            multicast=multicast,
            cta_mask=mask,
            operation=operation,
        )
        if barrier is None:
            return (read, write)
        complete = MbarrierCompleteTx(
            barrier, destination_space, size, Scope.CLUSTER, Proxy.ASYNC, multicast, mask, pair
        )
        return (read, write, complete)

    return lower


def _cta_mask(behind_barrier: tuple[Operand, ...]) -> Operand | None:
    """The CTA mask of a multicast: the first operand behind the mbarrier that is no im2col vector."""
    return next((operand for operand in behind_barrier if not isinstance(operand, Vector)), None)


def _raise_unexpected(operands: tuple[Operand, ...]) -> Events:
    raise UnexpectedOperands


def _commit(kind: GroupKind) -> Builder:
    return lambda form, architecture: lambda operands: (GroupCommit(kind),)


def wait_builder(kind: GroupKind) -> Builder:
    """A builder for ``wait_group N`` of one kind of group."""

    def build(form: InstructionForm, architecture: Architecture) -> Lowering:
        read_only = "read" in form.modifiers
        # The full wait makes global writes of the async proxy visible to the loads of the thread.
        plain = kind is GroupKind.BULK and not form.modifiers
        after: Events = (L1Invalidate(),) if plain and is_measured(architecture) else ()
        return lambda operands: (GroupWait(kind, integer(operands[0]), read_only), *after)

    return build


def _wait_all(form: InstructionForm, architecture: Architecture) -> Lowering:
    return lambda operands: (GroupWait(GroupKind.CP_ASYNC, None),)


def _tensormap_replace(form: InstructionForm, architecture: Architecture) -> Lowering:
    """``tensormap.replace``: a weak generic-proxy write of the tensor map (PTX ISA 9.7.9.28).

    Which of its bytes hold a field is not documented, so all of a map in shared memory count.
    """
    space = space_of(form.modifiers)

    def lower(operands: tuple[Operand, ...]) -> Events:
        change = TensormapReplace(operands[0], space)
        if space is not StateSpace.SHARED:
            return (change,)
        return (Access(AccessKind.WRITE, space, operands[0], _TENSORMAP_BYTES), change)

    return lower


def _tensormap_copy(form: InstructionForm, architecture: Architecture) -> Lowering:
    """``tensormap.cp_fenceproxy``: a generic-proxy copy, then a release fence to the tensormap proxy."""
    scope = scope_of(form.modifiers)

    def lower(operands: tuple[Operand, ...]) -> Events:
        destination, source = operands[:2]
        width = byte_count(operands[2])
        return (
            Access(AccessKind.READ, StateSpace.SHARED, source, width),
            Access(AccessKind.WRITE, StateSpace.GLOBAL, destination, width),
            TensormapReplace(destination, StateSpace.GLOBAL),
            Fence(Semantics.RELEASE, scope, proxy=Proxy.TENSORMAP, address=destination),
        )

    return lower


def _try_cancel(form: InstructionForm, architecture: Architecture) -> Lowering:
    multicast = any(m.startswith("multicast::cluster") for m in form.modifiers)

    def lower(operands: tuple[Operand, ...]) -> Events:
        address, barrier = operands
        return work_request(address, barrier, multicast)

    return lower


BUILDERS: dict[str, Builder] = {
    "st.async": _async_store,
    "red.async": _async_store,
    "multimem.st.async": _async_store,
    "multimem.red.async": _async_store,
    "cp.async": _copy_async,
    "cp.async.commit_group": _commit(GroupKind.CP_ASYNC),
    "cp.async.wait_group": wait_builder(GroupKind.CP_ASYNC),
    "cp.async.wait_all": _wait_all,
    "cp.async.mbarrier.arrive": _copy_async_arrive,
    "cp.async.bulk": _bulk_copy,
    "cp.async.bulk.tensor": _bulk_copy,
    "cp.reduce.async.bulk": _bulk_copy,
    "cp.reduce.async.bulk.tensor": _bulk_copy,
    "multimem.cp.async.bulk": _bulk_copy,
    "multimem.cp.reduce.async.bulk": _bulk_copy,
    "cp.async.bulk.commit_group": _commit(GroupKind.BULK),
    "cp.async.bulk.wait_group": wait_builder(GroupKind.BULK),
    "wgmma.commit_group": _commit(GroupKind.WGMMA),
    "wgmma.wait_group": wait_builder(GroupKind.WGMMA),
    "tensormap.replace": _tensormap_replace,
    "tensormap.cp_fenceproxy": _tensormap_copy,
    "clusterlaunchcontrol.try_cancel": _try_cancel,
}
