"""Loads, stores, atomics, matrix loads and stores, surfaces (PTX ISA 9.7.9, 9.7.10, 9.7.11, 9.7.13)."""

from ptxaudit.arch import Architecture
from ptxaudit.ir.events import (
    Access,
    AccessKind,
    AddressMapping,
    Proxy,
    Scope,
    Semantics,
    StateSpace,
)
from ptxaudit.ir.operands import Operand
from ptxaudit.isa.ptx.events_common import (
    Builder,
    Events,
    Lowering,
    UnexpectedOperands,
    acquire_cost,
    byte_count,
    first_memory,
    reduction_of,
    register_or_none,
    release_cost,
    scope_of,
    semantics_of,
    size_of,
    space_of,
)
from ptxaudit.isa.ptx.forms import InstructionForm

_CACHE_OPERATORS = frozenset({"ca", "cg", "cs", "lu", "cv", "wb", "wt"})

# One row of an 8x8 matrix of 16-bit elements, or of a matrix of narrower ones, is 16 bytes (9.7.14.5.15).
_MATRIX_ROW_BYTES = 16


def _cache_of(modifiers: tuple[str, ...]) -> str | None:
    if "nc" in modifiers or "proxy::readonly" in modifiers:
        return "nc"
    return next((m for m in modifiers if m in _CACHE_OPERATORS), None)


def _scope_for(semantics: Semantics, modifiers: tuple[str, ...]) -> Scope | None:
    # A volatile operation has the memory semantics of a relaxed one at system scope (PTX ISA 9.7.9, ld).
    scope = scope_of(modifiers)
    return Scope.SYS if scope is None and semantics in (Semantics.VOLATILE, Semantics.MMIO) else scope


def _load(form: InstructionForm, architecture: Architecture) -> Lowering | None:
    modifiers = form.modifiers
    space = space_of(modifiers)
    if space in (StateSpace.PARAM, StateSpace.CONST):
        return None
    semantics = semantics_of(modifiers, Semantics.WEAK)
    scope = _scope_for(semantics, modifiers)
    size = size_of(modifiers)
    cache = "ldu" if form.name == "ldu" else _cache_of(modifiers)
    after = acquire_cost(architecture, semantics, scope, space)

    def lower(operands: tuple[Operand, ...]) -> Events:
        return (Access(AccessKind.READ, space, operands[1], size, semantics, scope, cache=cache), *after)

    return lower


def _store(form: InstructionForm, architecture: Architecture) -> Lowering | None:
    modifiers = form.modifiers
    space = space_of(modifiers)
    if space is StateSpace.PARAM:
        return None
    semantics = semantics_of(modifiers, Semantics.WEAK)
    scope = _scope_for(semantics, modifiers)
    size = size_of(modifiers)
    cache = _cache_of(modifiers)
    before = release_cost(architecture, semantics, scope)

    def lower(operands: tuple[Operand, ...]) -> Events:
        access = Access(
            AccessKind.WRITE, space, operands[0], size, semantics, scope, cache=cache, value=operands[1]
        )
        return (*before, access)

    return lower


def _atomic(form: InstructionForm, architecture: Architecture) -> Lowering:
    # Without qualifiers atom and red are relaxed at gpu scope (PTX ISA 9.7.13, atom and red).
    modifiers = form.modifiers
    space = space_of(modifiers)
    semantics = semantics_of(modifiers, Semantics.RELAXED)
    scope = scope_of(modifiers) or Scope.GPU
    size = size_of(modifiers)
    operation = reduction_of(modifiers)
    address_position = 1 if form.name == "atom" else 0
    value_position = address_position + (2 if operation == "cas" else 1)
    before = release_cost(architecture, semantics, scope)
    after = acquire_cost(architecture, semantics, scope, space)

    def lower(operands: tuple[Operand, ...]) -> Events:
        access = Access(
            AccessKind.UPDATE,
            space,
            operands[address_position],
            size,
            semantics,
            scope,
            value=operands[value_position],
            operation=operation,
        )
        return (*before, access, *after)

    return lower


