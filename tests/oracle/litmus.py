"""Run the published PTX litmus tests through the oracle and compare with their expected results.

    python -m tests.oracle.litmus --dat3m GITDIR [--only TEXT] [--verbose]

GITDIR is a git directory of the repository that holds `litmus/PTX` and the table of expected results; the
files are read straight out of it.  A test's result is 1 if its condition can hold (`exists`), if it cannot
(`~exists`), or if it always does (`forall`), over the executions in which every thread ends.

Barriers follow the tests' conventions: without an identifier a `bar` waits for every `bar` of its instance
in the CTA, with one for those whose identifier is equal, and with a quorum for that many of them.
"""

import argparse
import itertools
import subprocess
import sys
import time
from collections.abc import Iterator

from . import relations as rel
from .events import Event, Kind, Place, scopes_agree
from .litmus_format import LitmusError, Test, address_of_names, parse
from .model import Execution, causality, coherence_orders
from .traces import Barrier, Trace, address_of, traces

EXPECTED = "dartagnan/src/test/resources/PTXv7_5-expected.csv"
ROUNDS = 4  # rounds of the fixpoint over the values a location may hold
CANDIDATES = 2_000_000


class BoundExceededError(Exception):
    """The test has more candidates than the oracle is willing to look at."""


def evaluate(test: Test) -> bool:
    """The test's result; raises BoundExceededError or LitmusError."""
    reachable = any(True for _ in witnesses(test))
    return reachable if test.quantifier == "exists" else not reachable


def witnesses(test: Test) -> Iterator[Execution]:
    """Executions satisfying the condition (`exists`, `~exists`) or violating it (`forall`)."""
    runs = _all_traces(test)
    names = address_of_names(test)
    wanted = test.condition if test.quantifier != "forall" else ("not", test.condition)
    budget = CANDIDATES
    for combination in itertools.product(*runs):
        registers = [dict(trace.registers) for trace in combination]
        if _holds(wanted, registers, None) is False:
            continue
        for execution in _executions(test, combination, names):
            budget -= 1
            if budget < 0:
                raise BoundExceededError(f"more than {CANDIDATES} candidates")
            order = causality(execution)
            for co in coherence_orders(execution, order):
                if any(_holds(wanted, registers, memory) for memory in _finals(execution, co)):
                    yield execution


def _all_traces(test: Test) -> list[list[Trace]]:
    domain: dict[str, set[int]] = {}
    for name in address_of_names(test):
        location = address_of(test, name).location
        domain.setdefault(location, set()).add(test.initial.get(location, 0))
    for _ in range(ROUNDS):
        runs = [list(traces(test, thread, domain)) for thread in range(len(test.threads))]
        grown = {location: set(values) for location, values in domain.items()}
        for trace in itertools.chain.from_iterable(runs):
            for step in trace.steps:
                if step.event.kind is Kind.WRITE:
                    grown[step.event.location].add(step.event.value)
        if grown == domain:
            break
        domain = grown
    return runs


def _executions(test: Test, combination: tuple[Trace, ...], names: list[str]) -> Iterator[Execution]:
    events: list[Event] = []
    locations = sorted({address_of(test, name).location for name in names})
    for location in locations:
        value = test.initial.get(location, 0)
        events.append(Event(Kind.WRITE, -1, Place(), location, location, value=value))
    po_pairs: list[tuple[int, int]] = []
    dependency: list[tuple[int, int]] = []
    barriers: list[tuple[int, Barrier]] = []
    rmw: dict[int, int] = {}
    for trace in combination:
        base = len(events)
        for index, step in enumerate(trace.steps):
            if step.barrier is not None:
                barriers.append((base + index, step.barrier))
            po_pairs.extend((base + i, base + index) for i in range(index))
            dependency.extend((base + i, base + index) for i in step.depends)
            events.append(step.event)
        rmw.update({base + read: base + write for read, write in trace.rmw})
    po = rel.from_pairs(len(events), po_pairs)
    depends = rel.from_pairs(len(events), dependency)
    choices = []
    for read, event in enumerate(events):
        if event.kind is Kind.READ:
            choices.append(
                [
                    (read, w)
                    for w, e in enumerate(events)
                    if e.kind is Kind.WRITE
                    and e.location == event.location
                    and e.value == event.value
                    and rmw.get(read) != w
                ]
            )
    for sync in _barrier_orders(test, events, po, barriers):
        for fences in _fence_orders(events):
            for rf in itertools.product(*choices):
                yield Execution(events, po, dict(rf), rmw, fences, sync, dependency=depends)


def _fence_orders(events: list[Event]) -> Iterator[list[tuple[int, int]]]:
    """All Fence-SC orders: a total order of the `fence.sc`, kept between morally strong ones."""
    fences = [i for i, e in enumerate(events) if e.sc]
    seen = set()
    for order in itertools.permutations(fences):
        pairs = tuple(
            sorted((a, b) for a, b in itertools.combinations(order, 2) if scopes_agree(events[a], events[b]))
        )
        if pairs not in seen:
            seen.add(pairs)
            yield list(pairs)


