"""Compare the product's order engine with the oracle on seeded random programs.

    python -m tests.oracle.compare --count 10000 --seed 0 [--state FILE] [--seconds S] [--show CLASS]

Each program is rendered as PTX, given to the engine, and every pair of instructions that access one
location (at least one of them writing) is looked up in both answers:

* *miss*: the oracle finds a race, the engine finds the pair ordered. There must be none.
* *false alarm*: the engine finds a race, the oracle finds the pair ordered in every execution.
* *unknown*: the engine does not answer (it says why), or finds that a phase may be mistaken for another
  (`alias`) or that a thread may wait forever: what it says of order then holds for the phases that are meant
  only, and that finding is its answer.

Programs with undefined behaviour are left out, and so are these pairs, which the engine does not answer on
purpose (the table counts each):

* ``initialisation``: `mbarrier.init` against an operation on the mbarrier. The engine finds an mbarrier
  that is used before its initialisation by executing it, not by order. What else it says of such a program
  rests on the initialisation coming first or last, so false alarms there count here, too.
* ``fence.sc``: two `fence.sc` order each other without any flag (8.9.3), of which the engine knows nothing.
* ``read-before-write``: a synchronous read that is over in time before the write starts cannot see the
  write, though no release made it precede the write in causality order (PTX ISA 8.9.5). The oracle
  goes by causality.
* ``remote-copy``: a bulk copy issued by another CTA whose completion is waited for at CTA scope. By the
  letter (8.7) that scope does not include the issuer; the engine takes the completion as one of the CTA that
  it signals, as every multicast pipeline does.
* ``carried``: what the issuer of an asynchronous operation had observed of others before it is passed on by
  its completion in the engine, not in the oracle (8.9.1.1). A tile that is copied, read by an asynchronous
  multiplication and copied anew when that has completed is ordered in every pipeline.
* ``fence-by-other``: a proxy fence that another thread than the writer executes in between. To the oracle
  any fence of the CTA will do (8.6 does not say whose); the engine reports it as a finding of its own.
* ``global``: weak global accesses of a kernel in which nothing hands over memory to another CTA: within a
  CTA the same barriers order them as shared memory, and the engine leaves them out.
* ``values``: what can only happen if a flag has another value than the program gives it; the engine does not
  know what global memory holds.
* ``flag``: a thread that waits forever for the value of a flag; the engine assumes that polling loops end.

Known disagreement that stays: a thread that waits forever because the phase after the one that it waits for
completes first (the engine runs two schedules, not all).

Not in these programs: lanes of one warp that race (one lane acts), and several warps that store the same
value by one instruction (every thread has instructions of its own).
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import Limits, OrderReport, explore
from ptxaudit.analysis.order.gaps import GapKind
from ptxaudit.analysis.order.races import Link
from ptxaudit.frontends.ptx import load_ptx
from ptxaudit.ir.instruction import Instruction
from ptxaudit.source import SourceText

from . import program as op
from . import relations as rel
from .events import Kind
from .generate import generate
from .lowering import Reading, conflicts, lower
from .phases import TooLargeError
from .program import EventId, Program
from .questions import Candidate, all_candidates, deadlocks, races, undefined
from .render import Rendering, render
from .schedules import schedules

Pair = tuple[EventId, EventId]
COMPLETION_AT_TARGET = Reading(copies_complete_at_target=True)
CARRIED = Reading(copies_complete_at_target=True, asynchronous_carries=True)


@dataclass(slots=True)
class Outcome:
    """The comparison of one program: how often each class occurred, and the pairs in the bad ones."""

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    pairs: list[tuple[str, Pair]] = field(default_factory=list)

    def add(self, what: str, pair: Pair | None = None) -> None:
        """Count an occurrence."""
        self.counts[what] += 1
        if pair is not None:
            self.pairs.append((what, pair))


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """What the engine says of a program, in the program's terms."""

    races: frozenset[Pair]
    fenced_by_other: frozenset[Pair]
    unmapped: int
    unknown: str | None
    alias: bool
    deadlock: bool
    report: OrderReport


def ask_engine(rendering: Rendering) -> EngineAnswer:
    """Explore the rendered program and name its races by the program's instructions."""
    module = load_ptx(SourceText("oracle.ptx", rendering.text))
    report = explore(FunctionAnalysis(module.functions[0], module), Limits(operations=4000))
    found: set[Pair] = set()
    by_other: set[Pair] = set()
    unmapped = 0
    for race in report.races:
        first = _name(rendering, race.first.step.instruction)
        second = _name(rendering, race.second.step.instruction)
        if first is None or second is None:
            unmapped += 1
        else:
            pair = (min(first, second), max(first, second))
            found.add(pair)
            if race.link is Link.PROXY_BY_OTHER:
                by_other.add(pair)
    reason = report.reason
    if reason is None and report.unresolved:
        reason = f"not known: {report.unresolved[0].unresolved}"
    stuck = bool(report.deadlock)
    # Bytes expected of a phase that may be over by then are mistaken for the next phase's.
    alias = bool(report.aliases) or any(gap.kind is GapKind.EXPECT_MAY_SLIP for gap in report.gaps)
    return EngineAnswer(frozenset(found), frozenset(by_other), unmapped, reason, alias, stuck, report)


