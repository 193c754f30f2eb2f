"""Which loops only poll: they repeat a wait on an mbarrier, or a read of a flag, until it comes out.

Property: a loop body polls when an exit from it is decided by an *attempt* in it and it does nothing but
synchronise. An attempt is an mbarrier wait, or a read stronger than weak (also an atomic) at an address
that is the same in every pass. The decision is followed backward through registers, and through shared
memory where one thread reads the flag and tells the others. Loads of invariant addresses, shared memory
and CTA barriers count as part of polling; stores to global memory, arrivals, copies, matrix operations,
calls and unknown instructions do not. Direction: forward over natural loops; join: none, each loop is
decided on its own. A compiler may give a polling loop and the loop around it the same header: bodies of
fewer than all back edges are looked at as well, smallest first.

Known limits: a flag that is read weakly is no attempt; cycles that are no natural loops are not seen; two
loops that both do work and share their header count as one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.definitions import Definitions, Region
from ptxaudit.analysis.truth import Supposition
from ptxaudit.ir.cfg import ControlFlowGraph, Loop
from ptxaudit.ir.events import (
    Access,
    AddressMapping,
    Backoff,
    ClusterBarrier,
    Completion,
    CtaBarrier,
    Election,
    Event,
    Fence,
    L1Invalidate,
    MbarrierWait,
    MemoryFlush,
    Proxy,
    Semantics,
    StateSpace,
    Transfer,
    TransferKind,
    UnknownEffect,
    WarpBarrier,
)
from ptxaudit.ir.instruction import Guard, Instruction
from ptxaudit.ir.operands import Negated, Register, registers_in

_POLLING = (
    MbarrierWait
    | Fence
    | CtaBarrier
    | ClusterBarrier
    | WarpBarrier
    | Backoff
    | Election
    | L1Invalidate
    | MemoryFlush
    | AddressMapping
)
_OWN_SPACES = frozenset({StateSpace.SHARED, StateSpace.LOCAL, StateSpace.PARAM, StateSpace.CONST})


@dataclass(frozen=True, slots=True)
class PollLoop:
    """A loop body that polls; ``attempts`` are instruction indices, ``assumed`` what a failure means."""

    header: int
    blocks: Region
    attempts: tuple[int, ...]
    assumed: dict[tuple[int, str], int] = field(hash=False, compare=False)


@dataclass(frozen=True, slots=True)
class PollLoops:
    """``polls`` from small to large; ``working`` are the loops that do more than poll, innermost first;
    ``undecided`` bodies that would poll were it not for an instruction that the tables do not know."""

    polls: tuple[PollLoop, ...]
    working: tuple[Loop, ...]
    undecided: tuple[Region, ...]
    definitions: Definitions

    def poll_of(self, block: int) -> PollLoop | None:
        """The smallest polling body that holds ``block``."""
        return next((poll for poll in self.polls if block in poll.blocks), None)

    def working_of(self, block: int) -> Loop | None:
        """The innermost loop around ``block`` that does more than poll."""
        return next((loop for loop in self.working if block in loop.blocks), None)

    def is_innermost(self, loop: Loop) -> bool:
        """Whether no other working loop lies in ``loop``."""
        return not any(other.blocks < loop.blocks for other in self.working)


def poll_loops(analysis: FunctionAnalysis) -> PollLoops:
    """The polling and working loops of a function, computed once."""
    return analysis.memo("poll loops", lambda: _find(analysis))


def _find(analysis: FunctionAnalysis) -> PollLoops:
    definitions = Definitions(analysis.graph, analysis.events)
    polls: list[PollLoop] = []
    working: list[Loop] = []
    undecided: list[Region] = []
    for loop in analysis.graph.loops:
        bodies = list(_bodies(analysis.graph, loop))
        found = [_poll(analysis, definitions, loop.header, body) for body in bodies]
        polls += [poll for poll in found if poll is not None]
        if found[-1] is None:
            working.append(loop)
        undecided += [
            body
            for body, poll in zip(bodies, found, strict=True)
            if poll is None and _polls_but_for_unknown(analysis, definitions, loop.header, body)
        ]
    polls.sort(key=lambda poll: (len(poll.blocks), poll.header))
    working.sort(key=lambda loop: (-loop.depth, loop.header))
    return PollLoops(tuple(polls), tuple(working), tuple(undecided), definitions)


def _bodies(graph: ControlFlowGraph, loop: Loop) -> Iterator[Region]:
    """The bodies of one, two, ... and at last all back edges of a loop, those of small bodies first."""
    whole: Region = frozenset()
    for body in sorted((_body(graph, loop.header, latch) for latch in loop.latches), key=len):
        whole |= body
        yield whole


def _body(graph: ControlFlowGraph, header: int, latch: int) -> Region:
    body = {header, latch}
    pending = [] if latch == header else [latch]
    while pending:
        for predecessor in graph.predecessors[pending.pop()]:
            if predecessor not in body and predecessor in graph.reachable:
                body.add(predecessor)
                pending.append(predecessor)
    return frozenset(body)


def indices(graph: ControlFlowGraph, body: Region) -> Iterator[int]:
    """The instructions of a body, block by block."""
    for block in sorted(body):
        yield from range(graph.blocks[block].start, graph.blocks[block].end)


def _polls_but_for_unknown(
    analysis: FunctionAnalysis, definitions: Definitions, header: int, body: Region
) -> bool:
    here = indices(analysis.graph, body)
    if not any(isinstance(event, UnknownEffect) for index in here for event in analysis.events[index]):
        return False
    return _poll(analysis, definitions, header, body, with_unknown=True) is not None


def _poll(
    analysis: FunctionAnalysis,
    definitions: Definitions,
    header: int,
    body: Region,
    with_unknown: bool = False,
) -> PollLoop | None:
    graph = analysis.graph
    here = list(indices(graph, body))
    events = [
        (event, index)
        for index in here
        for event in analysis.events[index]
        if not (with_unknown and isinstance(event, UnknownEffect))
    ]
    if not all(_may_poll(event) for event, _ in events):
        return None
    if not all(_is_repeated(event, index, definitions, body) for event, index in events):
        return None
    attempts = {index for index in here if _is_attempt(analysis.events[index], index, definitions, body)}
    if not attempts:
        return None
    deciding: set[int] = set()
    assumed: dict[tuple[int, str], int] = {}
    for block, staying in exits(graph, body):
        branch = graph.function.instructions[graph.blocks[block].end - 1]
        condition = branch_condition(branch)
        if condition is None:
            continue
        name = condition.register.name
        deciding |= definitions.slice([(name, branch.index)], body)
        if staying is not None:
            value = int(staying != condition.negated)
            reaching = definitions.reaching(name, branch.index, body).definitions
            assumed.update({(definition, name): value for definition in reaching})
    deciding &= attempts
    if not deciding:
        return None
    for index in deciding:
        assumed.update(failed_wait(analysis.events[index], index))
    return PollLoop(header, body, tuple(sorted(deciding)), assumed)


def _may_poll(event: Event) -> bool:
    match event:
        case Access(proxy=Proxy.GENERIC, completion=Completion.SYNCHRONOUS):
            return event.space in _OWN_SPACES or event.reads
        case Transfer(kind):
            return kind is not TransferKind.CALL
        case _:
            return isinstance(event, _POLLING)


def _is_repeated(event: Event, index: int, definitions: Definitions, body: Region) -> bool:
    """Whether every pass accesses the same place; own memory may be used freely."""
    if not isinstance(event, Access) or event.space in _OWN_SPACES:
        return True
    return definitions.is_invariant(registers_in(event.address), index, body)


def _is_attempt(events: tuple[Event, ...], index: int, definitions: Definitions, body: Region) -> bool:
    for event in events:
        strong = isinstance(event, Access) and event.reads and event.semantics is not Semantics.WEAK
        if strong or isinstance(event, MbarrierWait):
            assert isinstance(event, Access | MbarrierWait)
            return definitions.is_invariant(registers_in(event.address), index, body)
    return False


def failed_wait(events: tuple[Event, ...], index: int) -> dict[tuple[int, str], int]:
    """The assumption that the mbarrier wait ``index`` has not succeeded; empty for another instruction."""
    results = [event.result for event in events if isinstance(event, MbarrierWait)]
    return {(index, result.name): 0 for result in results if isinstance(result, Register)}


def exits(graph: ControlFlowGraph, body: Region) -> Iterator[tuple[int, bool | None]]:
    """Blocks that control may leave ``body`` from, and whether it stays when the branch is taken.

    ``None`` where both ways lead out, or more than two ways go on.
    """
    for block in sorted(body):
        successors = graph.blocks[block].successors
        last = graph.function.instructions[graph.blocks[block].end - 1]
        inside = [successor in body for successor in successors]
        if len(successors) == 1 and inside[0] and last.guard is not None and _ends_thread(last):
            yield block, False
        elif not all(inside):
            yield block, inside[1] if len(inside) == 2 and any(inside) else None


def _ends_thread(instruction: Instruction) -> bool:
    return instruction.parts[0].lower() in ("exit", "ret", "trap", "kill")


def branch_condition(branch: Instruction) -> Guard | None:
    """The one predicate that a branch is taken under: its guard, or the operand of ``BRA.U``."""
    conditions = [] if branch.guard is None else [branch.guard]
    if branch.parts[0] in ("BRA", "JMP"):
        for operand in branch.operands:
            match operand:
                case Register(name) if _is_predicate(name):
                    conditions.append(Guard(operand))
                case Negated(Register(name) as register) if _is_predicate(name):
                    conditions.append(Guard(register, True))
    return conditions[0] if len(conditions) == 1 else None


def _is_predicate(name: str) -> bool:
    return name.removeprefix("U").startswith("P")


def ways_on(graph: ControlFlowGraph, block: int, supposition: Supposition) -> tuple[int, ...]:
    """The successors of ``block`` that control can go to under a supposition."""
    successors = graph.blocks[block].successors
    if len(successors) != 2:
        return successors
    branch = graph.function.instructions[graph.blocks[block].end - 1]
    condition = branch_condition(branch)
    if condition is None:
        return successors
    taken = supposition.guard(condition, branch.index)
    return successors if taken is None else (successors[int(taken)],)
