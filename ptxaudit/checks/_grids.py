"""What the checks of programmatic dependent launch share: global accesses and where the waits stand.

Property: for each global access, whether a path from the entry reaches it with no ``griddepcontrol.wait``
executed by the thread before. Direction: forward from the entry; join: some path. A guarded wait is passed by
threads whose guard is false, unless the access has the same guard. Known limit: paths are those of the
control-flow graph.
"""

from collections.abc import Callable, Iterator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.ir.events import Access, Event, GridAction, GridDependency, Proxy, StateSpace
from ptxaudit.ir.instruction import Instruction

_PROXIES = (Proxy.GENERIC, Proxy.ASYNC)
Stop = Callable[[int], bool]


def grid_actions(analysis: FunctionAnalysis, action: GridAction) -> list[Instruction]:
    """The ``griddepcontrol`` instructions of one kind."""
    return [i for i, event in analysis.occurrences(GridDependency) if event.action is action]


def is_global(event: Event) -> bool:
    """Whether an event reads or writes global memory; of generic addresses that is not known."""
    return isinstance(event, Access) and event.space is StateSpace.GLOBAL and event.proxy in _PROXIES


def global_accesses(analysis: FunctionAnalysis) -> list[tuple[Instruction, Access]]:
    """Every access to global memory with its instruction, one an instruction, writes first."""
    found: dict[int, tuple[Instruction, Access]] = {}
    for instruction, event in analysis.occurrences(Access):
        if is_global(event) and (instruction.index not in found or event.writes):
            found[instruction.index] = (instruction, event)
    return [found[index] for index in sorted(found)]


def reached(analysis: FunctionAnalysis, start: int | None, stops: Stop) -> Iterator[int]:
    """Instructions on paths from the entry, or from after ``start``, up to those at which ``stops`` holds.

    The stopping instructions themselves are included.
    """
    blocks = analysis.function.blocks
    if not blocks:
        return
    first = blocks[0] if start is None else analysis.function.block_of(start)
    pending = [(first.id, first.start if start is None else start + 1)]
    seen: set[int] = set() if start is not None else {first.id}
    while pending:
        block, begin = pending.pop()
        for index in range(begin, blocks[block].end):
            yield index
            if stops(index):
                break
        else:
            for successor in blocks[block].successors:
                if successor not in seen:
                    seen.add(successor)
                    pending.append((successor, blocks[successor].start))


def before_waits(analysis: FunctionAnalysis, also: Stop = lambda index: False) -> set[int]:
    """Instructions that a thread may execute before it has waited for the prerequisite grids."""
    waits = {i.index for i in grid_actions(analysis, GridAction.WAIT) if i.guard is None}
    return set(reached(analysis, None, lambda index: index in waits or also(index)))
