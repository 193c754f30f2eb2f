"""Warpgroup matrix operations (PTX ISA 9.7.15) and the tensor-memory family tcgen05 (PTX ISA 9.7.16).

Both read shared memory through matrix descriptors and the async proxy. Tensor memory is reached only by
tcgen05; its accesses carry the completion that orders them: ``tcgen05.commit`` for mma, cp and shift,
``tcgen05.wait`` for ld and st.
"""

from ptxaudit.arch import Architecture
from ptxaudit.ir.events import (
    Access,
    AccessKind,
    ArriveSource,
    Completion,
    MatrixOperand,
    MbarrierArrive,
    Scope,
    Semantics,
    StateSpace,
    TensorAction,
    TensorOperation,
    WgmmaFence,
    WgmmaIssue,
)
from ptxaudit.ir.operands import Immediate, Memory, Operand, Register, Vector, registers_in
from ptxaudit.isa.ptx.events_common import (
    Builder,
    Events,
    Lowering,
    first_memory,
    is_multicast,
    space_of,
)
from ptxaudit.isa.ptx.forms import InstructionForm
from ptxaudit.isa.shared_events import DEPTH_BYTES, WARPGROUP_ROWS, descriptor_read, tensor_access

_PAIR = "cta_group::2"


def _wgmma_fence(form: InstructionForm, architecture: Architecture) -> Lowering:
    return lambda operands: (WgmmaFence(),)


def _wgmma(form: InstructionForm, architecture: Architecture) -> Lowering:
    shape = next((m for m in form.modifiers if m.startswith("m64n")), "")
    columns = int(shape.removeprefix("m64n").partition("k")[0] or 8)
    transposable = form.modifiers[-1] in ("f16", "bf16")

    def lower(operands: tuple[Operand, ...]) -> Events:
        accumulators = registers_in(operands[0])
        a, b = operands[1], operands[2]
        # imm-trans-a and imm-trans-b come last, for 16-bit types only (PTX ISA 9.7.15.5.2).
        immediates = [operand.value for operand in operands[3:] if isinstance(operand, Immediate)]
        a_in_registers = isinstance(a, Vector)
        turned = [bool(value) for value in immediates[-1 if a_in_registers else -2 :]]
        a_turned, b_turned = (turned[0], turned[-1]) if transposable and turned else (False, False)
        b_matrix = MatrixOperand("b", columns, DEPTH_BYTES, b_turned)
        b_read = descriptor_read(b, Completion.WGMMA_GROUP, b_matrix)
        # A in registers is a vector of fragments, A in shared memory a descriptor (PTX ISA 9.7.15.5).
        if a_in_registers:
            return (WgmmaIssue(accumulators, registers_in(a), shape), b_read)
        a_matrix = MatrixOperand("a", WARPGROUP_ROWS, DEPTH_BYTES, a_turned)
        a_read = descriptor_read(a, Completion.WGMMA_GROUP, a_matrix)
        return (WgmmaIssue(accumulators, (), shape), a_read, b_read)

    return lower


def _allocate(form: InstructionForm, architecture: Architecture) -> Lowering:
    # The address is stored to shared memory as by a weak store of the thread (PTX ISA 9.7.16.7.1).
    pair = _PAIR in form.modifiers

    def lower(operands: tuple[Operand, ...]) -> Events:
        address, columns = operands
        return (
            TensorOperation(TensorAction.ALLOCATE, pair, address, columns),
            Access(AccessKind.WRITE, StateSpace.SHARED, address, 4, operation="tcgen05.alloc"),
        )

    return lower


def _deallocate(form: InstructionForm, architecture: Architecture) -> Lowering:
    pair = _PAIR in form.modifiers
    return lambda operands: (TensorOperation(TensorAction.DEALLOCATE, pair, operands[0], operands[1]),)


def _plain(action: TensorAction) -> Builder:
    def build(form: InstructionForm, architecture: Architecture) -> Lowering:
        events: Events = (TensorOperation(action, _PAIR in form.modifiers),)
        return lambda operands: events

    return build


def _load(form: InstructionForm, architecture: Architecture) -> Lowering:
    def lower(operands: tuple[Operand, ...]) -> Events:
        position = first_memory(operands)
        address = operands[position]
        registers: tuple[Register, ...] = ()
        for destination in operands[:position]:
            registers += registers_in(destination)
        return (
            TensorOperation(TensorAction.LOAD, False, address, registers=registers),
            tensor_access(AccessKind.READ, address, Completion.TCGEN05_WAIT),
        )

    return lower


