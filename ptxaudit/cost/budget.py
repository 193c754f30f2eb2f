"""What the synchronisation of a function costs: each place, each loop an iteration, and the rest once.

An operation's cycles are what was measured for it in its circumstances: how many threads execute it, how many
loads that could hit L1 it makes miss, how many stores it finds in flight. The low end of the range counts
only the loads that are sure to have hit, and no stores; the high end all of them. An iteration of a loop
costs what the dearest way through it does, at least what the cheapest does. Of the repeated attempts of one
wait the first one counts.

Known limits: what others keep a wait waiting for is not counted, nor is that two costs may overlap; taking
out one of several invalidates in a loop saves nothing where another one empties L1 before the same loads.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Protocol

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.polling import Frequency, first_attempts, invalidations, runs_at_failures
from ptxaudit.analysis.pollloops import poll_loops
from ptxaudit.arch import MOST_THREADS_PER_CTA, Architecture
from ptxaudit.cost.circumstances import LINE_BYTES, Loads, Surroundings, Traffic
from ptxaudit.cost.operations import Operation, Term, operations
from ptxaudit.cost.paths import Region, cheapest, dearest, iteration, whole
from ptxaudit.cost.payers import Acting, Payer, executed_roles, executing, payers, paying, verdict
from ptxaudit.cost.table import Circumstances, Estimate, Provenance, table_for
from ptxaudit.ir.cfg import Loop
from ptxaudit.ir.events import Access, CtaBarrier, GroupCommit, GroupWait, MbarrierWait, Scope
from ptxaudit.ir.launch import Launch
from ptxaudit.rules.budget import Budget, Cycles, Executions, LoopCost, Part, PlaceCost, summed
from ptxaudit.words import counted

if TYPE_CHECKING:
    from ptxaudit.analysis.participants import Participants

_USUAL_BLOCK = (128, 1, 1)
# Measured as what all threads of a CTA add to one of them.
_BY_ONE = ("mbarrier.arrive.release.cta",)
# What costs less has no rank: it is the noise of the measurements.
_LEAST_CYCLES = 5
# The architecture by whose measurements places are ranked where theirs was not measured.
RANKED_BY = Architecture(90)


class Measurements(Protocol):
    """What was measured on one architecture, as a :class:`ptxaudit.cost.table.CostTable` knows it."""

    @property
    def provenance(self) -> Provenance:
        """Where the measurements are from."""

    def estimate(self, operation: str, circumstances: Circumstances) -> Estimate | None:
        """Cycles of an operation per execution; ``None`` where it was not measured."""


@dataclass(frozen=True, slots=True)
class _Setting:
    """What places are priced with. ``table`` has the cycles, ``ranking`` at least their order."""

    analysis: FunctionAnalysis
    surroundings: Surroundings
    table: Measurements | None
    ranking: Measurements | None
    block: tuple[int, int, int]
    payers: tuple[Payer, ...]
    repeated: Mapping[int, frozenset[int]]

    @property
    def threads(self) -> int:
        """The threads of a CTA."""
        return prod(self.block)

    def executing(self, operation: Operation) -> int:
        """The threads that execute an operation; those of the CTA where one thread was measured in it."""
        if isinstance(operation.event, GroupWait | GroupCommit | Access):
            return self.threads
        return self._participants.count(operation.index) or self.threads

    def arriving(self, operation: Operation) -> int | None:
        """The threads that a CTA barrier is for: as many as it says, or all; ``None`` where its number is not
        known, and for other operations."""
        event = operation.event
        if not isinstance(event, CtaBarrier):
            return None
        if event.threads is None:
            return self.threads
        number = self._participants.number(event.threads, operation.index)
        return number if number is not None and 0 < number <= MOST_THREADS_PER_CTA else None

    @property
    def _participants(self) -> "Participants":
        # It knows the values of registers, which takes a library that few audits need.
        from ptxaudit.analysis.participants import participants

        return participants(self.analysis, self.block)


@dataclass(frozen=True, slots=True)
class _Price:
    """Cycles of one operation, what they go to, whether a measurement had to be extended for them, those by
    which it is dearer than its plain form, and the measured operation that they are of."""

    cycles: Cycles
    parts: Mapping[Part, float]
    extrapolated: bool = False
    added: Cycles | None = None
    priced_as: str | None = None


@dataclass(frozen=True, slots=True)
class _Placed:
    """A place and what it was priced with."""

    place: PlaceCost
    price: _Price | None
    loads: Loads
    traffic: Traffic


def budget(analysis: FunctionAnalysis) -> Budget:
    """The synchronisation budget of a function by the measurements of its architecture, worked out once.

    Pure but for the measured tables that are read. Roles are told where the audit had the function executed
    before; nothing is executed for it.
    """
    name = "budget" if analysis.known("order") is None else "budget with roles"
    return analysis.memo(name, lambda: budget_for(analysis, executed_roles(analysis)))


def budget_for(analysis: FunctionAnalysis, roles: Sequence[Acting]) -> Budget:
    """The budget of a function whose roles are known from elsewhere, such as its other language."""
    table = table_for(analysis.function.architecture)
    return budget_by(analysis, table, table or table_for(RANKED_BY), roles)


def budget_by(
    analysis: FunctionAnalysis,
    table: Measurements | None,
    ranking: Measurements | None,
    roles: Sequence[Acting] = (),
) -> Budget:
    """A budget by measurements that may be those of another architecture: cycles from ``table``, and ranks by
    ``ranking`` where there is no table."""
    found = operations(analysis)
    block, stated = _block(analysis)
    setting = _Setting(
        analysis,
        Surroundings(analysis, found),
        table,
        table or ranking,
        block,
        payers(roles),
        _attempts(analysis, found),
    )
    placed = _ranked([_placed(setting, operation) for operation in found])
    loops = [_loop(setting, loop, placed) for loop in reversed(poll_loops(analysis).working)]
    loops.sort(key=lambda one: (one.depth, one.header))
    by_header = {one.header: one for one in loops}
    once = [one for one in placed if one.place.loop is None]
    way = _dearest_way(setting, whole(analysis.graph), once) if once and table is not None else None
    return Budget(
        places=tuple(_shared(one.place, by_header) for one in placed),
        loops=tuple(loops),
        threads=setting.threads,
        measured=None if table is None else table.provenance.architecture,
        device=None if table is None else table.provenance.device,
        once=None if way is None else way.cycles,
        once_parts={} if way is None else way.parts,
        once_roles=() if way is None else way.roles,
        assumptions=tuple(_assumptions(setting, placed, loops, stated)),
    )


def _block(analysis: FunctionAnalysis) -> tuple[tuple[int, int, int], bool]:
    """The dimensions of a CTA, and whether the code or its launch states them; none that no device takes."""
    facts, launch = analysis.function.facts, analysis.launch or Launch()
    stated = facts.required_threads or launch.block or facts.maximum_threads
    if stated is None or not 1 <= prod(stated) <= MOST_THREADS_PER_CTA:
        return _USUAL_BLOCK, False
    return stated, True


# Places ----------------------------------------------------------------------------------------------


def _attempts(analysis: FunctionAnalysis, found: Sequence[Operation]) -> dict[int, frozenset[int]]:
    """For each attempt of a wait that stands several times: all of them, by the operations' indices."""
    owner = {index: operation.index for operation in found for index in operation.instructions}
    several: dict[int, set[int]] = {}
    for again, first in first_attempts(analysis).items():
        if again in owner and first in owner:
            several.setdefault(owner[first], {owner[first]}).add(owner[again])
    return {one: frozenset(members) for members in several.values() for one in members}


