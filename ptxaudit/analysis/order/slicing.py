"""The synchronisation slice: which instructions decide what a kernel synchronises, and where.

Property: an instruction is in the slice when it has an event that concerns order or shared memory, when
it defines a register that an instruction of the slice may read there, or when it is the branch that
decides whether an instruction of the slice runs. Direction: backward. Join: union of the registers
needed. Control dependence is by post-dominance, so a loop without any instruction of the slice is left
out whole (its termination is assumed). Computed to the least fixed point.

A register is live behind an instruction when some path from there leads to an instruction of the slice that
reads it, with no unguarded definition by the slice in between. Direction and join are the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ptxaudit.ir.cfg import ControlFlowGraph
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Register


@dataclass(frozen=True, slots=True)
class Slice:
    """The indices of the ``kept`` instructions, and the names of those registers that each of them writes and
    that a kept one may read."""

    kept: frozenset[int]
    live: Mapping[int, frozenset[str]]


def synchronisation_slice(
    graph: ControlFlowGraph,
    seeds: Mapping[int, Sequence[Register]],
    cut: Mapping[int, Sequence[Register]],
) -> Slice:
    """The slice of a function.

    ``seeds`` maps the index of each instruction whose events matter to the registers that its events
    depend on (its addresses and counts, not the data that it moves); ``cut`` maps further instructions
    to the only registers that they are to be followed back through.
    """
    instructions = graph.function.instructions
    numbering: dict[str, int] = {}
    followed = {**cut, **seeds}
    reads = [
        _mask(followed.get(instruction.index, instruction.reads), numbering) for instruction in instructions
    ]
    writes = [_mask(instruction.writes, numbering) for instruction in instructions]
    kept = set(seeds)
    dependence = _control_dependence(graph)
    terminators = {block.id: block.end - 1 for block in graph.blocks if block.end > block.start}
    while True:
        before = len(kept)
        live = _keep_definitions(graph, instructions, reads, writes, kept)
        pending = {graph.function.block_of(index).id for index in kept}
        seen: set[int] = set()
        while pending:
            block = pending.pop()
            if block in seen:
                continue
            seen.add(block)
            for controller in dependence.get(block, ()):
                kept.add(terminators[controller])
                pending.add(controller)
        if len(kept) == before:
            return Slice(frozenset(kept), _named(instructions, live, numbering))


def _mask(registers: Sequence[Register], numbering: dict[str, int]) -> int:
    mask = 0
    for register in registers:
        mask |= 1 << numbering.setdefault(register.name, len(numbering))
    return mask


def _keep_definitions(
    graph: ControlFlowGraph,
    instructions: Sequence[Instruction],
    reads: Sequence[int],
    writes: Sequence[int],
    kept: set[int],
) -> dict[int, int]:
    """Add to ``kept`` every instruction that defines a register needed where it stands; what each defines."""
    live = dict.fromkeys(kept, 0)
    needed_at_entry = [0] * len(graph.blocks)
    pending = list(graph.reverse_postorder)
    queued = set(pending)
    while pending:
        number = pending.pop()
        queued.discard(number)
        block = graph.blocks[number]
        needed = 0
        for successor in block.successors:
            needed |= needed_at_entry[successor]
        for index in range(block.end - 1, block.start - 1, -1):
            written = writes[index]
            if index not in kept and not written & needed:
                continue
            kept.add(index)
            live[index] = written & needed
            if instructions[index].guard is None:
                needed &= ~written
            needed |= reads[index]
        if needed != needed_at_entry[number]:
            needed_at_entry[number] = needed
            for predecessor in graph.predecessors[number]:
                if predecessor not in queued:
                    queued.add(predecessor)
                    pending.append(predecessor)
    return live


def _named(
    instructions: Sequence[Instruction], live: Mapping[int, int], numbering: Mapping[str, int]
) -> dict[int, frozenset[str]]:
    return {
        index: frozenset(one.name for one in instructions[index].writes if mask >> numbering[one.name] & 1)
        for index, mask in live.items()
    }


def _control_dependence(graph: ControlFlowGraph) -> dict[int, set[int]]:
    """For each block, the blocks whose branch decides whether it runs (Ferrante, Ottenstein, Warren)."""
    parents = graph.immediate_post_dominators
    dependence: dict[int, set[int]] = {}
    for block in graph.blocks:
        if len(block.successors) < 2:
            continue
        stop = parents.get(block.id)
        for successor in block.successors:
            runner: int | None = successor
            while runner is not None and runner != stop and runner < len(graph.blocks):
                dependence.setdefault(runner, set()).add(block.id)
                runner = parents.get(runner)
    return dependence
