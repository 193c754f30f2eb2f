"""Memory barriers of GPU or system scope in loops that do work.

A warning in an innermost loop; a note in a loop around others, where it runs once per outer trip. A loop
that only polls is no such loop: one in no other loop is left to ``l1-invalidate-in-poll-loop``.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.pollloops import poll_loops
from ptxaudit.arch import SASS_ARCHITECTURES
from ptxaudit.ir.cfg import Loop
from ptxaudit.ir.events import (
    Access,
    BarrierAction,
    ClusterBarrier,
    Event,
    Fence,
    L1Invalidate,
    MbarrierArrive,
    MemoryFlush,
    Scope,
    Semantics,
)
from ptxaudit.ir.function import Language
from ptxaudit.ir.instruction import Instruction
from ptxaudit.rules.model import Outcome, Related, Severity, Violation

NEEDS = (MemoryFlush, Fence, ClusterBarrier, MbarrierArrive)


if TYPE_CHECKING:
    from ptxaudit.checks._cheaper import Form, Judged


@dataclass(frozen=True, slots=True)
class _Place:
    instruction: Instruction
    flush: str
    purpose: str
    loop: Loop


def check(analysis: FunctionAnalysis) -> Outcome:
    """Every wide memory barrier that a loop repeats."""
    if not analysis.has(*NEEDS):
        return Outcome.not_applicable()
    places: dict[Hashable, list[_Place]] = {}
    unknown = _unmeasured(analysis)
    for instruction, flush in analysis.occurrences(MemoryFlush):
        if flush.scope < Scope.GPU:
            continue
        block = analysis.function.block_of(instruction.index).id
        loop = poll_loops(analysis).working_of(block)
        if block in analysis.graph.irreducible:
            unknown = "a memory barrier stands on a cycle that is entered at two places"
        elif loop is not None:
            place = _Place(instruction, _spelled(flush), _purpose(analysis, instruction), loop)
            places.setdefault(_identity(analysis, place), []).append(place)
        elif not analysis.function.is_entry:
            unknown = "how often the callers of this function repeat its memory barrier is not known"
    if not places:
        return Outcome.of([], unknown)
    cheaper = _cheaper(analysis, [same[0].instruction for same in places.values()])
    return Outcome.of([_violation(analysis, same, cheaper) for same in places.values()], unknown)


def _cheaper(analysis: FunctionAnalysis, barriers: list[Instruction]) -> "Judged":
    """The narrower forms that are as well ordered."""
    # Most functions have no such barrier, and the order engine need not be loaded for them.
    from ptxaudit.checks import _cheaper as cheaper

    forms: list[Form] = []
    refused: dict[int, str] = {}
    for barrier in barriers:
        index = barrier.index
        narrow = None if cheaper.in_sass(analysis) else cheaper.narrowed(analysis.events[index])
        if cheaper.in_sass(analysis):
            refused[index] = cheaper.SASS_REASON
        elif cheaper.may_publish(analysis, index):
            refused[index] = "it may publish what was written to global memory before it"
        elif narrow is not None:
            words, events = narrow
            forms.append(cheaper.Form(index, words, {index: events}))
    return cheaper.judged(analysis, forms, refused)


def _identity(analysis: FunctionAnalysis, place: _Place) -> Hashable:
    """What tells a memory barrier from others: SASS of an unrolled loop has one several times."""
    if analysis.function.language is Language.PTX:
        return place.instruction.index
    return place.loop.header, place.flush, place.purpose


def _violation(analysis: FunctionAnalysis, same: list[_Place], cheaper: "Judged") -> Violation:
    first = same[0]
    innermost = poll_loops(analysis).is_innermost(first.loop)
    evidence = [
        "The loop holds no other loop that does work."
        if innermost
        else "The loop is around others: it runs once per trip of the outer loop."
    ]
    if first.instruction.guard is not None:
        evidence.append(f"It executes only where {first.instruction.guard} holds.")
    return Violation(
        first.instruction,
        {"flush": first.flush, "instruction": first.purpose},
        tuple(Related(place.instruction, "the same in this loop") for place in same[1:]),
        tuple(evidence),
        severity=Severity.WARNING if innermost else Severity.NOTE,
        cheaper=cheaper.events(first.instruction.index),
        fix=cheaper.fix(first.instruction.index),
    )


def _spelled(flush: MemoryFlush) -> str:
    return f"MEMBAR.{'SC' if flush.sc else 'ALL'}.{flush.scope.name}"


def _purpose(analysis: FunctionAnalysis, barrier: Instruction) -> str:
    """The PTX instruction; in SASS the release that a memory barrier stands before, or a fence."""
    if analysis.function.language is Language.PTX:
        return barrier.opcode
    end = analysis.function.block_of(barrier.index).end
    for index in range(barrier.index + 1, end):
        for event in analysis.events[index]:
            if isinstance(event, L1Invalidate):
                return "a fence (acquire and release)"
            if isinstance(event, Fence):
                return "a proxy fence"
            if _publishes(event):
                return f"the release before {analysis.function.instructions[index].opcode}"
    return "a release or fence"


def _publishes(event: Event) -> bool:
    match event:
        case MbarrierArrive() | ClusterBarrier(BarrierAction.ARRIVE):
            return True
        case Access():
            return event.writes and event.semantics is not Semantics.WEAK
        case _:
            return False


def _unmeasured(analysis: FunctionAnalysis) -> str | None:
    """PTX for an architecture whose SASS is not known shows no memory barriers: undecided with fences."""
    architecture = analysis.function.architecture
    if analysis.function.language is Language.SASS or architecture.number in SASS_ARCHITECTURES:
        return None
    wide = any(
        isinstance(event, Fence | Access | MbarrierArrive)
        and event.semantics is not None
        and event.semantics.releases
        and event.scope not in (None, Scope.CTA)
        for events in analysis.events
        for event in events
    )
    return f"what a release is assembled to on {architecture.name} is not known" if wide else None
