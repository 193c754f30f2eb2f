"""Which bytes of shared memory, and which tensor-memory columns, an access touches.

Property: ``Footprint.size`` bytes from each start hold every byte the access may touch; ``certain``
tells that they are all within a buffer that the access is sure to touch from its start on. A matrix
descriptor gives the extent of the operand by its strides (PTX ISA, matrix descriptor and canonical
layouts); a tensor copy's size is what its mbarrier phase expects, shared among the phase's copies.
"""

from typing import TYPE_CHECKING

import numpy as np

from ptxaudit.analysis.order.address import OFFSET_MASK, RANK_SHIFT, is_shared_generic
from ptxaudit.analysis.order.barriers import Mbarrier
from ptxaudit.analysis.order.fragment import Fragment
from ptxaudit.analysis.order.trace import Footprint, Step
from ptxaudit.ir import events as ev
from ptxaudit.ir.values import Affine, Flags, Value, as_lanes
from ptxaudit.isa.evaluation import SHARED_WINDOW
from ptxaudit.isa.sass.encodings import freed_columns

if TYPE_CHECKING:
    from ptxaudit.analysis.order.machine import Machine

# A copy moves at least 16 bytes (PTX ISA 9.7.9.25.4).
LEAST_COPY = 16
_TENSOR_COLUMNS = 512


def attach(
    machine: "Machine",
    fragment: Fragment,
    step: Step,
    event: ev.Access,
    value: Value,
    active: Flags,
) -> None:
    """Give a step its footprint, or say why it has none."""
    if event.space in (ev.StateSpace.LOCAL, ev.StateSpace.PARAM, ev.StateSpace.CONST):
        return
    cta = machine.execution.warps[fragment.warp].cta
    if event.space is ev.StateSpace.TENSOR:
        _attach_tensor(machine, fragment, step, event, value, cta)
        return
    if event.addressing is ev.Addressing.MATRIX_DESCRIPTOR:
        step.footprint = _matrix(machine, fragment, event, value, cta)
        if step.footprint is None:
            step.unresolved = "the matrix descriptor"
        return
    if event.addressing is not ev.Addressing.POINTER:
        return
    if isinstance(value, Affine):
        far = int(np.min(value.offset)) >= SHARED_WINDOW // 2
        if event.space is ev.StateSpace.GLOBAL or (event.space is ev.StateSpace.GENERIC and not far):
            step.pointers = frozenset(atom.identity for atom, factor in value.terms if factor == 1)
            step.footprint = _symbolic(value, _size(machine, fragment, event), active)
        else:
            step.unresolved = "the address in shared memory"
        return
    outside = event.space is ev.StateSpace.GENERIC and not is_shared_generic(int(as_lanes(value)[0]))
    if outside or event.space is ev.StateSpace.GLOBAL:
        step.pointers = frozenset()
        return
    size = _size(machine, fragment, event)
    if isinstance(value, int):
        rank, offset = value >> RANK_SHIFT & 0xFF, value & OFFSET_MASK
        starts = np.array([offset], dtype=np.int64)
        lanes = None
    else:
        places = as_lanes(value)[active]
        rank = int(places[0]) >> RANK_SHIFT & 0xFF
        starts = (places & np.uint64(OFFSET_MASK)).astype(np.int64)
        lanes = np.flatnonzero(active).astype(np.int64)
    step.footprint = Footprint(("shared", rank), starts, size or LEAST_COPY, lanes, size is not None)


def _symbolic(value: Affine, size: int | None, active: Flags) -> Footprint | None:
    """Global memory behind an unknown pointer: only offsets from that same pointer can be compared."""
    if size is None or any(atom.varying for atom, _ in value.terms):
        return None
    base = "+".join(f"{factor}*{atom.identity}" for atom, factor in value.terms)
    memory = (f"global {base}", 0)
    if isinstance(value.offset, int):
        return Footprint(memory, np.array([value.offset], dtype=np.int64), size)
    return Footprint(memory, value.offset[active], size, np.flatnonzero(active).astype(np.int64))


def _size(machine: "Machine", fragment: Fragment, event: ev.Access) -> int | None:
    if event.size is not None:
        return event.size
    if event.size_operand is None:
        return None
    size = machine.value(fragment, event.size_operand)
    return size if isinstance(size, int) else None


def _matrix(
    machine: "Machine", fragment: Fragment, event: ev.Access, value: Value, cta: int
) -> Footprint | None:
    """The extent of a wgmma or tcgen05 shared-memory operand.

    A descriptor holds, in units of 16 bytes, the start address in bits 0-13, the leading byte offset in
    bits 16-29 and the stride byte offset in bits 32-45, and the swizzling mode in bits 61-63 (PTX ISA
    9.7.15.5.1.2, 9.7.16.4.1; wgmma uses the upper two bits of the mode).
    """
    if not isinstance(value, int):
        return None
    start = (value & 0x3FFF) << 4
    extent = LEAST_COPY
    matrix = None if event.matrix is None else _resolve(machine, fragment, event.matrix)
    if matrix is not None:
        leading, stride = (value >> 16 & 0x3FFF) << 4, (value >> 32 & 0x3FFF) << 4
        extent = _extent(matrix, start, leading, stride, _SWIZZLE_BYTES.get(value >> 61 & 7, 0))
    return Footprint(("shared", cta), np.array([start], dtype=np.int64), extent, None, True)


