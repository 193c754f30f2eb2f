"""Two accesses of different threads to the same global bytes have no order between them.

Global memory is compared behind the same base: the same sum of parameters, block indices and loaded words, so
that the overlap is certain whatever they are. Threads are those of the CTA, or of the cluster, that is
executed. What is left undecided: addresses that vary by thread in a way that is not known, accesses that only
some unknown lanes make, generic addresses that may be local, and pairs that an atomic operation or a flag may
order.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport, global_order_of
from ptxaudit.analysis.order.flags import is_strong
from ptxaudit.analysis.order.knowledge import Moment
from ptxaudit.analysis.order.races import Link, Race
from ptxaudit.checks._global import stored_constant, unknown_address
from ptxaudit.checks._grids import reached
from ptxaudit.checks._order import hands_over_nothing, outcome_of, place, violation
from ptxaudit.ir import events as ev
from ptxaudit.ir.function import Language
from ptxaudit.ir.launch import Launch
from ptxaudit.rules.model import Outcome, Related, Severity, Violation

NEEDS = (ev.Access,)

_SHOWN = 3
_OUTER = (ev.StateSpace.GLOBAL, ev.StateSpace.GENERIC)


def check(analysis: FunctionAnalysis) -> Outcome:
    """Unordered conflicting accesses to global memory whose overlap is certain."""
    if not analysis.function.is_entry or not _writes_global(analysis):
        return Outcome.not_applicable()
    report = global_order_of(analysis)
    races = [race for race in report.races if _is_meant(analysis, race)]
    open_races = [race for race in races if _is_open(analysis, race)]
    undecided = unknown_address(report)
    if open_races and undecided is None:
        first, second = open_races[0].first.step.instruction, open_races[0].second.step.instruction
        undecided = (
            f"whether {place(first)} and {place(second)} are of the same bytes, or something orders them, is "
            "not known"
        )
    decided = [race for race in races if race not in open_races]
    return outcome_of(report, _violations(analysis, report, decided), undecided)


def _writes_global(analysis: FunctionAnalysis) -> bool:
    return any(
        access.writes and access.space in _OUTER and access.addressing is ev.Addressing.POINTER
        for _, access in analysis.occurrences(ev.Access)
    )


def _is_meant(analysis: FunctionAnalysis, race: Race) -> bool:
    """Whether a race is one of global memory that no other rule names, and no benign one."""
    if not race.first.footprint.memory[0].startswith("global"):
        return False
    if race.link is Link.NOT_VISIBLE:
        if race.failed is not None and not hands_over_nothing(race.failed):
            return False
    elif race.link not in (Link.NONE, Link.IN_FLIGHT):
        return False
    same_warp = race.first.agent.warp == race.second.agent.warp
    if same_warp and analysis.function.language is Language.SASS and not race.first.asynchronous:
        return False  # the lanes of a warp execute its instructions in their order
    return not _store_the_same(analysis, race)


def _store_the_same(analysis: FunctionAnalysis, race: Race) -> bool:
    """Whether two writes are sure to leave the same bits: one number, of one type, in the same bytes."""
    first, second = _stored(analysis, race)
    if first is None or first != second or type(first) is not type(second):
        return False
    ours, theirs = race.first.footprint, race.second.footprint
    return ours.size == theirs.size and ours.starts.tobytes() == theirs.starts.tobytes()


def _stored(analysis: FunctionAnalysis, race: Race) -> tuple[int | float | None, int | float | None]:
    """The numbers that two writes store, where both are known."""
    if not (_event(race.first).writes and _event(race.second).writes):
        return None, None
    first, second = race.first.step.instruction, race.second.step.instruction
    return stored_constant(analysis, first), stored_constant(analysis, second)


def _event(moment: Moment) -> ev.Access:
    assert isinstance(moment.step.event, ev.Access)
    return moment.step.event


def _is_open(analysis: FunctionAnalysis, race: Race) -> bool:
    """Whether it is not decided that the two accesses meet, or that nothing orders them."""
    if not race.certain:
        return True
    generic = any(_event(one).space is ev.StateSpace.GENERIC for one in (race.first, race.second))
    return (generic and _has_local_memory(analysis)) or _may_be_ordered(analysis, race)


def _has_local_memory(analysis: FunctionAnalysis) -> bool:
    """Whether a generic address may be one of local memory, of which each thread has its own."""
    if analysis.function.language is Language.SASS:
        return True
    return any(variable.space == "local" for variable in analysis.function.variables) or any(
        instruction.parts[0] == "alloca" for instruction in analysis.function.instructions
    )


def _may_be_ordered(analysis: FunctionAnalysis, race: Race) -> bool:
    """Whether a strong write may follow one access and a strong read precede the other.

    What such a read has observed decides about the order: a counter tells the last of several threads that
    the others are done.
    """
    first, second = race.first.step.instruction.index, race.second.step.instruction.index
    return _hands_on(analysis, first, second) or _hands_on(analysis, second, first)


def _hands_on(analysis: FunctionAnalysis, first: int, second: int) -> bool:
    strong = [(i, event) for i, event in analysis.occurrences(ev.Access) if is_strong(event)]
    behind = set(reached(analysis, first, lambda index: False))
    if not any(event.writes and instruction.index in behind for instruction, event in strong):
        return False
    return any(
        event.reads and instruction.writes and second in reached(analysis, instruction.index, _never)
        for instruction, event in strong
        if instruction.index != second
    )


def _never(index: int) -> bool:
    return False


def _violations(
    analysis: FunctionAnalysis, report: OrderReport, races: Iterable[Race]
) -> Iterator[Violation]:
    """One violation for the races between two blocks over one base."""
    groups: dict[Hashable, list[Race]] = {}
    for race in sorted(races, key=lambda race: race.doubtful):
        blocks = frozenset((race.first.step.block, race.second.step.block))
        groups.setdefault((blocks, race.first.footprint.memory), []).append(race)
    for same in groups.values():
        yield _violation(analysis, report, same)


def _violation(analysis: FunctionAnalysis, report: OrderReport, same: list[Race]) -> Violation:
    race = same[0]
    second = race.second.step.instruction
    details = {
        "other": place(race.first.step.instruction),
        "memory": f"the global bytes at {int(race.second.footprint.starts.min()):#x} behind one base",
        "missing": race.link.value,
    }
    found = violation(report, race, second, details, severity=_severity(analysis, report, race))
    places = {place.instruction.index for place in found.related} | {second.index}
    more = {one.second.step.instruction.index: one for one in same[1:]}
    likewise = [
        Related(one.second.step.instruction, f"likewise, with {place(one.first.step.instruction)}")
        for index, one in more.items()
        if index not in places
    ]
    return replace(found, related=(*found.related, *likewise[:_SHOWN]))


def _severity(analysis: FunctionAnalysis, report: OrderReport, race: Race) -> Severity | None:
    """The pattern's own where nothing is assumed and nothing had to be decided; two writes may agree."""
    assert race.execution is not None
    first, second = _event(race.first), _event(race.second)
    both_store = first.writes and second.writes and not (first.reads or second.reads)
    if both_store and None in _stored(analysis, race):
        return Severity.NOTE
    if _block_is_guessed(analysis) and not analysis.has(ev.CtaBarrier):
        return Severity.NOTE  # it may be meant for a single warp
    assumed = report.assumptions or race.execution.decisions
    return Severity.WARNING if assumed or is_strong(first) or is_strong(second) else None


def _block_is_guessed(analysis: FunctionAnalysis) -> bool:
    facts, launch = analysis.function.facts, analysis.launch or Launch()
    return facts.threads is None and facts.maximum_threads is None and launch.block is None