def _placed(setting: _Setting, operation: Operation) -> _Placed:
    analysis = setting.analysis
    block = analysis.function.block_of(operation.index).id
    loop = poll_loops(analysis).working_of(block)
    same = setting.repeated.get(operation.index, frozenset())
    first = min(same, default=operation.index)
    loads = setting.surroundings.loads_behind(operation, same, loop)
    traffic = setting.surroundings.traffic_before(operation, loop)
    # A warp is seen at the attempt that succeeded; it has executed the first one, too.
    roles = paying(setting.payers, same.union(operation.instructions), block)
    threads = setting.arriving(operation) or setting.executing(operation)
    pays = first == operation.index
    price = _price(setting, operation, threads, loads, traffic, loop) if pays else None
    instruction = analysis.function.instructions[operation.index]
    shown = price if setting.table is not None else None
    place = PlaceCost(
        index=operation.index,
        instructions=operation.instructions,
        location=instruction.location,
        text=" ".join(instruction.text.split()),
        operation=operation.name,
        part=operation.part,
        executions=_executions(analysis, operation, loop),
        loop=None if loop is None else loop.header,
        waits_for=_waits_for(setting, operation, traffic),
        forces=loads.in_words() if pays else None,
        roles=tuple(role.name for role in roles),
        critical=verdict(roles) if roles else None,
        cycles=None if shown is None else shown.cycles,
        added=None if shown is None else shown.added or shown.cycles,
        parts={} if shown is None else shown.parts,
        extrapolated=shown is not None and shown.extrapolated,
        counted_at=None if pays else first,
        priced_as=None if shown is None else shown.priced_as,
    )
    return _Placed(place, price, loads, traffic)


