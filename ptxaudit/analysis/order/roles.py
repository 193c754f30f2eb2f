"""The roles of a kernel's warps: warps that execute the same instructions of the slice play one role.

Property: two warps of one CTA are in one role when the sets of instructions that they executed, over all
explored executions that ran to their end, are equal. Direction and join do not apply. Known limit: warps
that differ only in data (addresses, trip counts) are one role.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ptxaudit.analysis.order.explore import OrderReport
from ptxaudit.analysis.order.trace import Step
from ptxaudit.ir import events as ev
from ptxaudit.ir.cfg import ControlFlowGraph


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


def executed_blocks(graph: ControlFlowGraph, instructions: frozenset[int]) -> tuple[int, ...]:
    """The blocks of instructions, and those that a run through them to the end must pass: what dominates
    and what post-dominates them."""
    found: set[int] = set()
    for block in {graph.function.block_of(index).id for index in instructions}:
        for parents in (graph.immediate_dominators, graph.immediate_post_dominators):
            found.update(_ancestors(block, parents))
    return tuple(sorted(one for one in found if one < len(graph.blocks)))


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
