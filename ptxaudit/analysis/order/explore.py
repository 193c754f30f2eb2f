"""Which executions of a kernel are looked at, and what the answers rest on.

A kernel does not say how it is launched. The block and cluster size come from its directives where they
are there; otherwise the first size is taken with which every warp runs to its end. Loops whose trip
count is not known are followed until every ring of barriers that is waited on inside has come round
twice, then left. This launch is executed with the warps in ascending and in descending order. Undecided
branches are followed one way in it; then each first decision is turned in a further execution, and larger
blocks are tried where the size is not stated.

Property: a race, alias, gap or deadlock is in the report if one of these executions shows it. Direction:
forward, each execution from its start. Join: union over the executions, one entry a pair of instructions;
what is certain replaces what is doubtful. Known limits: combinations of several turned decisions, other
schedules of a turned execution, and trip counts beyond the bounds are not looked at; where the budget is used
up (then there is a reason), executions may be in the report that were not searched.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.budget import Budget
from ptxaudit.analysis.order.byte_counts import ByteConflict
from ptxaudit.analysis.order.calls import CallEffect, call_effects
from ptxaudit.analysis.order.flags import flag_loops
from ptxaudit.analysis.order.gaps import Gap
from ptxaudit.analysis.order.launches import (
    Attempt,
    Start,
    confirming_launch,
    first_launch,
    hanging_launch,
    is_cut_short,
    is_resolved,
    reached,
    shows_something,
)
from ptxaudit.analysis.order.machine import Bounds, LaunchShape, Machine
from ptxaudit.analysis.order.program import Program, compile_program, hands_over_to_other_ctas
from ptxaudit.analysis.order.races import Alias, Race, RaceFinder
from ptxaudit.analysis.order.samples import Sample
from ptxaudit.analysis.order.shapes import impossible_shape, other_shapes, shape_assumptions
from ptxaudit.analysis.order.trace import Execution, Step, Stuck
from ptxaudit.ir import events as ev
from ptxaudit.words import brief

_MOST_TURNS = 32
# The second exploration, for global memory alone, turns fewer.
_GLOBAL_TURNS = 12
# The first launch under both schedules; what is turned after that may not be possible. In SASS each role
# computes its trip count by its own sequence of instructions, so that even the first launch may decide
# them in a way that no host can: a launch with known parameters has to confirm what shows in it.
_SURE_EXECUTIONS = 2
# A turned execution may be this much longer than the first, and four times as long.
_TURNED_OPERATIONS = 50_000
# What an execution of a small program may take, and all executions together: see Limits.budget.
_FEWEST_OPERATIONS = 150_000
_OPERATIONS_EACH = 600
_FEWEST_IN_ALL = 200_000
# So much of what is known may be reached in vain beside it.
_SHARE_IN_VAIN = 0.05
_Shown = TypeVar("_Shown", Race, Gap, Alias, ByteConflict)


@dataclass(frozen=True, slots=True)
class Run:
    """What an execution was made from: :class:`Machine`'s arguments but for the program."""

    shape: LaunchShape
    bounds: Bounds
    forced: Mapping[int, bool] | None = None
    last_first: bool = False
    sample: Sample | None = None

    @classmethod
    def of(cls, attempt: Attempt) -> "Run":
        """What the execution of an attempt was made from."""
        return cls(attempt.shape, attempt.bounds, sample=attempt.sample)

    def machine(self, program: Program) -> Machine:
        """A machine that has yet to run."""
        return Machine(program, self.shape, self.bounds, self.forced, self.last_first, self.sample)


