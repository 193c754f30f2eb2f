"""``fence.proxy.async`` without ``.shared::cta`` where only the CTA's own shared memory is handed over.

The wide forms are assembled with ``MEMBAR.ALL.GPU``, the narrow one with ``MEMBAR.ALL.CTA``. The wide one is
needed where generic accesses to other memory come before the fence and asynchronous ones to it after.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.arch import SASS_ARCHITECTURES
from ptxaudit.checks._executions import has_unknown_code
from ptxaudit.checks._grids import reached
from ptxaudit.ir.events import (
    Access,
    AddressMapping,
    ClusterBarrier,
    Event,
    Fence,
    MemoryFlush,
    Proxy,
    Scope,
    StateSpace,
)
from ptxaudit.ir.function import Language
from ptxaudit.ir.instruction import Instruction
from ptxaudit.rules.model import Outcome, Related, Violation

NEEDS = (Fence,)

if TYPE_CHECKING:
    from ptxaudit.checks._cheaper import Judged

_SHARED = (StateSpace.SHARED, StateSpace.CLUSTER)
_BETWEEN = ("NOP", "ERRBAR", "CGAERRBAR")


def check(analysis: FunctionAnalysis) -> Outcome:
    """Every wide proxy fence, with what it could be needed for."""
    fences = [i for i, event in analysis.occurrences(Fence) if event.proxy is Proxy.ASYNC]
    if not fences:
        return Outcome.not_applicable()
    wide = [fence for fence in fences if _is_wide(analysis, fence)]
    if not wide:
        return Outcome.of([])
    consumers = [
        i for i, event in analysis.occurrences(Access) if _is_async(event) and event.space in _SHARED
    ]
    if not consumers:
        return Outcome.of([])
    if has_unknown_code(analysis):
        return Outcome.of([], "called functions or unknown instructions may need the wide proxy fence")
    if _reaches_peers(analysis):
        return Outcome.of([], "shared memory of other CTAs is accessed, which may need the wide proxy fence")
    if analysis.function.architecture.number not in SASS_ARCHITECTURES:
        name = analysis.function.architecture.name
        return Outcome.of([], f"what a proxy fence is assembled to on {name} is not known")
    own = [fence for fence in wide if not _may_cover_global(analysis, fence)]
    unknown = "whether the proxy fence also hands over global memory is not known" if own != wide else None
    if not own:
        return Outcome.of([], unknown)
    cheaper = _cheaper(analysis, own)
    violations = [
        _violation(analysis, fence, consumers[0], cheaper)
        for fence in own
        if fence.index not in cheaper.needed
    ]
    return Outcome.of(violations, unknown)


def _cheaper(analysis: FunctionAnalysis, fences: list[Instruction]) -> "Judged":
    """The fences narrowed to own shared memory, where that is as well ordered."""
    # Most functions have no wide fence, and the order engine need not be loaded for them.
    from ptxaudit.checks import _cheaper as cheaper

    words = "Narrow it to fence.proxy.async.shared::cta"
    forms = [cheaper.Form(fence.index, words, _narrowed(analysis, fence)) for fence in fences]
    return cheaper.judged(analysis, forms)


def _narrowed(analysis: FunctionAnalysis, fence: Instruction) -> dict[int, tuple[Event, ...]]:
    """The events of the fence, and in SASS of its memory barrier, if it were one of own shared memory."""
    barrier = _memory_barrier(analysis, fence)
    narrow: dict[int, tuple[Event, ...]] = {} if barrier is None else {barrier: (MemoryFlush(Scope.CTA),)}
    events = (
        replace(e, space=StateSpace.SHARED) for e in analysis.events[fence.index] if isinstance(e, Fence)
    )
    return {**narrow, fence.index: tuple(events)}


def _is_async(event: Access) -> bool:
    return event.proxy is Proxy.ASYNC


def _is_wide(analysis: FunctionAnalysis, fence: Instruction) -> bool:
    """In PTX by its spelling; in SASS by the memory barrier before it, which belongs to it alone."""
    if analysis.function.language is Language.PTX:
        return any(
            isinstance(event, Fence)
            and event.semantics is None
            and event.space is not StateSpace.SHARED
            and event.space is not StateSpace.GLOBAL
            for event in analysis.events[fence.index]
        )
    barrier = _memory_barrier(analysis, fence)
    if barrier is None:
        return False
    flushes = (event for event in analysis.events[barrier] if isinstance(event, MemoryFlush))
    return next(flushes).scope >= Scope.GPU


def _memory_barrier(analysis: FunctionAnalysis, fence: Instruction) -> int | None:
    """The memory barrier before a fence in SASS that belongs to it alone."""
    start = analysis.function.block_of(fence.index).start
    for index in range(fence.index - 1, start - 1, -1):
        events = analysis.events[index]
        if any(isinstance(event, MemoryFlush) for event in events):
            return index
        if events or analysis.function.instructions[index].parts[0] in _BETWEEN:
            return None
    return None


def _reaches_peers(analysis: FunctionAnalysis) -> bool:
    """Whether threads may write shared memory of other CTAs through the generic proxy."""
    if analysis.function.language is Language.PTX:
        if analysis.occurrences(AddressMapping):
            return True
    elif analysis.occurrences(ClusterBarrier):  # SASS maps addresses to other CTAs by plain arithmetic
        return True
    return any(
        event.space is StateSpace.CLUSTER and event.proxy is Proxy.GENERIC and event.writes
        for _, event in analysis.occurrences(Access)
    )


def _may_cover_global(analysis: FunctionAnalysis, fence: Instruction) -> bool:
    """Whether generic writes of global memory come before the fence, and asynchronous reads of it after."""
    after = set(reached(analysis, fence.index, lambda index: False))
    reads = any(
        _is_async(event) and event.space is StateSpace.GLOBAL and event.reads and instruction.index in after
        for instruction, event in analysis.occurrences(Access)
    )
    return reads and any(
        fence.index in reached(analysis, write.index, lambda index: index == fence.index)
        for write in _generic_global_writes(analysis)
    )


def _generic_global_writes(analysis: FunctionAnalysis) -> Iterator[Instruction]:
    for instruction, event in analysis.occurrences(Access):
        outer = event.space in (StateSpace.GLOBAL, StateSpace.GENERIC)
        if event.proxy is Proxy.GENERIC and event.writes and outer:
            yield instruction


def _violation(
    analysis: FunctionAnalysis, fence: Instruction, consumer: Instruction, cheaper: "Judged"
) -> Violation:
    loop = analysis.graph.innermost_loop(analysis.function.block_of(fence.index).id)
    return Violation(
        fence,
        {"where": "in a loop" if loop is not None else "once"},
        (Related(consumer, "an asynchronous access to the CTA's own shared memory"),),
        (
            "After it no asynchronous operation reads global memory that threads have written before it.",
            "A wide fence may hide a missing one elsewhere: check the hand-overs again after narrowing it.",
        ),
        cheaper=cheaper.events(fence.index),
        fix=cheaper.fix(fence.index),
    )