def _executions(analysis: FunctionAnalysis, operation: Operation, loop: Loop | None) -> Executions:
    loops = poll_loops(analysis)
    poll = loops.poll_of(analysis.function.block_of(operation.index).id)
    waits = isinstance(operation.event, MbarrierWait)
    if poll is not None:
        if not waits and any(runs_at_failures(analysis, poll, i) for i in operation.instructions):
            return Executions.ATTEMPT
        if waits and operation.invalidates and _invalidates_at_failures(analysis, operation):
            return Executions.ATTEMPT
    if waits or poll is not None:
        return Executions.SUCCESS
    if loop is None:
        return Executions.ONCE if analysis.function.is_entry else Executions.CALL
    return Executions.ITERATION if loops.is_innermost(loop) else Executions.OUTER


def _invalidates_at_failures(analysis: FunctionAnalysis, operation: Operation) -> bool:
    return any(
        one.instruction.index in operation.instructions and one.frequency is Frequency.EVERY_ATTEMPT
        for one in invalidations(analysis)
    )


def _waits_for(setting: _Setting, operation: Operation, traffic: Traffic) -> str | None:
    flush = operation.flush
    if flush is not None and flush > Scope.CTA:
        stores = counted(traffic.stores, "store") if traffic.stores or not traffic.fetched else ""
        both = " and ".join(part for part in (stores, "loads from L2" if traffic.fetched else "") if part)
        return f"{both} since the last memory barrier"
    return setting.surroundings.groups_in_flight(operation)


def _ranked(placed: list[_Placed]) -> list[_Placed]:
    """Places by what one execution costs, the dearest first; what costs nothing has no rank."""
    costs = sorted({round(one.price.cycles.estimate) for one in placed if one.price}, reverse=True)
    ranks = {cost: rank for rank, cost in enumerate((c for c in costs if c >= _LEAST_CYCLES), 1)}
    return [
        replace(one, place=replace(one.place, rank=ranks.get(round(one.price.cycles.estimate))))
        if one.price is not None
        else one
        for one in placed
    ]


def _shared(place: PlaceCost, loops: Mapping[int, LoopCost]) -> PlaceCost:
    """A place with its share of what its loop spends, where it is part of that."""
    loop = None if place.loop is None else loops.get(place.loop)
    if loop is None or place.index not in loop.on_way:
        return place
    if place.cycles is None or loop.cycles is None or loop.cycles.estimate <= 0:
        return place
    return replace(place, share=place.cycles.estimate / loop.cycles.estimate)


# Prices ----------------------------------------------------------------------------------------------


