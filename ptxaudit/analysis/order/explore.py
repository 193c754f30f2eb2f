"""Which executions of a kernel are looked at, and what the answers rest on.

A kernel does not say how it is launched. The block and cluster size come from its directives where they
are there; otherwise the first size is taken with which every warp runs to its end. Loops whose trip
count is not known are followed until every ring of barriers that is waited on inside has come round
twice, then left. Undecided branches are followed one way first, then each first decision is turned in a
further execution. Every launch is executed with the warps in ascending and in descending order: phases
and races must be right in each.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from time import monotonic

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.machine import Bounds, LaunchShape, Machine
from ptxaudit.analysis.order.program import Program, compile_program
from ptxaudit.analysis.order.races import Alias, Race, RaceFinder
from ptxaudit.analysis.order.trace import BarrierKey, Execution, Step, Stuck
from ptxaudit.ir import events as ev

_MOST_ITERATIONS = 40
_MOST_TURNS = 12
_BLOCK_SIZES = (128, 256, 384, 512, 160, 192, 288, 1024)
# Sizes that give a few iterations of the loops over tiles of 64 to 256 elements.
_SAMPLES = (1024, 512, 2048, 256)
_CLUSTER_SIZES = (2, 1, 3, 4, 8)


@dataclass(slots=True)
class OrderReport:
    """What the explored executions of a function showed.

    ``races`` and ``aliases`` hold one entry a pair of instructions. ``reason`` says why the answer is
    incomplete, or is ``None``; ``assumptions`` are what all of it rests on. ``deadlock`` are the warps that
    wait for ever when no launch that was tried runs to its end; it is certain when the launch is stated
    and nothing had to be decided.
    """

    shape: LaunchShape | None = None
    executions: list[Execution] = field(default_factory=list)
    races: list[Race] = field(default_factory=list)
    aliases: list[Alias] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    reason: str | None = None
    unresolved: list[Step] = field(default_factory=list)
    deadlock: list[Stuck] = field(default_factory=list)
    deadlock_certain: bool = False

    @property
    def complete(self) -> bool:
        """Whether every explored execution ran to its end with all addresses known."""
        return self.reason is None and not self.unresolved


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of an exploration: seconds, operations of one execution, turned decisions."""

    seconds: float = 20.0
    operations: int = 1_500_000
    turns: int = _MOST_TURNS


def order_of(analysis: FunctionAnalysis) -> OrderReport:
    """The order report of a function, computed once."""
    return analysis.memo("order", lambda: explore(analysis, Limits()))


def explore(analysis: FunctionAnalysis, limits: Limits) -> OrderReport:
    """Execute a function under every launch, decision and schedule that the limits allow."""
    report = OrderReport()
    deadline = monotonic() + limits.seconds
    program = compile_program(analysis)
    if not any(block.operations for block in program.blocks):
        return report
    first = _first_execution(program, report, limits, deadline)
    if first is None:
        return report
    _look_at(report, first.execution)
    for forced, last_first in _variants(first.execution, limits):
        if monotonic() > deadline:
            report.reason = report.reason or f"stopped after {limits.seconds:.0f} s"
            break
        machine = Machine(program, first.shape, first.bounds, forced, last_first, first.sample)
        _look_at(report, machine.run())
    return report


@dataclass(slots=True)
class _Attempt:
    """An execution with what it was made from."""

    execution: Execution
    shape: LaunchShape
    bounds: Bounds
    sample: int | None


def _first_execution(
    program: Program, report: OrderReport, limits: Limits, deadline: float
) -> _Attempt | None:
    """Find a launch that runs to its end and loop bounds that let every ring come round twice.

    Parameters stay unknown in the first attempts; where that leads to no complete run (decisions about
    related quantities need not fit together), samples of parameter values are tried.
    """
    best: _Attempt | None = None
    for sample in (None, *_SAMPLES):
        for shape in _shapes(program, report):
            attempt = _attempt(program, shape, limits, sample, deadline)
            if best is None or attempt.execution.complete:
                best = attempt
            if attempt.execution.complete or monotonic() > deadline:
                break
        if best is not None and (best.execution.complete or monotonic() > deadline):
            break
    if best is None:
        return None
    report.shape = best.shape
    if best.sample is not None:
        report.assumptions.append(f"32-bit parameters and the grid size are {best.sample} (first CTA)")
    if best.execution.stuck:
        _note_deadlock(report, program, best)
        stuck = best.execution.stuck[0]
        place = stuck.instruction.location
        report.reason = f"no execution ran to its end: a warp stays at {place} ({stuck.instruction.text})"
    elif best.execution.limits:
        report.reason = best.execution.limits[0]
    return best


