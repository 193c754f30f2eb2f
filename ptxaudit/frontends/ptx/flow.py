"""Control flow of a function while it is lowered: which transfers go where, and the blocks they make.

A guarded transfer also falls through. A call ends no block unless the callee never returns. A branch to a
label behind the last instruction leaves the function, as running off its end does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from ptxaudit.ir.cfg import build_blocks
from ptxaudit.ir.function import BasicBlock
from ptxaudit.ir.instruction import Instruction


class Transfer(Enum):
    """The kinds of control transfer."""

    BRANCH = "bra"
    INDEXED_BRANCH = "brx.idx"
    LEAVE = "leave"
    CALL = "call"


@dataclass(slots=True)
class Flow:
    """Labels are those unique in the function. ``tables`` are the lists of ``.branchtargets``,
    ``indexed`` the branches that use one."""

    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    transfers: dict[int, tuple[str, ...]] = field(default_factory=dict)
    falls_through: set[int] = field(default_factory=set)
    indexed: set[int] = field(default_factory=set)

    def branch(self, index: int, targets: tuple[str, ...], guarded: bool) -> None:
        """Instruction ``index`` jumps to one of ``targets``."""
        self.transfers[index] = targets
        if guarded:
            self.falls_through.add(index)

    def leave(self, index: int, guarded: bool) -> None:
        """Instruction ``index`` leaves the function or ends the thread."""
        self.branch(index, (), guarded)

    def blocks(self, instructions: Sequence[Instruction], end_line: int) -> tuple[BasicBlock, ...]:
        """The blocks of the whole function, positioned by lines."""
        count = len(instructions)
        lines = [instruction.location.line or 0 for instruction in instructions]
        targets: dict[int, tuple[int, ...]] = {}
        used: set[str] = set()
        for index, labels in self.transfers.items():
            used.update(labels)
            places = (self.labels[label] for label in labels)
            targets[index] = tuple(place for place in places if place < count)
        # Of several labels at one place, the block has the name of the last that is branched to.
        names = {place: label for label, place in self.labels.items() if label in used}
        end = max(end_line, lines[-1] + 1) if lines else end_line
        return build_blocks(count, (), targets, self.falls_through, lines, end, names)

    def jump_tables(self, blocks: Sequence[BasicBlock]) -> dict[int, tuple[int, ...]]:
        """The blocks that each indexed branch selects, in table order."""
        starting = {block.start: block.id for block in blocks}
        tables = {
            index: tuple(starting.get(self.labels[label], -1) for label in self.transfers[index])
            for index in self.indexed
        }
        return {index: table for index, table in tables.items() if -1 not in table}
