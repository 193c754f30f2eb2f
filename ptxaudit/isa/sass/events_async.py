"""Events of asynchronous stores, bulk and tensor copies, and cluster launch control.

Operands are packed in consecutive uniform registers: ``UTMALDG.2D [UR8], [UR4]`` takes the destination
from UR8, the mbarrier from UR9 and the coordinates from UR10 on; ``UBLKCP.S.G [UR4], [UR8], UR6`` the
mbarrier from UR5. Sizes of bulk copies are encoded (in units of 16 bytes, with the CTA mask above them),
so no byte count is given.
"""

from collections.abc import Sequence

from ptxaudit.ir.events import (
    Access,
    AccessKind,
    Addressing,
    Completion,
    Event,
    MbarrierCompleteTx,
    Proxy,
    Scope,
    Semantics,
    StateSpace,
)
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Immediate, Memory
from ptxaudit.isa.sass.events_common import (
    Events,
    Lowering,
    Surroundings,
    UnexpectedOperands,
    address,
    after_address,
    memories,
    next_register,
    pointer,
    semantics_of,
    size_of,
)
from ptxaudit.isa.shared_events import work_request

_OPERATIONS = frozenset({"ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR"})
_MULTICAST = frozenset({"MULTICAST", "BROADCAST"})


def _operation(parts: Sequence[str]) -> str | None:
    return next((part.lower() for part in parts if part in _OPERATIONS), None)


def _cluster_store(kind: AccessKind, semantics: Semantics, scope: Scope | None) -> Lowering:
    """``STAS``/``REDAS [Rn.64], value``: address in Rn, mbarrier in the next register."""

    def lower(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
        place = address(instruction)
        barrier = pointer(next_register(place))
        values = after_address(instruction)
        size = size_of(parts)
        access = Access(
            kind,
            StateSpace.CLUSTER,
            place,
            size,
            semantics,
            scope,
            completion=Completion.MBARRIER,
            barrier=barrier,
            value=values[0] if values else None,
            operation=_operation(parts),
        )
        size_operand = Immediate(size)
        complete = MbarrierCompleteTx(barrier, StateSpace.CLUSTER, size_operand, Scope.CLUSTER, Proxy.GENERIC)
        return (access, complete)

    return lower


def _global_store(kind: AccessKind) -> Lowering:
    """``USTGR``/``UREDGR``: ``st.async`` and ``red.async`` to global memory, never observed to complete."""

    def lower(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
        semantics, scope = semantics_of(parts)
        values = after_address(instruction)
        access = Access(
            kind,
            StateSpace.GLOBAL,
            address(instruction),
            size_of(parts),
            semantics,
            scope,
            completion=Completion.UNOBSERVABLE,
            value=values[0] if values else None,
            operation=_operation(parts),
        )
        return (access,)

    return lower


def _tensor_load(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    destination, tensor_map = address(instruction), address(instruction, 1)
    barrier = pointer(next_register(destination))
    read = Access(
        AccessKind.READ,
        StateSpace.GLOBAL,
        tensor_map,
        None,
        proxy=Proxy.ASYNC,
        completion=Completion.MBARRIER,
        addressing=Addressing.TENSOR_MAP,
        barrier=barrier,
    )
    return (read, *_into_shared(AccessKind.WRITE, destination, parts, instruction))


def _into_shared(
    kind: AccessKind, destination: Memory, parts: Sequence[str], instruction: Instruction
) -> Events:
    """The write of a copy into the cluster's shared memory, and its completion on the mbarrier.

    The third operand of a multicast holds the CTA mask.
    """
    multicast = not _MULTICAST.isdisjoint(parts)
    mask = instruction.operands[2] if multicast and len(instruction.operands) > 2 else None
    barrier = pointer(next_register(destination))
    write = Access(
        kind,
        StateSpace.CLUSTER,
        destination,
        None,
        proxy=Proxy.ASYNC,
        completion=Completion.MBARRIER,
        barrier=barrier,
        multicast=multicast,
        cta_mask=mask,
        operation=_operation(parts) if kind is AccessKind.UPDATE else None,
    )
    complete = MbarrierCompleteTx(
        barrier, StateSpace.CLUSTER, None, Scope.CLUSTER, Proxy.ASYNC, multicast, mask, "2CTA" in parts
    )
    return (write, complete)


def _tensor_store(kind: AccessKind) -> Lowering:
    """``UTMASTG``/``UTMAREDG [source], [tensor map]``."""

    def lower(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
        source, tensor_map = address(instruction), address(instruction, 1)
        return (
            _bulk_access(AccessKind.READ, StateSpace.SHARED, source, Addressing.POINTER),
            _bulk_access(kind, StateSpace.GLOBAL, tensor_map, Addressing.TENSOR_MAP, _operation(parts)),
        )

    return lower


def _bulk_access(
    kind: AccessKind,
    space: StateSpace,
    place: Memory,
    addressing: Addressing = Addressing.POINTER,
    operation: str | None = None,
) -> Access:
    return Access(
        kind,
        space,
        place,
        None,
        proxy=Proxy.ASYNC,
        completion=Completion.BULK_GROUP,
        addressing=addressing,
        operation=operation if kind is AccessKind.UPDATE else None,
    )


def _bulk_copy(kind: AccessKind) -> Lowering:
    """``UBLKCP``/``UBLKRED.<destination>.<source>``; S is shared, G global memory."""

    def lower(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
        if len(parts) < 3 or len(memories(instruction)) != 2:
            raise UnexpectedOperands
        destination, source = memories(instruction)
        if parts[1] == "G" and parts[2] == "S":
            return (
                _bulk_access(AccessKind.READ, StateSpace.SHARED, source),
                _bulk_access(kind, StateSpace.GLOBAL, destination, operation=_operation(parts)),
            )
        if parts[1] != "S" or parts[2] not in ("S", "G"):
            raise UnexpectedOperands
        read: Event = Access(
            AccessKind.READ,
            StateSpace.SHARED if parts[2] == "S" else StateSpace.GLOBAL,
            source,
            None,
            proxy=Proxy.ASYNC,
            completion=Completion.MBARRIER,
            barrier=pointer(next_register(destination)),
        )
        return (read, *_into_shared(kind, destination, parts, instruction))

    return lower


def _shared_fill(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    """``UMEMSETS``: ``st.bulk``, which fills shared memory."""
    return (Access(AccessKind.WRITE, StateSpace.SHARED, address(instruction), None, operation="st.bulk"),)


def _try_cancel(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    """``UGETNEXTWORKID [response], [mbarrier]``."""
    return work_request(address(instruction), address(instruction, 1), not _MULTICAST.isdisjoint(parts))


LOWERINGS: dict[str, Lowering] = {
    "STAS": _cluster_store(AccessKind.WRITE, Semantics.WEAK, None),
    "REDAS": _cluster_store(AccessKind.UPDATE, Semantics.RELAXED, Scope.CLUSTER),
    "USTGR": _global_store(AccessKind.WRITE),
    "UREDGR": _global_store(AccessKind.UPDATE),
    "UTMALDG": _tensor_load,
    "UTMASTG": _tensor_store(AccessKind.WRITE),
    "UTMAREDG": _tensor_store(AccessKind.UPDATE),
    "UBLKCP": _bulk_copy(AccessKind.WRITE),
    "UBLKRED": _bulk_copy(AccessKind.UPDATE),
    "UMEMSETS": _shared_fill,
    "UGETNEXTWORKID": _try_cancel,
}
