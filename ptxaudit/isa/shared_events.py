"""Events that both languages lower their matrix and work-request instructions to."""

from ptxaudit.ir.events import (
    Access,
    AccessKind,
    Addressing,
    Completion,
    MatrixOperand,
    MbarrierCompleteTx,
    Proxy,
    Scope,
    StateSpace,
)
from ptxaudit.ir.operands import Immediate, Operand

DEPTH_BYTES = 32
"""Bytes of K that every kind of wgmma and tcgen05.mma takes of a dense operand (PTX ISA 9.7.15.2,
9.7.16.2.1)."""

WARPGROUP_ROWS = 64
"""Rows of A of one wgmma (PTX ISA 9.7.15.1)."""

_CANCEL_RESPONSE_BYTES = 16


def descriptor_read(place: Operand, completion: Completion, matrix: MatrixOperand | None = None) -> Access:
    """The asynchronous read of a matrix in shared memory behind a descriptor."""
    return Access(
        AccessKind.READ,
        StateSpace.SHARED,
        place,
        None,
        proxy=Proxy.ASYNC,
        completion=completion,
        addressing=Addressing.MATRIX_DESCRIPTOR,
        matrix=matrix,
    )


def tensor_access(kind: AccessKind, place: Operand, completion: Completion) -> Access:
    """An access to tensor memory; what a commit tells the completion of goes through the async proxy."""
    return Access(
        kind,
        StateSpace.TENSOR,
        place,
        None,
        proxy=Proxy.ASYNC if completion is Completion.TCGEN05_COMMIT else Proxy.GENERIC,
        completion=completion,
        addressing=Addressing.TENSOR_MEMORY,
    )


def work_request(response: Operand, barrier: Operand, multicast: bool) -> tuple[Access, MbarrierCompleteTx]:
    """``clusterlaunchcontrol.try_cancel``: its response is written asynchronously and told by an mbarrier."""
    write = Access(
        AccessKind.WRITE,
        StateSpace.SHARED,
        response,
        _CANCEL_RESPONSE_BYTES,
        proxy=Proxy.ASYNC,
        completion=Completion.MBARRIER,
        barrier=barrier,
        multicast=multicast,
        operation="try_cancel",
    )
    size = Immediate(_CANCEL_RESPONSE_BYTES)
    complete = MbarrierCompleteTx(barrier, StateSpace.SHARED, size, Scope.CLUSTER, Proxy.ASYNC, multicast)
    return write, complete
