"""A release of cluster scope or wider that hands over nothing.

Property: whether a generic write, or an initialisation of an mbarrier that ``fence.mbarrier_init`` has not
published, may come before the release. Direction: forward from each write; join: some path. Writes of threads
elsewhere in the code count unless every path to them goes through the release, for a barrier may hand them
over first (cumulativity).
"""

from dataclasses import replace

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.arch import SASS_ARCHITECTURES
from ptxaudit.checks._executions import has_unknown_code
from ptxaudit.checks._grids import reached
from ptxaudit.ir.events import (
    Access,
    ArriveSource,
    BarrierAction,
    ClusterBarrier,
    Completion,
    CtaBarrier,
    Event,
    Fence,
    L1Invalidate,
    MbarrierArrive,
    MbarrierInit,
    MemoryFlush,
    Proxy,
    Scope,
    Semantics,
    StateSpace,
    TensorAction,
    TensorOperation,
    WarpBarrier,
)
from ptxaudit.ir.function import Language
from ptxaudit.ir.instruction import Instruction
from ptxaudit.rules.model import Outcome, Related, Violation

NEEDS = (ClusterBarrier, MbarrierArrive)

_HANDING_OVER = (CtaBarrier, ClusterBarrier, MbarrierArrive, WarpBarrier)
_VISIBLE = (StateSpace.GLOBAL, StateSpace.GENERIC, StateSpace.SHARED, StateSpace.CLUSTER)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Every wide release of an arrival."""
    arrivals: list[tuple[Instruction, Event]] = [
        *analysis.occurrences(ClusterBarrier),
        *_by_threads(analysis),
    ]
    releases = [i for i, event in arrivals if _is_wide(analysis, i, event)]
    if not releases:
        return Outcome.of([]) if arrivals else Outcome.not_applicable()
    if has_unknown_code(analysis):
        return Outcome.of([], "called functions or unknown instructions may write what the release publishes")
    if analysis.function.architecture.number not in SASS_ARCHITECTURES:
        return Outcome.of(
            [], f"what a release is assembled to on {analysis.function.architecture.name} is not known"
        )
    violations: list[Violation] = []
    unknown: str | None = None
    writes = [i.index for i, event in analysis.occurrences(Access) if _publishable(event)]
    writes += [
        i.index for i, event in analysis.occurrences(TensorOperation) if event.action is TensorAction.ALLOCATE
    ]
    for release in releases:
        if _some_reach(analysis, writes, release):
            continue
        if any(not _comes_after(analysis, write, release) for write in writes):
            unknown = "whether writes of other roles are handed over by the wide release is not known"
        elif (state := _initialisation(analysis, release)) is not None:
            unknown = state or unknown
        else:
            violations.append(_violation(analysis, release))
    return Outcome.of(_with_forms(analysis, violations), unknown)


def _with_forms(analysis: FunctionAnalysis, violations: list[Violation]) -> list[Violation]:
    """The violations with their narrower forms, without those that the order engine finds needed."""
    if not violations:
        return []
    # Most functions have no such release, and the order engine need not be loaded for them.
    from ptxaudit.checks import _cheaper as cheaper

    places = [violation.primary.index for violation in violations]
    if cheaper.in_sass(analysis):
        judged = cheaper.judged(analysis, (), dict.fromkeys(places, cheaper.SASS_REASON))
    else:
        narrow = {index: cheaper.narrowed(analysis.events[index]) for index in places}
        forms = [cheaper.Form(i, one[0], {i: one[1]}) for i, one in narrow.items() if one is not None]
        judged = cheaper.judged(analysis, forms)
    return [
        replace(one, cheaper=judged.events(one.primary.index), fix=judged.fix(one.primary.index))
        for one in violations
        if one.primary.index not in judged.needed
    ]


def _by_threads(analysis: FunctionAnalysis) -> list[tuple[Instruction, MbarrierArrive]]:
    """The arrivals that a thread makes itself: what an asynchronous operation releases costs no barrier."""
    arrivals = analysis.occurrences(MbarrierArrive)
    return [(i, event) for i, event in arrivals if event.source is ArriveSource.THREAD]


def _is_wide(analysis: FunctionAnalysis, instruction: Instruction, event: Event) -> bool:
    if isinstance(event, ClusterBarrier):
        if event.action is not BarrierAction.ARRIVE:
            return False
        if analysis.function.language is Language.PTX:
            return event.semantics is None or event.semantics.releases
    elif isinstance(event, MbarrierArrive) and analysis.function.language is Language.PTX:
        wide = event.scope is not None and event.scope > Scope.CTA
        return wide and event.semantics is not None and event.semantics.releases
    return _follows_flush(analysis, instruction)


def _follows_flush(analysis: FunctionAnalysis, instruction: Instruction) -> bool:
    """Whether a ``MEMBAR`` of GPU scope stands before it that belongs to nothing else (SASS)."""
    start = analysis.function.block_of(instruction.index).start
    for index in range(instruction.index - 1, start - 1, -1):
        for event in analysis.events[index]:
            if isinstance(event, MemoryFlush):
                return event.scope >= Scope.GPU
            if isinstance(event, L1Invalidate | Fence | MbarrierArrive | ClusterBarrier | Access):
                return False
    return False


def _publishable(event: Access) -> bool:
    """A write through the generic proxy that threads of other CTAs may read; an asynchronous one is not."""
    return (
        event.writes
        and event.proxy is Proxy.GENERIC
        and event.space in _VISIBLE
        and event.completion in (Completion.SYNCHRONOUS, Completion.ASYNC_GROUP)
        and event.semantics is not Semantics.RELEASE
    )


def _some_reach(analysis: FunctionAnalysis, writes: list[int], release: Instruction) -> bool:
    return any(
        release.index in reached(analysis, write, lambda index: index == release.index) for write in writes
    )


def _comes_after(analysis: FunctionAnalysis, write: int, release: Instruction) -> bool:
    """Whether a write is certain to come after the release, or to be handed to no other thread at all."""
    block, own = analysis.function.block_of(write).id, analysis.function.block_of(release.index).id
    if block == own:
        return write > release.index
    if analysis.graph.dominates(own, block):
        return True
    way = reached(analysis, write, lambda index: False)
    return not any(isinstance(event, _HANDING_OVER) for index in way for event in analysis.events[index])


def _initialisation(analysis: FunctionAnalysis, release: Instruction) -> str | None:
    """``None`` if no mbarrier initialisation needs the release, a reason if that is not known, else empty."""
    reaching = [
        init.index
        for init, _ in analysis.occurrences(MbarrierInit)
        if release.index in reached(analysis, init.index, lambda index: index == release.index)
    ]
    if not reaching:
        return None
    if analysis.function.language is Language.SASS:
        return "SASS does not show whether fence.mbarrier_init has published the mbarriers already"
    unpublished = any(
        release.index
        in reached(analysis, init, lambda index: index == release.index or _publishes_init(analysis, index))
        for init in reaching
    )
    return "" if unpublished else None


def _publishes_init(analysis: FunctionAnalysis, index: int) -> bool:
    return any(isinstance(event, Fence) and event.mbarrier_init for event in analysis.events[index])


def _violation(analysis: FunctionAnalysis, release: Instruction) -> Violation:
    inits = analysis.occurrences(MbarrierInit)
    published = [
        Related(i, "publishes the mbarriers already")
        for i, event in analysis.occurrences(Fence)
        if event.mbarrier_init
    ]
    what = "nothing but mbarriers that fence.mbarrier_init has published" if inits else "nothing"
    return Violation(
        release,
        {"what": what},
        tuple(published[:1]),
        ("No write through the generic proxy can come before it.",),
    )
