"""How often loops must be followed for every ring of barriers to come round twice.

Property: for each loop that waits on two or more mbarriers in turn, the bound with which it would have met
each of them twice and one of them again, judged by how many it met under the present bound. What counts is
how often between two initialisations: one in an outer loop makes the barriers new ones.
``not_round`` gives, for each loop that its bound cut short, the accesses to shared or tensor memory and the
CTA barriers in it that did not meet each place, or barrier, so many times and one of them again: they may
belong to a ring that did not come round, or walk on.
Direction and join do not apply: one execution is looked at, and of several wishes for one loop the greatest
counts. Known limit: a ring whose length depends on the trip count grows with the bound, up to a fixed number
of passes.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence

from ptxaudit.analysis.order.machine import Bounds
from ptxaudit.analysis.order.program import Operation, Program
from ptxaudit.analysis.order.trace import BarrierKey, Execution, Footprint, Step
from ptxaudit.ir import events as ev
from ptxaudit.ir.cfg import Loop

_MOST_ITERATIONS = 40


def wanted_iterations(program: Program, execution: Execution, bounds: Bounds) -> dict[int, int]:
    """Loop bounds with which every ring of barriers comes round twice, as far as this run can tell."""
    wanted = dict(bounds.iterations or {})
    for index, seen, enough in _short_rings(execution):
        loop = _working_loop(program, program.analysis.function.block_of(index).id)
        if loop is None:
            continue
        now = bounds.limit(loop.header)
        need = -(-now * enough // seen)
        if need > now:
            wanted[loop.header] = min(max(need, wanted.get(loop.header, 0)), _MOST_ITERATIONS)
    return wanted


def falls_short(program: Program, execution: Execution) -> bool:
    """Whether some ring in a loop has still not come round twice."""
    return any(
        _working_loop(program, program.analysis.function.block_of(index).id) is not None
        for index, _, _ in _short_rings(execution)
    )


def not_round(program: Program, execution: Execution, times: int) -> dict[int, frozenset[int]]:
    """Instructions that did not come round so many times, by the innermost loop around that was cut short."""
    places: dict[tuple[int, int], list[Hashable]] = defaultdict(list)
    for entry in execution.entries:
        place = _place(entry) if isinstance(entry, Step) else None
        if isinstance(entry, Step) and place is not None:
            places[entry.warp, entry.instruction.index].append(place)
    short = {index for (_, index), met in places.items() if not came_round(met, times)}
    by_loop: dict[int, set[int]] = defaultdict(set)
    for index in short:
        header = _cut_short(program, execution, index)
        if header is not None:
            by_loop[header].add(index)
    return {header: frozenset(indices) for header, indices in by_loop.items()}


def came_round(met: Sequence[Hashable], times: int) -> bool:
    """Whether a ring of the places that were met was gone through so many times, and begun once more."""
    ring = len(set(met))
    return ring <= 1 or ring <= (len(met) - 1) // times


def buffer_of(step: Step) -> Footprint | None:
    """The footprint of an access to memory that the buffers of rings are in."""
    footprint = step.footprint
    return footprint if footprint is not None and footprint.memory[0] in ("shared", "tmem") else None


def _place(step: Step) -> Hashable:
    """What a step touches that a ring could be made of, if anything."""
    if isinstance(step.event, ev.CtaBarrier):
        return step.key
    footprint = buffer_of(step)
    return None if footprint is None else (footprint.memory, footprint.starts.tobytes())


def _cut_short(program: Program, execution: Execution, index: int) -> int | None:
    block = program.analysis.function.block_of(index).id
    loops = (loop for loop in program.analysis.graph.loops if loop.header in execution.bounded)
    around = [loop for loop in loops if block in loop.blocks]
    return max(around, key=lambda loop: loop.depth).header if around else None


def _short_rings(execution: Execution) -> Iterator[tuple[int, int, int]]:
    """Waits on rings of barriers that have not come round twice: instruction, times seen, times wanted."""
    lives: Counter[BarrierKey] = Counter()
    visits: dict[tuple[int, int], dict[int, list[BarrierKey]]] = defaultdict(lambda: defaultdict(list))
    for entry in execution.entries:
        if not isinstance(entry, Step) or entry.key is None:
            continue
        if isinstance(entry.event, ev.MbarrierInit):
            lives[entry.key] += 1
        elif isinstance(entry.event, ev.MbarrierWait):
            visits[entry.warp, entry.instruction.index][lives[entry.key]].append(entry.key)
    for (_, index), by_life in visits.items():
        seen, ring = max((len(keys), len(set(keys))) for keys in by_life.values())
        if ring >= 2 and seen < 2 * ring + 1:
            yield index, seen, 2 * ring + 1


def _working_loop(program: Program, block: int) -> Loop | None:
    """The innermost loop around a wait that does anything but poll."""
    around = [loop for loop in program.analysis.graph.loops if block in loop.blocks]
    for loop in sorted(around, key=lambda loop: -loop.depth):
        blocks = [program.blocks[number] for number in loop.blocks]
        if any(_works(operation) for block_program in blocks for operation in block_program.operations):
            return loop
    return None


def _works(operation: Operation) -> bool:
    polling = (ev.MbarrierWait, ev.Backoff, ev.L1Invalidate)
    return any(not isinstance(event, polling) for event in operation.events)
