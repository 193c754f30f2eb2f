"""Which asynchronous operations may be pending at each program point, by commit group.

Property: for each operation of one kind (``wgmma``, ``cp.async``, ``cp.async.bulk``) and each program
point, the set of ages that an execution of the operation not yet waited for may have there. Age 0 is an
operation that no commit has covered; age *k* is one in the *k*-th newest group. ``commit_group`` makes
every age one greater; ``wait_group N`` keeps ages 0 to *N* (PTX ISA 9.7.9.25.3, 9.7.15.7); issue adds
age 0. An operation in a loop may have several ages at once, one for each trip still pending.

Direction: forward, from a function entry with nothing pending. Join: union of the ages. Ages above the
deepest wait of the function behave alike and are one, so the lattice is a bounded set for each operation
and the fixpoint equals the union over all paths, as every transfer distributes over union.

There are two answers, and the truth lies between them. ``Doubt.COMPLETES`` lets a guarded commit or wait
execute, a callee, and an instruction that the tables do not know, complete everything, and an indirect
branch with no listed targets go nowhere: what it has pending is pending on some path of the graph.
``Doubt.LINGERS`` takes each of these the other way: what it has not pending is complete on every path.

Limits: paths are those of the graph, feasible or not; completion seen by an mbarrier is no wait; a callee
is taken to leave no group of its own behind.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.ir.events import (
    Access,
    Completion,
    Event,
    GroupCommit,
    GroupKind,
    GroupWait,
    Transfer,
    TransferKind,
    UnknownEffect,
    WgmmaIssue,
)
from ptxaudit.ir.function import BasicBlock, Language
from ptxaudit.ir.operands import Register

Pending = Mapping[int, int]
"""Instruction index of an operation to its ages, bit *k* for age *k*; no entry is nothing pending."""

_COMPLETION = {GroupKind.BULK: Completion.BULK_GROUP, GroupKind.CP_ASYNC: Completion.ASYNC_GROUP}
_INDIRECT = frozenset({"BRX", "BRXU", "JMX", "JMXU"})


class Doubt(Enum):
    """What an undecided step is taken to do to the pending operations."""

    COMPLETES = "completes"
    LINGERS = "lingers"


@dataclass(frozen=True, slots=True)
class _Issue:
    index: int


@dataclass(frozen=True, slots=True)
class _Commit:
    certain: bool


@dataclass(frozen=True, slots=True)
class _Wait:
    """``keep`` masks the ages that stay pending."""

    keep: int
    certain: bool


_Step = _Issue | _Commit | _Wait


class GroupFlow:
    """The pending operations of one kind at every program point of a function.

    ``operations`` are the instruction indices of those that a commit group covers, ``oldest`` the age
    that stands for itself and all greater ones. ``sources_only`` counts ``wait_group.read`` as a wait:
    the answer is then about operations that may still read their sources.
    """

    def __init__(
        self, analysis: FunctionAnalysis, kind: GroupKind, doubt: Doubt, sources_only: bool = False
    ) -> None:
        self.kind = kind
        self.operations = tuple(
            index for index, events in enumerate(analysis.events) if any(_issues(e, kind) for e in events)
        )
        waits = [w for _, w in analysis.occurrences(GroupWait) if w.kind is kind and w.depth is not None]
        self.oldest = 1 + max((wait.depth or 0 for wait in waits), default=0)
        self._doubt = doubt
        self._sources_only = sources_only
        self._blocks = analysis.function.blocks
        self._analysis = analysis
        self._steps = {index: steps for index in range(len(analysis.events)) if (steps := self._at(index))}
        self._by_block: list[list[int]] = [[] for _ in self._blocks]
        for index in self._steps:
            self._by_block[analysis.function.block_of(index).id].append(index)
        self._entry = self._solve() if self.operations else {}

    @property
    def reached(self) -> frozenset[int]:
        """The blocks that the flow reaches; empty when there is no operation of the kind."""
        return frozenset(self._entry)

    def followed(self, block: int) -> tuple[int, ...]:
        """The successors of a block that pending operations are taken to flow to."""
        vague = self._doubt is Doubt.COMPLETES and goes_anywhere(self._analysis, self._blocks[block])
        return () if vague else self._blocks[block].successors

    def is_step(self, index: int) -> bool:
        """Whether an instruction issues, commits or awaits operations, or may hide what does."""
        return index in self._steps

    def entering(self, block: int) -> Pending:
        """What may be pending at the start of a block."""
        return self._entry.get(block, {})

    def before(self, index: int) -> Pending:
        """What may be pending when instruction ``index`` issues; nothing where it is unreachable."""
        block = self._analysis.function.block_of(index)
        state = self._entry.get(block.id, {})
        for position in self._by_block[block.id]:
            if position >= index:
                break
            state = self._after(position, state)
        return state

    def along(self, block: int) -> Iterator[tuple[int, Pending]]:
        """Each instruction index of a block with what may be pending when it issues."""
        state = self._entry.get(block, {})
        for index in range(self._blocks[block].start, self._blocks[block].end):
            yield index, state
            if index in self._steps:
                state = self._after(index, state)

    def _at(self, index: int) -> tuple[_Step, ...]:
        certain = self._analysis.function.instructions[index].guard is None
        steps: list[_Step] = []
        for event in self._analysis.events[index]:
            match event:
                case GroupCommit(kind) if kind is self.kind:
                    steps.append(_Commit(certain))
                case GroupWait(kind, depth, read_only) if kind is self.kind:
                    if not read_only or self._sources_only:
                        steps.append(_Wait(0 if depth is None else (2 << depth) - 1, certain))
                case UnknownEffect() | Transfer(TransferKind.CALL):
                    steps.append(_Wait(0, certain=False))
                case _ if _issues(event, self.kind) and _Issue(index) not in steps:
                    steps.append(_Issue(index))
        return tuple(steps)

    def _solve(self) -> dict[int, Pending]:
        entry: dict[int, Pending] = {0: {}}
        queue = deque([0])
        while queue:
            block = queue.popleft()
            state = entry[block]
            for index in self._by_block[block]:
                state = self._after(index, state)
            for successor in self.followed(block):
                known = entry.get(successor)
                joined = state if known is None else _union(known, state)
                if joined != known:
                    entry[successor] = joined
                    queue.append(successor)
        return entry

    def _after(self, index: int, state: Pending) -> Pending:
        for step in self._steps[index]:
            state = self._apply(step, state)
        return state

    def _apply(self, step: _Step, state: Pending) -> Pending:
        match step:
            case _Issue(index):
                return {**state, index: state.get(index, 0) | 1}
            case _Commit(certain):
                done = {operation: self._older(ages) for operation, ages in state.items()}
            case _Wait(keep, certain):
                done = {operation: ages & keep for operation, ages in state.items() if ages & keep}
        return done if certain or self._doubt is Doubt.COMPLETES else _union(state, done)

    def _older(self, ages: int) -> int:
        older = ages << 1
        top = 1 << self.oldest
        return older if older < 2 * top else (older & (2 * top - 1)) | top


def _issues(event: Event, kind: GroupKind) -> bool:
    if kind is GroupKind.WGMMA:
        return isinstance(event, WgmmaIssue)
    return isinstance(event, Access) and event.completion is _COMPLETION[kind]


def _union(first: Pending, second: Pending) -> Pending:
    if not second or first is second:
        return first
    return {key: first.get(key, 0) | second.get(key, 0) for key in {**first, **second}}


def goes_anywhere(analysis: FunctionAnalysis, block: BasicBlock) -> bool:
    """Whether a block ends with an indirect branch whose targets nothing lists."""
    if analysis.function.language is not Language.SASS or len(block.successors) < len(analysis.graph.blocks):
        return False
    return analysis.function.instructions[block.end - 1].parts[0] in _INDIRECT


def group_flow(
    analysis: FunctionAnalysis,
    kind: GroupKind,
    doubt: Doubt = Doubt.LINGERS,
    sources_only: bool = False,
) -> GroupFlow:
    """The pending operations of ``kind`` at every point of a function, computed once."""
    name = f"groups {kind} {doubt.value} {sources_only}"
    return analysis.memo(name, lambda: GroupFlow(analysis, kind, doubt, sources_only))


def finds_nothing_pending(analysis: FunctionAnalysis, index: int, wait: GroupWait) -> bool:
    """Whether nothing that a wait for commit groups waits for can be pending when it is executed."""
    flow = group_flow(analysis, wait.kind, Doubt.LINGERS, wait.read_only)
    if analysis.function.block_of(index).id not in (flow.reached or analysis.graph.reachable):
        return False
    keep = 0 if wait.depth is None else (2 << wait.depth) - 1
    return not any(mask & ~keep for mask in flow.before(index).values())


def ages(mask: int) -> tuple[int, ...]:
    """The ages of a mask, least first."""
    return tuple(age for age in range(mask.bit_length()) if mask >> age & 1)


@dataclass(frozen=True, slots=True)
class HeldRegisters:
    """The registers that a pending wgmma holds (PTX ISA 9.7.15.5.2): it reads and writes
    ``accumulators``, and reads ``fragments`` of A."""

    accumulators: frozenset[Register]
    fragments: frozenset[Register]
    shape: str


def held_registers(analysis: FunctionAnalysis) -> Mapping[int, HeldRegisters]:
    """What each wgmma of a function holds while it is pending, by instruction index."""
    return analysis.memo(
        "held registers",
        lambda: {
            instruction.index: HeldRegisters(
                frozenset(issue.accumulators), frozenset(issue.a_registers), issue.shape
            )
            for instruction, issue in analysis.occurrences(WgmmaIssue)
        },
    )