def _price(
    setting: _Setting, operation: Operation, threads: int, loads: Loads, traffic: Traffic, loop: Loop | None
) -> _Price | None:
    """What one execution costs; ``None`` where no table knows it."""
    if setting.ranking is None:
        return None
    if setting.surroundings.waits_for_nothing(operation):
        return _Price(Cycles(), {})
    cycles = Cycles()
    parts: dict[Part, float] = {}
    extrapolated = False
    added: Cycles | None = None
    named: str | None = None
    groups = setting.surroundings.groups_waited_for(operation)
    work = setting.surroundings.work_beside(operation, loads, loop, threads)
    there = Circumstances(threads, 0, traffic.stores, groups, work)
    for term in operation.terms:
        if threads == 1 and term.names[-1] in _BY_ONE:
            continue
        first = term is operation.terms[0]
        missing = loads if operation.invalidates and first else Loads()
        matched = _matched(setting.ranking, term, there)
        measure = _Measure(setting.ranking, term, matched, there, _flushed(operation, traffic))
        one = _term(measure, missing)
        if one is None and first:
            return None
        named = matched if first else named
        if one is None:
            continue
        cycles += one.cycles
        if first or term.less:
            added = one.cycles if added is None else added + one.cycles
        parts = summed((parts, one.parts))
        extrapolated = extrapolated or one.extrapolated
    shown = {part: value for part, value in parts.items() if value > 0}
    return _Price(_floored(cycles), shown, extrapolated, None if added is None else _floored(added), named)


def _floored(cycles: Cycles) -> Cycles:
    return Cycles(*(max(0.0, value) for value in (cycles.estimate, cycles.low, cycles.high)))


def _flushed(operation: Operation, traffic: Traffic) -> Traffic | None:
    """What a memory barrier wider than the CTA finds in flight; ``None`` for what is none."""
    return traffic if operation.flush is not None and operation.flush > Scope.CTA else None


def _matched(table: Measurements, term: Term, there: Circumstances) -> str | None:
    """The first name of a term that a table knows."""
    return next((name for name in term.names if table.estimate(name, there) is not None), None)


@dataclass(frozen=True, slots=True)
class _Measure:
    """A term in its circumstances but for the loads: ``matched`` is the operation that it is measured as,
    ``traffic`` what a flush finds in flight."""

    table: Measurements
    term: Term
    matched: str | None
    there: Circumstances
    traffic: Traffic | None

    def at(self, loads: int, stores: int) -> Estimate | None:
        """What was measured with so many loads behind it and stores before it."""
        circumstances = replace(self.there, loads=loads, stores=stores)
        return None if self.matched is None else self.table.estimate(self.matched, circumstances)

    def whole(self, loads: int, traffic: Traffic | None) -> Estimate | None:
        """The cost where ``loads`` miss behind it. In the measured loops the loads behind a memory barrier
        were in flight at the next one: where nothing is, what that adds is taken off, and where only loads
        are, and none stand behind it, one store stands for them."""
        if traffic is None:
            return self.at(loads, self.there.stores)
        if traffic.stores or traffic.fetched:
            return self.at(loads, traffic.stores or (0 if loads else 1))
        idle = self.at(0, 0)
        behind, before = self.at(loads, 1), self.at(0, 1)
        if not loads or idle is None or behind is None or before is None:
            return idle
        misses = max(0.0, behind.cycles - before.cycles)
        return replace(
            idle,
            cycles=idle.cycles + misses,
            low=idle.low + misses,
            high=idle.high + misses,
            extrapolated=behind.extrapolated,
        )


def _term(measure: _Measure, loads: Loads) -> _Price | None:
    term, traffic = measure.term, measure.traffic
    idle = None if traffic is None else Traffic()
    whole, least = measure.whole(loads.all, traffic), measure.whole(loads.sure, idle)
    bare = measure.whole(0, traffic)
    if whole is None or least is None or bare is None:
        return None
    if term.less:
        lost = Cycles(-whole.cycles, -whole.cycles, -whole.cycles)
        return _Price(lost, {term.part: -whole.cycles}, whole.extrapolated)
    again = max(0.0, whole.cycles - bare.cycles)
    cycles = Cycles(whole.cycles, min(least.low, whole.low), whole.high)
    return _Price(
        cycles, summed(({term.part: whole.cycles - again}, {Part.INVALIDATE: again})), whole.extrapolated
    )


# Loops -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Way:
    """What the dearest way through a region spends, the places and the number of instructions on it, and the
    roles that it is of, none where roles are not known."""

    cycles: Cycles
    parts: Mapping[Part, float]
    instructions: int
    places: tuple[int, ...]
    roles: tuple[str, ...] = ()


