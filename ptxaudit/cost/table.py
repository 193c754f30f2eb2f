"""Measured cycles of synchronisation, a table for each architecture that was measured.

A table (``tables/sm_NN.toml``) holds, for each operation, the cycles that it adds to an iteration of a loop
that all warps of the CTA execute: the median over repetitions of the difference to the same loop without the
operation, at points of a grid of circumstances. Written by ``tests/benchmarks/gpu/costs/run.py``, never by
hand. Between the points of the grid the cycles are interpolated, linearly in the binary logarithm of one more
than the threads, loads, stores and groups; beyond it the outermost point holds and the estimate says so.

What independent arithmetic around an operation changes is a second grid (``beside_work``), linear in the
cycles of that work: it hides loads that miss, and a wait whose result is not used at once. An operation that
uses the result at once, as a conditional invalidate does, or that nothing moves across, shows the wait again.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from math import log2, prod
from pathlib import Path
from typing import Any

from ptxaudit.arch import Architecture

TABLES = Path(__file__).resolve().parent / "tables"
# The columns of a row before the cycles, in the order of the fields of Circumstances.
AXES = ("threads", "loads", "stores", "groups")
WORK_AXES = ("threads", "loads", "work")
# Points of an axis with their weights.
Sides = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What an operation's cycles depend on.

    ``threads`` of the CTA that execute it; ``loads`` per thread that could hit L1 and follow before the loop
    comes round; ``stores`` per thread to global memory that are in flight when it begins; ``groups`` of
    asynchronous copies that it waits for; for wgmma, the products per warpgroup that it waits for. ``work``
    is arithmetic of the iteration that needs nothing that is waited for or loaded, in cycles.
    """

    threads: int
    loads: int = 0
    stores: int = 0
    groups: int = 0
    work: int = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Cycles of one execution: the median, and the lowest and highest repetition.

    ``interpolated`` says that no measured point has these circumstances, ``extrapolated`` that they lie
    outside the measured grid, whose border then stands for them.
    """

    cycles: float
    low: float
    high: float
    interpolated: bool
    extrapolated: bool


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where and how a table was measured."""

    architecture: str
    device: str
    driver: str
    assembler: str
    program: str
    date: str
    method: str


@dataclass(frozen=True, slots=True)
class Grid:
    """Cycles (median, lowest, highest) at every combination of the points of some axes."""

    axes: tuple[tuple[int, ...], ...]
    points: Mapping[tuple[int, ...], tuple[float, float, float]]

    def between(self, sides: Iterable[Sides]) -> tuple[float, float, float]:
        """The cycles between the points of each axis, by their weights."""
        sums = [0.0, 0.0, 0.0]
        for corner in product(*sides):
            weight = prod(share for _, share in corner)
            point = self.points[tuple(value for value, _ in corner)]
            sums = [total + weight * one for total, one in zip(sums, point, strict=True)]
        return sums[0], sums[1], sums[2]

    def exceeded_by(self, wanted: Sequence[int]) -> bool:
        """Whether a value lies outside an axis that was varied."""
        return any(
            len(axis) > 1 and not axis[0] <= value <= axis[-1]
            for axis, value in zip(self.axes, wanted, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured of an operation: its cycles, and what work changes of them; what that means stands in
    the file."""

    alone: Grid
    beside_work: Grid | None = None


@dataclass(frozen=True, slots=True)
class CostTable:
    """The measurements of one architecture."""

    provenance: Provenance
    operations: Mapping[str, Measured]

    def estimate(self, operation: str, circumstances: Circumstances) -> Estimate | None:
        """The cycles of one execution of ``operation``; None when it was not measured."""
        measured = self.operations.get(operation)
        if measured is None:
            return None
        there = circumstances
        wanted = (there.threads, there.loads, there.stores, there.groups)
        sides = [_sides(axis, value, _scale) for axis, value in zip(measured.alone.axes, wanted, strict=True)]
        alone = measured.alone.between(sides)
        changed = _changed_by_work(measured, there)
        # Differences below zero are noise: no synchronisation makes a loop faster.
        cycles, low, high = (max(0.0, one + more) for one, more in zip(alone, changed, strict=True))
        between = any(len(side) > 1 for side in sides)
        return Estimate(cycles, low, high, between, measured.alone.exceeded_by(wanted))


def _changed_by_work(measured: Measured, there: Circumstances) -> tuple[float, float, float]:
    grid = measured.beside_work
    if grid is None or not there.work:
        return 0.0, 0.0, 0.0
    threads, loads, work = grid.axes
    sides = (
        _sides(threads, there.threads, _scale),
        _sides(loads, there.loads, _scale),
        _sides(work, there.work, float),
    )
    return grid.between(sides)


def table_for(architecture: Architecture) -> CostTable | None:
    """The table of an architecture; None where none was measured, as then no cycles may be stated.

    The suffix (``a``, ``f``) chooses instructions, not another chip.
    """
    return _load(TABLES / f"sm_{architecture.number}.toml")


def read_table(text: str) -> CostTable:
    """A table from the text of its file. Raises ValueError where a grid has a hole."""
    data = tomllib.loads(text)
    provenance = Provenance(**data["provenance"])
    return CostTable(provenance, {name: _measured(name, one) for name, one in data["operation"].items()})


@cache
def _load(path: Path) -> CostTable | None:
    return read_table(path.read_text(encoding="utf-8")) if path.is_file() else None


def _measured(name: str, data: dict[str, Any]) -> Measured:
    worked = data.get("beside_work")
    return Measured(
        _grid(name, data["points"], AXES), None if worked is None else _grid(name, worked, WORK_AXES)
    )


def _grid(name: str, rows: Sequence[Sequence[float]], names: tuple[str, ...]) -> Grid:
    width = len(names)
    points = {tuple(map(int, row[:width])): (row[width], row[width + 1], row[width + 2]) for row in rows}
    axes = tuple(tuple(sorted({point[i] for point in points})) for i in range(width))
    missing = next((point for point in product(*axes) if point not in points), None)
    if missing is not None:
        raise ValueError(f"operation {name}: found no point {missing}, expected a full grid of {names}")
    return Grid(axes, points)


def _sides(axis: tuple[int, ...], value: int, scale: Callable[[int], float]) -> Sides:
    """The points of an axis that a value lies between, with their weights."""
    clamped = min(max(value, axis[0]), axis[-1])
    for below, above in pairwise(axis):
        if below < clamped < above:
            share = (scale(clamped) - scale(below)) / (scale(above) - scale(below))
            return (below, 1 - share), (above, share)
    return ((clamped, 1.0),)


def _scale(value: int) -> float:
    return log2(1 + value)
