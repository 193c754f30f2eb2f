"""mbarrier operations and waits (PTX ISA 9.7.13.15).

Defaults: an arrive is ``.release.cta``, a wait ``.acquire.cta``, expect-tx and complete-tx are relaxed. An
address without a state space is generic but must lie in the window of ``.shared::cta``; only an explicit
``.shared::cluster`` reaches another CTA.
"""

from ptxaudit.arch import Architecture
from ptxaudit.ir.events import (
    Backoff,
    MbarrierArrive,
    MbarrierCompleteTx,
    MbarrierExpect,
    MbarrierInit,
    MbarrierInvalidate,
    MbarrierWait,
    MemoryFlush,
    Proxy,
    Scope,
    Semantics,
    StateSpace,
)
from ptxaudit.ir.operands import Operand, Vector
from ptxaudit.isa.ptx.events_common import (
    Builder,
    Events,
    Lowering,
    acquire_cost,
    first_memory,
    is_measured,
    is_multicast,
    register_or_none,
    release_cost,
    scope_of,
    semantics_of,
    space_of,
)
from ptxaudit.isa.ptx.forms import InstructionForm


def _init(form: InstructionForm, architecture: Architecture) -> Lowering:
    return lambda operands: (MbarrierInit(operands[0], operands[1]),)


def _invalidate(form: InstructionForm, architecture: Architecture) -> Lowering:
    return lambda operands: (MbarrierInvalidate(operands[0]),)


def arrive_cost(architecture: Architecture, semantics: Semantics, scope: Scope) -> Events:
    """The memory barrier before an arrive.

    The arrive instruction of sm_90 and later is itself a release at CTA scope; before, it needed a barrier.
    """
    if scope is not Scope.CTA:
        return release_cost(architecture, semantics, scope)
    if architecture.has_clusters or not semantics.releases or not is_measured(architecture):
        return ()
    return (MemoryFlush(Scope.CTA),)


def _arrive(form: InstructionForm, architecture: Architecture) -> Lowering:
    modifiers = form.modifiers
    space = space_of(modifiers, StateSpace.SHARED)
    semantics = semantics_of(modifiers, Semantics.RELEASE)
    scope = scope_of(modifiers) or Scope.CTA
    multicast = is_multicast(modifiers)
    expects = "expect_tx" in modifiers
    drop = form.name == "mbarrier.arrive_drop"
    before = arrive_cost(architecture, semantics, scope)

    def lower(operands: tuple[Operand, ...]) -> Events:
        position = first_memory(operands)
        rest = operands[position + 1 : -1] if multicast else operands[position + 1 :]
        number = rest[0] if rest else None
        arrive = MbarrierArrive(
            operands[position],
            space,
            semantics,
            scope,
            count=None if expects else number,
            expect_bytes=number if expects else None,
            drop=drop,
            multicast=multicast,
            cta_mask=operands[-1] if multicast else None,
            state=register_or_none(operands[0]) if position else None,
        )
        return (*before, arrive)

    return lower


def _expect(form: InstructionForm, architecture: Architecture) -> Lowering:
    space = space_of(form.modifiers, StateSpace.SHARED)
    return lambda operands: (MbarrierExpect(operands[0], space, operands[1]),)


def _complete(form: InstructionForm, architecture: Architecture) -> Lowering:
    # mbarrier.complete_tx simulates a completion: no payload travels with it (PTX ISA 9.7.13.15.12).
    space = space_of(form.modifiers, StateSpace.SHARED)
    scope = scope_of(form.modifiers) or Scope.CTA
    multicast = is_multicast(form.modifiers)

    def lower(operands: tuple[Operand, ...]) -> Events:
        mask = operands[2] if multicast else None
        return (MbarrierCompleteTx(operands[0], space, operands[1], scope, Proxy.GENERIC, multicast, mask),)

    return lower


def _wait(form: InstructionForm, architecture: Architecture) -> Lowering:
    modifiers = form.modifiers
    semantics = semantics_of(modifiers, Semantics.ACQUIRE)
    scope = scope_of(modifiers) or Scope.CTA
    by_parity = "parity" in modifiers
    blocking = form.name == "mbarrier.try_wait"
    after = acquire_cost(architecture, semantics, scope, StateSpace.SHARED)

    def lower(operands: tuple[Operand, ...]) -> Events:
        position = first_memory(operands)
        result = operands[0] if position else None
        if isinstance(result, Vector):
            result = result.elements[0]
        phase = operands[position + 1]
        suspend: Events = (Backoff(),) if len(operands) > position + 2 else ()
        wait = MbarrierWait(operands[position], phase, by_parity, semantics, scope, result, blocking)
        return (wait, *suspend, *after)

    return lower


BUILDERS: dict[str, Builder] = {
    "mbarrier.init": _init,
    "mbarrier.inval": _invalidate,
    "mbarrier.arrive": _arrive,
    "mbarrier.arrive_drop": _arrive,
    "mbarrier.expect_tx": _expect,
    "mbarrier.complete_tx": _complete,
    "mbarrier.test_wait": _wait,
    "mbarrier.try_wait": _wait,
}