def _dearest_way(setting: _Setting, region: Region, own: Sequence[_Placed]) -> _Way:
    """The dearest way of the role that it costs most: no warp pays for what another one executes."""
    paying_here = {name for one in own for name in one.place.roles}
    names = [payer.name for payer in setting.payers if payer.name in paying_here]
    if not names:
        return _way(setting, region, own)
    ways = {
        name: _way(setting, region, [o for o in own if not o.place.roles or name in o.place.roles])
        for name in names
    }
    dearest_one = max(ways.values(), key=lambda way: way.cycles.estimate)
    alike = (name for name, way in ways.items() if way.cycles.estimate == dearest_one.cycles.estimate)
    return replace(dearest_one, roles=tuple(alike))


def _way(setting: _Setting, region: Region, own: Iterable[_Placed]) -> _Way:
    graph = setting.analysis.graph
    at: dict[int, list[PlaceCost]] = {}
    for one in own:
        at.setdefault(setting.analysis.function.block_of(one.place.index).id, []).append(one.place)

    spent = {
        block: sum((place.cycles for place in places if place.cycles), Cycles())
        for block, places in at.items()
    }
    nothing = Cycles()
    way = dearest(graph, region, lambda block: spent.get(block, nothing).estimate)
    most = dearest(graph, region, lambda block: spent.get(block, nothing).high)
    least = cheapest(graph, region, lambda block: spent.get(block, nothing).low)
    cycles = Cycles(
        sum(spent[block].estimate for block in way if block in spent),
        sum(spent[block].low for block in least if block in spent),
        sum(spent[block].high for block in most if block in spent),
    )
    passed = [place for block in way for place in at.get(block, ())]
    instructions = sum(graph.blocks[block].end - graph.blocks[block].start for block in way)
    return _Way(
        cycles, summed(place.parts for place in passed), instructions, tuple(place.index for place in passed)
    )


def _loop(setting: _Setting, loop: Loop, placed: Iterable[_Placed]) -> LoopCost:
    own = [one for one in placed if one.place.loop == loop.header]
    way = _dearest_way(setting, iteration(loop), own)
    header = setting.analysis.graph.blocks[loop.header]
    roles = executing(setting.payers, loop.header)
    return LoopCost(
        header=loop.header,
        location=setting.analysis.function.instructions[header.start].location,
        depth=loop.depth,
        innermost=poll_loops(setting.analysis).is_innermost(loop),
        instructions=way.instructions,
        places=tuple(one.place.index for one in own),
        cycles=None if setting.table is None else way.cycles,
        parts=way.parts,
        roles=tuple(role.name for role in roles),
        critical=verdict(roles) if roles else None,
        on_way=way.places,
    )


# Assumptions -----------------------------------------------------------------------------------------


def _assumptions(
    setting: _Setting, placed: Sequence[_Placed], loops: Sequence[LoopCost], stated: bool
) -> Iterable[str]:
    """What the numbers of this function rest on."""
    name = setting.analysis.function.architecture.name
    if setting.table is None:
        yield f"{name} was not measured: there are no cycles, and ranks are by those of {RANKED_BY.name}"
    if not placed:
        return
    yield "what a wait waits for from others is not counted, nor that costs may overlap with other work"
    if not stated:
        yield f"the block size is not stated: {setting.threads} threads are taken"
    if any(one.loads.sure for one in placed):
        yield f"a load whose address moves by less than {LINE_BYTES} bytes an iteration is taken to hit L1"
    if any(one.loads.possible for one in placed):
        yield "a load of which it is not known whether its address repeats is taken to hit L1"
    if any(one.traffic.stores for one in placed):
        yield "the stores since the last memory barrier are all taken to be in flight"
    if any(one.place.executions is Executions.ATTEMPT for one in placed):
        yield "a poll is taken to succeed at the first attempt: each further one costs as much again"
    if any(one.place.extrapolated for one in placed):
        yield "some circumstances are beyond those that were measured"
    if loops:
        yield "an iteration takes the dearest way; loops in a loop are not counted with it"
    if any(payer.critical is not None for payer in setting.payers):
        yield "on the critical path are the warps that issue matrix products, or the only role of a CTA"
