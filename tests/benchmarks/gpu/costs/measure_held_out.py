"""Measure the loops of :mod:`held_out` on this machine's GPU: ``python measure_held_out.py FILE.json``.

``--missing`` keeps what the file has and measures only what it lacks.
"""

import argparse
import json
import statistics
from pathlib import Path

from held_out import KERNELS
from run import assemble_ahead, cycles, load, open_gpu, provenance


def main() -> None:
    """Read the command line, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("json", type=Path)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--trips", type=int, default=2000)
    parser.add_argument("--missing", action="store_true")
    options = parser.parse_args()
    gpu = open_gpu()
    measured: dict[str, list[float]] = {}
    if options.missing:
        measured.update(json.loads(options.json.read_text())["cycles"])
    wanted = [kernel for name, kernel in KERNELS.items() if name not in measured]
    assemble_ahead([kernel.text for kernel in wanted], gpu)
    for kernel in wanted:
        function = load(kernel.text, gpu)
        ctas = gpu.multiprocessors // kernel.cluster * kernel.cluster
        runs = [
            cycles(gpu, function, kernel.threads, ctas, options.trips) for _ in range(options.repetitions + 1)
        ]
        measured[kernel.name] = runs[1:]
        print(f"{kernel.name:50s} {statistics.median(runs[1:]):9.1f}", flush=True)
    report = {"provenance": provenance(gpu, options), "cycles": measured}
    options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
