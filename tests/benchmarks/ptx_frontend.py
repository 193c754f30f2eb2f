"""Speed of the PTX front end: ``ptx_frontend.py DIRECTORY [--match fa4] [--repeat 5]``.

Prints megabytes of PTX a second of processor time, the best of the repeats for each file: reading the text
to a syntax tree, lowering that to the IR, and both together. The last line is over all files.
"""

import argparse
import gc
from collections.abc import Callable
from pathlib import Path
from time import process_time

from ptxaudit.frontends.ptx import parse_ptx
from ptxaudit.frontends.ptx.lower import lower_module
from ptxaudit.source import SourceText


def main() -> None:
    """Measure every matching file below the directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--match", default="")
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    totals = [0.0, 0.0, 0.0]
    for path in sorted(arguments.directory.rglob("*.ptx")):
        if arguments.match in path.name:
            figures = measure(path, arguments.repeat)
            totals = [total + figure for total, figure in zip(totals, figures, strict=True)]
            report(path.name, *figures)
    report("all files", *totals)


def measure(path: Path, repeat: int) -> tuple[float, float, float]:
    """Characters, and the least seconds for parsing and for lowering."""
    text = path.read_text()
    parsing = best(lambda: parse_ptx(SourceText(path.name, text)), repeat)
    source = SourceText(path.name, text)
    tree = parse_ptx(source)
    lowering = best(lambda: lower_module(tree, source), repeat)
    return float(len(text)), parsing, lowering


def best(work: Callable[[], object], repeat: int) -> float:
    """The least processor time of several runs."""
    times: list[float] = []
    for _ in range(repeat):
        gc.collect()
        start = process_time()
        work()
        times.append(process_time() - start)
    return min(times)


def report(name: str, size: float, parsing: float, lowering: float) -> None:
    """One line in MB/s."""
    if size:
        rates = (size / seconds / 1e6 for seconds in (parsing, lowering, parsing + lowering))
        print("parse {:6.2f}  lower {:6.2f}  both {:6.2f} MB/s ".format(*rates), name, flush=True)


if __name__ == "__main__":
    main()
