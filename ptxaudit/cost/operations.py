"""The synchronisations of a function as they are executed, each with its name in the measured tables.

In PTX an instruction is one operation. In SASS several instructions are: ``MEMBAR``, ``ERRBAR`` and
``CCTL.IVALL`` are one fence, a ``MEMBAR`` before an arrive makes it a release of wider scope, and a
``CCTL.IVALL`` behind a wait an acquire of wider scope. Property: instructions of one block that belong
together by the events that they give. Direction: forward in a block, join: none. Known limits: what SASS does
not tell (relaxed or ``.acquire.cta``, cluster or gpu scope of a release) is named by what it costs alike;
``WARPSYNC``, spills and register reconfigurations are not looked at.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.pollloops import poll_loops
from ptxaudit.ir.events import (
    Access,
    ArriveSource,
    BarrierAction,
    ClusterBarrier,
    CtaBarrier,
    Event,
    Fence,
    GridAction,
    GridDependency,
    GroupCommit,
    GroupKind,
    GroupWait,
    L1Invalidate,
    MbarrierArrive,
    MbarrierWait,
    MemoryFlush,
    Proxy,
    Scope,
    Semantics,
    StateSpace,
    TensorAction,
    TensorOperation,
)
from ptxaudit.ir.function import Language
from ptxaudit.rules.budget import Part

# An invalidate alone is what a wait at cluster scope adds to one of the CTA.
_INVALIDATE = ("l1.invalidate", "mbarrier.wait.acquire.cluster")
_TENSOR_WAITS = (TensorAction.WAIT_LOAD, TensorAction.WAIT_STORE)
_GROUPS = {GroupKind.CP_ASYNC: "cp.async.wait", GroupKind.BULK: "bulk.wait", GroupKind.WGMMA: "wgmma.wait"}


@dataclass(frozen=True, slots=True)
class Term:
    """A part of an operation's cost: the first of ``names`` that a table knows, taken off if ``less``.

    The first term names the operation; the others are what its measurement was compared with.
    """

    names: tuple[str, ...]
    part: Part
    less: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """A synchronisation: its instructions, the one that names it first, and what its cost consists of.

    ``event`` is what it does beside flushing (``flush`` is the widest scope) and invalidating L1.
    """

    index: int
    instructions: tuple[int, ...]
    event: Event | None
    flush: Scope | None
    invalidates: bool
    terms: tuple[Term, ...]

    @property
    def name(self) -> str:
        """What it is called in the tables and in reports."""
        return self.terms[0].names[0]

    @property
    def part(self) -> Part:
        """What most of it is."""
        return self.terms[0].part


@dataclass(slots=True)
class _Group:
    """Instructions that belong together, as far as they have been seen."""

    instructions: list[int]
    event: Event | None = None
    flush: Scope | None = None
    sequential: bool = False
    invalidates: bool = False
    named: int | None = field(default=None)


def operations(analysis: FunctionAnalysis) -> tuple[Operation, ...]:
    """Every synchronisation in blocks that the entry reaches, in program order, found once."""
    return analysis.memo("synchronisation operations", lambda: tuple(_find(analysis)))


def _find(analysis: FunctionAnalysis) -> Iterator[Operation]:
    groups = _in_ptx if analysis.function.language is Language.PTX else _in_sass
    polled = {index for poll in poll_loops(analysis).polls for index in poll.attempts}
    for block in analysis.function.blocks:
        if block.id not in analysis.graph.reachable:
            continue
        for group in groups(analysis, range(block.start, block.end)):
            terms = _terms(group, not polled.isdisjoint(group.instructions))
            if terms:
                first = group.instructions[0] if group.named is None else group.named
                yield Operation(
                    first, tuple(group.instructions), group.event, group.flush, group.invalidates, terms
                )


# Grouping --------------------------------------------------------------------------------------------


def _in_ptx(analysis: FunctionAnalysis, block: range) -> Iterator[_Group]:
    for index in block:
        events = analysis.events[index]
        group = _Group([index], next((event for event in events if _is_main(event)), None))
        for event in events:
            _add(group, event)
        if group.event is not None or group.flush is not None or group.invalidates:
            yield group


def _in_sass(analysis: FunctionAnalysis, block: range) -> Iterator[_Group]:
    found: list[_Group] = []
    flushing: _Group | None = None
    acquiring: _Group | None = None
    for index in block:
        for event in analysis.events[index]:
            if isinstance(event, MemoryFlush):
                flushing = flushing or _new(found, index)
                _join(flushing, index, event)
            elif isinstance(event, L1Invalidate):
                group = flushing or acquiring or _new(found, index)
                _join(group, index, event)
                flushing = acquiring = None
            elif _is_main(event):
                group = flushing if flushing is not None and _releases(event) else _new(found, index)
                _join(group, index, event)
                acquiring = group if _acquires(event) else None
                flushing = None
            elif isinstance(event, Access) and event.space is not StateSpace.LOCAL:
                flushing = None
    yield from found


def _new(found: list[_Group], index: int) -> _Group:
    group = _Group([index])
    found.append(group)
    return group


def _join(group: _Group, index: int, event: Event) -> None:
    if index not in group.instructions:
        group.instructions.append(index)
    if _is_main(event):
        group.event = event
        group.named = index
    _add(group, event)


def _add(group: _Group, event: Event) -> None:
    if isinstance(event, MemoryFlush):
        group.flush = max(event.scope, group.flush or event.scope)
        group.sequential = group.sequential or event.sc
    group.invalidates = group.invalidates or isinstance(event, L1Invalidate)


def _is_main(event: Event) -> bool:
    match event:
        case Access():
            return event.semantics is not Semantics.WEAK and event.space is not StateSpace.LOCAL
        case MbarrierArrive(source=source):
            return source is ArriveSource.THREAD
        case TensorOperation(action=action):
            return action in _TENSOR_WAITS
        case GroupCommit(kind=kind):
            return kind is GroupKind.BULK
        case _:
            return isinstance(
                event, MbarrierWait | Fence | CtaBarrier | ClusterBarrier | GroupWait | GridDependency
            )


def _releases(event: Event) -> bool:
    match event:
        case Access():
            return event.writes
        case ClusterBarrier(action=action):
            return action is BarrierAction.ARRIVE
        case Fence(proxy=proxy):
            return proxy is not None
        case _:
            return isinstance(event, MbarrierArrive)


def _acquires(event: Event) -> bool:
    match event:
        case Access():
            return event.reads
        case ClusterBarrier(action=action):
            return action is BarrierAction.WAIT
        case GridDependency(action=action):
            return action is GridAction.WAIT
        case _:
            return isinstance(event, MbarrierWait | GroupWait)


# Names -----------------------------------------------------------------------------------------------


def _terms(group: _Group, polled: bool) -> tuple[Term, ...]:
    match group.event:
        case None:
            return _bare(group)
        case MbarrierWait(semantics=semantics):
            return _wait(group.invalidates, semantics)
        case MbarrierArrive(semantics=semantics):
            return _arrive(group, semantics)
        case Fence() as fence:
            return _fence(group, fence)
        case CtaBarrier(action=BarrierAction.ARRIVE):
            return (Term(("barrier.cta.arrive",), Part.ARRIVE),)
        case CtaBarrier():
            return (Term(("barrier.cta",), Part.BARRIER),)
        case ClusterBarrier(action=action):
            return _cluster_barrier(group, action)
        case GroupCommit():
            return (Term(("bulk.commit",), Part.ARRIVE),)
        case GroupWait() as wait:
            return (Term((_group_wait(wait),), Part.WAIT),)
        case GridDependency(action=action):
            part = Part.WAIT if action is GridAction.WAIT else Part.ARRIVE
            return (Term((f"griddepcontrol.{action}",), part),)
        case TensorOperation(action=action):
            return (Term((f"tcgen05.{action}",), Part.WAIT),)
        case Access() as access:
            return _strong_access(group, access, polled)
    raise AssertionError("an event that is no synchronisation")


def _bare(group: _Group) -> tuple[Term, ...]:
    """A memory barrier, an invalidate, or in SASS the two as one fence."""
    if group.flush is None:
        return (Term(_INVALIDATE, Part.INVALIDATE),)
    scope = group.flush.name.lower()
    order = "sc" if group.sequential else "acq_rel"
    if group.invalidates:
        return (Term((f"fence.{order}.{scope}",), Part.FLUSH),)
    part = Part.FENCE if group.flush is Scope.CTA else Part.FLUSH
    return (Term(_memory_barrier(group.flush, order), part),)


def _memory_barrier(scope: Scope, order: str = "acq_rel") -> tuple[str, ...]:
    """Names of a ``MEMBAR`` alone: what an arrival at cluster scope adds to one of the CTA, or a fence."""
    name = scope.name.lower()
    alike = ("mbarrier.arrive.release.cluster",) if scope is Scope.GPU and order != "sc" else ()
    return (f"membar.{name}" if order != "sc" else f"membar.sc.{name}", *alike, f"fence.{order}.{name}")


def _wait(invalidates: bool, semantics: Semantics | None) -> tuple[Term, ...]:
    """A plain wait, and what one of other semantics or scope adds to it."""
    plain = Term(("mbarrier.wait.acquire.cta",), Part.WAIT)
    if invalidates:
        return (Term(("mbarrier.wait.acquire.cluster",), Part.WAIT), plain)
    if semantics is Semantics.RELAXED:
        return (Term(("mbarrier.wait.relaxed.cluster",), Part.WAIT), plain)
    return (plain,)


def _arrive(group: _Group, semantics: Semantics | None) -> tuple[Term, ...]:
    plain = Term(("mbarrier.arrive.release.cta",), Part.ARRIVE)
    if group.flush is not None and group.flush > Scope.CTA:
        return (Term(("mbarrier.arrive.release.cluster",), Part.FLUSH), plain)
    if semantics is Semantics.RELAXED:
        return (Term(("mbarrier.arrive.relaxed", *plain.names), Part.ARRIVE),)
    return (plain,)


def _fence(group: _Group, fence: Fence) -> tuple[Term, ...]:
    if fence.mbarrier_init:
        return (Term(("fence.mbarrier_init",), Part.FENCE),)
    if fence.proxy is not None:
        return _proxy_fence(group, fence)
    semantics = fence.semantics or Semantics.ACQ_REL
    if fence.sync_restrict is not None:
        window, reach = fence.sync_restrict, (fence.scope or Scope.CLUSTER).name.lower()
        own = f"fence.{semantics}.sync_restrict::{window}.{reach}"
        return (Term((own, *(_memory_barrier(group.flush) if group.flush else ())), Part.FENCE),)
    scope = (fence.scope or group.flush or Scope.CTA).name.lower()
    own = f"fence.{semantics}.{scope}"
    wide = group.flush is not None and group.flush > Scope.CTA
    if semantics is Semantics.ACQUIRE:
        return (Term((own, *_INVALIDATE), Part.INVALIDATE if group.invalidates else Part.FENCE),)
    if semantics is Semantics.RELEASE and group.flush is not None:
        return (Term((own, *_memory_barrier(group.flush)), Part.FLUSH if wide else Part.FENCE),)
    return (Term((own,), Part.FLUSH if wide else Part.FENCE),)


def _proxy_fence(group: _Group, fence: Fence) -> tuple[Term, ...]:
    wide = group.flush is not None and group.flush > Scope.CTA
    part = Part.FLUSH if wide else Part.FENCE
    if fence.proxy is Proxy.ASYNC:
        if fence.semantics is not None:
            restricted = f"fence.proxy.async::generic.{fence.semantics}"
            return (Term((restricted, "fence.proxy.async.shared::cta"), part),)
        if fence.space is StateSpace.GLOBAL and not wide:
            return (Term(("fence.proxy.async.global",), part),)
        if wide or fence.space not in (StateSpace.SHARED, StateSpace.GLOBAL):
            return (Term(("fence.proxy.async",), part),)
        return (Term(("fence.proxy.async.shared::cta",), part),)
    if fence.proxy is Proxy.ALIAS:
        return (Term(("fence.proxy.alias", "fence.sc.sys"), Part.FLUSH),)
    semantics = "" if fence.semantics is None else f".{fence.semantics}"
    own = f"fence.proxy.{fence.proxy}{semantics}.{(fence.scope or group.flush or Scope.GPU).name.lower()}"
    return (Term((own, *(_memory_barrier(group.flush) if group.flush else ())), part),)


def _cluster_barrier(group: _Group, action: BarrierAction) -> tuple[Term, ...]:
    """A cluster barrier was measured as arrival and wait together: the wait has the cost of a relaxed one and
    of its invalidate, the arrival what a release adds."""
    relaxed = Term(("barrier.cluster.relaxed",), Part.BARRIER)
    if action is BarrierAction.ARRIVE:
        if group.flush is None:
            return (Term(("barrier.cluster.arrive",), Part.ARRIVE),)
        return (
            Term(("barrier.cluster.release",), Part.FLUSH),
            Term(relaxed.names, Part.FLUSH, less=True),
        )
    return (relaxed,)


def _group_wait(wait: GroupWait) -> str:
    name = _GROUPS[wait.kind]
    if wait.kind is GroupKind.WGMMA:
        return f"{name}.{min(wait.depth or 0, 1)}"
    return f"{name}.read" if wait.read_only else name


def _strong_access(group: _Group, access: Access, polled: bool) -> tuple[Term, ...]:
    """A strong access by what it adds to a relaxed one, which counts itself where a poll repeats it."""
    scope = (access.scope or group.flush or Scope.GPU).name.lower()
    kind = _access_name(access)
    relaxed = (Term((f"{kind}.relaxed.{scope}",), Part.WAIT),) if polled else ()
    if group.flush is not None and group.invalidates:
        return (Term((f"{kind}.acq_rel.{scope}", f"fence.acq_rel.{scope}"), Part.FLUSH), *relaxed)
    if group.flush is not None:
        names = (f"{kind}.release.{scope}", f"red.release.{scope}", *_memory_barrier(group.flush))
        part = Part.FENCE if group.flush is Scope.CTA else Part.FLUSH
        return (Term(names, part), *relaxed)
    if group.invalidates:
        names = (f"{kind}.acquire.{scope}", f"ld.acquire.{scope}", *_INVALIDATE)
        return (Term(names, Part.INVALIDATE), *relaxed)
    return relaxed


def _access_name(access: Access) -> str:
    if access.operation is not None:
        return "atom" if access.reads else "red"
    return "st" if access.writes else "ld"