@dataclass(slots=True)
class OrderReport:
    """What the explored executions of a function showed; ``runs`` are what each was made from.

    ``races`` and ``aliases`` hold one entry a pair of instructions. ``reason`` says why the answer is
    incomplete, or is ``None``; ``assumptions`` are what all of it rests on. ``deadlock`` are the warps that
    wait for ever in a launch that is possible; it is certain when the launch is stated and nothing had
    to be decided. ``stuck_if_possible`` tells that warps wait for ever in a run whose decisions no launch
    may ever take. ``walked`` is how many steps of agents the search for races had to look at.
    """

    shape: LaunchShape | None = None
    executions: list[Execution] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    doubtful: list[bool] = field(default_factory=list)
    races: list[Race] = field(default_factory=list)
    aliases: list[Alias] = field(default_factory=list)
    unfenced: list[Race] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    byte_conflicts: list[ByteConflict] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    reason: str | None = None
    unresolved: list[Step] = field(default_factory=list)
    deadlock: list[Stuck] = field(default_factory=list)
    deadlock_certain: bool = False
    stuck_if_possible: bool = False
    walked: int = 0

    def run_of(self, execution: Execution | None) -> Run | None:
        """What one of the executions was made from."""
        runs = zip(self.executions, self.runs, strict=True)
        return next((run for known, run in runs if known is execution), None)

    def in_doubt(self, execution: Execution) -> bool:
        """Whether one of the executions may be one that no launch ever takes."""
        return next(
            doubt for known, doubt in zip(self.executions, self.doubtful, strict=True) if known is execution
        )

    def other_block(self, execution: Execution | None) -> LaunchShape | None:
        """The shape of an execution that differs from the explored one in its block, which nothing states,
        and in nothing that may not be possible."""
        run = self.run_of(execution)
        if execution is None or run is None or self.shape is None or run.forced is not None:
            return None
        same = run.shape.block == self.shape.block or run.sample is not None
        return None if same or not execution.possible else run.shape

    @property
    def complete(self) -> bool:
        """Whether every explored execution ran to its end with all addresses known."""
        return self.reason is None and not self.unresolved


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of an exploration.

    ``operations`` bounds one execution, ``in_all`` all executions together, half of it the steps that the
    search for races walks in them, and ``turns`` the decisions that are turned.
    """

    operations: int = 1_500_000
    in_all: int = 8_000_000
    turns: int = _MOST_TURNS

    def budget(self, program: Program) -> Budget:
        """These limits, narrower for a small program.

        Executions of real kernels that ended had less than 300 operations for each one in the code, those of
        fixtures less than 800. Turned conditions and samples grow with the code, too: all executions of a
        real kernel together had up to 167,000 operations where its code has 500, 820,000 at 2,000 and
        4,200,000 at 4,000. A small kernel that goes round thousands of times with many warps is not followed
        to its end, which costs a verdict; followed to the full bound, endless ones took minutes.

        The search for races walked at most 0.22 times as many steps as the operations in all that its kernel
        may take (92 files, 170 explorations). Where each lane of a thousand threads acts apart it takes a
        minute and more.
        """
        in_code = sum(len(block.operations) for block in program.blocks)
        each = max(_FEWEST_OPERATIONS, _OPERATIONS_EACH * in_code)
        in_all = min(self.in_all, _FEWEST_IN_ALL + in_code * in_code)
        return Budget(min(self.operations, each), in_all, in_all // 2)


def order_of(analysis: FunctionAnalysis) -> OrderReport:
    """The order report of a function, computed once."""
    return analysis.memo("order", lambda: explore(analysis, Limits()))


def global_order_of(analysis: FunctionAnalysis) -> OrderReport:
    """The order report of a function with every access to global memory in it, computed once."""
    if hands_over_to_other_ctas(analysis):
        return order_of(analysis)
    return analysis.memo("global order", lambda: _global_order(analysis))


def _global_order(analysis: FunctionAnalysis) -> OrderReport:
    known = order_of(analysis)
    if known.executions and is_cut_short(known.executions[0], known.runs[0].bounds):
        # With more to follow it would be cut short, too.
        return OrderReport(reason=known.reason)
    return explore(analysis, Limits(turns=_GLOBAL_TURNS), with_global=True)


def assumptions_of(analysis: FunctionAnalysis) -> tuple[str, ...]:
    """What the order reports of a function rest on; nothing when no check asked for one."""
    found: list[str] = []
    for name in ("order", "global order"):
        report = analysis.known(name)
        _extend(found, () if report is None else report.assumptions)
    return tuple(found)


def explore(analysis: FunctionAnalysis, limits: Limits, with_global: bool = False) -> OrderReport:
    """Execute a function under every launch, decision and schedule that the limits allow.

    ``with_global`` follows every access to global memory, whether or not CTAs hand it to each other.
    """
    report = OrderReport()
    effect, callee = call_effects(analysis)
    if effect is CallEffect.SYNCHRONISES:
        report.reason = f"the call of {callee} may synchronise, and calls are not followed"
        return report
    if effect is CallEffect.MEMORY:
        report.reason = f"the call of {callee} may access shared memory, and calls are not followed"
    impossible = impossible_shape(analysis)
    if impossible is not None:
        report.reason = impossible
        return report
    program = compile_program(analysis, with_global)
    if not any(block.operations for block in program.blocks):
        return report
    budget = limits.budget(program)
    start = first_launch(program, budget)
    if start is None:
        return report
    first = start.first
    run = Run.of(first)
    _take_up(program, report, start, run, budget)
    if first.execution.limits:
        return report
    reverse = replace(run, last_first=True)
    _look_at(report, reverse, budget.run(reverse.machine(program)), budget)
    _note_hanging(report, start.hanging, budget)
    for shape in other_shapes(program, first.shape):
        if budget.is_used_up:
            break
        other = replace(run, shape=shape)
        larger = budget.run(other.machine(program))
        if larger.complete:
            _look_at(report, other, larger, budget, doubtful=True)
    for forced in _turned(first.shortest, report, limits, flag_loops(program).exits, _table_sizes(program)):
        if budget.is_used_up:
            break
        bounds = Bounds(_TURNED_OPERATIONS + 4 * first.shortest.operations)
        turned = replace(run, bounds=bounds, forced=forced)
        _look_at(report, turned, budget.run(turned.machine(program)), budget)
    if report.stuck_if_possible and not report.deadlock:
        hanging = hanging_launch(program, budget, first.shape, report.executions)
        _note_hanging(report, hanging, budget)
    for further in start.others:
        if is_resolved(further.execution):
            _look_at(report, Run.of(further), further.execution, budget)
    if first.sample is None and _has_doubts(report):
        _confirm(report, confirming_launch(program, budget, first.shape), budget)
    _note_reached_in_vain(report, start)
    report.walked = budget.walked
    if budget.is_used_up:
        report.reason = report.reason or str(budget)
    return report


def _has_doubts(report: OrderReport) -> bool:
    kinds = (report.races, report.aliases, report.unfenced, report.gaps, report.byte_conflicts)
    return any(one.doubtful for found in kinds for one in found)


def _confirm(report: OrderReport, known: Attempt | None, budget: Budget) -> None:
    """Make certain what also shows in a launch whose parameters are known."""
    if known is not None:
        _look_at(report, Run.of(known), known.execution, budget)


def _note_hanging(report: OrderReport, hanging: Attempt | None, budget: Budget) -> None:
    """Add a sampled launch in which warps wait for ever, if one was found."""
    if hanging is None:
        return
    _extend(report.assumptions, (f"a launch was looked at, too, whose {hanging.sample}",))
    _look_at(report, Run.of(hanging), hanging.execution, budget)
    if not shows_something(hanging.execution):  # the kernel's data decide, and it hangs either way
        _note_deadlock(report, hanging.execution)


def _note_reached_in_vain(report: OrderReport, start: Start) -> None:
    """Say what only executions reached that show nothing; where that is much, nothing is settled.

    Waits do not count: ptxas has a second copy of each, for when the first try fails.
    """
    attempts = [*report.executions, *(attempt.execution for attempt in start.others)]
    known = {index for one in attempts if one.complete or shows_something(one) for index in reached(one)}
    left = {
        index: step
        for one in attempts
        for index, step in reached(one).items()
        if index not in known and not isinstance(step.event, ev.MbarrierWait)
    }
    if not left:
        return
    earliest = left[min(left)].instruction
    told = (
        f"{len(left)} instructions were reached only in runs that did not end, the first at "
        f"{earliest.location} ({brief(earliest.text)})"
    )
    if len(left) > _SHARE_IN_VAIN * len(known):
        report.reason = report.reason or told
    else:
        _extend(report.assumptions, (told,))


def _take_up(program: Program, report: OrderReport, start: Start, run: Run, budget: Budget) -> None:
    """Say in the report which launch is explored and what it rests on, and look at it."""
    first = start.first
    report.shape = first.shape
    report.stuck_if_possible |= start.stuck
    _extend(report.assumptions, shape_assumptions(program, first.shape))
    if first.sample is not None:
        report.assumptions.append(str(first.sample))
    if first.execution.stuck:
        stuck = first.execution.stuck[0]
        place = stuck.instruction.location
        code = brief(stuck.instruction.text)
        report.reason = f"no execution ran to its end: a warp stays at {place} ({code})"
    elif first.execution.limits:
        report.reason = first.execution.limits[0]
    _look_at(report, run, first.execution, budget)


def _note_deadlock(report: OrderReport, execution: Execution) -> None:
    """Warps that wait for ever in a launch that is possible; nothing unknown must explain it."""
    if any(stuck.key is None for stuck in execution.stuck):
        return
    known = {stuck.instruction.index for stuck in report.deadlock}
    report.deadlock.extend(stuck for stuck in execution.stuck if stuck.instruction.index not in known)
    report.deadlock_certain |= not execution.decisions and not report.assumptions


def _table_sizes(program: Program) -> dict[int, int]:
    exits = (block.exit for block in program.blocks)
    return {
        leaving.instruction.index: len(leaving.targets)
        for leaving in exits
        if leaving.kind == "indirect" and leaving.instruction is not None
    }


def _turned(
    first: Execution,
    report: OrderReport,
    limits: Limits,
    polls: frozenset[int],
    tables: Mapping[int, int],
) -> Iterator[dict[int, bool]]:
    """For each condition of each place, its first decision the other way, those before it as they were.

    The places ``polls`` are left out; ``tables`` are the sizes of jump tables, by the index of the branch:
    each of their targets is taken.
    """
    sites: dict[tuple[int, int], int] = {}
    for ordinal, decision in enumerate(first.decisions):
        if decision.site not in polls:
            sites.setdefault((decision.site, decision.part), ordinal)
    if len(sites) > limits.turns:
        left = len(sites) - limits.turns
        one_way = (
            f"{left} of {len(sites)} conditions whose values are not known were followed one way only "
            "(--launch can settle some)"
        )
        report.reason = report.reason or one_way
    for ordinal in list(sites.values())[: limits.turns]:
        forced = {number: taken.outcome for number, taken in enumerate(first.decisions[:ordinal])}
        yield {**forced, ordinal: not first.decisions[ordinal].outcome}
        for target in range(2, tables.get(first.decisions[ordinal].site, 0)):
            skipped = {ordinal + number: False for number in range(target)}
            yield {**forced, **skipped, ordinal + target: True}


def _look_at(
    report: OrderReport, run: Run, execution: Execution, budget: Budget, doubtful: bool = False
) -> None:
    """Add what one execution shows to the report; ``doubtful`` for a launch that may never be.

    One that did not run to its end shows something only if its decisions are certain to be possible:
    what it did until then, and that it gets stuck. One with a barrier or wait that could not be followed, or
    whose global memory was made up (it may hold what no host puts there), shows everything in doubt only.
    """
    report.executions.append(execution)
    report.runs.append(run)
    doubtful |= _unfollowed(execution) or execution.invented
    sure = 0 if execution.lanes_in_order else _SURE_EXECUTIONS
    doubtful |= len(report.executions) > sure and not execution.possible
    report.doubtful.append(doubtful)
    _extend(report.assumptions, execution.assumptions)
    if not execution.complete and not shows_something(execution):
        report.stuck_if_possible |= bool(execution.stuck)
        return
    if execution.stuck:
        _note_deadlock(report, execution)
    finder = RaceFinder(execution)
    if not budget.grants(finder.walk):
        return
    finder.run()
    _merge(report.aliases, finder.aliases.values(), doubtful, _barrier_met)
    _merge(report.races, finder.races.values(), doubtful, _pair)
    _merge(report.unfenced, finder.unfenced.values(), doubtful, _pair)
    _merge(report.gaps, finder.gaps.gaps.values(), doubtful, lambda gap: gap.pair)
    _merge(report.byte_conflicts, finder.byte_conflicts, doubtful, _expectation)
    if finder.walk.uncertain_flag is not None and not report.unresolved:
        report.unresolved = _resting_on_flags(execution, finder, budget)
    if not report.unresolved:
        report.unresolved = [
            entry for entry in execution.entries if isinstance(entry, Step) and entry.unresolved is not None
        ][:8]


def _merge(
    known: list[_Shown], found: Iterable[_Shown], doubtful: bool, pair: Callable[[_Shown], Hashable]
) -> None:
    """Add what one execution shows, once a pair of instructions; what is certain replaces doubt."""
    places = {pair(one): number for number, one in enumerate(known)}
    for one in found:
        one.doubtful = doubtful
        number = places.get(pair(one))
        if number is None:
            known.append(one)
        elif known[number].doubtful and not doubtful:
            known[number] = one


def _resting_on_flags(execution: Execution, finder: RaceFinder, budget: Budget) -> list[Step]:
    """The poll of a flag that several threads write, if what is ordered rests on whose write it observes."""
    poll = finder.walk.uncertain_flag
    if not budget.grants(finder.walk):
        return []
    certain = RaceFinder(execution, only_certain_flags=True).run()
    more = certain.races.keys() - finder.races.keys() or certain.aliases.keys() - finder.aliases.keys()
    if poll is None or not more:
        return []
    return [replace(poll, unresolved="which write to the flag is observed")]


def _unfollowed(execution: Execution) -> bool:
    """Whether a synchronisation could not be followed: what it orders would look like a missing order."""
    return any(
        isinstance(entry, Step) and entry.unresolved is not None and not isinstance(entry.event, ev.Access)
        for entry in execution.entries
    )


def _pair(race: Race) -> tuple[int, int]:
    return race.first.step.instruction.index, race.second.step.instruction.index


def _extend(known: list[str], more: Iterable[str]) -> None:
    known.extend(text for text in more if text not in known)


def _expectation(conflict: ByteConflict) -> int:
    return conflict.step.instruction.index


def _barrier_met(alias: Alias) -> tuple[int, Hashable]:
    return alias.step.instruction.index, alias.record.key[0]