def _note_deadlock(report: OrderReport, program: Program, best: "_Attempt") -> None:
    """Warps that wait for ever in every launch that was tried; nothing else must explain it."""
    execution = best.execution
    unknown = any(isinstance(entry, Step) and entry.unresolved for entry in execution.entries)
    if unknown or any(stuck.key is None for stuck in execution.stuck):
        return
    facts = program.analysis.function.facts
    stated = facts.required_threads is not None and not report.assumptions
    report.deadlock = execution.stuck
    report.deadlock_certain = stated and not execution.decisions


def _attempt(
    program: Program, shape: LaunchShape, limits: Limits, sample: int | None, deadline: float
) -> _Attempt:
    bounds = Bounds(limits.operations)
    execution = Machine(program, shape, bounds, sample=sample).run()
    while execution.complete and monotonic() < deadline:
        wanted = _wanted_iterations(program, execution, bounds)
        if wanted == dict(bounds.iterations or {}):
            break
        bounds = Bounds(limits.operations, bounds.default_iterations, wanted)
        execution = Machine(program, shape, bounds, sample=sample).run()
    return _Attempt(execution, shape, bounds, sample)


def _shapes(program: Program, report: OrderReport) -> Iterator[LaunchShape]:
    """Launch shapes to try, those that the code states alone where it states them."""
    facts = program.analysis.function.facts
    blocks = [facts.required_threads or facts.maximum_threads]
    if blocks == [None]:
        blocks = [(size, 1, 1) for size in _BLOCK_SIZES]
        report.assumptions.append("the block size is not stated; the first that fits is taken")
    elif facts.required_threads is None:
        report.assumptions.append(f"the block has its greatest size, {blocks[0]}")
    clusters = [facts.cluster]
    if facts.cluster is None:
        sizes: tuple[int, ...] = (1,)
        if _uses_clusters(program.analysis):
            sizes = _CLUSTER_SIZES
            report.assumptions.append("the cluster size is not stated; the first that fits is taken")
        clusters = [(size, 1, 1) for size in sizes]
    for cluster in clusters:
        for block in blocks:
            assert block is not None and cluster is not None
            yield LaunchShape(block, cluster)


def _uses_clusters(analysis: FunctionAnalysis) -> bool:
    for instruction, events in zip(analysis.function.instructions, analysis.events, strict=True):
        if any(isinstance(event, ev.AddressMapping) for event in events):
            return True
        if any(register.name in ("%cluster_ctarank", "SR_CgaCtaId") for register in instruction.reads):
            return True
    return False


def _wanted_iterations(program: Program, execution: Execution, bounds: Bounds) -> dict[int, int]:
    """Loop bounds with which every ring of barriers comes round twice, as far as this run can tell."""
    visits: dict[tuple[int, int], list[BarrierKey]] = defaultdict(list)
    for entry in execution.entries:
        if isinstance(entry, Step) and isinstance(entry.event, ev.MbarrierWait) and entry.key is not None:
            visits[entry.warp, entry.instruction.index].append(entry.key)
    wanted = dict(bounds.iterations or {})
    graph = program.analysis.graph
    for (_, index), keys in visits.items():
        ring = len(set(keys))
        loop = graph.innermost_loop(program.analysis.function.block_of(index).id)
        if loop is None or ring < 2:
            continue
        now = bounds.limit(loop.header)
        need = 2 * ring + 1 if ring < len(keys) else 2 * now
        if need > now:
            wanted[loop.header] = min(max(need, wanted.get(loop.header, 0)), _MOST_ITERATIONS)
    return wanted


def _variants(first: Execution, limits: Limits) -> Iterator[tuple[dict[int, bool], bool]]:
    """The other schedule, then each first decision at a place turned, under both schedules."""
    yield {}, True
    seen: set[int] = set()
    turned = 0
    for ordinal, decision in enumerate(first.decisions):
        if decision.site in seen or turned >= limits.turns:
            continue
        seen.add(decision.site)
        turned += 1
        forced = {number: taken.outcome for number, taken in enumerate(first.decisions[:ordinal])}
        forced[ordinal] = not decision.outcome
        yield forced, False


def _look_at(report: OrderReport, execution: Execution) -> None:
    """Add what one execution shows to the report; one that did not run to its end shows nothing."""
    report.executions.append(execution)
    _extend(report.assumptions, execution.assumptions)
    if not execution.complete:
        return
    finder = RaceFinder(execution).run()
    known_aliases = {(alias.step.instruction.index, alias.record.key[0]) for alias in report.aliases}
    for alias in finder.aliases.values():
        if (alias.step.instruction.index, alias.record.key[0]) not in known_aliases:
            report.aliases.append(alias)
    pairs = {_pair(race) for race in report.races}
    report.races.extend(race for race in finder.races.values() if _pair(race) not in pairs)
    if not report.unresolved:
        report.unresolved = [
            entry for entry in execution.entries if isinstance(entry, Step) and entry.unresolved is not None
        ][:8]


def _pair(race: Race) -> tuple[int, int]:
    return race.first.step.instruction.index, race.second.step.instruction.index


def _extend(known: list[str], more: Iterable[str]) -> None:
    known.extend(text for text in more if text not in known)
