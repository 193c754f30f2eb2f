"""Where a wait or a polling loop invalidates the L1 cache, how often, and who pays.

Property: for each ``CCTL.IVALL`` (or PTX operation certain to be one) that a poll is the cause of, whether
it executes at attempts that fail. Direction: forward from the header of the polling loop along the
branches that a failing attempt takes; a branch or guard is evaluated with every wait of the loop failed
and every exit not taken (``truth``). Join: executed on some failing path means *every attempt*. What is
left runs only when the wait has succeeded: *once per successful wait*.

An invalidate outside every polling loop belongs to a wait when its guard is that wait's result, or when
it is the wait (PTX). The first attempt, which assemblers peel off the loop, is a copy of the one in the
loop that a failure leads to. A fence after the polling loop is no part of the poll.

Known limits: whether a line is in the cache is not known, so "follows" means that a load can run after
the invalidate, in the loop around it or, where there is none, up to the exit.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.definitions import Definitions, Region
from ptxaudit.analysis.pollloops import (
    PollLoop,
    PollLoops,
    branch_condition,
    failed_wait,
    indices,
    poll_loops,
    ways_on,
)
from ptxaudit.analysis.truth import Supposition
from ptxaudit.ir.cfg import ControlFlowGraph, Loop
from ptxaudit.ir.events import Access, AccessKind, L1Invalidate, MbarrierWait, Proxy, Semantics, StateSpace
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Register

# Between an attempt that failed and the next one are some jumps, and no more.
_MOST_BLOCKS = 32
_BYPASSING = frozenset({"cg", "cv", "no_allocate"})


class Frequency(StrEnum):
    """How often an invalidate runs."""

    EVERY_ATTEMPT = "at every attempt"
    SUCCESSFUL_WAIT = "once per successful wait"


@dataclass(frozen=True, slots=True)
class Invalidation:
    """An L1 invalidate that polling causes.

    ``attempt`` is the wait or the read of the flag, ``poll`` the polling loop it stands in, ``enclosing``
    the innermost loop around it that does more than poll; ``loads`` are loads that can hit L1 and follow;
    ``copies`` are peeled first attempts of the same wait.
    """

    instruction: Instruction
    frequency: Frequency
    attempt: Instruction
    poll: PollLoop | None
    enclosing: Loop | None
    loads: tuple[Instruction, ...]
    copies: tuple[Instruction, ...] = ()


def invalidations(analysis: FunctionAnalysis) -> tuple[Invalidation, ...]:
    """All of them in program order, computed once."""
    return analysis.memo("L1 invalidations", lambda: _find(analysis))


def runs_at_failures(analysis: FunctionAnalysis, poll: PollLoop, index: int) -> bool:
    """Whether instruction ``index`` of a polling loop executes at attempts that fail."""
    graph = analysis.graph
    supposition = Supposition(poll_loops(analysis).definitions, poll.blocks, poll.assumed)
    reached = {poll.header}
    pending = [poll.header]
    while pending:
        for successor in ways_on(graph, pending.pop(), supposition):
            if successor in poll.blocks and successor not in reached:
                reached.add(successor)
                pending.append(successor)
    if graph.function.block_of(index).id not in reached:
        return False
    return supposition.guard(graph.function.instructions[index].guard, index) is not False


def _find(analysis: FunctionAnalysis) -> tuple[Invalidation, ...]:
    loops = poll_loops(analysis)
    found = [
        one
        for instruction, _ in analysis.occurrences(L1Invalidate)
        if (one := _place(analysis, loops, instruction)) is not None
    ]
    return _join_copies(analysis, found)


def _place(analysis: FunctionAnalysis, loops: PollLoops, instruction: Instruction) -> Invalidation | None:
    block = analysis.function.block_of(instruction.index).id
    poll = loops.poll_of(block)
    wait = _wait_of(analysis, loops.definitions, instruction)
    if wait is not None:
        frequency, attempt = Frequency.SUCCESSFUL_WAIT, wait
    elif poll is None:
        return None
    else:
        failing = runs_at_failures(analysis, poll, instruction.index)
        frequency = Frequency.EVERY_ATTEMPT if failing else Frequency.SUCCESSFUL_WAIT
        attempt = analysis.function.instructions[poll.attempts[0]]
    enclosing = loops.working_of(block)
    loads = _loads_after(analysis, instruction.index, None if enclosing is None else enclosing.blocks)
    return Invalidation(instruction, frequency, attempt, poll, enclosing, loads)


def _wait_of(
    analysis: FunctionAnalysis, definitions: Definitions, instruction: Instruction
) -> Instruction | None:
    """The mbarrier wait whose success alone makes the invalidate run."""
    if any(isinstance(event, MbarrierWait) for event in analysis.events[instruction.index]):
        return instruction
    guard = instruction.guard
    if guard is None or guard.negated:
        return None
    name = guard.register.name
    reaching = definitions.reaching(name, instruction.index, definitions.everywhere)
    if reaching.open or not all(_is_result(analysis, one, name) for one in reaching.definitions):
        return None
    return analysis.function.instructions[max(reaching.definitions)]


def _is_result(analysis: FunctionAnalysis, index: int, name: str) -> bool:
    events = analysis.events[index]
    return any(isinstance(event, MbarrierWait) and event.result == Register(name) for event in events)


def _loads_after(analysis: FunctionAnalysis, index: int, region: Region | None) -> tuple[Instruction, ...]:
    graph = analysis.graph
    start = graph.function.block_of(index)
    inside = graph.reachable if region is None else region
    first = [successor for successor in start.successors if successor in inside]
    later = _reachable_in(graph, first, inside)
    run = set(range(index + 1, start.end)) | set(indices(graph, later))
    return tuple(
        instruction
        for instruction in graph.function.instructions
        if instruction.index in run and can_hit_l1(analysis, instruction)
    )


def _reachable_in(graph: ControlFlowGraph, starts: list[int], region: Region) -> Region:
    seen = set(starts)
    pending = list(starts)
    while pending:
        for successor in graph.blocks[pending.pop()].successors:
            if successor in region and successor not in seen:
                seen.add(successor)
                pending.append(successor)
    return frozenset(seen)


def can_hit_l1(analysis: FunctionAnalysis, instruction: Instruction) -> bool:
    """Whether it is a weak load of global memory (or of a generic address) that L1 may serve."""
    if "L1::no_allocate" in instruction.parts:
        return False
    return any(
        isinstance(event, Access)
        and event.kind is AccessKind.READ
        and event.space in (StateSpace.GLOBAL, StateSpace.GENERIC)
        and event.semantics is Semantics.WEAK
        and event.proxy is Proxy.GENERIC
        and event.operation is None
        and event.cache not in _BYPASSING
        for event in analysis.events[instruction.index]
    )


def _join_copies(analysis: FunctionAnalysis, found: list[Invalidation]) -> tuple[Invalidation, ...]:
    """Peeled attempts become copies of the invalidate in the loop that their failure leads to."""
    block_of = analysis.function.block_of
    by_block = {block_of(one.instruction.index).id: one for one in found}
    parents: dict[int, Invalidation] = {}
    for one in found:
        if one.poll is None:
            following = _next_attempt(analysis, one)
            if following is not None and following in by_block:
                parents[one.instruction.index] = by_block[following]
    copies: dict[int, list[Instruction]] = {}
    for one in found:
        root, passed = one, {one.instruction.index}
        while (parent := parents.get(root.instruction.index)) and parent.instruction.index not in passed:
            root = parent
            passed.add(root.instruction.index)
        if root is not one:
            copies.setdefault(root.instruction.index, []).append(one.instruction)
    copied = {instruction.index for several in copies.values() for instruction in several}
    return tuple(
        replace(one, copies=tuple(copies.get(one.instruction.index, ())))
        for one in found
        if one.instruction.index not in copied
    )


def _next_attempt(analysis: FunctionAnalysis, one: Invalidation) -> int | None:
    """The block of the next mbarrier wait when the wait of ``one`` has failed, if it is but one."""
    failed = _waits_of(poll_loops(analysis).definitions, one)
    return _next_wait(analysis, failed, one.instruction.index)


def _next_wait(analysis: FunctionAnalysis, failed: Iterable[int], index: int) -> int | None:
    """The block with the mbarrier wait that control comes to from behind the block of ``index`` when some
    waits have failed, if it is but one."""
    graph = analysis.graph
    definitions = poll_loops(analysis).definitions
    assumed: dict[tuple[int, str], int] = {}
    for wait in failed:
        assumed.update(failed_wait(analysis.events[wait], wait))
    supposition = Supposition(definitions, definitions.everywhere, assumed)
    waiting = _waiting_blocks(analysis)
    pending = list(ways_on(graph, graph.function.block_of(index).id, supposition))
    seen = set(pending)
    targets: set[int] = set()
    while pending:
        block = pending.pop()
        if block in waiting:
            targets.add(block)
            continue
        for successor in ways_on(graph, block, supposition):
            if successor not in seen:
                seen.add(successor)
                pending.append(successor)
    return targets.pop() if len(targets) == 1 else None


def _waits_of(definitions: Definitions, one: Invalidation) -> frozenset[int]:
    """Every wait whose result may be the invalidate's guard: there may be two attempts in a row."""
    guard = one.instruction.guard
    if guard is None or one.attempt is one.instruction:
        return frozenset({one.attempt.index})
    index = one.instruction.index
    return definitions.reaching(guard.register.name, index, definitions.everywhere).definitions


