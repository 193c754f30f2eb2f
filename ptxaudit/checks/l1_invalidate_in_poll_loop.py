"""L1 invalidates that polling causes: at every attempt, or once per successful wait.

A warning where enough loads that can hit L1 follow in a loop around the poll. A note where none follow, for
an invalidate costs nothing by itself, or where the poll stands in no loop and so is executed once. A form
that invalidates less is proposed where the order engine finds it as well ordered.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.polling import Frequency, Invalidation, can_hit_l1, invalidations
from ptxaudit.analysis.pollloops import poll_loops
from ptxaudit.arch import SASS_ARCHITECTURES
from ptxaudit.ir.describe import operand_text
from ptxaudit.ir.events import (
    Access,
    Fence,
    L1Invalidate,
    MbarrierWait,
    Scope,
    Semantics,
    StateSpace,
)
from ptxaudit.ir.function import Function, Language
from ptxaudit.rules.model import Outcome, Related, Severity, Violation
from ptxaudit.rules.thresholds import Thresholds

NEEDS = (L1Invalidate,)
THRESHOLDS = ("warning-loads",)

if TYPE_CHECKING:
    from ptxaudit.checks._cheaper import Form, Judged

_SHOWN_LOADS = 3


def check(analysis: FunctionAnalysis, thresholds: Thresholds) -> Outcome:
    """Every invalidate that a poll causes; of SASS that has none at all, nothing need be known."""
    if analysis.function.language is Language.SASS and not analysis.may_have(*NEEDS):
        return Outcome.not_applicable()
    loops = poll_loops(analysis)
    waits = analysis.occurrences(MbarrierWait)
    if not waits and not loops.polls and not loops.undecided:
        return Outcome.not_applicable()
    found = invalidations(analysis)
    if not found:
        return Outcome.of([], _undecided(analysis))
    cheaper = _cheaper(analysis, found)
    loads = thresholds["warning-loads"]
    return Outcome.of([_violation(analysis, one, cheaper, loads) for one in found], _undecided(analysis))


def _cheaper(analysis: FunctionAnalysis, found: tuple[Invalidation, ...]) -> "Judged":
    """The forms that invalidate less and are as well ordered."""
    # Most functions have no such invalidate, and the order engine need not be loaded for them.
    from ptxaudit.checks import _cheaper as cheaper

    forms: list[Form] = []
    refused: dict[int, str] = {}
    for one in found:
        index = one.instruction.index
        attempt = _attempt(analysis, one)
        if cheaper.in_sass(analysis):
            refused[index] = cheaper.SASS_REASON
        elif attempt is None:
            refused[index] = "the invalidate is that of a fence in the polling loop"
        elif isinstance(attempt, Access):
            scope = attempt.scope or Scope.GPU
            semantics = _fence_semantics(analysis.function)
            words = f"Poll with a relaxed read, and put fence.{semantics}{scope} behind the loop"
            relaxed, fence = replace(attempt, semantics=Semantics.RELAXED), Fence(semantics, scope)
            # The fence invalidates as well, but once.
            forms.append(cheaper.Form(index, words, {index: (relaxed, fence, L1Invalidate())}))
        elif cheaper.may_hand_over_outside(analysis, index):
            refused[index] = "what is handed over may lie in global memory, which needs the invalidate"
        else:
            words = f"Wait at .relaxed.cluster, and put {_RESTRICTED} behind the loop"
            fence = Fence(Semantics.ACQUIRE, Scope.CLUSTER, sync_restrict=StateSpace.CLUSTER)
            wait = replace(attempt, semantics=Semantics.RELAXED)
            forms.append(cheaper.Form(index, words, {index: (wait, fence)}, _RESTRICTED_CODE))
    return cheaper.judged(analysis, forms, refused)


def _fence_semantics(function: Function) -> Semantics:
    """The least that a fence behind a loop can be: ``fence.acquire`` is of PTX 8.6 and sm_90 (9.7.13.4)."""
    version = function.isa_version or _ACQUIRE_FENCES
    has_acquire = function.architecture.number >= 90 and version >= _ACQUIRE_FENCES
    return Semantics.ACQUIRE if has_acquire else Semantics.ACQ_REL


def _attempt(analysis: FunctionAnalysis, one: Invalidation) -> Access | MbarrierWait | None:
    """The wait or read that is itself assembled with the invalidate."""
    if one.attempt is not one.instruction:
        return None
    events = analysis.events[one.attempt.index]
    return next((event for event in events if isinstance(event, Access | MbarrierWait)), None)


_ACQUIRE_FENCES = (8, 6)
_RESTRICTED = "fence.acquire.sync_restrict::shared::cluster.cluster"
_RESTRICTED_CODE = f"""wait:
    mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p, [bar], %phase;
    @!%p bra wait;
    {_RESTRICTED};
