"""Questions about all consistent candidate executions of a tiny program.

    races(program)                  -> pairs of instructions
    ordered(program, first, second) -> bool
    deadlocks(program)              -> bool
    undefined(program)              -> bool

An instruction is named by (thread index, instruction index).  Where the program can get stuck, the
executions up to each stuck state count as well.

Two accesses to one location, at least one of them a write, race if they are not morally strong and neither
precedes the other in causality order (PTX ISA 9.0, 8.9.5) in some consistent execution.  An mbarrier's
initialisation races with an operation on it that base causality does not order with it.

Left out of the candidates because they change no answer: the iterations of a waiting loop that do not end
it, and which write a weak read takes its value from (a weak read is always able to read the last write
before it, and orders nothing).

Known limits: no branches; a location is accessed as a whole; executions with undefined behaviour
(`phases`) are left out; see also `schedules` on deadlocks.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from . import relations as rel
from .events import Event, Kind, scopes_agree
from .lowering import Reading, Skeleton, conflicts, lower
from .model import Causality, Execution, consistent, morally_strong
from .phases import Assignment, TooLargeError, barrier_assignments, mbarrier_assignments
from .program import EventId, Program, validate
from .schedules import schedules

CANDIDATES = 20_000
DEFAULT = Reading()


@dataclass(frozen=True, slots=True)
class _Synchronisation:
    """One way in which barriers and mbarriers can go: edges, observations, and edges of time."""

    sync: tuple[tuple[int, int], ...]
    observed: tuple[tuple[int, int], ...]
    time: tuple[tuple[int, int], ...]
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A consistent execution of the program (or of the program up to a stuck state)."""

    skeleton: Skeleton
    execution: Execution
    order: Causality

    def ordered(self, x: int, y: int, reading: Reading = DEFAULT) -> bool:
        """Whether event x precedes event y, both accessing one location."""
        one, other = self.skeleton.events[x], self.skeleton.events[y]
        if rel.has(self.order.cause, x, y):
            return True
        across = one.proxy != other.proxy and one.kind is Kind.READ
        if not across or reading.read_before_write_needs_proxy_fence:
            return False
        return rel.has(self.order.base_at(one.location), self.skeleton.exits.get(x, x), y)


def candidates(program: Program, reading: Reading = DEFAULT) -> Iterator[Candidate]:
    """The consistent candidate executions, up to differences that no question sees.

    Raises ProgramError, or TooLargeError for a program that is not tiny enough.
    """
    validate(program)
    whole = tuple(len(thread.instructions) for thread in program.threads)
    counts = lower(program).counts
    for stops in [whole, *sorted(schedules(program).stuck)]:
        running = frozenset(i for i, stop in enumerate(stops) if stop < whole[i])
        skeleton = lower(_cut(program, stops), reading)
        skeleton.counts = counts
        yield from _candidates(skeleton, running, reading)


def _cut(program: Program, stops: tuple[int, ...]) -> Program:
    threads = tuple(
        replace(thread, instructions=thread.instructions[:stop])
        for thread, stop in zip(program.threads, stops, strict=True)
    )
    return replace(program, threads=threads)


def _candidates(skeleton: Skeleton, running: frozenset[int], reading: Reading) -> Iterator[Candidate]:
    events, po = skeleton.events, skeleton.program_order()
    size = len(events)
    strong = morally_strong(Execution(events, po, {}))
    waiting = [po[i] if i in skeleton.blocking else 0 for i in range(size)]
    issued = ((issue, event) for event, issue in skeleton.issue.items())
    fixed = rel.from_pairs(size, (*skeleton.fixed, *skeleton.rmw.items(), *issued))
    always = rel.union(waiting, fixed)
    seen, budget = set(), CANDIDATES
    reads = list(_reads(skeleton, po))
    for way in _synchronisations(skeleton, running, reading):
        time = rel.union(always, rel.from_pairs(size, way.time))
        if not rel.acyclic(time):
            continue
        for rf, fences in itertools.product(reads, _fence_orders(events)):
            budget -= 1
            if budget < 0:
                raise TooLargeError(f"more than {CANDIDATES} candidates")
            execution = Execution(
                events,
                po,
                rf,
                skeleton.rmw,
                fences,
                [*skeleton.fixed, *way.sync],
                list(way.observed),
                time,
                skeleton.exits,
            )
            order = consistent(execution, strong)
            if order is None or not all(_coherent(a, order) for a in way.assignments):
                continue
            key = (tuple(order.base), tuple(order.cause), tuple(sorted(order.restricted, key=str)))
            if key not in seen:
                seen.add(key)
                yield Candidate(skeleton, execution, order)


