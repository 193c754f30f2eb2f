"""Events of warpgroup matrix operations (sm_90) and of tensor memory (sm_100 and its relatives).

``wgmma``: the last operation of a commit group carries ``gsb0``, so commit is no instruction of its own.
``gdesc[URn]`` stands for two descriptors, that of A in URn and that of B in URn+2; where A is in
registers only the second counts. ``tcgen05.wait::ld`` and ``tcgen05.fence`` leave no instruction.
"""

import re
from collections.abc import Sequence

from ptxaudit.ir.events import (
    AccessKind,
    ArriveSource,
    Completion,
    GroupCommit,
    GroupKind,
    MatrixOperand,
    MbarrierArrive,
    Scope,
    Semantics,
    StateSpace,
    TensorAction,
    TensorOperation,
    WgmmaIssue,
)
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Memory, Opaque, Register
from ptxaudit.isa.sass.events_common import (
    Events,
    Lowering,
    Surroundings,
    UnexpectedOperands,
    address,
    is_zero,
    memories,
    moved,
    operand,
)
from ptxaudit.isa.sass.registers import register_range, value_registers
from ptxaudit.isa.shared_events import DEPTH_BYTES, WARPGROUP_ROWS, descriptor_read, tensor_access

_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)$")
_A_FRAGMENT_REGISTERS = 4
_GROUP_SCOREBOARD = Register("gsb0")


def _wgmma(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    operands = instruction.operands
    commit: Events = (GroupCommit(GroupKind.WGMMA),) if _GROUP_SCOREBOARD in operands else ()
    shape = next((match.groups() for part in parts if (match := _SHAPE.match(part))), None)
    descriptor = address(instruction)
    if shape is None:
        raise UnexpectedOperands
    if is_zero(operand(instruction, 0)) and not descriptor.terms:
        return commit  # a commit of no operation: ptxas multiplies zeros into nothing
    destination, second = operands[0], operands[1]
    if not isinstance(destination, Register):
        raise UnexpectedOperands
    accumulators = register_range(destination, value_registers(parts[0], parts))
    name = f"m{shape[0]}n{shape[1]}k{shape[2]}"
    group = Completion.WGMMA_GROUP
    turned = {part.text for part in descriptor.coordinates if isinstance(part, Opaque)}
    b_matrix = MatrixOperand("b", int(shape[1]), DEPTH_BYTES, "tnspB" in turned)
    b_read = descriptor_read(moved(descriptor, 2), group, b_matrix)
    if isinstance(second, Register):
        fragment = register_range(second, _A_FRAGMENT_REGISTERS)
        return (WgmmaIssue(accumulators, fragment, name), b_read, *commit)
    a_matrix = MatrixOperand("a", WARPGROUP_ROWS, DEPTH_BYTES, "tnspA" in turned)
    a_read = descriptor_read(descriptor, group, a_matrix)
    return (WgmmaIssue(accumulators, (), name), a_read, b_read, *commit)


def _tensor_mma(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    """A, B, D, then what the form needs from tensor memory (sparsity metadata, scale factors).

    The operand behind D is printed by every form, but read by sparse ones only; which one that is the
    spelling does not tell, so it is left out.
    """
    places = memories(instruction)
    if len(places) < 3:
        raise UnexpectedOperands
    a, b, d = places[:3]
    commit = Completion.TCGEN05_COMMIT
    pair = _is_pair(parts)
    shape = next((o for o in instruction.operands if isinstance(o, Memory) and o.space == "idesc"), None)
    a_matrix, b_matrix = (MatrixOperand(role, None, DEPTH_BYTES, None, shape, pair) for role in "ab")
    a_read = (
        tensor_access(AccessKind.READ, a, commit)
        if a.space == "tmem"
        else descriptor_read(a, commit, a_matrix)
    )
    scales = [p for p in places[4:] if p.space == "tmem"]
    return (
        TensorOperation(TensorAction.MMA, pair, d),
        a_read,
        descriptor_read(b, commit, b_matrix),
        *(tensor_access(AccessKind.READ, place, commit) for place in scales),
        tensor_access(AccessKind.UPDATE, d, commit),
    )


def _is_pair(parts: Sequence[str]) -> bool:
    return "2CTA" in parts


def _commit(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    place = address(instruction)
    arrive = MbarrierArrive(
        place,
        StateSpace.CLUSTER,
        Semantics.RELEASE,
        Scope.CLUSTER,
        source=ArriveSource.TCGEN05_COMMIT,
        multicast="MULTICAST" in parts,
        cta_mask=instruction.operands[2] if "MULTICAST" in parts and len(instruction.operands) > 2 else None,
    )
    return (TensorOperation(TensorAction.COMMIT, _is_pair(parts), place), arrive)


def _copy(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    place, descriptor = address(instruction), address(instruction, 1)
    commit = Completion.TCGEN05_COMMIT
    return (
        TensorOperation(TensorAction.COPY, _is_pair(parts), place),
        descriptor_read(descriptor, commit),
        tensor_access(AccessKind.WRITE, place, commit),
    )


def _shift(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    place = address(instruction)
    return (
        TensorOperation(TensorAction.SHIFT, _is_pair(parts), place),
        tensor_access(AccessKind.UPDATE, place, Completion.TCGEN05_COMMIT),
    )


def _load(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    place = address(instruction)
    return (
        TensorOperation(TensorAction.LOAD, False, place, registers=instruction.writes),
        tensor_access(AccessKind.READ, place, Completion.TCGEN05_WAIT),
    )


def _store(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    place, value = address(instruction), operand(instruction, -1)
    values: tuple[Register, ...] = ()
    if isinstance(value, Register) and not is_zero(value):
        values = register_range(value, value_registers(parts[0], parts))
    return (
        TensorOperation(TensorAction.STORE, False, place, registers=values),
        tensor_access(AccessKind.WRITE, place, Completion.TCGEN05_WAIT),
    )


def _allocation(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    """``UTCATOMSWS``: allocation is a loop of attempts, deallocation takes bits out of a mask.

    Columns are counted in units (see ``encodings``): an attempt takes their number and gives whether it
    succeeded and the first one; the mask of a deallocation has zeros for those that are freed.
    """
    units = operand(instruction, -1)
    if "FIND_AND_SET" in parts:
        results = tuple(o for o in instruction.operands[:-1] if isinstance(o, Register))
        return (TensorOperation(TensorAction.ALLOCATE, _is_pair(parts), columns=units, registers=results),)
    if "AND" in parts:
        return (TensorOperation(TensorAction.DEALLOCATE, _is_pair(parts), columns=units),)
    raise UnexpectedOperands


def _virtual_count(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    return (TensorOperation(TensorAction.RELINQUISH, False),) if "DEALLOC" in parts else ()


LOWERINGS: dict[str, Lowering] = {
    **dict.fromkeys(("HGMMA", "QGMMA", "IGMMA", "BGMMA", "DGMMA"), _wgmma),
    **dict.fromkeys(("UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA", "UTCMXQMMA"), _tensor_mma),
    "UTCBAR": _commit,
    "UTCCP": _copy,
    "UTCSHIFT": _shift,
    "LDTM": _load,
    "STTM": _store,
    "UTCATOMSWS": _allocation,
    "UVIRTCOUNT": _virtual_count,
}