def _barrier_orders(
    test: Test, events: list[Event], po: rel.Relation, barriers: list[tuple[int, Barrier]]
) -> Iterator[list[tuple[int, int]]]:
    """The synchronisation of barriers, one list of edges per way in which they can complete."""
    options: list[list[list[tuple[int, int]]]] = []
    groups: dict[tuple[Place, str, int | None], list[tuple[int, Barrier]]] = {}
    for index, barrier in barriers:
        key = (events[index].place, barrier.instance, barrier.identifier)
        groups.setdefault(key, []).append((index, barrier))
    for (place, instance, identifier), members in groups.items():
        quorum = members[0][1].quorum
        if quorum is None:
            if _missing(test, events, place, instance, identifier, barriers):
                return
            arrivals = [tuple(index for index, _ in members)]
        else:
            arrivals = list(itertools.combinations([index for index, _ in members], quorum))
        waiting = [index for index, barrier in members if barrier.blocks]
        options.append([[(a, w) for a in some for w in waiting] for some in arrivals])
    for choice in itertools.product(*options):
        edges = [edge for option in choice for edge in option]
        if _completes(po, edges, barriers):
            yield edges


def _missing(
    test: Test,
    events: list[Event],
    place: Place,
    instance: str,
    identifier: int | None,
    barriers: list[tuple[int, Barrier]],
) -> bool:
    """Whether a barrier of this instance that the program text holds was not reached."""
    reached = {(events[index].thread, barrier.position) for index, barrier in barriers}
    for thread, program in enumerate(test.threads):
        if test.places[thread] != place:
            continue
        for pc, instruction in enumerate(program):
            if instruction.opcode[0] != "bar" or instruction.operands[0] != instance:
                continue
            operand = instruction.operands[1] if len(instruction.operands) > 1 else None
            same = operand is None if identifier is None else operand == str(identifier)
            if same and (thread, pc) not in reached:
                return True
    return False


def _completes(po: rel.Relation, edges: list[tuple[int, int]], barriers: list[tuple[int, Barrier]]) -> bool:
    """Whether no barrier waits, through others, for itself: arrivals and completions are two nodes."""
    nodes = [index for index, _ in barriers]
    blocks = {index for index, barrier in barriers if barrier.blocks}
    arrive = {index: position for position, index in enumerate(nodes)}
    size = len(nodes)
    pairs = [(arrive[a], size + arrive[w]) for a, w in edges]
    for a, b in itertools.permutations(nodes, 2):
        if a in blocks and rel.has(po, a, b):
            pairs.append((size + arrive[a], arrive[b]))
    return rel.acyclic(rel.from_pairs(2 * size, pairs))


def _finals(execution: Execution, co: rel.Relation) -> Iterator[dict[str, int]]:
    """The final values of memory: of each location, those of its coherence-last writes."""
    last: dict[str, set[int]] = {}
    for index, event in enumerate(execution.events):
        if event.kind is Kind.WRITE and not co[index]:
            last.setdefault(event.location, set()).add(event.value)
    for values in itertools.product(*last.values()):
        yield dict(zip(last, values, strict=True))


def _holds(
    condition: tuple[object, ...], registers: list[dict[str, int]], memory: dict[str, int] | None
) -> bool | None:
    """Truth of the condition; None where it depends on memory that is not known yet."""
    head, *parts = condition
    if head in ("and", "or"):
        left, right = (_holds(p, registers, memory) for p in parts)  # type: ignore[arg-type]
        decisive = head == "or"
        if left is decisive or right is decisive:
            return decisive
        return None if left is None or right is None else not decisive
    if head == "not":
        inner = _holds(parts[0], registers, memory)  # type: ignore[arg-type]
        return None if inner is None else not inner
    values = [_operand(p, registers, memory) for p in parts]  # type: ignore[arg-type]
    if values[0] is None or values[1] is None:
        return None
    left_value, right_value = values[0], values[1]
    return {
        "==": left_value == right_value,
        "!=": left_value != right_value,
        "<": left_value < right_value,
        ">": left_value > right_value,
        "<=": left_value <= right_value,
        ">=": left_value >= right_value,
    }[str(head)]


def _operand(
    operand: tuple[object, ...], registers: list[dict[str, int]], memory: dict[str, int] | None
) -> int | None:
    match operand:
        case ("const", int(value)):
            return value
        case ("reg", int(thread), str(name)):
            return registers[thread].get(name, 0)
        case ("mem", str(name)):
            return None if memory is None else memory[name]
    raise LitmusError(f"operand {operand!r}")


def _show(gitdir: str, path: str) -> str:
    command = ["git", f"--git-dir={gitdir}", "show", f"HEAD:{path}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main(arguments: list[str] | None = None) -> int:
    """Compare all tests of the table; exit status 1 if one disagrees."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--dat3m", required=True, metavar="GITDIR")
    parser.add_argument("--only", default="", metavar="TEXT", help="run the tests whose path holds TEXT")
    parser.add_argument("--verbose", action="store_true", help="print every test with its time")
    options = parser.parse_args(arguments)
    agree, disagree, left_out = 0, [], []
    for line in _show(options.dat3m, EXPECTED).split():
        path, _, expected = line.partition(",")
        if options.only not in path:
            continue
        start = time.perf_counter()
        try:
            result = int(evaluate(parse(_show(options.dat3m, path))))
        except (LitmusError, BoundExceededError, subprocess.CalledProcessError) as error:
            left_out.append(f"{path}: {error}")
            continue
        if result == int(expected):
            agree += 1
        else:
            disagree.append(f"{path}: expected {expected}, oracle says {result}")
        if options.verbose:
            print(f"{time.perf_counter() - start:8.2f} s  {result} {path}", flush=True)
    print(f"{agree} agree, {len(disagree)} disagree, {len(left_out)} left out")
    for entry in disagree:
        print(f"disagree  {entry}")
    for entry in left_out:
        print(f"left out  {entry}")
    return 1 if disagree else 0


if __name__ == "__main__":
    sys.exit(main())