def _reads(skeleton: Skeleton, po: rel.Relation) -> Iterator[dict[int, int]]:
    """The reads-from of strong reads and of reads that a loop waits for, with the values that they need."""
    events = skeleton.events
    choices = []
    for read, event in enumerate(events):
        if event.kind is Kind.READ and (event.strong or read in skeleton.awaited):
            choices.append(
                [
                    (read, write)
                    for write, other in enumerate(events)
                    if other.kind is Kind.WRITE
                    and other.location == event.location
                    and skeleton.rmw.get(read) != write
                    and not rel.has(po, read, write)
                ]
            )
    for choice in itertools.product(*choices):
        rf = dict(choice)
        if all(_value(skeleton, rf, rf[r], set()) == value for r, value in skeleton.awaited.items()):
            yield rf


def _value(skeleton: Skeleton, rf: dict[int, int], write: int, visited: set[int]) -> int | None:
    """The value of a write; None if it depends on itself."""
    if write not in skeleton.added:
        return skeleton.events[write].value
    if write in visited:
        return None
    read = next(r for r, w in skeleton.rmw.items() if w == write)
    old = _value(skeleton, rf, rf[read], visited | {write})
    return None if old is None else old + skeleton.added[write]


def _fence_orders(events: list[Event]) -> list[list[tuple[int, int]]]:
    """The Fence-SC orders (8.9.3): total orders of the `fence.sc`, kept between morally strong ones."""
    fences = [i for i, event in enumerate(events) if event.sc]
    orders = set()
    for order in itertools.permutations(fences):
        pairs = (p for p in itertools.combinations(order, 2) if scopes_agree(events[p[0]], events[p[1]]))
        orders.add(tuple(sorted(pairs)))
    return [list(order) for order in sorted(orders)]


def _synchronisations(
    skeleton: Skeleton, running: frozenset[int], reading: Reading
) -> Iterator[_Synchronisation]:
    cluster = _cluster(skeleton, running)
    if cluster is None:
        return
    observed, cluster_time = cluster
    barriers = [_generations(sequences) for sequences in skeleton.barrier_operations.values()]
    objects = [
        list(mbarrier_assignments(skeleton.counts[name], sequences, skeleton.after))
        for name, sequences in skeleton.mbarrier_operations.items()
    ]
    counting = {
        o.event
        for sequences in skeleton.mbarrier_operations.values()
        for s in sequences
        for o in s
        if o.arrive or o.complete
    }
    for choice in itertools.product(*barriers):
        sync = [edge for edges in choice for edge in edges]
        for assignments in itertools.product(*objects):
            seen_by_waits, time = list(observed), [*cluster_time, *sync]
            for assignment in assignments:
                _phase_edges(assignment, counting, reading, seen_by_waits, time)
            yield _Synchronisation(tuple(sync), tuple(seen_by_waits), tuple(time), assignments)


def _phase_edges(
    assignment: Assignment,
    counting: set[int],
    reading: Reading,
    observed: list[tuple[int, int]],
    time: list[tuple[int, int]],
) -> None:
    """What an assignment of phases says about observation and about time."""
    for event, phase in assignment.phases:
        time.extend((event, later) for later, other in assignment.phases if other == phase + 1)
        for wait, complete in assignment.waits:
            if phase <= complete:
                time.append((event, wait))
            if event in counting and (phase == complete or (reading.cumulative_phases and phase < complete)):
                observed.append((event, wait))


def _generations(sequences: list[list[tuple[int, int, int | None]]]) -> list[list[tuple[int, int]]]:
    """The edges of a CTA barrier, from each arrival to each wait of its generation, per assignment."""
    plain = [[(event, count, wait is not None) for event, count, wait in s] for s in sequences]
    waits = {event: wait for s in sequences for event, _, wait in s if wait is not None}
    results = []
    for assignment in barrier_assignments(plain):
        results.append(
            [
                (arrival, waits[other])
                for arrival, generation in assignment
                for other, same in assignment
                if generation == same and other in waits
            ]
        )
    return results


