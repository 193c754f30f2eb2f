"""The kinds of synchronisation: the one vocabulary in which reports, joins and comparisons name them.

A kind has a *family*, in a spelling that PTX and SASS share, by which the two are joined and by which two
builds are aligned; and a *name*, which tells apart what costs or orders differently: scope, semantics, proxy,
group and depth. Known limit: SASS does not tell the scope of a wait.
"""

from dataclasses import dataclass

from ptxaudit.ir.events import (
    Access,
    ArriveSource,
    BarrierAction,
    ClusterBarrier,
    Completion,
    CtaBarrier,
    Event,
    Fence,
    GridDependency,
    GroupCommit,
    GroupWait,
    L1Invalidate,
    MbarrierArrive,
    MbarrierCompleteTx,
    MbarrierExpect,
    MbarrierInit,
    MbarrierInvalidate,
    MbarrierWait,
    MemoryFlush,
    RegisterReconfigure,
    Scope,
    Semantics,
    StateSpace,
    TensormapReplace,
    TensorOperation,
    WarpBarrier,
    WgmmaFence,
    WgmmaIssue,
)
from ptxaudit.ir.operands import Immediate


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of synchronisation in words; see the module for ``family`` and ``name``.

    ``family`` is empty for what PTX does not show, ``name`` for what goes with another synchronisation.
    """

    family: str
    name: str


def kind_of(event: Event) -> Kind | None:
    """The kind of an event; ``None`` for one that synchronises nothing."""
    match event:
        case MbarrierWait():
            return Kind("mbarrier wait", f"mbarrier wait{_order(event.semantics, event.scope)}")
        case MbarrierArrive():
            return Kind("mbarrier arrive", _arrive(event))
        case Fence():
            return _fence(event)
        case CtaBarrier():
            return _cta_barrier(event)
        case ClusterBarrier(action=action, semantics=semantics):
            family = f"cluster barrier {action}"
            return Kind(family, family if semantics is None else f"{family} .{semantics}")
        case GroupCommit(kind=group):
            return Kind(f"{group} commit", f"{group} commit_group")
        case GroupWait(kind=group, depth=depth):
            read = ".read" if event.read_only else ""
            return Kind(f"{group} wait", f"{group} wait_group{read} {'all' if depth is None else depth}")
        case TensorOperation(action=action):
            return Kind(f"tensor memory {action}", f"tcgen05.{action}")
        case MemoryFlush(scope=scope):
            return Kind("memory barrier", f"memory barrier{' .sc' if event.sc else ''} {scope}")
        case RegisterReconfigure(registers=registers):
            return Kind("setmaxnreg", f"setmaxnreg.{'inc' if event.increase else 'dec'} {registers}")
        case GridDependency(action=action):
            return Kind(f"grid dependency {action}", f"griddepcontrol.{action}")
        case Access(space=StateSpace.LOCAL):
            return Kind("", "local-memory access (spill)")
        case Access(completion=completion) if completion is not Completion.SYNCHRONOUS:
            return Kind(f"asynchronous access ({completion})", _COPIES.get(completion, ""))
        case _:
            plain = _PLAIN.get(type(event))
            return None if plain is None else _plain(plain)


_COPIES = {
    Completion.MBARRIER: "copy that an mbarrier completes",
    Completion.BULK_GROUP: "bulk copy of a group",
}
_PLAIN: dict[type[Event], str] = {
    MbarrierInit: "mbarrier init",
    MbarrierInvalidate: "mbarrier inval",
    MbarrierExpect: "mbarrier expect_tx",
    MbarrierCompleteTx: "mbarrier complete_tx",
    WarpBarrier: "warp barrier",
    WgmmaFence: "wgmma fence",
    WgmmaIssue: "wgmma",
    L1Invalidate: "L1 invalidate",
    TensormapReplace: "tensormap replace",
}


def _plain(name: str) -> Kind:
    return Kind(name, name)


def _order(semantics: Semantics | None, scope: Scope | None) -> str:
    return " of untold scope" if semantics is None else f" .{semantics}{scope or ''}"


def _arrive(event: MbarrierArrive) -> str:
    if event.source is not ArriveSource.THREAD:
        return f"{event.source} arrival"
    expects = ".expect_tx" if event.expect_bytes is not None else ""
    return f"mbarrier arrive{expects}{_order(event.semantics, event.scope)}"


def _fence(fence: Fence) -> Kind:
    if fence.mbarrier_init:
        return Kind("mbarrier init fence", "fence.mbarrier_init")
    proxy = "" if fence.proxy is None else f".proxy.{fence.proxy}"
    semantics = "" if fence.semantics is None else f".{fence.semantics}"
    window = fence.sync_restrict or fence.space
    restricted = ".sync_restrict" if fence.sync_restrict is not None else ""
    name = f"fence{semantics}{proxy}{restricted}{f'::{window}' if window else ''}{fence.scope or ''}"
    return Kind("fence" if fence.proxy is None else f"{fence.proxy} proxy fence", name)


def _cta_barrier(barrier: CtaBarrier) -> Kind:
    named = not (isinstance(barrier.barrier, Immediate) and barrier.barrier.value == 0)
    name = "named barrier" if named or barrier.threads is not None else "CTA barrier"
    action = barrier.action
    return Kind(f"CTA barrier {action}", name if action is BarrierAction.SYNC else f"{name} {action}")
