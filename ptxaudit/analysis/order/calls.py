"""Calls that the order engine does not follow, and whether what they do could matter.

Property: a call is harmless when the callee, and all that it calls, neither synchronises nor touches shared
memory (or memory through generic addresses), or when it is one of the runtime's functions that print, trap or
allocate. Of all other calls, and of indirect ones, nothing is known.

Direction: from callers to callees. Join: the worst effect of any call. Known limit: a callee counts whole,
whichever of its instructions this call reaches.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import IntEnum

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.ir import events as ev
from ptxaudit.ir.function import Function
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.traits import Trait

_RUNTIME = frozenset({"vprintf", "__assertfail", "malloc", "free", "__nv_ptx_builtin_ocg_trap"})


class CallEffect(IntEnum):
    """The most that the calls of a function may do, the worst last."""

    HARMLESS = 0
    MEMORY = 1
    SYNCHRONISES = 2


def call_effects(analysis: FunctionAnalysis) -> tuple[CallEffect, str]:
    """The worst effect of a function's calls, and the callee that has it."""
    return _effects(analysis, frozenset({analysis.function.name}))


def _effects(analysis: FunctionAnalysis, active: frozenset[str]) -> tuple[CallEffect, str]:
    worst, culprit = CallEffect.HARMLESS, ""
    for name, inner in _called_directly(analysis, active):
        if inner is None:
            effect, culprit_here = CallEffect.SYNCHRONISES, name
        else:
            own = _own_effect(inner)
            effect, culprit_here = max((own, name), _effects(inner, active | {name}))
        if effect > worst:
            worst, culprit = effect, culprit_here
    return worst, culprit


@dataclass(frozen=True, slots=True)
class Called:
    """What the functions that a function may call do: the traits of their events, each with the name of one
    that has it, and the name of one of which nothing, or not all, is known."""

    traits: Mapping[Trait, str]
    unknown: str | None


def called(analysis: FunctionAnalysis) -> Called:
    """What is behind the calls of a function that are not followed, whatever it is called for."""
    traits: dict[Trait, str] = {}
    unknown: str | None = None
    seen = {analysis.function.name}
    pending = [analysis]
    while pending:
        for name, inner in _called_directly(pending.pop(), seen):
            seen.add(name)
            if inner is None or inner.first_unknown is not None:
                unknown = name
            if inner is not None:
                traits.update(dict.fromkeys(inner.traits, name))
                pending.append(inner)
    return Called(traits, unknown)


def _called_directly(
    caller: FunctionAnalysis, known: AbstractSet[str]
) -> Iterator[tuple[str, FunctionAnalysis | None]]:
    """The functions that calls name which are not followed, less harmless and known ones; ``None`` for one
    whose code is not at hand."""
    for instruction, transfer in caller.occurrences(ev.Transfer):
        is_call = transfer.kind is ev.TransferKind.CALL
        if not is_call or transfer.target in _RUNTIME or _is_followed(caller, instruction):
            continue
        callee = _callee(caller, transfer.target or "")
        # In SASS a call names the place, so that only the callee tells whether it is a known one.
        name = callee.name if callee is not None else transfer.target or "a function that is not known"
        if name not in known:
            yield name, None if callee is None else FunctionAnalysis(callee, caller.module)


def _is_followed(analysis: FunctionAnalysis, call: Instruction) -> bool:
    """Whether a SASS call is a jump of the control-flow graph: ptxas calls code of the function itself."""
    block = analysis.function.block_of(call.index)
    following = block.end < len(analysis.function.instructions)
    return call.index == block.end - 1 and len(block.successors) > (1 if following else 0)


def _callee(analysis: FunctionAnalysis, target: str) -> Function | None:
    """The function of the module that a call names, or whose first instruction it names (SASS)."""
    for function in analysis.module.functions:
        start = function.instructions[0].location.offset if function.instructions else None
        if function.name == target or (start is not None and target == f".{start:#x}"):
            return function
    return None


def _own_effect(analysis: FunctionAnalysis) -> CallEffect:
    return max((_effect_of(e) for events in analysis.events for e in events), default=CallEffect.HARMLESS)


_HARMLESS_EVENTS = (ev.Transfer, ev.Backoff, ev.Election, ev.AddressMapping, ev.WarpBarrier)
_SHARED_SPACES = (ev.StateSpace.SHARED, ev.StateSpace.CLUSTER, ev.StateSpace.GENERIC, ev.StateSpace.TENSOR)


def _effect_of(event: ev.Event) -> CallEffect:
    if isinstance(event, _HARMLESS_EVENTS):
        return CallEffect.HARMLESS
    if isinstance(event, ev.Access) and event.completion is ev.Completion.SYNCHRONOUS:
        return CallEffect.MEMORY if event.space in _SHARED_SPACES else CallEffect.HARMLESS
    return CallEffect.SYNCHRONISES
