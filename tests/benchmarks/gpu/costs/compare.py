"""Predicted against measured: ``python compare.py [held_out.json]`` prints a table of all pairs as Markdown.

Each kernel of :mod:`held_out` is priced as ``ptxaudit cost --no-roles`` does it, which has its PTX assembled
and prices the SASS, and as it does with ``--no-assemble``; the cycles of its dearest loop are what an
iteration spends on synchronisation (ptxas unrolls some loops: an iteration of those is several). A pair's
predicted difference is that of the two sums, its measured one that of the cycles of an iteration. Needs no
GPU, but ptxas.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from held_out import EARLIER, LATER, Kernel, Pair

from ptxaudit.engine.audit import AuditOptions, audit
from ptxaudit.engine.image import image_of
from ptxaudit.report.budgets import operations
from ptxaudit.rules.budget import Budget

MEASURED = Path(__file__).with_name("held_out.json")
# A difference below this share of the cheaper loop ranks nothing.
RANKED_SHARE = 0.10
SETS = {"earlier": EARLIER, "later": LATER}


@dataclass(frozen=True, slots=True)
class Row:
    """A pair: cycles an iteration of its cheaper form, and the differences: measured, and predicted from SASS
    and from PTX."""

    name: str
    cheap: float
    measured: float
    from_sass: float
    from_ptx: float

    @property
    def ranks(self) -> bool:
        """Whether the measured difference is large enough to rank the two forms."""
        return abs(self.measured) > RANKED_SHARE * self.cheap

    def error(self, predicted: float) -> float:
        """The distance of a predicted from the measured difference, as a share of that."""
        return abs(predicted - self.measured) / abs(self.measured)


def budget_of(kernel: Kernel, assemble: bool) -> Budget:
    """What the synchronisation of a kernel costs."""
    image = image_of(f"{kernel.name}.ptx", kernel.text.encode())
    run = audit((image,), AuditOptions(rules=(), budget=True, assemble=assemble))
    budget = run.report.functions[0].budget
    assert budget is not None, kernel.name
    return budget


def spent(budget: Budget, unrolled: int) -> float:
    """What an iteration of the dearest loop spends, where it stands for ``unrolled`` of the kernel's."""
    cycles = (loop.cycles.estimate for loop in budget.loops if loop.cycles is not None)
    return max(cycles, default=0.0) / unrolled


def unroll_factor(sass: Budget, ptx: Budget) -> int:
    """How many iterations of the PTX's loops one of the SASS's is: how often their synchronisations stand in
    it."""
    counted = [
        (found, in_ptx[name])
        for loop, other in zip(sass.loops, ptx.loops, strict=False)
        if (in_ptx := operations(ptx, other.header))
        for name, found in operations(sass, loop.header).items()
        if name in in_ptx
    ]
    return max(1, min((found // once for found, once in counted), default=1))


def rows(pairs: Sequence[Pair], measured: Mapping[str, float]) -> list[Row]:
    """Each pair with its differences."""
    kernels = {kernel.name: kernel for pair in pairs for kernel in (pair.dear, pair.cheap)}
    sass: dict[str, float] = {}
    ptx: dict[str, float] = {}
    for name, kernel in kernels.items():
        assembled, plain = (budget_of(kernel, assemble) for assemble in (True, False))
        sass[name], ptx[name] = spent(assembled, unroll_factor(assembled, plain)), spent(plain, 1)
    return [
        Row(
            pair.name,
            measured[pair.cheap.name],
            measured[pair.dear.name] - measured[pair.cheap.name],
            sass[pair.dear.name] - sass[pair.cheap.name],
            ptx[pair.dear.name] - ptx[pair.cheap.name],
        )
        for pair in pairs
    ]


def summary(found: Sequence[Row], predict: Callable[[Row], float]) -> str:
    """How far predictions are off, and how many pairs they rank right."""
    ranked = [row for row in found if row.ranks]
    right = sum(predict(row) * row.measured > 0 for row in ranked)
    off = statistics.median(row.error(predict(row)) for row in ranked)
    return f"median error {off:.0%}, ranked right {right} of {len(ranked)}"


def main() -> None:
    """Read the command line, predict, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("json", type=Path, nargs="?", default=MEASURED)
    parser.add_argument("--only", choices=("earlier", "later"))
    options = parser.parse_args()
    runs = json.loads(options.json.read_text())["cycles"]
    measured = {name: statistics.median(values) for name, values in runs.items()}
    chosen = {name: pairs for name, pairs in SETS.items() if options.only in (None, name)}
    found = {name: rows(pairs, measured) for name, pairs in chosen.items()}
    print("| Pair | Cheaper form | Measured difference | Predicted | Off by | From PTX alone |")
    print("|---|---:|---:|---:|---:|---:|")
    for row in chain.from_iterable(found.values()):
        off = f"{row.error(row.from_sass):.0%}" if row.ranks else "not ranked"
        numbers = f"{row.cheap:.0f} | {row.measured:.0f} | {row.from_sass:.0f} | {off} | {row.from_ptx:.0f}"
        print(f"| {row.name} | {numbers} |")
    print()
    for name, several in {**found, "all": [*chain.from_iterable(found.values())]}.items():
        print(f"{name}: {len(several)} pairs; {summary(several, lambda row: row.from_sass)}")
        print(f"  from PTX alone: {summary(several, lambda row: row.from_ptx)}")


if __name__ == "__main__":
    main()
