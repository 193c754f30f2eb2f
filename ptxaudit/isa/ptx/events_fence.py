"""Fences, CTA, warp and cluster barriers (PTX ISA 9.7.13).

Fences to the fabric proxies (PTX ISA 9.3) are not modelled: they have an unknown effect.
"""

from ptxaudit.arch import Architecture
from ptxaudit.ir.events import (
    BarrierAction,
    ClusterBarrier,
    CtaBarrier,
    Election,
    Fence,
    L1Invalidate,
    MemoryFlush,
    Proxy,
    Scope,
    Semantics,
    StateSpace,
    WarpBarrier,
)
from ptxaudit.ir.operands import Operand, Vector
from ptxaudit.isa.ptx.events_common import (
    SPACES,
    Builder,
    Events,
    Lowering,
    acquire_cost,
    is_measured,
    release_cost,
    scope_of,
    semantics_of,
    space_of,
)
from ptxaudit.isa.ptx.forms import InstructionForm

_RESTRICT = "sync_restrict::"


def _constant(events: Events) -> Lowering:
    return lambda operands: events


def _restriction(modifiers: tuple[str, ...]) -> StateSpace | None:
    spelled = next((m for m in modifiers if m.startswith(_RESTRICT)), None)
    return None if spelled is None else SPACES.get(spelled.removeprefix(_RESTRICT))


def _restricted_cost(architecture: Architecture, semantics: Semantics) -> Events:
    """A release restricted to own shared memory needs a CTA-wide barrier only; an acquire nothing."""
    return (MemoryFlush(Scope.CTA),) if semantics.releases and is_measured(architecture) else ()


def _thread_fence(form: InstructionForm, architecture: Architecture) -> Lowering:
    # A fence without semantics is acq_rel; membar is the sc fence of its level (PTX ISA 9.7.13, fence).
    old = form.name == "membar"
    scope = Scope.GPU if "gl" in form.modifiers else scope_of(form.modifiers)
    semantics = semantics_of(form.modifiers, Semantics.SC if old else Semantics.ACQ_REL)
    restriction = _restriction(form.modifiers)
    if restriction is not None:
        cost = _restricted_cost(architecture, semantics)
    else:
        cost = (
            *release_cost(architecture, semantics, scope),
            *acquire_cost(architecture, semantics, scope, StateSpace.GENERIC),
        )
    return _constant((Fence(semantics, scope, sync_restrict=restriction), *cost))


def _mbarrier_init_fence(form: InstructionForm, architecture: Architecture) -> Lowering:
    return _constant((Fence(Semantics.RELEASE, Scope.CLUSTER, mbarrier_init=True),))


_ASYNC_FENCE_WIDTH = {
    None: Scope.GPU,
    StateSpace.CLUSTER: Scope.GPU,
    StateSpace.SHARED: Scope.CTA,
}


def _async_proxy_fence(form: InstructionForm, architecture: Architecture) -> Lowering:
    named = space_of(form.modifiers)
    space = None if named is StateSpace.GENERIC else named
    width = _ASYNC_FENCE_WIDTH.get(space)
    cost: Events = (MemoryFlush(width),) if width is not None and is_measured(architecture) else ()
    return _constant((Fence(None, None, proxy=Proxy.ASYNC, space=space), *cost))


def _directed_async_fence(form: InstructionForm, architecture: Architecture) -> Lowering:
    semantics = semantics_of(form.modifiers, Semantics.ACQ_REL)
    fence = Fence(
        semantics,
        scope_of(form.modifiers),
        proxy=Proxy.ASYNC,
        sync_restrict=_restriction(form.modifiers),
    )
    return _constant((fence, *_restricted_cost(architecture, semantics)))


def _tensormap_fence(form: InstructionForm, architecture: Architecture) -> Lowering:
    semantics = semantics_of(form.modifiers, Semantics.ACQ_REL)
    scope = scope_of(form.modifiers)
    # The release of a tensor map is performed for the whole GPU, also where its scope is narrower.
    width = None if scope is None else max(scope, Scope.GPU)
    cost = release_cost(architecture, semantics, width)

    def lower(operands: tuple[Operand, ...]) -> Events:
        address = operands[0] if operands else None
        return (Fence(semantics, scope, proxy=Proxy.TENSORMAP, address=address), *cost)

    return lower


def _alias_fence(form: InstructionForm, architecture: Architecture) -> Lowering:
    cost: Events = (MemoryFlush(Scope.SYS, sc=True), L1Invalidate()) if is_measured(architecture) else ()
    return _constant((Fence(None, None, proxy=Proxy.ALIAS), *cost))


_ACTIONS = {"sync": BarrierAction.SYNC, "arrive": BarrierAction.ARRIVE, "red": BarrierAction.REDUCE}


def _cta_barrier(form: InstructionForm, architecture: Architecture) -> Lowering:
    # bar.{sync,red,arrive} are barrier.{sync,red,arrive}.aligned (PTX ISA 9.7.13.1).
    family, _, name = form.name.rpartition(".")
    action = _ACTIONS[name]
    aligned = family == "bar" or "aligned" in form.modifiers

    def lower(operands: tuple[Operand, ...]) -> Events:
        inputs = operands[1:-1] if action is BarrierAction.REDUCE else operands
        threads = inputs[1] if len(inputs) > 1 else None
        return (CtaBarrier(action, inputs[0], threads, aligned),)

    return lower


def _warp_barrier(form: InstructionForm, architecture: Architecture) -> Lowering:
    return lambda operands: (WarpBarrier(operands[0]),)


def _cluster_arrive(form: InstructionForm, architecture: Architecture) -> Lowering:
    # The default is .release for arrive and .acquire for wait (PTX ISA 9.7.13.4, barrier.cluster).
    semantics = semantics_of(form.modifiers, Semantics.RELEASE)
    barrier = ClusterBarrier(BarrierAction.ARRIVE, semantics, "aligned" in form.modifiers)
    return _constant((*release_cost(architecture, semantics, Scope.CLUSTER), barrier))


def _cluster_wait(form: InstructionForm, architecture: Architecture) -> Lowering:
    semantics = semantics_of(form.modifiers, Semantics.ACQUIRE)
    barrier = ClusterBarrier(BarrierAction.WAIT, semantics, "aligned" in form.modifiers)
    return _constant((barrier, *acquire_cost(architecture, semantics, Scope.CLUSTER, StateSpace.CLUSTER)))


def _election(form: InstructionForm, architecture: Architecture) -> Lowering:
    def lower(operands: tuple[Operand, ...]) -> Events:
        result = operands[0]
        predicate = result.elements[-1] if isinstance(result, Vector) else result
        return (Election(predicate, operands[1] if len(operands) > 1 else None),)

    return lower


BUILDERS: dict[str, Builder] = {
    "fence": _thread_fence,
    "membar": _thread_fence,
    "fence.mbarrier_init": _mbarrier_init_fence,
    "fence.proxy.async": _async_proxy_fence,
    "membar.proxy.async": _async_proxy_fence,
    "fence.proxy.async::generic": _directed_async_fence,
    "fence.proxy.tensormap::generic": _tensormap_fence,
    "fence.proxy.alias": _alias_fence,
    "membar.proxy.alias": _alias_fence,
    **dict.fromkeys(
        ("bar.sync", "bar.arrive", "bar.red", "barrier.sync", "barrier.arrive", "barrier.red"), _cta_barrier
    ),
    "bar.warp.sync": _warp_barrier,
    "barrier.cluster.arrive": _cluster_arrive,
    "barrier.cluster.wait": _cluster_wait,
    "elect.sync": _election,
}
