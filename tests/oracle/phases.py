"""Which arrivals and completions count for which phase, and which phase each wait observes.

mbarrier (PTX ISA 9.0, 9.7.13.15): a phase completes when the pending count is zero and the
tx-count is zero; the pending count is then reset and the next phase begins.  A wait on a parity succeeds if
the phase that has just completed has it (so parity 1 succeeds on a fresh object).  Operations on one object
are atomic, hence totally ordered; what matters for causality is only the phase of each operation, so
assignments of phases are enumerated rather than orders.

CTA barriers (9.7.13): a generation completes when the number of arrivals is the barrier's count; the next
arrival begins a new one.  Cluster barriers (9.7.13): the n-th arrival of every thread that has not ended.

An arrival beyond the pending count, and unequal counts within one generation, are undefined behaviour:
assignments with them are left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

LIMIT = 20_000


class TooLargeError(Exception):
    """The program has more candidate executions than the oracle is willing to look at."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on one mbarrier: what it does to the counts, or the parity that it waits for.

    `event` is the index of the execution's event.  An expect-tx takes effect before the arrival.
    """

    event: int
    arrive: int = 0
    expect: int = 0
    complete: int = 0
    parity: int | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """The phase of each operation, and the phase that each wait observes (-1: none has completed)."""

    phases: tuple[tuple[int, int], ...]
    waits: tuple[tuple[int, int], ...]
    completed: int


def mbarrier_assignments(
    count: int, sequences: list[list[Operation]], after: dict[int, set[int]]
) -> Iterator[Assignment]:
    """All assignments of the operations to phases.

    `sequences` are the operations of each agent in order; `after` maps an operation's event to those that
    must come before it (a completion comes after what its issuer did before).
    """
    start = (
        tuple(0 for _ in sequences),
        0,
        count,
        0,
        frozenset[tuple[int, int]](),
        frozenset[tuple[int, int]](),
    )
    stack, seen, found = [start], {start}, set()
    while stack:
        positions, phase, pending, tx, phases, waits = stack.pop()
        if len(seen) > LIMIT:
            raise TooLargeError("too many orders of mbarrier operations")
        if all(p == len(s) for p, s in zip(positions, sequences, strict=True)):
            result = Assignment(tuple(sorted(phases)), tuple(sorted(waits)), phase)
            if result not in found:
                found.add(result)
                yield result
            continue
        done = {event for event, _ in phases | waits}
        for agent, sequence in enumerate(sequences):
            if positions[agent] == len(sequence):
                continue
            operation = sequence[positions[agent]]
            if not after.get(operation.event, set()) <= done:
                continue
            step = _apply(operation, count, (phase, pending, tx))
            if step is None:
                continue
            moved = (*positions[:agent], positions[agent] + 1, *positions[agent + 1 :])
            mark = frozenset({(operation.event, phase)})
            if operation.parity is None:
                following = (moved, *step, phases | mark, waits)
            else:
                observed = frozenset({(operation.event, phase - 1)})
                following = (moved, *step, phases, waits | observed)
            if following not in seen:
                seen.add(following)
                stack.append(following)


def _apply(operation: Operation, count: int, state: tuple[int, int, int]) -> tuple[int, int, int] | None:
    """The state (phase, pending, tx) after the operation; None if it cannot happen now."""
    phase, pending, tx = state
    if operation.parity is not None:
        return state if phase % 2 != operation.parity else None
    if operation.arrive > pending:
        return None
    tx += operation.expect - operation.complete
    pending -= operation.arrive
    if pending == 0 and tx == 0:
        return phase + 1, count, 0
    return phase, pending, tx


def barrier_assignments(
    sequences: list[list[tuple[int, int, bool]]],
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Generations of a CTA barrier's operations, all complete where a thread waits.

    Each sequence holds the operations (event, count, waits) of one thread; yields (event, generation).
    """
    start = (tuple(0 for _ in sequences), 0, 0, frozenset[tuple[int, int]]())
    stack, seen, found = [start], {start}, set()
    while stack:
        positions, generation, arrived, marks = stack.pop()
        if len(seen) > LIMIT:
            raise TooLargeError("too many orders of barrier operations")
        current = {event for event, g in marks if g == generation}
        if all(p == len(s) for p, s in zip(positions, sequences, strict=True)):
            waiting = any(w and event in current for s in sequences for event, _, w in s)
            result = tuple(sorted(marks))
            if not waiting and result not in found:
                found.add(result)
                yield result
            continue
        counts = {c for s in sequences for event, c, _ in s if event in current}
        for agent, sequence in enumerate(sequences):
            if positions[agent] == len(sequence):
                continue
            event, count, _ = sequence[positions[agent]]
            before = sequence[positions[agent] - 1] if positions[agent] else None
            blocked = before is not None and before[2] and before[0] in current
            if blocked or (counts and counts != {count}):
                continue
            moved = (*positions[:agent], positions[agent] + 1, *positions[agent + 1 :])
            full = arrived + 1 == count
            following = (moved, generation + full, 0 if full else arrived + 1, marks | {(event, generation)})
            if following not in seen:
                seen.add(following)
                stack.append(following)