def _cluster(
    skeleton: Skeleton, running: frozenset[int]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]] | None:
    """Observation and time of the cluster barrier; None if a wait of it cannot end."""
    observed, time = [], []
    for _, waits in skeleton.cluster:
        for generation, wait in enumerate(waits):
            for thread, (arrivals, _) in enumerate(skeleton.cluster):
                if generation < len(arrivals):
                    observed.append((arrivals[generation], wait))
                    time.append((arrivals[generation], wait))
                elif thread in running:
                    return None
                elif skeleton.order[thread]:
                    # A thread that has ended counts as arrived, but orders nothing.
                    time.append((skeleton.order[thread][-1], wait))
    return observed, time


def _coherent(assignment: Assignment, order: Causality) -> bool:
    """Whether base causality agrees with the order of the object's operations (8.10.1)."""
    base = order.base
    for event, phase in assignment.phases:
        if any(rel.has(base, event, other) for other, earlier in assignment.phases if earlier < phase):
            return False
        if any(rel.has(base, wait, event) for wait, complete in assignment.waits if phase <= complete):
            return False
    for wait, complete in assignment.waits:
        following = [event for event, phase in assignment.phases if phase == complete + 1]
        finished = complete + 1 < assignment.completed
        if finished and all(rel.has(base, event, wait) for event in following):
            return False
    return True


@lru_cache(maxsize=64)
def all_candidates(program: Program, reading: Reading = DEFAULT) -> tuple[Candidate, ...]:
    """All of `candidates`, kept for the last programs asked about."""
    return tuple(candidates(program, reading))


def races(program: Program, reading: Reading = DEFAULT) -> set[tuple[EventId, EventId]]:
    """All pairs of instructions that race in some consistent execution, the smaller one first."""
    found: set[tuple[EventId, EventId]] = set()
    for candidate in all_candidates(program, reading):
        skeleton = candidate.skeleton
        for x, y in conflicts(skeleton):
            if rel.has(candidate.order.strong, x, y) and skeleton.events[x].strong:
                continue
            if not (candidate.ordered(x, y, reading) or candidate.ordered(y, x, reading)):
                found.add(_pair(skeleton, x, y))
        for x, y in _initialisations(skeleton):
            base = candidate.order.base_at(skeleton.events[x].location)
            if not (rel.has(base, x, y) or rel.has(base, y, x)):
                found.add(_pair(skeleton, x, y))
    return found


def _pair(skeleton: Skeleton, x: int, y: int) -> tuple[EventId, EventId]:
    one, other = skeleton.owner[x], skeleton.owner[y]
    assert one is not None and other is not None
    return min(one, other), max(one, other)


def _initialisations(skeleton: Skeleton) -> Iterator[tuple[int, int]]:
    """The initialisation of each mbarrier with every operation on it (or the issue of it)."""
    for x, init in enumerate(skeleton.events):
        if init.kind is not Kind.WRITE or init.location not in skeleton.counts:
            continue
        for y, event in enumerate(skeleton.events):
            if event.kind in (Kind.SIGNAL, Kind.AWAIT) and event.location == init.location:
                yield x, skeleton.issue.get(y, y)


def ordered(program: Program, first: EventId, second: EventId, reading: Reading = DEFAULT) -> bool:
    """Whether the first instruction precedes the second in every execution in which both happen.

    Where they access a common location, these accesses must be ordered by causality; otherwise all events
    of the first must precede all events of the second in base causality order.
    """
    for candidate in all_candidates(program, reading):
        skeleton = candidate.skeleton
        ones = [i for i, owner in enumerate(skeleton.owner) if owner == first]
        others = [i for i, owner in enumerate(skeleton.owner) if owner == second]
        pairs = [
            (x, y)
            for x in ones
            for y in others
            if skeleton.events[x].memory
            and skeleton.events[x].location == skeleton.events[y].location
            and skeleton.events[y].memory
        ]
        if pairs:
            if not all(candidate.ordered(x, y, reading) for x, y in pairs):
                return False
            continue
        for x, y in itertools.product(ones, others):
            one, other = skeleton.events[x], skeleton.events[y]
            shared = one.location if one.location == other.location else ""
            if not rel.has(candidate.order.base_at(shared), skeleton.exits.get(x, x), y):
                return False
    return True


def deadlocks(program: Program) -> bool:
    """Whether some schedule leaves a thread waiting forever (see `schedules` for what is searched)."""
    validate(program)
    return bool(schedules(program).stuck)


def undefined(program: Program) -> bool:
    """Whether some schedule arrives beyond an mbarrier's pending count or mixes counts at one barrier.

    Such executions are left out of the candidates, so the other answers are about the rest.
    """
    validate(program)
    return schedules(program).undefined
