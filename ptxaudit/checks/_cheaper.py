"""Cheaper forms of synchronisation that rules propose, each put to the order engine first.

A form is what the events of an instruction would be in it. The engine walks every explored run of the kernel
with these events: it must find each access and each phase as well ordered as before, in runs long enough that
the buffers of the loop around come round. What the engine does not see rules a form out before that: generic
writes of global memory, or of other CTAs' memory, that may be what is handed over.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport, global_order_of, order_of
from ptxaudit.analysis.order.rounds import Repeated, find_dispensable, repeated
from ptxaudit.analysis.order.whatif import Weakening, weaker, why_not
from ptxaudit.analysis.pollloops import indices, poll_loops
from ptxaudit.checks._executions import steps_of
from ptxaudit.checks._grids import reached
from ptxaudit.checks._guarding import executed, unknown_code, unsure_copies
from ptxaudit.checks._order import incomplete
from ptxaudit.ir import events as ev
from ptxaudit.ir.function import Language
from ptxaudit.rules.model import Fix

AS_ORDERED = "the order engine finds every access as well ordered with it"
_READS_BEFORE = "reads come before it, which a relaxed arrival does not keep there"
_SHARED = (ev.StateSpace.SHARED, ev.StateSpace.CLUSTER, ev.StateSpace.GENERIC)
_OUTSIDE = (ev.StateSpace.GLOBAL, ev.StateSpace.GENERIC)


@dataclass(frozen=True, slots=True)
class Form:
    """A cheaper form: ``words`` name it, ``events`` are those of the instructions in it, by index."""

    index: int
    words: str
    events: Mapping[int, tuple[ev.Event, ...]]
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """The forms that the order engine finds as well ordered, by the instruction that they are of, and why
    there is none for others; ``needed`` are those whose order the engine finds missing in the form."""

    forms: Mapping[int, Form] = field(default_factory=dict)
    reasons: Mapping[int, str] = field(default_factory=dict)
    needed: frozenset[int] = frozenset()

    def events(self, index: int) -> Mapping[int, tuple[ev.Event, ...]]:
        """The events of the form of an instruction; nothing where there is none."""
        form = self.forms.get(index)
        return {} if form is None else form.events

    def fix(self, index: int) -> Fix:
        """What to do about an instruction: the form, or that none is proposed and why."""
        form = self.forms.get(index)
        if form is not None:
            return Fix(f"{form.words}: {AS_ORDERED}.", form.code)
        reason = self.reasons.get(index, "none was tried")
        return Fix(f"No cheaper form is proposed: {reason}.")


def judged(
    analysis: FunctionAnalysis, forms: Sequence[Form], refused: Mapping[int, str] | None = None
) -> Judged:
    """What the order engine says of forms; ``refused`` are reasons for those that need not be asked for."""
    reasons = dict(refused or {})
    if not forms:
        return Judged({}, reasons)
    with analysis.asked_beside():
        found = _judged(analysis, forms, reasons)
    passed = {index for index, form in found.forms.items() if _lets_reads_pass(analysis, form)}
    return Judged(
        {index: form for index, form in found.forms.items() if index not in passed},
        {**found.reasons, **dict.fromkeys(passed, _READS_BEFORE)},
        found.needed | passed,
    )


def _lets_reads_pass(analysis: FunctionAnalysis, form: Form) -> bool:
    """Whether reads may come before an arrival at other CTAs that does not keep them there in this form.

    The engine takes a read as done when it was executed. A relaxed arrival orders no access before it (PTX
    ISA, ``barrier.cluster``), so that what another CTA writes after the barrier may be read.
    """
    if not any(isinstance(event, ev.ClusterBarrier) for event in analysis.events[form.index]):
        return False
    return any(
        event.reads and event.space in _SHARED and form.index in reached(analysis, place.index, _nowhere)
        for place, event in analysis.occurrences(ev.Access)
    )


def _nowhere(index: int) -> bool:
    return False


def _judged(analysis: FunctionAnalysis, forms: Sequence[Form], reasons: dict[int, str]) -> Judged:
    reason = unknown_code(analysis) if analysis.function.is_entry else "it is a device function, no kernel"
    flags = any(isinstance(event, ev.Access) for form in forms for event in analysis.events[form.index])
    report = None if reason is not None else global_order_of(analysis) if flags else order_of(analysis)
    if report is not None:
        reason = incomplete(report) or why_not(report)
    if report is None or reason is not None:
        return Judged({}, {**reasons, **{form.index: reason or "" for form in forms}})
    steps = {step.instruction.index for one in report.executions for step in steps_of(one)}
    known = [form for form in forms if form.index in steps]
    reasons.update({form.index: "no explored execution comes to it" for form in forms if form not in known})
    found = find_dispensable(report, known, _all_of, lambda form: _around(analysis, report, form))
    ordered = {form.index: form for form in found.units}
    others = [form.index for form in known if form.index not in ordered]
    why = found.reason or "with a cheaper form some access or mbarrier phase would no longer be ordered"
    reasons.update(dict.fromkeys(others, why))
    return Judged(ordered, reasons, frozenset(others if found.reason is None else ()))


def _all_of(forms: Sequence[Form]) -> Weakening:
    return weaker({index: events for form in forms for index, events in form.events.items()})


def _around(analysis: FunctionAnalysis, report: OrderReport, form: Form) -> Repeated:
    """The accesses to shared memory in the loop around a form, whose buffers have to come round."""
    loop = poll_loops(analysis).working_of(analysis.function.block_of(form.index).id)
    if loop is None:
        return repeated(analysis, (), ())
    sure = executed(analysis, report) - unsure_copies(analysis, report)
    inside = (i for i in indices(analysis.graph, loop.blocks) if i in sure and _touches_shared(analysis, i))
    return repeated(analysis, inside, [loop])


def _touches_shared(analysis: FunctionAnalysis, index: int) -> bool:
    return any(isinstance(event, ev.Access) and event.space in _SHARED for event in analysis.events[index])


def narrowed(events: tuple[ev.Event, ...]) -> tuple[str, tuple[ev.Event, ...]] | None:
    """A form of a release or fence without a memory barrier wider than the CTA, in words and events."""
    for event in events:
        match event:
            case ev.Fence(proxy=None, sync_restrict=None):
                return f"Narrow it to fence.{event.semantics}.cta", (replace(event, scope=ev.Scope.CTA),)
            case ev.ClusterBarrier():
                return "Arrive .relaxed", (replace(event, semantics=ev.Semantics.RELAXED),)
            case ev.MbarrierArrive():
                return "Narrow it to .release.cta", (replace(event, scope=ev.Scope.CTA),)
            case ev.Access(operation=None):
                return "Make it .relaxed", (replace(event, semantics=ev.Semantics.RELAXED),)
    return None


# What the engine does not see ------------------------------------------------------------------------


def in_sass(analysis: FunctionAnalysis) -> bool:
    """Whether the language shows too little of an order to ask about a weaker one."""
    return analysis.function.language is Language.SASS


SASS_REASON = "SASS does not tell what scope and semantics are meant; the PTX would"


def may_publish(analysis: FunctionAnalysis, release: int) -> bool:
    """Whether a generic write that other CTAs may see through global memory can come before a release."""
    return any(
        release in reached(analysis, index, lambda place: place == release)
        for index in _writes_outside(analysis)
    )


def may_hand_over_outside(analysis: FunctionAnalysis, acquire: int) -> bool:
    """Whether what an acquire makes visible may lie in global memory: what is written before some release,
    and read after the acquire."""
    released = (
        _releases(event)
        for write in _writes_outside(analysis)
        for index in reached(analysis, write, lambda place: False)
        for event in analysis.events[index]
    )
    if not any(released):
        return False
    after = reached(analysis, acquire, lambda place: False)
    return any(
        isinstance(event, ev.Access)
        and event.reads
        and event.space in _OUTSIDE
        and event.proxy is ev.Proxy.GENERIC
        and event.cache != "nc"
        for index in after
        for event in analysis.events[index]
    )


def _releases(event: ev.Event) -> bool:
    match event:
        case ev.MbarrierArrive() | ev.Fence(proxy=None) | ev.Access():
            semantics = event.semantics
            strong = not isinstance(event, ev.Access) or event.writes
            return strong and (semantics is None or semantics.releases)
        case ev.ClusterBarrier(action=ev.BarrierAction.ARRIVE, semantics=semantics):
            return semantics is None or semantics.releases
        case _:
            return isinstance(event, ev.UnknownEffect | ev.GridDependency)


def _writes_outside(analysis: FunctionAnalysis) -> Iterable[int]:
    for instruction, event in analysis.occurrences(ev.Access):
        if event.writes and event.space in _OUTSIDE and event.proxy is ev.Proxy.GENERIC:
            yield instruction.index