_SWIZZLE_BYTES = {1: 128, 2: 128, 4: 64, 6: 32}


def _resolve(machine: "Machine", fragment: Fragment, matrix: ev.MatrixOperand) -> ev.MatrixOperand | None:
    """The operand with what the instruction descriptor tells (PTX ISA 9.7.16.4.2); ``None`` if unknown.

    Bits 17-22 are N/8 and 24-28 M/16; bits 15 and 16 turn A and B. A CTA pair halves both operands.
    """
    if matrix.rows is not None:
        return matrix
    shape = machine.value(fragment, matrix.shape) if matrix.shape is not None else None
    if not isinstance(shape, int):
        return None
    in_a = matrix.role == "a"
    rows = (shape >> 24 & 0x1F) << 4 if in_a else (shape >> 17 & 0x3F) << 3
    rows = rows // 2 if matrix.pair else rows
    turned = bool(shape >> (15 if in_a else 16) & 1)
    return ev.MatrixOperand(matrix.role, rows, matrix.depth_bytes, turned)


def _extent(matrix: ev.MatrixOperand, start: int, leading: int, stride: int, swizzle: int) -> int:
    """Bytes from the start to the end of the operand, by its canonical layout (PTX ISA 9.7.15.5.1).

    K-major: groups of eight rows, ``stride`` apart; without swizzling the two 16-byte halves of K are
    ``leading`` apart. MN-major: 16 rows of K in two groups of eight, ``stride`` apart, of swizzled lines,
    of which one follows the other ``leading`` apart.
    """
    assert matrix.rows is not None
    if matrix.mn_major:
        line = swizzle or 16
        # Only 16-bit types can be MN-major in wgmma; K is then 16 deep and a row of M or N two bytes each.
        repeats = max(2 * matrix.rows // line, 1)
        if swizzle:
            return (repeats - 1) * leading + stride + 8 * line
        return max((repeats - 1) * stride + leading, (repeats - 1) * leading + stride) + 128
    groups = max(matrix.rows // 8, 1)
    if swizzle:
        into_row = start % swizzle
        return (groups - 1) * stride + 8 * swizzle - into_row
    return (groups - 1) * stride + leading + 128


def _attach_tensor(
    machine: "Machine",
    fragment: Fragment,
    step: Step,
    event: ev.Access,
    value: Value,
    cta: int,
) -> None:
    if not isinstance(value, int):
        step.unresolved = "the tensor memory address"
        return
    # ld and st reach the 32 lanes of the warp's quarter (PTX ISA 9.7.16.8.1), the others all lanes.
    own_lanes = event.completion is ev.Completion.TCGEN05_WAIT
    quarter = np.array([machine.execution.warps[fragment.warp].warp % 4], dtype=np.int64)
    starts = np.array([value & 0xFFFF], dtype=np.int64)
    columns = event.size or 1
    step.footprint = Footprint(("tmem", cta), starts, columns, quarter if own_lanes else None, True)


def attach_allocation(step: Step, event: ev.TensorOperation, cta: int, base: int, columns: int) -> None:
    """The columns that a CTA pair allocates: the other CTA of the pair must not free them before."""
    if event.pair:
        starts = np.array([base], dtype=np.int64)
        step.footprint = Footprint(("tmem", cta), starts, columns, None, True)


def attach_deallocation(
    machine: "Machine", fragment: Fragment, step: Step, event: ev.TensorOperation
) -> None:
    """A deallocation touches all of its columns."""
    if machine.in_sass:
        _attach_freed_units(machine, fragment, step, event)
        return
    address = machine.value(fragment, event.address) if event.address is not None else None
    columns = machine.value(fragment, event.columns) if event.columns is not None else None
    if not isinstance(address, int):
        step.unresolved = "the tensor memory address"
        return
    cta = machine.execution.warps[fragment.warp].cta
    size = columns if isinstance(columns, int) else 32
    step.footprint = Footprint(("tmem", cta), np.array([address & 0xFFFF], dtype=np.int64), size, None, True)


def _attach_freed_units(
    machine: "Machine", fragment: Fragment, step: Step, event: ev.TensorOperation
) -> None:
    """The columns that a SASS deallocation's mask tells, else all that were allocated."""
    cta = machine.execution.warps[fragment.warp].cta
    freed = None if event.columns is None else freed_columns(machine.value(fragment, event.columns))
    start, size = freed or (0, machine.allocated_columns[cta] or _TENSOR_COLUMNS)
    starts = np.array([start], dtype=np.int64)
    step.footprint = Footprint(("tmem", cta), starts, size, None, freed is not None)


def share_bytes(state: Mbarrier) -> None:
    """Give the copies of a completed phase their sizes, where the expected bytes tell."""
    unsized = [copy for copy in state.copies if copy.bytes is None]
    if len(unsized) == 1 and state.transactions > 0:
        unsized[0].bytes = state.transactions
