"""The roles of a kernel's warps: warps that execute the same instructions of the slice play one role.

Property: two warps of one CTA are in one role when the sets of instructions that they executed, over all
explored executions that ran to their end, are equal. Direction and join do not apply. Known limit: warps
that differ only in data (addresses, trip counts) are one role.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport, order_of
from ptxaudit.analysis.order.trace import Step
from ptxaudit.ir import events as ev
from ptxaudit.ir.cfg import ControlFlowGraph
from ptxaudit.ir.events import ends_thread


@dataclass(frozen=True, slots=True)
class Role:
    """Warps of a CTA that act alike, and what they do, by kind of event with the number of places.

    ``instructions`` are those of the slice that they executed, by index.
    """

    cta: int
    warps: tuple[int, ...]
    activities: tuple[tuple[str, int], ...]
    instructions: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        """``warps 4-7`` or ``warp 0``."""
        first, last = self.warps[0], self.warps[-1]
        if len(self.warps) == 1:
            return f"warp {first}"
        consecutive = last - first + 1 == len(self.warps)
        return f"warps {first}-{last}" if consecutive else f"warps {', '.join(map(str, self.warps))}"


def roles_of(report: OrderReport) -> tuple[Role, ...]:
    """The roles that the explored executions show, by CTA and first warp."""
    executed: dict[tuple[int, int], dict[int, str]] = defaultdict(dict)
    for execution in report.executions:
        if not execution.complete:
            continue
        for entry in execution.entries:
            if isinstance(entry, Step):
                identity = execution.warps[entry.warp]
                places = executed[identity.cta, identity.warp]
                places.setdefault(entry.instruction.index, _activity(entry.event))
    together: dict[tuple[int, frozenset[int]], list[int]] = defaultdict(list)
    for (cta, warp), places in sorted(executed.items()):
        together[cta, frozenset(places)].append(warp)
    roles = []
    for (cta, instructions), warps in together.items():
        counts: dict[str, int] = defaultdict(int)
        for activity in executed[cta, warps[0]].values():
            counts[activity] += 1
        roles.append(Role(cta, tuple(warps), tuple(sorted(counts.items())), instructions))
    return tuple(sorted(roles, key=lambda role: (role.cta, role.warps)))


def roles_in(analysis: FunctionAnalysis) -> tuple[Role, ...]:
    """The roles of a function's own executions, worked out once."""
    return analysis.memo("roles", lambda: roles_of(order_of(analysis)))


def executed_blocks(analysis: FunctionAnalysis, instructions: frozenset[int]) -> tuple[int, ...]:
    """The blocks of instructions, and those that a run through them to the end must pass: what dominates
    and what post-dominates them, up to where a guarded exit may end some warps."""
    graph = analysis.graph
    exits = _guarded_exits(analysis)
    found: set[int] = set()
    last: dict[int, int] = {}
    for index in instructions:
        block = graph.function.block_of(index).id
        last[block] = max(last.get(block, index), index)
    for block, index in last.items():
        found.update(_ancestors(block, graph.immediate_dominators))
        ends = any(one > index for one in exits.get(block, ()))
        found.update((block,) if ends else _passed(graph, block, exits))
    return tuple(sorted(one for one in found if one < len(graph.blocks)))


def _guarded_exits(analysis: FunctionAnalysis) -> dict[int, list[int]]:
    """The instructions, by block, that end some of the threads that come to them."""
    found: dict[int, list[int]] = {}
    for one in analysis.function.instructions:
        if one.guard is not None and ends_thread(analysis.events[one.index]):
            found.setdefault(analysis.function.block_of(one.index).id, []).append(one.index)
    return found


def _passed(graph: ControlFlowGraph, block: int, exits: Mapping[int, list[int]]) -> Iterator[int]:
    """What post-dominates a block, as long as no guarded exit may lie before."""
    current = block
    yield current
    while (following := graph.immediate_post_dominators.get(current)) is not None:
        if exits and any(one in exits for one in _before(graph, current, following) if one != block):
            return
        yield following
        current = following


def _before(graph: ControlFlowGraph, start: int, end: int) -> set[int]:
    """The blocks on ways from one block to another, without the latter."""
    seen = {start}
    pending = [start]
    while pending:
        for successor in graph.blocks[pending.pop()].successors:
            if successor != end and successor not in seen:
                seen.add(successor)
                pending.append(successor)
    return seen


def _ancestors(block: int, parents: Mapping[int, int]) -> Iterator[int]:
    current: int | None = block
    while current is not None:
        yield current
        current = parents.get(current)


def _activity(event: ev.Event) -> str:
    """What an event is, in two or three words."""
    match event:
        case ev.Access(completion=ev.Completion.SYNCHRONOUS):
            return f"{event.kind} of {event.space}"
        case ev.Access():
            return f"asynchronous {event.kind} of {event.space} ({event.completion})"
        case ev.TensorOperation():
            return f"tcgen05.{event.action}"
        case ev.CtaBarrier() | ev.ClusterBarrier():
            name = "cluster barrier" if isinstance(event, ev.ClusterBarrier) else "CTA barrier"
            return f"{name} {event.action}"
        case ev.GroupWait() | ev.GroupCommit():
            return f"{event.kind} {'wait' if isinstance(event, ev.GroupWait) else 'commit'}"
        case _:
            words = "".join(f" {c.lower()}" if c.isupper() else c for c in type(event).__name__)
            return words.strip()
