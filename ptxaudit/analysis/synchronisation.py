"""Which synchronisations a function has, of which kinds, and which of them stand in a loop.

Property: for each kind, the instructions of the function whose events are of that kind, in blocks that the
entry reaches. Direction: none, the instructions are listed where they stand, not as they run.
A kind is told by what costs or orders differently: scope, semantics, proxy, group and depth. Known limits:
an unrolled loop has its copies; a loop is a natural loop; SASS does not tell the scope of a wait.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.ir.kinds import Kind, kind_of


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An instruction that synchronises: its index, its kind, and whether it stands in a loop."""

    index: int
    kind: Kind
    looped: bool


def synchronisations(analysis: FunctionAnalysis) -> Iterator[Occurrence]:
    """Every synchronisation of a function, in program order; an instruction once for each of its kinds."""
    graph = analysis.graph
    for block in analysis.function.blocks:
        if block.id not in graph.reachable:
            continue
        looped = graph.innermost_loop(block.id) is not None
        for index in range(block.start, block.end):
            kinds = {kind for event in analysis.events[index] if (kind := kind_of(event)) is not None}
            named = sorted((kind for kind in kinds if kind.name), key=lambda kind: kind.name)
            yield from (Occurrence(index, kind, looped) for kind in named)
