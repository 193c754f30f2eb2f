"""Where the time of audits goes, and what the result store saves: ``audit_speed.py DIRECTORY [--count 12]``.

Draws PTX texts and cubins below the directory, evenly by path, and audits them together three times by the
command line: with an empty store, with the store that this left, and without one. Prints processor seconds
(user and system, children included) of each and of ``nvdisasm -json`` on the same cubins, their ratios, the
stages of the first audit, and whether the three JSON reports are equal. Processor time, since elapsed time
says nothing on a busy machine; the load is printed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ptxaudit.frontends.sass.tools import find_tool


def main() -> int:
    """Measure; 1 when the reports differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--suffix", default=".cubin", help=".cubin or .ptx")
    parser.add_argument("--select", default="", help="rules, all when empty")
    parser.add_argument("--jobs", default="1")
    arguments = parser.parse_args()
    found = sorted(arguments.directory.rglob(f"*{arguments.suffix}"))
    chosen = found[:: max(1, len(found) // arguments.count)][: arguments.count]
    print(f"{len(chosen)} of {len(found)} files, {sum(path.stat().st_size for path in chosen) / 1e6:.1f} MB")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        return compare(chosen, arguments, Path(folder))


def compare(chosen: list[Path], arguments: argparse.Namespace, folder: Path) -> int:
    """Print the times of all ways and whether they agree."""
    disassembler = 0.0
    if arguments.suffix == ".cubin":
        tool = str(find_tool("nvdisasm"))
        disassembler = sum(processor_seconds([tool, "-json", str(path)]) for path in chosen)
        print(f"{disassembler:9.2f} s  nvdisasm -json on each")
    store = ("--store", str(folder / "store"))
    reports, seconds = [], []
    for name, options in (("cold", store), ("warm", store), ("without a store", ("--no-store",))):
        report = folder / f"{name}.json"
        command = [sys.executable, "-m", "ptxaudit", "audit", "--timings", "--fail-on", "never"]
        command += ["--jobs", arguments.jobs, "--json", str(report), *options, *map(str, chosen)]
        command += ["--select", arguments.select] if arguments.select else []
        seconds.append(processor_seconds(command))
        document = json.loads(report.read_text())
        timings = without_timings(document)
        reports.append(document)
        print(f"{seconds[-1]:9.2f} s  {name}")
        if name == "cold":
            for stage, taken in timings.items():
                print(f"{taken:15.2f} s {taken / sum(timings.values()):4.0%}  {stage}")
    print(f"warm to cold: {seconds[1] / seconds[0]:.1%}")
    if disassembler:
        print(f"cold to nvdisasm: {seconds[0] / disassembler:.2f}")
    equal = reports[0] == reports[1] == reports[2]
    print(f"the reports are {'equal' if equal else 'NOT EQUAL'}")
    return 0 if equal else 1


def processor_seconds(command: list[str]) -> float:
    """User and system time of a process and its children; it may fail, as an audit does on findings."""
    before = os.times()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = os.times()
    user, system = after.children_user - before.children_user, after.children_system - before.children_system
    return user + system


def without_timings(document: dict[str, Any]) -> dict[str, float]:
    """Take the timings out of a report; those of the whole."""
    for one in document["inputs"]:
        one.pop("timings", None)
    timings: dict[str, float] = document.pop("timings")
    return timings


if __name__ == "__main__":
    sys.exit(main())
