"""Which executions of a kernel are looked at, and what the answers rest on.

A kernel does not say how it is launched. The block and cluster size come from its directives where they
are there; otherwise the first size is taken with which every warp runs to its end. Loops whose trip
count is not known are followed until every ring of barriers that is waited on inside has come round
twice, then left. Undecided branches are followed one way first, then each first decision is turned in a
further execution. Every launch is executed with the warps in ascending and in descending order: phases
and races must be right in each.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.gaps import Gap
from ptxaudit.analysis.order.machine import Bounds, LaunchShape, Machine
from ptxaudit.analysis.order.program import Operation, Program, compile_program
from ptxaudit.analysis.order.races import Alias, Race, RaceFinder
from ptxaudit.analysis.order.trace import BarrierKey, Execution, Step, Stuck
from ptxaudit.ir import events as ev
from ptxaudit.ir.cfg import Loop
from ptxaudit.ir.function import Language
from ptxaudit.ir.launch import Launch

_MOST_ITERATIONS = 40
_MOST_TURNS = 12
# The first launch under both schedules; what is turned after that may not be possible.
_SURE_EXECUTIONS = 2
_BLOCK_SIZES = (128, 256, 384, 512, 160, 192, 288, 1024)
# A count of iterations or tiles; sizes that give a few iterations of loops over tiles of elements.
_SAMPLES = (4, 1024, 512)
_CLUSTER_SIZES = (2, 1, 3, 4, 8)


@dataclass(slots=True)
class OrderReport:
    """What the explored executions of a function showed.

    ``races`` and ``aliases`` hold one entry a pair of instructions. ``reason`` says why the answer is
    incomplete, or is ``None``; ``assumptions`` are what all of it rests on. ``deadlock`` are the warps that
    wait for ever in a launch that is possible; it is certain when the launch is stated and nothing had
    to be decided.
    """

    shape: LaunchShape | None = None
    executions: list[Execution] = field(default_factory=list)
    races: list[Race] = field(default_factory=list)
    aliases: list[Alias] = field(default_factory=list)
    overwritten_reads: list[Race] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
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
    """Bounds of an exploration.

    ``operations`` bounds one execution and ``turns`` the decisions that are turned: both give the same
    answer on every machine. ``seconds`` is only there so that nothing runs for ever.
    """

    seconds: float = 300.0
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
    _look_at(report, Machine(program, first.shape, first.bounds, None, True, first.sample).run())
    for forced in _turned(first.shortest, report, limits):
        if monotonic() > deadline:
            report.reason = report.reason or f"stopped after {limits.seconds:.0f} s"
            break
        turned = Machine(program, first.shape, Bounds(limits.operations), forced, False, first.sample)
        _look_at(report, turned.run())
    return report


@dataclass(slots=True)
class _Attempt:
    """An execution with what it was made from; ``shortest`` is the one with the least loop bounds."""

    execution: Execution
    shortest: Execution
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
    best = _first_that_fits(program, report, limits, None, deadline)
    usable = best is not None and (best.execution.complete or _shows_something(best.execution))
    if not usable:
        sampled = [
            attempt
            for sample in _SAMPLES
            if (attempt := _first_that_fits(program, report, limits, sample, deadline)) is not None
            and attempt.execution.complete
        ]
        best = max(sampled, key=lambda attempt: len(attempt.execution.entries), default=best)
    if best is None:
        return None
    report.shape = best.shape
    if best.sample is not None:
        report.assumptions.append(f"32-bit parameters and the grid size are {best.sample} (first CTA)")
    if best.execution.stuck:
        stuck = best.execution.stuck[0]
        place = stuck.instruction.location
        report.reason = f"no execution ran to its end: a warp stays at {place} ({stuck.instruction.text})"
    elif best.execution.limits:
        report.reason = best.execution.limits[0]
    return best


def _first_that_fits(
    program: Program, report: OrderReport, limits: Limits, sample: int | None, deadline: float
) -> _Attempt | None:
    """The first launch shape with which every warp runs to its end, else the first that was tried."""
    best: _Attempt | None = None
    operations = limits.operations if sample is None else limits.operations // 5
    for shape in _shapes(program, report):
        attempt = _attempt(program, shape, operations, sample, deadline)
        if best is None or attempt.execution.complete:
            best = attempt
        if attempt.execution.complete or monotonic() > deadline:
            break
    return best


def _note_deadlock(report: OrderReport, execution: Execution) -> None:
    """Warps that wait for ever in a launch that is possible; nothing unknown must explain it."""
    if any(stuck.key is None for stuck in execution.stuck):
        return
    known = {stuck.instruction.index for stuck in report.deadlock}
    report.deadlock.extend(stuck for stuck in execution.stuck if stuck.instruction.index not in known)
    report.deadlock_certain |= not execution.decisions and not report.assumptions


def _attempt(
    program: Program, shape: LaunchShape, operations: int, sample: int | None, deadline: float
) -> _Attempt:
    bounds = Bounds(operations)
    shortest = Machine(program, shape, bounds, sample=sample).run()
    best = _Attempt(shortest, shortest, shape, bounds, sample)
    while best.execution.complete and monotonic() < deadline:
        wanted = _wanted_iterations(program, best.execution, best.bounds)
        if wanted == dict(best.bounds.iterations or {}):
            break
        bounds = Bounds(operations, bounds.default_iterations, wanted)
        longer = Machine(program, shape, bounds, sample=sample).run()
        if not longer.complete and not _shows_something(longer):
            break
        best = _Attempt(longer, shortest, shape, bounds, sample)
    return best


def _shapes(program: Program, report: OrderReport) -> Iterator[LaunchShape]:
    """Launch shapes to try, those that the code states alone where it states them."""
    facts = program.analysis.function.facts
    launch = program.analysis.launch or Launch()
    blocks = [launch.block or facts.required_threads or facts.maximum_threads]
    if blocks == [None]:
        blocks = [(size, 1, 1) for size in _BLOCK_SIZES]
        _extend(report.assumptions, ["the block size is not stated; the first that fits is taken"])
    elif launch.block is None and facts.required_threads is None:
        _extend(report.assumptions, [f"the block has its greatest size, {blocks[0]}"])
    clusters = [launch.cluster or facts.cluster]
    if clusters == [None]:
        sizes: Sequence[int] = (1,)
        if _uses_clusters(program.analysis):
            sizes = _CLUSTER_SIZES if _reaches_peers(program.analysis) else sorted(_CLUSTER_SIZES)
            _extend(report.assumptions, ["the cluster size is not stated; the first that fits is taken"])
        clusters = [(size, 1, 1) for size in sizes]
    for cluster in clusters:
        for block in blocks:
            assert block is not None and cluster is not None
            yield LaunchShape(block, cluster)


def _uses_clusters(analysis: FunctionAnalysis) -> bool:
    for instruction, events in zip(analysis.function.instructions, analysis.events, strict=True):
        if any(isinstance(event, ev.AddressMapping) for event in events):
            return True
        if any(_needs_peers(event) for event in events):
            return True
        if any(register.name == "%cluster_ctarank" for register in instruction.reads):
            return True
    return False


def _reaches_peers(analysis: FunctionAnalysis) -> bool:
    """Whether a cluster of several CTAs is likely.

    SASS forms shared addresses with the CTA's rank in every kernel and maps them to ranks where PTX did,
    which is no sign of one yet.
    """
    if analysis.function.language is Language.PTX:
        return True
    return any(_needs_peers(event) for events in analysis.events for event in events)


def _needs_peers(event: ev.Event) -> bool:
    if isinstance(event, ev.ClusterBarrier):
        return True
    if isinstance(event, ev.Access | ev.MbarrierArrive | ev.MbarrierCompleteTx):
        return event.multicast
    return isinstance(event, ev.TensorOperation) and event.pair


def _wanted_iterations(program: Program, execution: Execution, bounds: Bounds) -> dict[int, int]:
    """Loop bounds with which every ring of barriers comes round twice, as far as this run can tell."""
    visits: dict[tuple[int, int], list[BarrierKey]] = defaultdict(list)
    for entry in execution.entries:
        if isinstance(entry, Step) and isinstance(entry.event, ev.MbarrierWait) and entry.key is not None:
            visits[entry.warp, entry.instruction.index].append(entry.key)
    wanted = dict(bounds.iterations or {})
    for (_, index), keys in visits.items():
        ring = len(set(keys))
        loop = _working_loop(program, program.analysis.function.block_of(index).id)
        enough = 2 * ring + 1
        if loop is None or ring < 2 or len(keys) >= enough:
            continue
        now = bounds.limit(loop.header)
        need = -(-now * enough // len(keys))
        if need > now:
            wanted[loop.header] = min(max(need, wanted.get(loop.header, 0)), _MOST_ITERATIONS)
    return wanted


def _working_loop(program: Program, block: int) -> Loop | None:
    """The innermost loop around a wait that does anything but poll."""
    around = [loop for loop in program.analysis.graph.loops if block in loop.blocks]
    for loop in sorted(around, key=lambda loop: -loop.depth):
        blocks = [program.blocks[number] for number in loop.blocks]
        if any(_works(operation) for block_program in blocks for operation in block_program.operations):
            return loop
    return None


def _works(operation: Operation) -> bool:
    polling = (ev.MbarrierWait, ev.Backoff, ev.L1Invalidate)
    return any(not isinstance(event, polling) for event in operation.events)


def _turned(first: Execution, report: OrderReport, limits: Limits) -> Iterator[dict[int, bool]]:
    """For each place, its first decision the other way, those before it as they were."""
    sites: dict[int, int] = {}
    for ordinal, decision in enumerate(first.decisions):
        sites.setdefault(decision.site, ordinal)
    if len(sites) > limits.turns:
        left = len(sites) - limits.turns
        report.assumptions.append(f"of {len(sites)} undecided conditions {left} were followed one way only")
    for ordinal in list(sites.values())[: limits.turns]:
        forced = {number: taken.outcome for number, taken in enumerate(first.decisions[:ordinal])}
        yield {**forced, ordinal: not first.decisions[ordinal].outcome}


def _look_at(report: OrderReport, execution: Execution) -> None:
    """Add what one execution shows to the report.

    One that did not run to its end shows something only if its decisions are certain to be possible:
    what it did until then, and that it gets stuck.
    """
    report.executions.append(execution)
    _extend(report.assumptions, execution.assumptions)
    if not execution.complete and not _shows_something(execution):
        return
    if execution.stuck:
        _note_deadlock(report, execution)
    finder = RaceFinder(execution).run()
    known_aliases = {(alias.step.instruction.index, alias.record.key[0]) for alias in report.aliases}
    for alias in finder.aliases.values():
        if (alias.step.instruction.index, alias.record.key[0]) not in known_aliases:
            report.aliases.append(alias)
    doubtful = len(report.executions) > _SURE_EXECUTIONS and not execution.possible
    known = {_pair(race): number for number, race in enumerate(report.races)}
    for race in finder.races.values():
        race.doubtful = doubtful
        number = known.get(_pair(race))
        if number is None:
            report.races.append(race)
        elif report.races[number].doubtful and not doubtful:
            report.races[number] = race
    reads = {_pair(race) for race in report.overwritten_reads}
    for race in finder.overwritten_reads.values():
        race.doubtful = doubtful
        if _pair(race) not in reads:
            report.overwritten_reads.append(race)
    _add_gaps(report, finder, doubtful)
    if not report.unresolved:
        report.unresolved = [
            entry for entry in execution.entries if isinstance(entry, Step) and entry.unresolved is not None
        ][:8]


def _add_gaps(report: OrderReport, finder: RaceFinder, doubtful: bool) -> None:
    known = {gap.pair: number for number, gap in enumerate(report.gaps)}
    for gap in finder.gaps.gaps.values():
        gap.doubtful = doubtful
        number = known.get(gap.pair)
        if number is None:
            report.gaps.append(gap)
        elif report.gaps[number].doubtful and not doubtful:
            report.gaps[number] = gap


def _shows_something(execution: Execution) -> bool:
    """Whether what happened until an execution got stuck is certain to be possible."""
    if not execution.possible or execution.limits:
        return False
    return not any(isinstance(entry, Step) and (entry.unresolved or entry.may) for entry in execution.entries)


def _pair(race: Race) -> tuple[int, int]:
    return race.first.step.instruction.index, race.second.step.instruction.index


def _extend(known: list[str], more: Iterable[str]) -> None:
    known.extend(text for text in more if text not in known)
