"""Run the pairs of racy and fixed kernels on the GPU of this machine and count wrong results.

``python run.py --json results.json`` prints a table and writes what it counted. Each kernel runs in a process
of its own, so that one that hangs is ended and named instead of stopping the rest.
"""

import argparse
import datetime
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from cuda.bindings import driver
from pairs import PAIRS, Pair, Words

KERNELS = Path(__file__).parent / "kernels"
Array = npt.NDArray[Any]
VARIANTS = ("defect", "fixed")
POISON = 0xA5
CTAS = 528
SEED = 7
SECONDS_PER_KERNEL = 60


@dataclass(frozen=True, slots=True)
class Count:
    """How many results of one kernel under one delay (ns) were wrong."""

    kernel: str
    rule: str
    variant: str
    delay: int
    wrong: int
    results: int
    launches: int


def check(answer: tuple[Any, ...]) -> Any:
    """What a driver call returns beside its status; any other status than success ends the program."""
    status, *values = answer
    if status != driver.CUresult.CUDA_SUCCESS:
        sys.exit(f"the driver answered {status!r}")
    return values[0] if len(values) == 1 else tuple(values)


def open_device() -> None:
    """Make the first GPU current."""
    check(driver.cuInit(0))
    device = check(driver.cuDeviceGet(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(device))))


def pack(values: tuple[np.generic, ...]) -> tuple[Array, list[Array]]:
    """The array of argument addresses that a launch takes, and what must live as long as it."""
    cells = [np.array([value]) for value in values]
    return np.array([cell.ctypes.data for cell in cells], dtype=np.uint64), cells


def upload(words: Words) -> Any:
    """A device buffer with these words."""
    flat = np.ascontiguousarray(words)
    buffer = check(driver.cuMemAlloc(flat.nbytes))
    check(driver.cuMemcpyHtoD(buffer, flat.ctypes.data, flat.nbytes))
    return buffer


def count_wrong(pair: Pair, variant: str, kernels: Path, delays: list[int], launches: int) -> list[Count]:
    """Launch one kernel under every delay and compare each result with what it must be."""
    results = CTAS // pair.ctas
    inputs = pair.inputs(np.random.default_rng(SEED), results, pair.trips)
    expected = pair.expected(inputs)
    text = (kernels / f"{pair.name}.{variant}.ptx").read_bytes() + b"\0"
    module = check(driver.cuModuleLoadData(text))
    function = check(driver.cuModuleGetFunction(module, b"race"))
    source = upload(inputs)
    target = check(driver.cuMemAlloc(expected.nbytes))
    counts = []
    for delay in delays:
        wrong = 0
        for _ in range(launches):
            check(driver.cuMemsetD8(target, POISON, expected.nbytes))
            arguments = (
                np.uint64(int(target)),
                np.uint64(int(source)),
                np.uint32(pair.trips),
                np.uint32(delay),
            )
            addresses, _cells = pack(arguments)
            check(
                driver.cuLaunchKernel(
                    function, CTAS, 1, 1, pair.threads, 1, 1, 0, 0, addresses.ctypes.data, 0
                )
            )
            check(driver.cuCtxSynchronize())
            found = np.empty_like(expected, order="C")
            check(driver.cuMemcpyDtoH(found.ctypes.data, target, found.nbytes))
            wrong += int((found != expected).any(axis=1).sum())
        counts.append(Count(pair.name, pair.rule, variant, delay, wrong, launches * results, launches))
    return counts


def count_in_process(pair: Pair, variant: str, options: argparse.Namespace) -> list[Count] | str:
    """The counts of one kernel, or why there are none."""
    command = [sys.executable, __file__, "--one", pair.name, variant, "--kernels", str(options.kernels)]
    command += ["--launches", str(options.launches), "--delays", *map(str, options.delays)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS_PER_KERNEL, check=False
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {SECONDS_PER_KERNEL} s"
    if done.returncode:
        return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"
    return [Count(**row) for row in json.loads(done.stdout)]


def machine() -> dict[str, str]:
    """The GPU, its driver, and when this is."""
    fields = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    name, version = subprocess.run(fields, capture_output=True, text=True, check=True).stdout.split(",")[:2]
    cuda = str(check(driver.cuDriverGetVersion()))
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return {"gpu": name.strip(), "driver": version.split()[0], "cuda": cuda, "date": today}


def run_all(options: argparse.Namespace) -> None:
    """Run every pair, print the table and write the JSON file."""
    rows: list[Count] = []
    failures: dict[str, str] = {}
    print(f"{'kernel':48s} {'delay (ns)':>10s}  wrong results / runs", flush=True)
    for pair in PAIRS:
        for variant in VARIANTS:
            answer = count_in_process(pair, variant, options)
            if isinstance(answer, str):
                failures[f"{pair.name}.{variant}"] = answer
                print(f"{pair.name + '.' + variant:48s} {answer}", flush=True)
                continue
            rows += answer
            for row in answer:
                kernel = f"{row.kernel}.{row.variant}"
                print(f"{kernel:48s} {row.delay:10d}  {row.wrong} / {row.results}", flush=True)
    if options.json:
        report = {**machine(), "counts": [asdict(row) for row in rows], "failures": failures}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=Path, default=KERNELS)
    parser.add_argument("--launches", type=int, default=20)
    parser.add_argument("--delays", type=int, nargs="+", default=[0, 500, 5000, 50000])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=2, metavar=("KERNEL", "VARIANT"), help="run one kernel; JSON output")
    options = parser.parse_args()
    if not options.one:
        run_all(options)
        return
    pair = next(pair for pair in PAIRS if pair.name == options.one[0])
    open_device()
    counts = count_wrong(pair, options.one[1], options.kernels, options.delays, options.launches)
    json.dump([asdict(count) for count in counts], sys.stdout)


if __name__ == "__main__":
    main()
