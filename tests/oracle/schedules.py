"""Where a program can get stuck: a search of all interleavings of its synchronisation.

An operational view beside the axiomatic one.  Flags are read and written in one global order here, so a
deadlock that needs a weaker behaviour of flags is not found; barriers, mbarriers and asynchronous
completions have no other behaviour than the ones searched.  Mbarriers count as initialised from the start
(whether they are is a question of races), asynchronous operations always complete, and what is undefined
behaviour (an arrival beyond the pending count, unequal counts at one barrier) ends the search there.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

from . import program as op
from .phases import TooLargeError
from .program import EventId, Program

LIMIT = 100_000


@dataclass(frozen=True, slots=True)
class Schedules:
    """What a program's schedules lead to.

    `stuck` holds, for every reachable state in which a thread waits forever, the instruction at which each
    thread stands (or its end).  `ends` says whether some schedule ends every thread, `undefined` whether
    some schedule runs into undefined behaviour.
    """

    stuck: frozenset[tuple[int, ...]]
    ends: bool
    undefined: bool


@dataclass(frozen=True, slots=True)
class _State:
    """The program's state; mappings are tuples in the order of the searcher's name lists.

    `generation` holds, for a thread within `barrier.sync`, the generation that it waits for.
    """

    counters: tuple[int, ...]
    generation: tuple[int | None, ...]
    barriers: tuple[tuple[int, int, int], ...]
    arrived: tuple[int, ...]
    waited: tuple[int, ...]
    mbarriers: tuple[tuple[int, int, int], ...]
    memory: tuple[int, ...]
    pending: frozenset[EventId]


class _Search:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.code = [thread.instructions for thread in program.threads]
        self.mbarriers = [place.name for place in program.mbarriers]
        self.memory = [place.name for place in program.locations]
        self.barriers = sorted(
            {
                (thread.cta, i.identifier)
                for thread in program.threads
                for i in thread.instructions
                if isinstance(i, op.BarrierSync | op.BarrierArrive)
            }
        )
        inits = [i for code in self.code for i in code if isinstance(i, op.MbarrierInit)]
        self.counts = {i.mbarrier: i.count for i in inits}

    def run(self) -> "Schedules":
        """Search all reachable states."""
        threads = len(self.code)
        start = _State(
            (0,) * threads,
            (None,) * threads,
            ((0, 0, 0),) * len(self.barriers),
            (0,) * threads,
            (0,) * threads,
            tuple((0, self.counts.get(name, 0), 0) for name in self.mbarriers),
            (0,) * len(self.memory),
            frozenset(),
        )
        seen, stack, stuck = {start}, [start], set()
        ends = misused = False
        while stack:
            state = stack.pop()
            following, undefined = self._next(state)
            misused |= undefined
            ended = all(p == len(c) for p, c in zip(state.counters, self.code, strict=True))
            if not following and not undefined:
                if ended:
                    ends = True
                else:
                    stuck.add(state.counters)
            for after in following:
                if after not in seen:
                    seen.add(after)
                    stack.append(after)
            if len(seen) > LIMIT:
                raise TooLargeError("too many states")
        return Schedules(frozenset(stuck), ends, misused)

    def _next(self, state: _State) -> tuple[list[_State], bool]:
        results = [self._finish(state, event) for event in state.pending]
        for thread, code in enumerate(self.code):
            if state.counters[thread] < len(code):
                results.append(self._step(state, thread, code[state.counters[thread]]))
        return [r for r in results if isinstance(r, _State)], "undefined" in results

    def _step(self, state: _State, thread: int, instruction: op.Instruction) -> "_State | str":
        """The state after the thread's next instruction, or 'waits' or 'undefined'."""
        here = (thread, state.counters[thread])
        done = replace(state, counters=_set(state.counters, thread, here[1] + 1))
        match instruction:
            case op.BarrierSync() | op.BarrierArrive():
                return self._barrier(state, done, thread, instruction)
            case op.ClusterArrive():
                return replace(done, arrived=_set(state.arrived, thread, state.arrived[thread] + 1))
            case op.ClusterWait():
                need = state.waited[thread] + 1
                ended = [p == len(c) for p, c in zip(state.counters, self.code, strict=True)]
                if all(a >= need or e for a, e in zip(state.arrived, ended, strict=True)):
                    return replace(done, waited=_set(state.waited, thread, need))
                return "waits"
            case op.MbarrierArrive(name, count, expect):
                return self._change(done, name, arrive=count, expect=expect) or "undefined"
            case op.MbarrierExpectTx(name, transactions):
                return self._change(done, name, expect=transactions) or "undefined"
            case op.MbarrierWait(name, parity):
                phase = state.mbarriers[self.mbarriers.index(name)][0]
                return done if phase % 2 != parity else "waits"
            case op.BulkCopy() | op.StoreAsync() | op.CpAsync() | op.CpAsyncMbarrierArrive():
                return replace(done, pending=state.pending | {here})
            case op.Store(location, _, _, value):
                return replace(done, memory=self._write(state, location, value))
            case op.Atomic(location, _, _, add):
                value = state.memory[self.memory.index(location)] + add
                return replace(done, memory=self._write(state, location, value))
            case op.AwaitFlag(location, value):
                return done if state.memory[self.memory.index(location)] == value else "waits"
        return done

    def _write(self, state: _State, location: str, value: int) -> tuple[int, ...]:
        return _set(state.memory, self.memory.index(location), value)

    def _barrier(
        self, state: _State, done: _State, thread: int, instruction: op.BarrierSync | op.BarrierArrive
    ) -> "_State | str":
        index = self.barriers.index((self.program.threads[thread].cta, instruction.identifier))
        generation, arrived, count = state.barriers[index]
        waiting_for = state.generation[thread]
        if waiting_for is not None:
            if generation <= waiting_for:
                return "waits"
            return replace(done, generation=_set(state.generation, thread, None))
        if arrived and count != instruction.count:
            return "undefined"
        full = arrived + 1 == instruction.count
        after = (generation + 1, 0, 0) if full else (generation, arrived + 1, instruction.count)
        barriers = _set(state.barriers, index, after)
        if isinstance(instruction, op.BarrierArrive):
            return replace(done, barriers=barriers)
        return replace(state, barriers=barriers, generation=_set(state.generation, thread, generation))

    def _change(
        self, state: _State, name: str, arrive: int = 0, expect: int = 0, complete: int = 0
    ) -> _State | None:
        index = self.mbarriers.index(name)
        phase, pending, tx = state.mbarriers[index]
        if arrive > pending:
            return None
        pending, tx = pending - arrive, tx + expect - complete
        if pending == 0 and tx == 0:
            phase, pending = phase + 1, self.counts[name]
        return replace(state, mbarriers=_set(state.mbarriers, index, (phase, pending, tx)))

    def _finish(self, state: _State, event: EventId) -> "_State | str":
        """The state after an asynchronous operation's completion, or 'waits' or 'undefined'."""
        thread, position = event
        instruction = self.code[thread][position]
        done = replace(state, pending=state.pending - {event})
        if isinstance(instruction, op.CpAsyncMbarrierArrive):
            earlier = {e for e in state.pending if e[0] == thread and e[1] < position}
            if any(isinstance(self.code[t][p], op.CpAsync) for t, p in earlier):
                return "waits"
            return self._change(done, instruction.mbarrier, arrive=1) or "undefined"
        if isinstance(instruction, op.BulkCopy | op.StoreAsync) and instruction.mbarrier is not None:
            return self._change(done, instruction.mbarrier, complete=op.BYTES) or "undefined"
        return done


T = TypeVar("T")


def _set(values: tuple[T, ...], index: int, value: T) -> tuple[T, ...]:
    return (*values[:index], value, *values[index + 1 :])


def schedules(program: Program) -> Schedules:
    """Search the schedules of a program that `program.validate` accepts; raises TooLargeError."""
    return _Search(program).run()