def _waits(analysis: FunctionAnalysis) -> list[Instruction]:
    return [instruction for instruction, _ in analysis.occurrences(MbarrierWait)]


def _waiting_blocks(analysis: FunctionAnalysis) -> frozenset[int]:
    block_of = analysis.function.block_of
    return analysis.memo(
        "blocks with waits", lambda: frozenset(block_of(wait.index).id for wait in _waits(analysis))
    )


def first_attempts(analysis: FunctionAnalysis) -> dict[int, int]:
    """For each mbarrier wait that only repeats an attempt that has failed: the first attempt, by index.

    Assemblers peel the first attempt off a polling loop, and try once more with a hint to suspend.
    """
    return analysis.memo("first attempts", lambda: _first_attempts(analysis))


def _first_attempts(analysis: FunctionAnalysis) -> dict[int, int]:
    before: dict[int, int] = {}
    for wait in _waits(analysis):
        following = _repetition(analysis, wait)
        if following is not None and following > wait.index:  # behind it is the loop's next turn
            before.setdefault(following, wait.index)
    roots: dict[int, int] = {}
    for index in sorted(before):
        roots[index] = roots.get(before[index], before[index])
    return roots


def _repetition(analysis: FunctionAnalysis, wait: Instruction) -> int | None:
    """The wait that is tried next when this one has failed, if it is for the same phase."""
    function = analysis.function
    block = function.block_of(wait.index)
    event = _wait_event(analysis, wait.index)
    assert event is not None
    for index in range(wait.index + 1, block.end):
        other = _wait_event(analysis, index)
        if other is not None:
            guard = function.instructions[index].guard
            again = guard is not None and guard.negated and guard.register == event.result
            return index if again else None
    target = _wait_after_failure(analysis, wait.index)
    if target is None:
        return None
    bounds = function.blocks[target]
    first = next(i for i in range(bounds.start, bounds.end) if _wait_event(analysis, i) is not None)
    other = _wait_event(analysis, first)
    assert other is not None
    polls = poll_loops(analysis).poll_of(target) is not None
    return first if polls or (other.address, other.phase) == (event.address, event.phase) else None