def _name(rendering: Rendering, instruction: Instruction) -> EventId | None:
    return rendering.lines.get(instruction.location.line or 0)


def compare(seed: int) -> Outcome:
    """Compare the engine with the oracle on the program of a seed."""
    outcome = Outcome(seed)
    program = generate(seed)
    try:
        if undefined(program):
            outcome.add("programs with undefined behaviour")
            return outcome
        racy = races(program)
        stuck = deadlocks(program)
    except TooLargeError:
        outcome.add("programs too large for the oracle")
        return outcome
    rendering = render(program)
    engine = ask_engine(rendering)
    outcome.add("programs compared")
    _compare_pairs(outcome, program, rendering, racy, engine)
    _compare_deadlocks(outcome, program, stuck, engine)
    if engine.unmapped:
        outcome.add("races: engine race outside the program")
    return outcome


def _compare_pairs(
    outcome: Outcome, program: Program, rendering: Rendering, racy: set[Pair], engine: EngineAnswer
) -> None:
    known = _conflicting(program)
    for pair in sorted(known | racy | engine.races):
        reason = left_out(program, rendering, pair, pair in racy, engine)
        if reason is not None:
            outcome.add(f"left out: {reason}")
            continue
        what, bad = _class(pair in racy, pair in engine.races, engine)
        outcome.add(f"races: {what}", pair if bad else None)


def _class(racy: bool, reported: bool, engine: EngineAnswer) -> tuple[str, bool]:
    if reported:
        if racy:
            return "race in both", False
        beside = engine.alias or engine.deadlock
        return ("false alarm beside an alias or deadlock", False) if beside else ("FALSE ALARM", True)
    expected = "race" if racy else "order"
    if engine.alias or engine.deadlock:
        return f"unknown (alias or deadlock) where the oracle finds {expected}", False
    if engine.unknown is not None:
        return f"unknown where the oracle finds {expected}", False
    return ("MISS", True) if racy else ("order in both", False)


def _compare_deadlocks(outcome: Outcome, program: Program, stuck: bool, engine: EngineAnswer) -> None:
    nowhere = ((0, 0), (0, 0))
    if stuck and not engine.deadlock and only_flags_wait(program):
        outcome.add("left out: flag")
    elif stuck != engine.deadlock and _initialised_late(program):
        outcome.add("left out: initialisation")
    elif engine.deadlock:
        outcome.add(f"deadlocks: {'in both' if stuck else 'FALSE ALARM'}", None if stuck else nowhere)
    elif engine.unknown is not None or engine.alias:
        outcome.add(f"deadlocks: unknown where the oracle finds {'one' if stuck else 'none'}")
    else:
        outcome.add(f"deadlocks: {'MISS' if stuck else 'none in both'}", nowhere if stuck else None)


def _conflicting(program: Program) -> set[Pair]:
    skeleton = lower(program)
    found: set[Pair] = set()
    for x, y in conflicts(skeleton):
        one, other = skeleton.owner[x], skeleton.owner[y]
        assert one is not None and other is not None
        found.add((min(one, other), max(one, other)))
    return found


# What is left out ----------------------------------------------------------------------------------------


def left_out(
    program: Program, rendering: Rendering, pair: Pair, racy: bool, engine: EngineAnswer
) -> str | None:
    """The deliberate difference that a pair falls under, or None."""
    reported = pair in engine.races
    if pair in engine.fenced_by_other and not racy:
        return "fence-by-other"
    one, other = (program.threads[thread].instructions[place] for thread, place in pair)
    if isinstance(one, op.MbarrierInit) or isinstance(other, op.MbarrierInit):
        return "initialisation"
    if _outside_the_question(program, rendering, one, other):
        return "global"
    if racy and not reported and pair not in races(program, COMPLETION_AT_TARGET):
        return "remote-copy"
    if racy and not reported and pair not in races(program, CARRIED):
        return "carried"
    if racy and not reported and all(_read_is_over(c, pair) for c in _racing(program, pair)):
        return "read-before-write"
    if reported and not racy and _initialised_late(program):
        return "initialisation"
    if reported and not racy and _sc_fences(program) > 1:
        return "fence.sc"
    if reported and not racy and not _happen_together(program, pair):
        return "values"
    return None


def _sc_fences(program: Program) -> int:
    instructions = (instruction for thread in program.threads for instruction in thread.instructions)
    return sum(isinstance(each, op.Fence) and each.semantics == "sc" for each in instructions)


def _outside_the_question(
    program: Program, rendering: Rendering, one: op.Instruction, other: op.Instruction
) -> bool:
    marks = ("mapa.", "sync_restrict", "try_wait.parity.relaxed")
    if any(mark in rendering.text for mark in marks):
        return False
    homes = {place.name: place.cta for place in program.locations}
    shared = set(op.names(one)) & set(op.names(other)) & homes.keys()
    return all(homes[name] is None for name in shared)


