"""Where the time of audits goes, and what the result store saves: ``audit_speed.py DIRECTORY [--count 12]``.

Draws PTX texts or cubins below the directory, evenly by path, or at random from a wheel, and audits them
together three times by the command line: with an empty store, with the store that this left, and without one;
with ``--unscanned`` once more with every function read. Prints processor seconds (user and system, children
included) of each and of ``nvdisasm -json`` on the same cubins, their ratios, the stages of the first audit,
how many inputs have findings, and whether the JSON reports are equal. Processor time, since elapsed time says
nothing on a busy machine; the load is printed.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import zipfile
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
    parser.add_argument("--seed", type=int, default=8, help="of the draw from a wheel")
    parser.add_argument("--unscanned", action="store_true", help="also with --no-scan")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.directory.is_dir():
            found = sorted(arguments.directory.rglob(f"*{arguments.suffix}"))
            chosen = found[:: max(1, len(found) // arguments.count)][: arguments.count]
        else:
            chosen = drawn(arguments, Path(folder, "drawn"))
        size = sum(path.stat().st_size for path in chosen) / 1e6
        print(f"{len(chosen)} files, {size:.1f} MB; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        return compare(chosen, arguments, Path(folder))


def drawn(arguments: argparse.Namespace, folder: Path) -> list[Path]:
    """Members of a wheel drawn at random, unpacked."""
    folder.mkdir()
    with zipfile.ZipFile(arguments.directory) as wheel:
        names = sorted(name for name in wheel.namelist() if name.endswith(arguments.suffix))
        random.Random(arguments.seed).shuffle(names)
        for number, name in enumerate(names[: arguments.count]):
            (folder / f"{number:05}{arguments.suffix}").write_bytes(wheel.read(name))
    return sorted(folder.iterdir())


def compare(chosen: list[Path], arguments: argparse.Namespace, folder: Path) -> int:
    """Print the times of all ways and whether they agree."""
    disassembler = 0.0
    if arguments.suffix == ".cubin":
        tool = str(find_tool("nvdisasm"))
        disassembler = sum(processor_seconds([tool, "-json", str(path)]) for path in chosen)
        print(f"{disassembler:9.2f} s  nvdisasm -json on each", flush=True)
    store: tuple[str, ...] = ("--store", str(folder / "store"))
    reports, seconds = [], []
    ways = [("cold", store), ("warm", store), ("without a store", ("--no-store",))]
    if arguments.unscanned:
        ways.append(("without the scan", ("--no-store", "--no-scan")))
    for name, options in ways:
        report = folder / f"{name}.json"
        command = [sys.executable, "-m", "ptxaudit", "audit", "--timings", "--fail-on", "never"]
        command += ["--jobs", arguments.jobs, "--json", str(report), *options, *map(str, chosen)]
        command += ["--select", arguments.select] if arguments.select else []
        seconds.append(processor_seconds(command))
        document = json.loads(report.read_text())
        timings = without_timings(document)
        reports.append(document)
        print(f"{seconds[-1]:9.2f} s  {name}", flush=True)
        if name == "cold":
            for stage, taken in timings.items():
                print(f"{taken:15.2f} s {taken / sum(timings.values()):4.0%}  {stage}")
    print(f"warm to cold: {seconds[1] / seconds[0]:.1%}")
    if disassembler:
        print(f"cold to nvdisasm: {seconds[0] / disassembler:.2f}")
    with_findings = {one["input"] for one in reports[0]["findings"]}
    print(f"{len(reports[0]['findings'])} findings in {len(with_findings)} of {len(chosen)} inputs")
    equal = all(one == reports[0] for one in reports)
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
