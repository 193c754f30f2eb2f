"""Time of auditing cubins, the whole process, against ``nvdisasm -json`` on the same files.

usage: cubin_audit.py DIRECTORY [--match fa4] [--repeat 3] [--select RULE,...]

Prints for each cubin the processor time (user and system, of the process and its children) and the elapsed
time of both, best of the repeats, and the two ratios. Elapsed time is what a person waits: the audit loads
itself while the disassembler runs, which needs a second, idle core. On a busy machine only the processor
time can be compared. The rules are those that SASS decides without the order engine, unless others are
selected.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from ptxaudit.frontends.sass.tools import find_tool

LOCAL_RULES = "l1-invalidate-in-poll-loop,gpu-membar-in-hot-loop"
MOST_WANTED = 1.3


def main() -> None:
    """Measure every matching cubin below the directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--match", default="")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--select", default=LOCAL_RULES)
    arguments = parser.parse_args()
    tool = [str(find_tool("nvdisasm")), "-json"]
    ours = [sys.executable, "-m", "ptxaudit", "audit", "--fail-on", "never", "--select", arguments.select]
    print("   nvdisasm          ptxaudit          ratio")
    print("processor elapsed processor elapsed processor elapsed")
    for path in sorted(arguments.directory.rglob("*.cubin")):
        if arguments.match in path.name:
            report(path, *(best([*command, str(path)], arguments.repeat) for command in (tool, ours)))


def best(command: list[str], repeat: int) -> tuple[float, float]:
    """The least processor time and the least elapsed time of several runs, in seconds."""
    runs = [measure(command) for _ in range(repeat)]
    return min(processor for processor, _ in runs), min(elapsed for _, elapsed in runs)


def measure(command: list[str]) -> tuple[float, float]:
    """Processor time, children included, and elapsed time of one run."""
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    elapsed, after = time.perf_counter() - start, os.times()
    return (
        after.children_user - before.children_user + after.children_system - before.children_system,
        elapsed,
    )


def report(path: Path, tool: tuple[float, float], ours: tuple[float, float]) -> None:
    """One line; a star marks an elapsed ratio beyond what is wanted."""
    ratios = [our / its for our, its in zip(ours, tool, strict=True)]
    mark = "*" if ratios[1] > MOST_WANTED else " "
    print(
        f"{tool[0]:8.2f}s {tool[1]:6.2f}s {ours[0]:8.2f}s {ours[1]:6.2f}s"
        f" {ratios[0]:9.2f} {ratios[1]:7.2f}{mark} {path.name}",
        flush=True,
    )


if __name__ == "__main__":
    main()