def _events(candidate: Candidate, pair: Pair) -> Iterator[tuple[int, int]]:
    """The conflicting events of a pair in a candidate."""
    for x, y in conflicts(candidate.skeleton):
        owners = candidate.skeleton.owner[x], candidate.skeleton.owner[y]
        if owners == pair:
            yield x, y
        elif owners == pair[::-1]:
            yield y, x


def _racing(program: Program, pair: Pair) -> list[Candidate]:
    found = all_candidates(program, COMPLETION_AT_TARGET)
    return [c for c in found if any(_race(c, x, y) for x, y in _events(c, pair))]


def _race(candidate: Candidate, x: int, y: int) -> bool:
    strong = rel.has(candidate.order.strong, x, y) and candidate.skeleton.events[x].strong
    return not (strong or candidate.ordered(x, y) or candidate.ordered(y, x))


def _read_is_over(candidate: Candidate, pair: Pair) -> bool:
    """Whether, in every race of the pair, the one is a read that time puts before the other."""
    events = candidate.skeleton.events
    later = _time(candidate)
    for x, y in _events(candidate, pair):
        if not _race(candidate, x, y):
            continue
        forward = events[x].kind is Kind.READ and rel.has(later, candidate.skeleton.exits.get(x, x), y)
        backward = events[y].kind is Kind.READ and rel.has(later, candidate.skeleton.exits.get(y, y), x)
        if not (forward or backward):
            return False
    return True


def _time(candidate: Candidate) -> rel.Relation:
    execution, events = candidate.execution, candidate.skeleton.events
    flags = [(w, r) for r, w in execution.rf.items() if events[w].release and events[r].acquire]
    seen = rel.from_pairs(len(events), flags)
    return rel.closure(rel.union(execution.po, execution.dependency, seen))


def _happen_together(program: Program, pair: Pair) -> bool:
    return any(next(_events(candidate, pair), None) is not None for candidate in all_candidates(program))


def _initialised_late(program: Program) -> bool:
    """Whether an mbarrier may be used before its initialisation (`schedules` takes all as initialised)."""
    instructions = [thread.instructions for thread in program.threads]
    return any(
        isinstance(instructions[thread][place], op.MbarrierInit)
        for pair in races(program)
        for thread, place in pair
    )


def only_flags_wait(program: Program) -> bool:
    """Whether in every stuck state some thread waits for a flag."""
    return all(
        any(_waits_for_flag(program, thread, place) for thread, place in enumerate(stops))
        for stops in schedules(program).stuck
    )


def _waits_for_flag(program: Program, thread: int, place: int) -> bool:
    code = program.threads[thread].instructions
    return place < len(code) and isinstance(code[place], op.AwaitFlag)


# The command ---------------------------------------------------------------------------------------------


def run(seeds: Iterable[int], state: Path | None, seconds: float) -> list[Outcome]:
    """Compare the seeds that the state file does not have yet, until the time is over."""
    done = _read_state(state)
    end = time.monotonic() + seconds
    results: list[Outcome] = []
    for seed in seeds:
        if seed in done:
            results.append(done[seed])
            continue
        if time.monotonic() > end:
            break
        outcome = compare(seed)
        all_candidates.cache_clear()
        results.append(outcome)
        if state is not None:
            with state.open("a") as file:
                file.write(json.dumps([outcome.seed, outcome.counts, outcome.pairs]) + "\n")
    return results


def _read_state(state: Path | None) -> dict[int, Outcome]:
    if state is None or not state.exists():
        return {}
    done: dict[int, Outcome] = {}
    for line in state.read_text().splitlines():
        seed, counts, pairs = json.loads(line)
        named = [(what, (tuple(one), tuple(other))) for what, (one, other) in pairs]
        done[seed] = Outcome(seed, Counter(counts), named)  # type: ignore[arg-type]
    return done


def table(results: list[Outcome]) -> str:
    """The counts of all results, and a few seeds of each bad class."""
    total: Counter[str] = sum((outcome.counts for outcome in results), Counter())
    lines = [f"{count:8}  {what}" for what, count in sorted(total.items())]
    for bad in ("races: MISS", "races: FALSE ALARM", "deadlocks: MISS", "deadlocks: FALSE ALARM"):
        seeds = [outcome.seed for outcome in results if outcome.counts[bad]]
        if seeds:
            lines.append(f"{bad}: {len(seeds)} programs, seeds {' '.join(map(str, seeds[:12]))}")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Compare and print; the exit code tells whether there was a miss."""
    parser = argparse.ArgumentParser(description="Compare the order engine with the oracle.")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, help="file of results, to go on from")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--list", default=None, help="print every seed and pair of this class")
    options = parser.parse_args(arguments)
    results = run(range(options.seed, options.seed + options.count), options.state, options.seconds)
    print(table(results))
    for outcome in results if options.list else ():
        for what, pair in outcome.pairs:
            if what == options.list:
                print(outcome.seed, what, pair)
    return int(any(outcome.counts["races: MISS"] for outcome in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