def _store(form: InstructionForm, architecture: Architecture) -> Lowering:
    def lower(operands: tuple[Operand, ...]) -> Events:
        address = operands[first_memory(operands)]
        return (
            TensorOperation(TensorAction.STORE, False, address, registers=registers_in(operands[-1])),
            tensor_access(AccessKind.WRITE, address, Completion.TCGEN05_WAIT),
        )

    return lower


def _copy(form: InstructionForm, architecture: Architecture) -> Lowering:
    pair = _PAIR in form.modifiers

    def lower(operands: tuple[Operand, ...]) -> Events:
        address, descriptor = operands
        return (
            TensorOperation(TensorAction.COPY, pair, address),
            descriptor_read(descriptor, Completion.TCGEN05_COMMIT),
            tensor_access(AccessKind.WRITE, address, Completion.TCGEN05_COMMIT),
        )

    return lower


def _shift(form: InstructionForm, architecture: Architecture) -> Lowering:
    pair = _PAIR in form.modifiers
    return lambda operands: (
        TensorOperation(TensorAction.SHIFT, pair, operands[0]),
        tensor_access(AccessKind.UPDATE, operands[0], Completion.TCGEN05_COMMIT),
    )


def _mma(form: InstructionForm, architecture: Architecture) -> Lowering:
    """D is taken as read and written, since ``enable-input-d`` is known only at run time.

    Every bracketed operand but D is read from tensor memory: A, sparsity metadata, scale factors.
    """
    pair = _PAIR in form.modifiers
    commit = Completion.TCGEN05_COMMIT

    def lower(operands: tuple[Operand, ...]) -> Events:
        d, a, b = operands[:3]
        # The instruction descriptor is the first operand behind B that is no bracket (9.7.16.10.9).
        shape = next((operand for operand in operands[3:] if not isinstance(operand, Memory)), None)
        if isinstance(a, Memory):
            a_read = tensor_access(AccessKind.READ, a, commit)
        else:
            a_read = descriptor_read(a, commit, MatrixOperand("a", None, DEPTH_BYTES, None, shape, pair))
        others = [tensor_access(AccessKind.READ, o, commit) for o in operands[3:] if isinstance(o, Memory)]
        return (
            TensorOperation(TensorAction.MMA, pair, d),
            a_read,
            descriptor_read(b, commit, MatrixOperand("b", None, DEPTH_BYTES, None, shape, pair)),
            *others,
            tensor_access(AccessKind.UPDATE, d, commit),
        )

    return lower


def _commit(form: InstructionForm, architecture: Architecture) -> Lowering:
    # The arrive-on is performed at cluster scope when all prior operations are complete (9.7.16.10.1).
    # .shared::cluster is the window of the address and alone does not mean another CTA.
    pair = _PAIR in form.modifiers
    space = space_of(form.modifiers, StateSpace.CLUSTER)
    multicast = is_multicast(form.modifiers)

    def lower(operands: tuple[Operand, ...]) -> Events:
        arrive = MbarrierArrive(
            operands[0],
            space,
            Semantics.RELEASE,
            Scope.CLUSTER,
            source=ArriveSource.TCGEN05_COMMIT,
            multicast=multicast,
            cta_mask=operands[-1] if multicast else None,
        )
        return (TensorOperation(TensorAction.COMMIT, pair, operands[0]), arrive)

    return lower


BUILDERS: dict[str, Builder] = {
    "wgmma.fence": _wgmma_fence,
    "wgmma.mma_async": _wgmma,
    "tcgen05.alloc": _allocate,
    "tcgen05.dealloc": _deallocate,
    "tcgen05.relinquish_alloc_permit": _plain(TensorAction.RELINQUISH),
    "tcgen05.ld": _load,
    "tcgen05.st": _store,
    "tcgen05.wait::ld": _plain(TensorAction.WAIT_LOAD),
    "tcgen05.wait::st": _plain(TensorAction.WAIT_STORE),
    "tcgen05.fence::before_thread_sync": _plain(TensorAction.FENCE_BEFORE),
    "tcgen05.fence::after_thread_sync": _plain(TensorAction.FENCE_AFTER),
    "tcgen05.cp": _copy,
    "tcgen05.shift": _shift,
    "tcgen05.mma": _mma,
    "tcgen05.commit": _commit,
}
