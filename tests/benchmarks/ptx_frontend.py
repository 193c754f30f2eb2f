"""Speed of the PTX front end and events: ``ptx_frontend.py DIRECTORY [--match fa4] [--repeat 5]``.

Prints megabytes of PTX a second of processor time, the best of the repeats for each file: reading the text
to a syntax tree, lowering that to the IR, the events of each instruction, and all three together. The line
``all files`` is over all of them.

``--growth`` prints how the time of each stage grows with the size of one kernel: the body of the largest
kernel of the files once, twice, four times and so on one after the other, up to ``--lines``. The exponent is
that of the size (1 is linear) between the first and the last.
"""

import argparse
import gc
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.pollloops import poll_loops
from ptxaudit.frontends.collection import collection_paused
from ptxaudit.frontends.ptx import parse_ptx
from ptxaudit.frontends.ptx.lower import lower_module
from ptxaudit.ir.function import Module
from ptxaudit.source import SourceText

STAGES = ("parse", "lower", "events")
GROWING = (*STAGES, "graph", "polling loops")


def main() -> None:
    """Measure every matching file below the directory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--match", default="")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--lines", type=int, default=20_000)
    arguments = parser.parse_args()
    paths = [path for path in sorted(arguments.directory.rglob("*.ptx")) if arguments.match in path.name]
    if arguments.growth:
        growth(paths, arguments.lines, arguments.repeat)
        return
    totals = [0.0] * (1 + len(STAGES))
    for path in paths:
        text = path.read_text()
        figures = [float(len(text)), *measure(path.name, text, arguments.repeat)[: len(STAGES)]]
        totals = [total + figure for total, figure in zip(totals, figures, strict=True)]
        report(path.name, *figures)
    report("all files", *totals)


def measure(name: str, text: str, repeat: int) -> list[float]:
    """The least seconds for each stage."""
    source = SourceText(name, text)
    tree = parse_ptx(source)
    module = lower_module(tree, source)
    events = [analysis.events for analysis in analyses(module)]

    def known() -> Iterator[FunctionAnalysis]:
        for analysis, own in zip(analyses(module), events, strict=True):
            analysis.events = own
            yield analysis

    return [
        best(lambda: parse_ptx(SourceText(name, text)), repeat),
        best(lambda: lower_module(tree, source), repeat),
        best(lambda: [analysis.events for analysis in analyses(module)], repeat),
        best(lambda: [analysis.graph.loops for analysis in known()], repeat),
        best(lambda: [poll_loops(analysis) for analysis in known()], repeat),
    ]


def analyses(module: Module) -> list[FunctionAnalysis]:
    """A fresh analysis of each function."""
    return [FunctionAnalysis(function, module) for function in module.functions]


def best(work: Callable[[], object], repeat: int) -> float:
    """The least processor time of several runs."""
    times: list[float] = []
    for _ in range(repeat):
        gc.collect()
        with collection_paused():  # as the front end does
            start = process_time()
            work()
            times.append(process_time() - start)
    return min(times)


def report(name: str, size: float, *seconds: float) -> None:
    """One line in MB/s."""
    if size:
        rates = [size / max(one, 1e-9) / 1e6 for one in (*seconds, sum(seconds))]
        print(
            "parse {:6.2f}  lower {:6.2f}  events {:6.2f}  all {:6.2f} MB/s ".format(*rates), name, flush=True
        )


def growth(paths: list[Path], most: int, repeat: int) -> None:
    """A table of seconds by lines of one kernel."""
    text = max((path.read_text() for path in paths), key=lambda one: kernel(one)[1].count("\n"))
    before, body, after = kernel(text)
    print("lines " + " ".join(f"{stage:>14}" for stage in GROWING))
    rows: list[tuple[int, list[float]]] = []
    times = 1
    while not rows or times * body.count("\n") <= most:
        grown = before + "".join(copy(body, number) for number in range(times)) + after
        rows.append((grown.count("\n"), measure("grown.ptx", grown, repeat)))
        print(f"{rows[-1][0]:5} " + " ".join(f"{one:12.3f} s" for one in rows[-1][1]), flush=True)
        times *= 2
    size = math.log(rows[-1][0] / rows[0][0]) if len(rows) > 1 else 1.0
    powers = (math.log(last / first) / size for first, last in zip(rows[0][1], rows[-1][1], strict=True))
    print("exponent" + " ".join(f"{power:14.2f}" for power in powers)[3:])


def kernel(text: str) -> tuple[str, str, str]:
    """A text with one kernel: all up to its body without what ends it, the statements that can stand there
    several times, and the rest."""
    entry = re.search(r"^\.visible \.entry.*?^\{\n", text, re.M | re.S)
    if entry is None:
        return text, "", ""
    declared: list[str] = []
    stated: list[str] = []
    rest = text[entry.end() :].split("\n")
    depth = 0
    while rest:
        code = rest[0].partition("//")[0]
        after = depth + code.count("{") - code.count("}")
        if after < 0:
            break
        if depth == 0 and re.match(r"\s*\.(reg|shared|local|pragma|loc|file)\b", code):
            declared.append(code)
        elif not re.match(r"\s*(ret|exit);", code):
            stated.append(code)
        depth = after
        rest.pop(0)
    before = text[: entry.end()] + "\n".join(declared) + "\n"
    return before, "\n".join(stated) + "\n", "ret;\n" + "\n".join(rest)


def copy(body: str, number: int) -> str:
    """The statements once more, with labels of their own."""
    labels = set(re.findall(r"^\s*([$\w]+):", body, re.M))
    return re.sub(r"[$\w]+", lambda word: f"{word[0]}_{number}" if word[0] in labels else word[0], body)


if __name__ == "__main__":
    main()
