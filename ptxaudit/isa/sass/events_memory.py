"""Events of loads, stores and atomic operations of the generic proxy.

Windows: ``LDG`` and the like are global, ``LDS`` shared of the CTA, ``LDL`` local, ``LD``/``ST``/``ATOM``
generic. Accesses of ``shared::cluster`` (distributed shared memory) are generic in SASS. Shared-memory
accesses carry no semantics: ``LDS`` is a weak, a relaxed or a volatile load, and is taken as weak.
"""

from collections.abc import Sequence

from ptxaudit.ir.events import (
    Access,
    AccessKind,
    AddressMapping,
    ArriveSource,
    Completion,
    MbarrierArrive,
    Scope,
    Semantics,
    StateSpace,
)
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Immediate, Register
from ptxaudit.isa.sass.events_common import (
    Events,
    Lowering,
    Surroundings,
    UnexpectedOperands,
    address,
    after_address,
    memories,
    operand,
    register_or_none,
    semantics_of,
    size_of,
)

# In order of importance: an opcode may name several.
_CACHE = {
    "CONSTANT": "nc",
    "EF": "evict_first",
    "EL": "evict_last",
    "LU": "lu",
    "NA": "no_allocate",
    "BYPASS": "cg",
}
_OPERATIONS = frozenset({"ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH", "CAS", "SAFEADD"})
_MATRIX_ROW_BYTES = 16
_MAPA_SELECTOR = 0x654


def _cache_of(parts: Sequence[str]) -> str | None:
    return next((cache for part, cache in _CACHE.items() if part in parts), None)


def _load(space: StateSpace) -> Lowering:
    def lower(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
        semantics, scope = semantics_of(parts)
        place = address(instruction)
        cache = _cache_of(parts)
        return (Access(AccessKind.READ, space, place, size_of(parts), semantics, scope, cache=cache),)

    return lower


def _store(space: StateSpace) -> Lowering:
    def lower(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
        semantics, scope = semantics_of(parts)
        values = after_address(instruction)
        return (
            Access(
                AccessKind.WRITE,
                space,
                address(instruction),
                size_of(parts),
                semantics,
                scope,
                cache=_cache_of(parts),
                value=values[0] if values else None,
            ),
        )

    return lower


def _atomic(space: StateSpace) -> Lowering:
    def lower(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
        semantics, scope = semantics_of(parts)
        if space is StateSpace.SHARED:
            semantics, scope = Semantics.RELAXED, Scope.CTA
        values = after_address(instruction)
        operation = next((part.lower() for part in parts if part in _OPERATIONS), None)
        return (
            Access(
                AccessKind.UPDATE,
                space,
                address(instruction),
                size_of(parts),
                semantics,
                scope,
                value=values[-1] if values else None,
                operation=operation,
            ),
        )

    return lower


def _shared_atomic(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    if "ARRIVE" in parts:  # how sm_80 arrives on an mbarrier
        state = register_or_none(operand(instruction, 0))
        place = address(instruction)
        arrive = MbarrierArrive(place, StateSpace.SHARED, None, None, source=ArriveSource.THREAD, state=state)
        return (arrive,)
    return _atomic(StateSpace.SHARED)(parts, instruction, surroundings)


def _multimem_load(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    semantics, scope = semantics_of(parts)
    place = address(instruction)
    operation = "multimem.ld_reduce"
    size = size_of(parts)
    return (Access(AccessKind.READ, StateSpace.GLOBAL, place, size, semantics, scope, operation=operation),)


def _matrix(kind: AccessKind) -> Lowering:
    """``LDSM``/``STSM``: the address that a lane gives is that of a row of 16 bytes (PTX ISA 9.7.14)."""

    def lower(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
        return (Access(kind, StateSpace.SHARED, address(instruction), _MATRIX_ROW_BYTES),)

    return lower


def _copy_to_shared(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    """``LDGSTS``, that is ``cp.async``: generic proxy, complete with its group or mbarrier."""
    places = memories(instruction)
    if len(places) != 2:
        raise UnexpectedOperands
    size = size_of(parts)
    group = Completion.ASYNC_GROUP
    cache = _cache_of(parts)
    return (
        Access(AccessKind.READ, StateSpace.GLOBAL, places[1], size, completion=group, cache=cache),
        Access(AccessKind.WRITE, StateSpace.SHARED, places[0], size, completion=group),
    )


def _permute(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    """``PRMT d, rank, 0x654, address``: the rank in the top byte of a shared address, which is ``mapa``."""
    operands = instruction.operands
    if len(operands) != 4 or operands[2] != Immediate(_MAPA_SELECTOR):
        return ()
    result = operands[0]
    return (AddressMapping(result, operands[3], operands[1]),) if isinstance(result, Register) else ()


LOWERINGS: dict[str, Lowering] = {
    "LDG": _load(StateSpace.GLOBAL),
    "LDS": _load(StateSpace.SHARED),
    "LDL": _load(StateSpace.LOCAL),
    "LD": _load(StateSpace.GENERIC),
    "LDGMC": _multimem_load,
    "STG": _store(StateSpace.GLOBAL),
    "STS": _store(StateSpace.SHARED),
    "STL": _store(StateSpace.LOCAL),
    "ST": _store(StateSpace.GENERIC),
    "ATOM": _atomic(StateSpace.GENERIC),
    "ATOMG": _atomic(StateSpace.GLOBAL),
    "ATOMS": _shared_atomic,
    "RED": _atomic(StateSpace.GENERIC),
    "REDG": _atomic(StateSpace.GLOBAL),
    "LDSM": _matrix(AccessKind.READ),
    "STSM": _matrix(AccessKind.WRITE),
    "LDGSTS": _copy_to_shared,
    "PRMT": _permute,
    "UPRMT": _permute,
}
