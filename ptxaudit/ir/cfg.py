"""Control-flow facts of one function: predecessors, dominators, post-dominators, natural loops.

Property: for each pair of blocks, whether one lies on every path from the entry to (dominates) or from
the exit back to (post-dominates) the other. Computed by rustworkx on the block graph; for
post-dominance every block without successors, and one block of every cycle that cannot leave, gets an
edge to a virtual exit, so that the relation is total. Known limit: loops are natural loops (a back edge
to a dominator); a cycle entered at two places (irreducible) is reported as ``irreducible``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import rustworkx

from ptxaudit.ir.function import BasicBlock, Function


@dataclass(frozen=True, slots=True)
class Loop:
    """A natural loop: ``header``, all ``blocks`` of the body, and the ``latches`` that jump back."""

    header: int
    blocks: frozenset[int]
    latches: tuple[int, ...]
    depth: int = 1


class ControlFlowGraph:
    """Derived control-flow relations of a function; every property is computed once, when asked for."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.blocks = function.blocks

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """Predecessor ids by block id."""
        lists: list[list[int]] = [[] for _ in self.blocks]
        for block in self.blocks:
            for successor in block.successors:
                if block.id not in lists[successor]:
                    lists[successor].append(block.id)
        return tuple(tuple(ids) for ids in lists)

    @cached_property
    def reachable(self) -> frozenset[int]:
        """Blocks that the entry reaches."""
        return self.reachable_from((0,)) if self.blocks else frozenset()

    def reachable_from(self, starts: Iterable[int]) -> frozenset[int]:
        """Blocks on some path from any of ``starts``, these included."""
        seen = set(starts)
        pending = list(seen)
        while pending:
            for successor in self.blocks[pending.pop()].successors:
                if successor not in seen:
                    seen.add(successor)
                    pending.append(successor)
        return frozenset(seen)

    @cached_property
    def reverse_postorder(self) -> tuple[int, ...]:
        """Reachable blocks, each before its successors where there is no cycle."""
        if not self.blocks:
            return ()
        order: list[int] = []
        seen = {0}
        stack: list[tuple[int, int]] = [(0, 0)]
        while stack:
            block, position = stack.pop()
            successors = self.blocks[block].successors
            if position == len(successors):
                order.append(block)
                continue
            stack.append((block, position + 1))
            if successors[position] not in seen:
                seen.add(successors[position])
                stack.append((successors[position], 0))
        return tuple(reversed(order))

    @cached_property
    def immediate_dominators(self) -> dict[int, int]:
        """The immediate dominator of each reachable block but the entry."""
        graph: rustworkx.PyDiGraph[int, None] = rustworkx.PyDiGraph(multigraph=False)
        graph.add_nodes_from([block.id for block in self.blocks])
        graph.add_edges_from_no_data([(b.id, s) for b in self.blocks for s in b.successors])
        return {b: d for b, d in rustworkx.immediate_dominators(graph, 0).items() if b != 0}

    @cached_property
    def immediate_post_dominators(self) -> dict[int, int]:
        """The immediate post-dominator of each block; ``len(blocks)`` stands for the virtual exit."""
        graph: rustworkx.PyDiGraph[int, None] = rustworkx.PyDiGraph(multigraph=False)
        exit_node = len(self.blocks)
        graph.add_nodes_from([*range(exit_node + 1)])
        graph.add_edges_from_no_data([(s, b.id) for b in self.blocks for s in b.successors])
        graph.add_edges_from_no_data([(exit_node, b.id) for b in self.blocks if not b.successors])
        missing = set(range(exit_node)) - set(rustworkx.descendants(graph, exit_node))
        while missing:
            chosen = max(missing)
            graph.add_edge(exit_node, chosen, None)
            missing -= set(rustworkx.descendants(graph, chosen)) | {chosen}
        dominators = rustworkx.immediate_dominators(graph, exit_node)
        return {b: d for b, d in dominators.items() if b != exit_node}

    def dominates(self, first: int, second: int) -> bool:
        """Whether every path from the entry to block ``second`` goes through block ``first``."""
        return _is_ancestor(self.immediate_dominators, first, second)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Natural loops, those with the same header merged, outermost first."""
        latches: dict[int, list[int]] = {}
        for block in self.reverse_postorder:
            for successor in self.blocks[block].successors:
                if self.dominates(successor, block):
                    latches.setdefault(successor, []).append(block)
        bodies = {header: self._body(header, tails) for header, tails in latches.items()}
        found = [
            Loop(header, body, tuple(latches[header]), sum(header in other for other in bodies.values()))
            for header, body in bodies.items()
        ]
        return tuple(sorted(found, key=lambda loop: (loop.depth, loop.header)))

    def _body(self, header: int, latches: Iterable[int]) -> frozenset[int]:
        body = {header}
        pending = [latch for latch in latches if latch != header]
        while pending:
            block = pending.pop()
            if block not in body:
                body.add(block)
                pending.extend(p for p in self.predecessors[block] if p in self.reachable)
        return frozenset(body)

    def innermost_loop(self, block: int) -> Loop | None:
        """The deepest loop whose body holds ``block``."""
        holding = [loop for loop in self.loops if block in loop.blocks]
        return max(holding, key=lambda loop: loop.depth) if holding else None

    @cached_property
    def irreducible(self) -> frozenset[int]:
        """Blocks on a cycle that no natural loop covers."""
        graph: rustworkx.PyDiGraph[int, None] = rustworkx.PyDiGraph(multigraph=False)
        graph.add_nodes_from([block.id for block in self.blocks])
        back = {(latch, loop.header) for loop in self.loops for latch in loop.latches}
        edges = [(b.id, s) for b in self.blocks for s in b.successors if (b.id, s) not in back]
        graph.add_edges_from_no_data(edges)
        selfish = {b for b, s in edges if b == s}
        cyclic = [c for c in rustworkx.strongly_connected_components(graph) if len(c) > 1]
        return frozenset({block for component in cyclic for block in component} | selfish) & self.reachable

    def path(self, start: int, goal: int, avoiding: frozenset[int] = frozenset()) -> tuple[int, ...] | None:
        """A shortest path of blocks from ``start`` to ``goal`` (one edge at least) outside ``avoiding``."""
        parents: dict[int, int] = {}
        frontier = [start]
        while frontier:
            following: list[int] = []
            for block in frontier:
                for successor in self.blocks[block].successors:
                    if successor in parents or successor in avoiding:
                        continue
                    parents[successor] = block
                    if successor == goal:
                        return _unwind(parents, start, goal)
                    following.append(successor)
            frontier = following
        return None


def _is_ancestor(parents: dict[int, int], ancestor: int, node: int) -> bool:
    current: int | None = node
    while current is not None:
        if current == ancestor:
            return True
        current = parents.get(current)
    return False


def _unwind(parents: dict[int, int], start: int, goal: int) -> tuple[int, ...]:
    path = [goal]
    while True:
        path.append(parents[path[-1]])
        if path[-1] == start:
            return tuple(reversed(path))


def build_blocks(
    instruction_count: int,
    leaders: Iterable[int],
    targets: dict[int, tuple[int, ...]],
    falls_through: "set[int] | frozenset[int]",
    positions: "list[int]",
    end_position: int,
    labels: dict[int, str] | None = None,
) -> tuple[BasicBlock, ...]:
    """Blocks from the raw control flow of a function.

    ``leaders`` are instruction indices that start a block (0 and the targets of ``targets`` are added);
    ``targets`` maps the index of each control transfer to the indices it may jump to; a control transfer
    ends its block, and control also goes on to the next instruction if its index is in ``falls_through``.
    ``positions[i]`` is the line or byte offset of instruction ``i``; ``end_position`` lies past the last.
    """
    starts = {0, *leaders} | {t for several in targets.values() for t in several}
    starts |= {index + 1 for index in targets}
    ordered = sorted(start for start in starts if start < instruction_count)
    ids = {start: number for number, start in enumerate(ordered)}
    blocks: list[BasicBlock] = []
    for number, start in enumerate(ordered):
        end = ordered[number + 1] if number + 1 < len(ordered) else instruction_count
        last = end - 1
        following: list[int] = []
        if (last not in targets or last in falls_through) and end < instruction_count:
            following.append(ids[end])
        following.extend(ids[t] for t in targets.get(last, ()) if ids[t] not in following)
        end_at = positions[end] if end < instruction_count else end_position
        label = labels.get(start) if labels else None
        blocks.append(BasicBlock(number, start, end, positions[start], end_at, tuple(following), label))
    return tuple(blocks)