def _wait_after_failure(analysis: FunctionAnalysis, wait: int) -> int | None:
    """The block with the next wait when one has failed, if it is but one and near.

    A branch is decided where its condition is the wait's own result; else both ways are looked at.
    """
    graph = analysis.graph
    definitions = poll_loops(analysis).definitions
    event = _wait_event(analysis, wait)
    waiting = _waiting_blocks(analysis)
    targets: set[int] = set()
    pending = [graph.function.block_of(wait).id]
    seen: set[int] = set()
    while pending and len(seen) <= _MOST_BLOCKS:
        block = pending.pop()
        successors = graph.blocks[block].successors
        branch = graph.function.instructions[graph.blocks[block].end - 1]
        condition = branch_condition(branch) if len(successors) == 2 else None
        if condition is not None and event is not None and condition.register == event.result:
            reaching = definitions.reaching(condition.register.name, branch.index, definitions.everywhere)
            if wait in reaching.definitions:
                successors = (successors[int(condition.negated)],)
        for successor in successors:
            if successor in waiting:
                targets.add(successor)
            elif successor not in seen:
                seen.add(successor)
                pending.append(successor)
    return targets.pop() if len(targets) == 1 and len(seen) <= _MOST_BLOCKS else None


def _wait_event(analysis: FunctionAnalysis, index: int) -> MbarrierWait | None:
    return next((event for event in analysis.events[index] if isinstance(event, MbarrierWait)), None)
