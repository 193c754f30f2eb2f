"""The way through one iteration of a loop, or through a function, that costs most or least.

Property: over all ways from a region's entry to one of its ends, the greatest and the least sum of the costs
of the blocks on it. Of a loop the ends are its jumps back, of a function the blocks that nothing follows.
Loops in it are entered and left, once round. Direction: forward over the blocks without the edges that jump
back, in reverse postorder. Join: maximum, or minimum. With cycles that are no natural loops all blocks are
added up.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ptxaudit.ir.cfg import ControlFlowGraph, Loop

Weight = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Region:
    """Blocks that are entered at ``entry`` and run through to one of ``ends``."""

    entry: int
    blocks: frozenset[int]
    ends: tuple[int, ...]


def iteration(loop: Loop) -> Region:
    """One iteration of a loop."""
    return Region(loop.header, loop.blocks, loop.latches)


def whole(graph: ControlFlowGraph) -> Region:
    """A function from its entry to its exits; to the end of any way where it has no exit."""
    ends = tuple(block for block in graph.reverse_postorder if not graph.blocks[block].successors)
    return Region(0, graph.reachable, ends or graph.reverse_postorder)


def dearest(graph: ControlFlowGraph, region: Region, weight: Weight) -> tuple[int, ...]:
    """The blocks of the way that costs most, in order."""
    if not region.blocks.isdisjoint(graph.irreducible):
        return tuple(block for block in graph.reverse_postorder if block in region.blocks)
    best: dict[int, float] = {region.entry: weight(region.entry)}
    before: dict[int, int] = {}
    for block in graph.reverse_postorder:
        if block not in best or block not in region.blocks:
            continue
        for successor in graph.blocks[block].successors:
            if successor not in region.blocks or graph.dominates(successor, block):
                continue
            total = best[block] + weight(successor)
            if successor not in best or total > best[successor]:
                best[successor] = total
                before[successor] = block
    end = max((one for one in region.ends if one in best), key=lambda one: (best[one], -one))
    way = [end]
    while way[-1] != region.entry:
        way.append(before[way[-1]])
    return tuple(reversed(way))


def cheapest(graph: ControlFlowGraph, region: Region, weight: Weight) -> tuple[int, ...]:
    """The blocks of the way that costs least."""
    return dearest(graph, region, lambda block: -weight(block))
