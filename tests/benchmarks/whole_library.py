"""One audit of a whole library by the command line, as in CI: ``whole_library.py FILE [OPTION ...]``.

Audits the file with an empty store and again with the store that this left (not with ``--once``). Prints for
each the elapsed and the processor time (children included), the greatest memory of all its processes together
(proportional set size, looked at every second, Linux), functions per second and how many images have
findings; 1 when the reports differ. Other options are those of ``ptxaudit audit``. Elapsed time says
something on an otherwise idle machine only, so the load before the start is printed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from processes import family


def main() -> int:
    """Measure; 1 when the reports differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--once", action="store_true", help="do not audit again with the store")
    arguments, options = parser.parse_known_args()
    size = arguments.file.stat().st_size / 1e6
    print(f"{size:.0f} MB; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    names = ("cold",) if arguments.once else ("cold", "warm")
    with tempfile.TemporaryDirectory() as folder:
        reports = [measured(name, arguments.file, options, Path(folder)) for name in names]
    return int(any(report != reports[0] for report in reports))


def measured(name: str, file: Path, options: Sequence[str], folder: Path) -> Any:
    """Audit once, print what it took, and return the report."""
    path = folder / f"{name}.json"
    command = [sys.executable, "-m", "ptxaudit", "audit", str(file), "--fail-on", "never", *options]
    command += ["--json", str(path), "--store", str(folder / "store")]
    before, start = os.times(), time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as audit:
        peak = greatest_memory(audit)
    elapsed, after = time.monotonic() - start, os.times()
    processor = sum(after[2:4]) - sum(before[2:4])
    report = json.loads(path.read_bytes())
    images, functions = len(report["inputs"]), len(report["functions"])
    found = len({finding["input"] for finding in report["findings"]})
    print(f"{name}: exit {audit.returncode}, {elapsed:.0f} s elapsed, {processor:.0f} s of processor time")
    print(f"  at most {peak >> 20} MiB in all processes; {functions / elapsed:.0f} functions a second")
    print(f"  {images} images, {functions} functions; {found} images with findings", flush=True)
    return report


def greatest_memory(audit: "subprocess.Popen[bytes]") -> int:
    """Bytes: the greatest proportional set size of a process and all below it, until it ends."""
    greatest = 0
    while audit.poll() is None:
        greatest = max(greatest, sum(map(proportional_set_size, family(audit.pid))))
        time.sleep(1)
    return greatest


def proportional_set_size(process: int) -> int:
    """Bytes; none for a process that has ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), 0)


if __name__ == "__main__":
    sys.exit(main())