_MULTIMEM_KINDS = {
    "multimem.ld_reduce": (AccessKind.READ, Semantics.WEAK),
    "multimem.st": (AccessKind.WRITE, Semantics.WEAK),
    "multimem.red": (AccessKind.UPDATE, Semantics.RELAXED),
}


def _multimem(form: InstructionForm, architecture: Architecture) -> Lowering:
    # ld_reduce and st are weak, red is relaxed at gpu scope unless qualified (PTX ISA 9.7.9, multimem).
    kind, default = _MULTIMEM_KINDS[form.name]
    semantics = semantics_of(form.modifiers, default)
    scope = scope_of(form.modifiers)
    if scope is None and semantics is not Semantics.WEAK:
        scope = Scope.GPU
    size = size_of(form.modifiers)
    operator = reduction_of(form.modifiers)
    operation = form.name if operator is None else f"{form.name}.{operator}"
    position = 1 if kind is AccessKind.READ else 0
    before = release_cost(architecture, semantics, scope)
    after = acquire_cost(architecture, semantics, scope, StateSpace.GLOBAL)

    def lower(operands: tuple[Operand, ...]) -> Events:
        value = None if kind is AccessKind.READ else operands[1]
        access = Access(
            kind,
            StateSpace.GLOBAL,
            operands[position],
            size,
            semantics,
            scope,
            value=value,
            operation=operation,
        )
        return (*before, access, *after)

    return lower


def _matrix(form: InstructionForm, architecture: Architecture) -> Lowering:
    kind = AccessKind.READ if form.name in ("ldmatrix", "wmma.load") else AccessKind.WRITE
    space = space_of(form.modifiers)
    size = _MATRIX_ROW_BYTES if form.name in ("ldmatrix", "stmatrix") else None

    def lower(operands: tuple[Operand, ...]) -> Events:
        address = operands[first_memory(operands)]
        value = None if kind is AccessKind.READ else operands[1]
        return (Access(kind, space, address, size, value=value, operation=form.name),)

    return lower


def _bulk_store(form: InstructionForm, architecture: Architecture) -> Lowering:
    # st.bulk writes only shared::cta, also through a generic address (PTX ISA 9.7.9, st.bulk).
    def lower(operands: tuple[Operand, ...]) -> Events:
        address, size, value = operands
        write = Access(
            AccessKind.WRITE,
            StateSpace.SHARED,
            address,
            byte_count(size),
            size_operand=size,
            value=value,
            operation="st.bulk",
        )
        return (write,)

    return lower


_SURFACE_KINDS = {"sust": AccessKind.WRITE, "sured": AccessKind.UPDATE}


def _texture_or_surface(form: InstructionForm, architecture: Architecture) -> Lowering:
    kind = _SURFACE_KINDS.get(form.name, AccessKind.READ)

    def lower(operands: tuple[Operand, ...]) -> Events:
        address = operands[first_memory(operands)]
        return (Access(kind, StateSpace.GLOBAL, address, None, proxy=Proxy.TEXTURE, operation=form.name),)

    return lower


def _map_address(form: InstructionForm, architecture: Architecture) -> Lowering:
    def lower(operands: tuple[Operand, ...]) -> Events:
        result = register_or_none(operands[0])
        if result is None:
            raise UnexpectedOperands
        return (AddressMapping(result, operands[1], operands[2]),)

    return lower


BUILDERS: dict[str, Builder] = {
    "ld": _load,
    "ldu": _load,
    "st": _store,
    "st.bulk": _bulk_store,
    "atom": _atomic,
    "red": _atomic,
    "multimem.ld_reduce": _multimem,
    "multimem.st": _multimem,
    "multimem.red": _multimem,
    "ldmatrix": _matrix,
    "stmatrix": _matrix,
    "wmma.load": _matrix,
    "wmma.store": _matrix,
    "tex": _texture_or_surface,
    "tld4": _texture_or_surface,
    "suld.b": _texture_or_surface,
    "sust": _texture_or_surface,
    "sured": _texture_or_surface,
    "mapa": _map_address,
}
