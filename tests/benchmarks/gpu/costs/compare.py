"""Predicted against measured: ``python compare.py [held_out.json]`` prints a table of all pairs as Markdown.

Each kernel of :mod:`held_out` is priced as ``ptxaudit cost --no-assemble --no-roles`` does it; the cycles of
its dearest loop are what an iteration spends on synchronisation. A pair's predicted difference is that of the
two sums, its measured one that of the cycles of an iteration. Needs no GPU.
"""

import argparse
import json
import statistics
from dataclasses import dataclass
from pathlib import Path

from held_out import KERNELS, PAIRS, Kernel

from ptxaudit.engine.audit import AuditOptions, audit
from ptxaudit.engine.image import image_of

MEASURED = Path(__file__).with_name("held_out.json")
# A difference below this share of the cheaper loop ranks nothing.
RANKED_SHARE = 0.10


@dataclass(frozen=True, slots=True)
class Row:
    """A pair: cycles an iteration of its cheaper form, and the two differences."""

    name: str
    cheap: float
    measured: float
    predicted: float

    @property
    def ranks(self) -> bool:
        """Whether the measured difference is large enough to rank the two forms."""
        return abs(self.measured) > RANKED_SHARE * self.cheap

    @property
    def error(self) -> float:
        """The distance of the predicted from the measured difference, as a share of that."""
        return abs(self.predicted - self.measured) / abs(self.measured)


def predicted(kernel: Kernel) -> float:
    """The synchronisation of an iteration of a kernel's dearest loop, in cycles."""
    image = image_of(f"{kernel.name}.ptx", kernel.text.encode())
    run = audit((image,), AuditOptions(rules=(), budget=True))
    budget = run.report.functions[0].budget
    assert budget is not None, kernel.name
    return max((loop.cycles.estimate for loop in budget.loops if loop.cycles is not None), default=0.0)


def main() -> None:
    """Read the command line, predict, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("json", type=Path, nargs="?", default=MEASURED)
    options = parser.parse_args()
    runs = json.loads(options.json.read_text())["cycles"]
    measured = {name: statistics.median(runs[name]) for name in KERNELS}
    prices = {name: predicted(kernel) for name, kernel in KERNELS.items()}
    rows = [
        Row(
            pair.name,
            measured[pair.cheap.name],
            measured[pair.dear.name] - measured[pair.cheap.name],
            prices[pair.dear.name] - prices[pair.cheap.name],
        )
        for pair in PAIRS
    ]
    print("| Pair | Cheaper form | Measured difference | Predicted | Off by |\n|---|---:|---:|---:|---:|")
    for row in rows:
        off = f"{row.error:.0%}" if row.ranks else "not ranked"
        print(f"| {row.name} | {row.cheap:.0f} | {row.measured:.0f} | {row.predicted:.0f} | {off} |")
    ranked = [row for row in rows if row.ranks]
    right = sum(row.predicted * row.measured > 0 for row in ranked)
    print(
        f"\n{len(rows)} pairs of {len(KERNELS)} loops; {len(ranked)} differ by more than {RANKED_SHARE:.0%}:"
        f" median error {statistics.median(row.error for row in ranked):.0%}, ranked right {right}"
    )


if __name__ == "__main__":
    main()
