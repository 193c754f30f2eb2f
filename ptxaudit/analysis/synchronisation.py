"""Which synchronisations a function has, of which kinds, and which of them stand in a loop.

Property: for each kind, the instructions of the function whose events are of that kind, in blocks that the
entry reaches. Direction: none, the instructions are listed where they stand, not as they run.
A kind is told by what costs or orders differently: scope, semantics, proxy, group and depth. Known limits:
an unrolled loop has its copies; a loop is a natural loop; SASS does not tell the scope of a wait.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ptxaudit.analysis.context import FunctionAnalysis
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
    MbarrierExpect,
    MbarrierInit,
    MbarrierWait,
    MemoryFlush,
    RegisterReconfigure,
    Scope,
    Semantics,
    StateSpace,
    TensorOperation,
    WarpBarrier,
    WgmmaFence,
    WgmmaIssue,
)
from ptxaudit.ir.operands import Immediate


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An instruction that synchronises: its index, its kind in words, and whether it stands in a loop."""

    index: int
    kind: str
    looped: bool


def synchronisations(analysis: FunctionAnalysis) -> Iterator[Occurrence]:
    """Every synchronisation of a function, in program order; an instruction once for each of its kinds."""
    graph = analysis.graph
    for block in analysis.function.blocks:
        if block.id not in graph.reachable:
            continue
        looped = graph.innermost_loop(block.id) is not None
        for index in range(block.start, block.end):
            kinds = {kind for event in analysis.events[index] if (kind := kind_of(event)) is not None}
            yield from (Occurrence(index, kind, looped) for kind in sorted(kinds))


def kind_of(event: Event) -> str | None:
    """The kind of an event in words; ``None`` for one that synchronises nothing."""
    match event:
        case MbarrierWait():
            return f"mbarrier wait{_order(event.semantics, event.scope)}"
        case MbarrierArrive(source=ArriveSource.THREAD):
            expects = ".expect_tx" if event.expect_bytes is not None else ""
            return f"mbarrier arrive{expects}{_order(event.semantics, event.scope)}"
        case MbarrierArrive(source=source):
            return f"{source.value} arrival"
        case Fence():
            return _fence(event)
        case CtaBarrier():
            return _cta_barrier(event)
        case ClusterBarrier(action=action, semantics=semantics):
            return f"cluster barrier {action.value}{'' if semantics is None else f' .{semantics.value}'}"
        case GroupCommit(kind=group):
            return f"{group.value} commit_group"
        case GroupWait(kind=group, depth=depth):
            read = ".read" if event.read_only else ""
            return f"{group.value} wait_group{read} {'all' if depth is None else depth}"
        case TensorOperation(action=action):
            return f"tcgen05.{action.value}"
        case MemoryFlush(scope=scope):
            return f"memory flush{' .sc' if event.sc else ''} {scope}"
        case RegisterReconfigure(registers=registers):
            return f"setmaxnreg.{'inc' if event.increase else 'dec'} {registers}"
        case GridDependency(action=action):
            return f"griddepcontrol.{action.value}"
        case Access(space=StateSpace.LOCAL):
            return "local-memory access (spill)"
        case Access(completion=Completion.MBARRIER):
            return "copy that an mbarrier completes"
        case Access(completion=Completion.BULK_GROUP):
            return "bulk copy of a group"
        case _:
            return _NAMES.get(type(event))


_NAMES: dict[type[Event], str] = {
    MbarrierInit: "mbarrier init",
    MbarrierExpect: "mbarrier expect_tx",
    WarpBarrier: "warp barrier",
    WgmmaFence: "wgmma.fence",
    WgmmaIssue: "wgmma",
    L1Invalidate: "L1 invalidate",
}


def _order(semantics: Semantics | None, scope: Scope | None) -> str:
    if semantics is None:
        return " of untold scope"
    return f" .{semantics.value}{scope or ''}"


def _fence(fence: Fence) -> str:
    if fence.mbarrier_init:
        return "fence.mbarrier_init"
    proxy = "" if fence.proxy is None else f".proxy.{fence.proxy.value}"
    semantics = "" if fence.semantics is None else f".{fence.semantics.value}"
    window = fence.sync_restrict or fence.space
    restricted = ".sync_restrict" if fence.sync_restrict is not None else ""
    return f"fence{semantics}{proxy}{restricted}{f'::{window.value}' if window else ''}{fence.scope or ''}"


def _cta_barrier(barrier: CtaBarrier) -> str:
    named = not (isinstance(barrier.barrier, Immediate) and barrier.barrier.value == 0)
    kind = "named barrier" if named or barrier.threads is not None else "CTA barrier"
    return kind if barrier.action is BarrierAction.SYNC else f"{kind} {barrier.action.value}"
