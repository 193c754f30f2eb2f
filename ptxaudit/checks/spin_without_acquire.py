"""A flag in global memory is polled without an acquire, and memory is then read that L1 may serve.

Walks forward from the attempt of each polling loop, past branches that the poll's own conditions settle, to
weak loads with no acquire on the way. Where the polled value is used beyond the loop it may be the payload
itself, and nothing is claimed.
"""

from collections.abc import Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.definitions import Definitions, Region
from ptxaudit.analysis.polling import can_hit_l1
from ptxaudit.analysis.pollloops import branch_condition, exits, indices, poll_loops
from ptxaudit.checks._conditions import is_excluded, known_conditions, ways
from ptxaudit.ir.events import (
    Access,
    Backoff,
    Event,
    Fence,
    L1Invalidate,
    Scope,
    Semantics,
    StateSpace,
    Transfer,
)
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import registers_in
from ptxaudit.rules.model import Outcome, Related, Violation

NEEDS = (Access,)

_OUTER = (StateSpace.GLOBAL, StateSpace.GENERIC)
Poll = tuple[Region, int]


def check(analysis: FunctionAnalysis) -> Outcome:
    """Polls of a flag whose success is not followed by an acquire before the next cached read."""
    polls = list(_polls(analysis))
    if not polls:
        return Outcome.not_applicable()
    unknown: str | None = None
    violations: dict[int, Violation] = {}
    for body, attempt in polls:
        if not _is_unordered(analysis, attempt):
            continue
        read = _unordered_read(analysis, body, attempt)
        if read is None:
            continue
        if _is_used_beyond(analysis, body, attempt):
            unknown = "the polled value is used after the loop, so it may itself be what is handed over"
        else:
            violations.setdefault(attempt, _violation(analysis, attempt, read))
    return Outcome.of(list(violations.values()), unknown)


def _polls(analysis: FunctionAnalysis) -> Iterator[Poll]:
    """Bodies that poll a flag outside the CTA, with the instruction that reads it."""
    loops = poll_loops(analysis)
    seen: set[int] = set()
    for poll in loops.polls:
        for attempt in poll.attempts:
            if attempt not in seen and _flag(analysis, attempt) is not None:
                seen.add(attempt)
                yield poll.blocks, attempt
    for loop in loops.working:
        attempt_found = _weak_attempt(analysis, loops.definitions, loop.blocks)
        if attempt_found is not None and attempt_found not in seen:
            seen.add(attempt_found)
            yield loop.blocks, attempt_found


def _flag(analysis: FunctionAnalysis, index: int) -> Access | None:
    """The read of a flag that threads of other CTAs may set."""
    for event in analysis.events[index]:
        if (
            isinstance(event, Access)
            and event.reads
            and event.space in _OUTER
            and event.scope is not Scope.CTA
        ):
            return event
    return None


def _weak_attempt(analysis: FunctionAnalysis, definitions: Definitions, body: Region) -> int | None:
    """The weak read that decides when a loop ends that does nothing but read one invariant address."""
    reads: set[int] = set()
    for index in indices(analysis.graph, body):
        if not all(_is_quiet(event) for event in analysis.events[index]):
            return None
        flag = _flag(analysis, index)
        if flag is not None:
            if not definitions.is_invariant(registers_in(flag.address), index, body):
                return None
            reads.add(index)
    deciding: set[int] = set()
    for block, _ in exits(analysis.graph, body):
        branch = analysis.function.instructions[analysis.graph.blocks[block].end - 1]
        condition = branch_condition(branch)
        if condition is not None:
            deciding |= definitions.slice([(condition.register.name, branch.index)], body)
    found = sorted(deciding & reads)
    return found[0] if found else None


def _is_quiet(event: Event) -> bool:
    if isinstance(event, Access):
        return event.space in _OUTER and not event.writes
    return isinstance(event, Backoff | Transfer)


def _is_unordered(analysis: FunctionAnalysis, attempt: int) -> bool:
    flag = _flag(analysis, attempt)
    return flag is not None and flag.semantics is not None and not flag.semantics.acquires


def _acquires(analysis: FunctionAnalysis, index: int) -> bool:
    for event in analysis.events[index]:
        if isinstance(event, L1Invalidate):
            return True
        ordering = isinstance(event, Fence) and event.proxy is None and event.sync_restrict is None
        if (ordering or isinstance(event, Access)) and _reaches_out(event):
            return True
    return False


def _reaches_out(event: Event) -> bool:
    assert isinstance(event, Fence | Access)
    wide = event.scope is not None and event.scope is not Scope.CTA
    return wide and event.semantics is not None and event.semantics.acquires


def _unordered_read(analysis: FunctionAnalysis, body: Region, attempt: int) -> Instruction | None:
    """The first read that L1 may serve and that a thread which has polled can reach with no acquire."""
    graph = analysis.graph
    facts = known_conditions(analysis, attempt)
    pending = [(analysis.function.block_of(attempt).id, attempt + 1)]
    seen: set[int] = set()
    while pending:
        block, start = pending.pop(0)
        bounds = graph.blocks[block]
        stopped = False
        for index in range(start, bounds.end):
            if index == attempt or _acquires(analysis, index):
                stopped = True
                break
            instruction = analysis.function.instructions[index]
            if (
                block not in body
                and can_hit_l1(analysis, instruction)
                and not is_excluded(analysis, instruction, facts)
            ):
                return instruction
        if stopped:
            continue
        for successor in ways(analysis, block, facts):
            if successor not in seen:
                seen.add(successor)
                pending.append((successor, graph.blocks[successor].start))
    return None


def _is_used_beyond(analysis: FunctionAnalysis, body: Region, attempt: int) -> bool:
    """Whether a register that the attempt fills is read outside the loop while it still holds that value."""
    definitions = poll_loops(analysis).definitions
    names = {register.name for register in analysis.function.instructions[attempt].writes}
    for instruction in analysis.function.instructions:
        if analysis.function.block_of(instruction.index).id in body:
            continue
        for register in instruction.reads:
            if register.name in names:
                reaching = definitions.reaching(register.name, instruction.index, definitions.everywhere)
                if attempt in reaching.definitions:
                    return True
    return False


def _violation(analysis: FunctionAnalysis, attempt: int, read: Instruction) -> Violation:
    flag = _flag(analysis, attempt)
    assert flag is not None and flag.semantics is not None
    how = flag.semantics.value
    evidence = ["From the poll to the read there is a path without a fence or another acquire."]
    if flag.semantics is Semantics.WEAK:
        evidence.append("A weak read in a loop may also be taken out of it by the compiler.")
    return Violation(
        analysis.function.instructions[attempt],
        {"semantics": how},
        (Related(read, "may be served by L1, or be read early"),),
        tuple(evidence),
    )