"""


def _violation(
    analysis: FunctionAnalysis, one: Invalidation, cheaper: "Judged", warning_loads: float
) -> Violation:
    # At every attempt the other warps of the multiprocessor lose their lines, too, as long as this one waits.
    every_attempt = one.frequency is Frequency.EVERY_ATTEMPT
    costs = every_attempt or (one.enclosing is not None and len(one.loads) >= warning_loads)
    follows = one.loads[:_SHOWN_LOADS]
    related = [Related(load, "can hit L1 and follows") for load in follows]
    related += [Related(copy, "the first attempt, apart from the loop") for copy in one.copies]
    if one.attempt is not one.instruction:
        related.insert(0, Related(one.attempt, "what is polled"))
    return Violation(
        one.instruction,
        {
            "polled": _polled(analysis, one),
            "frequency": one.frequency.value,
            "loads": _loads_text(one),
        },
        tuple(related),
        (_why(one), *_repetition(analysis, one), *_other_loads(analysis, one)),
        severity=Severity.WARNING if costs else Severity.NOTE,
        cheaper=cheaper.events(one.instruction.index),
        fix=cheaper.fix(one.instruction.index),
    )


def _loads_text(one: Invalidation) -> str:
    where = "after it" if one.enclosing is None else "in the loop around it"
    if not one.loads:
        return f"no load that could hit L1 follows {where}"
    number = "1 load" if len(one.loads) == 1 else f"{len(one.loads)} loads"
    return f"{number} that can hit L1 {'follows' if len(one.loads) == 1 else 'follow'} {where}"


def _polled(analysis: FunctionAnalysis, one: Invalidation) -> str:
    for event in analysis.events[one.attempt.index]:
        if isinstance(event, MbarrierWait):
            return f"the mbarrier {operand_text(event.address)}"
        if isinstance(event, Access):
            own = event.space in (StateSpace.SHARED, StateSpace.CLUSTER)
            return f"the {'shared-memory' if own else 'global'} flag {operand_text(event.address)}"
    raise AssertionError("an attempt is a wait or an access")


def _why(one: Invalidation) -> str:
    if one.frequency is Frequency.EVERY_ATTEMPT:
        return "It executes also when the attempt fails and the loop goes round again."
    if one.instruction.guard is not None and one.attempt is not one.instruction:
        return f"Its guard {one.instruction.guard} is false when the attempt fails."
    return "It executes only when the wait has succeeded."


def _repetition(analysis: FunctionAnalysis, one: Invalidation) -> tuple[str, ...]:
    if one.enclosing is not None:
        return ()
    if analysis.function.is_entry:
        return ("No loop but the polling one is around it: the wait is executed once.",)
    return ("How often this function is called is not known.",)


def _other_loads(analysis: FunctionAnalysis, one: Invalidation) -> tuple[str, ...]:
    """Loads of other roles: all warps of an SM share its L1."""
    if one.loads:
        return ()
    others = sum(can_hit_l1(analysis, instruction) for instruction in analysis.function.instructions)
    if not others:
        return ("The function has no load that could hit L1.",)
    return (f"Elsewhere the function has {others} that can; other warps may execute them meanwhile.",)


def _undecided(analysis: FunctionAnalysis) -> str | None:
    loops = poll_loops(analysis)
    if loops.undecided:
        return "a polling loop holds an instruction that is not in the instruction tables"
    stray = {analysis.function.block_of(i.index).id for i, _ in analysis.occurrences(L1Invalidate)}
    if stray & analysis.graph.irreducible:
        return "an L1 invalidate stands on a cycle that is entered at two places"
    architecture = analysis.function.architecture
    if analysis.function.language is Language.PTX and architecture.number not in SASS_ARCHITECTURES:
        blocks = frozenset[int]().union(*(poll.blocks for poll in loops.polls))
        if any(_acquires_widely(analysis, block) for block in blocks):
            return f"what an acquire is assembled to on {architecture.name} is not known"
    return None


def _acquires_widely(analysis: FunctionAnalysis, block: int) -> bool:
    bounds = analysis.graph.blocks[block]
    return any(
        isinstance(event, Access | Fence | MbarrierWait)
        and event.semantics is not None
        and event.semantics.acquires
        and event.scope is not Scope.CTA
        for index in range(bounds.start, bounds.end)
        for event in analysis.events[index]
    )
