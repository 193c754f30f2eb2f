"""How many synchronisations of each kind a function has, and how many of them stand in a loop.

Property: for each kind, the number of instructions of the function whose events are of that kind, in blocks
that the entry reaches. Direction: none, the instructions are counted where they stand, not where they run.
A kind is told by what costs or orders differently: scope, semantics, proxy, group and depth. Known limits:
an unrolled loop counts its copies; a loop is a natural loop; SASS does not tell the scope of a wait.
"""

from collections import Counter
from functools import singledispatch

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

IN_A_LOOP = " in a loop"


def count_synchronisation(analysis: FunctionAnalysis) -> dict[str, int]:
    """Kinds in words with their numbers, and those in loops again as ``KIND in a loop``; sorted by kind."""
    graph, counts = analysis.graph, Counter[str]()
    for block in analysis.function.blocks:
        if block.id not in graph.reachable:
            continue
        looped = graph.innermost_loop(block.id) is not None
        for index in range(block.start, block.end):
            kinds = {kind for event in analysis.events[index] if (kind := kind_of(event)) is not None}
            counts.update(kinds)
            if looped:
                counts.update(f"{kind}{IN_A_LOOP}" for kind in kinds)
    return dict(sorted(counts.items()))


@singledispatch
def kind_of(event: Event) -> str | None:
    """The kind of an event in words; ``None`` for one that synchronises nothing."""
    return None


@kind_of.register
def _(event: MbarrierInit) -> str:
    return "mbarrier init"


@kind_of.register
def _(event: MbarrierWait) -> str:
    return f"mbarrier wait{_order(event.semantics, event.scope)}"


@kind_of.register
def _(event: MbarrierArrive) -> str:
    if event.source is not ArriveSource.THREAD:
        return f"{event.source.value} arrival"
    expects = ".expect_tx" if event.expect_bytes is not None else ""
    return f"mbarrier arrive{expects}{_order(event.semantics, event.scope)}"


@kind_of.register
def _(event: MbarrierExpect) -> str:
    return "mbarrier expect_tx"


def _order(semantics: Semantics | None, scope: Scope | None) -> str:
    if semantics is None:
        return " of untold scope"
    return f" .{semantics.value}{scope or ''}"


@kind_of.register
def _(event: Fence) -> str:
    if event.mbarrier_init:
        return "fence.mbarrier_init"
    proxy = "" if event.proxy is None else f".proxy.{event.proxy.value}"
    semantics = "" if event.semantics is None else f".{event.semantics.value}"
    window = event.sync_restrict or event.space
    restricted = ".sync_restrict" if event.sync_restrict is not None else ""
    return f"fence{semantics}{proxy}{restricted}{f'::{window.value}' if window else ''}{event.scope or ''}"


@kind_of.register
def _(event: CtaBarrier) -> str:
    named = not (isinstance(event.barrier, Immediate) and event.barrier.value == 0)
    kind = "named barrier" if named or event.threads is not None else "CTA barrier"
    return kind if event.action is BarrierAction.SYNC else f"{kind} {event.action.value}"


@kind_of.register
def _(event: WarpBarrier) -> str:
    return "warp barrier"


@kind_of.register
def _(event: ClusterBarrier) -> str:
    semantics = "" if event.semantics is None else f" .{event.semantics.value}"
    return f"cluster barrier {event.action.value}{semantics}"


@kind_of.register
def _(event: GroupCommit) -> str:
    return f"{event.kind.value} commit_group"


@kind_of.register
def _(event: GroupWait) -> str:
    depth = "all" if event.depth is None else str(event.depth)
    return f"{event.kind.value} wait_group{'.read' if event.read_only else ''} {depth}"


@kind_of.register
def _(event: WgmmaFence) -> str:
    return "wgmma.fence"


@kind_of.register
def _(event: WgmmaIssue) -> str:
    return "wgmma"


@kind_of.register
def _(event: TensorOperation) -> str:
    return f"tcgen05.{event.action.value}"


@kind_of.register
def _(event: L1Invalidate) -> str:
    return "L1 invalidate"


@kind_of.register
def _(event: MemoryFlush) -> str:
    return f"memory flush{' .sc' if event.sc else ''} {event.scope}"


@kind_of.register
def _(event: RegisterReconfigure) -> str:
    return f"setmaxnreg.{'inc' if event.increase else 'dec'} {event.registers}"


@kind_of.register
def _(event: GridDependency) -> str:
    return f"griddepcontrol.{event.action.value}"


@kind_of.register
def _(event: Access) -> str | None:
    if event.space is StateSpace.LOCAL:
        return "local-memory access (spill)"
    if event.completion is Completion.MBARRIER:
        return "copy that an mbarrier completes"
    return "bulk copy of a group" if event.completion is Completion.BULK_GROUP else None
