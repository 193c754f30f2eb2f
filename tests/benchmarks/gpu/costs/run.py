"""Measure what synchronisation costs on the GPU of this machine and write its table.

``python run.py --table sm_90.toml [--raw raw.json]`` measures every operation of :mod:`programs` on every
multiprocessor at once (one CTA, or cluster, each), at each point of its grid, ``--repetitions`` times. A
point is the cycles per iteration of the loop with the operation, less those of the loop without it; of a
point with work, what that adds to the same without work.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver
from programs import CTA_BYTES, OPERATIONS, WORK, Operation, Point, launched, points, text_at

SECONDS_PER_LAUNCH = 10

Key = tuple[str, int, Point]  # an operation by name, its groups, the point


def check(answer: tuple[Any, ...]) -> Any:
    """What a driver call returns beside its status; any other status than success ends the program."""
    status, *values = answer
    if status != driver.CUresult.CUDA_SUCCESS:
        sys.exit(f"the driver answered {status!r}")
    return values[0] if len(values) == 1 else tuple(values)


@dataclass(frozen=True, slots=True)
class Gpu:
    """The first GPU, made current, with buffers for every multiprocessor."""

    multiprocessors: int
    architecture: int
    out: Any
    buffer: Any


def open_gpu() -> Gpu:
    """Make the first GPU current and allocate."""
    check(driver.cuInit(0))
    device = check(driver.cuDeviceGet(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(device))))
    attribute = driver.CUdevice_attribute

    def ask(name: Any) -> int:
        return int(check(driver.cuDeviceGetAttribute(name, device)))

    count = ask(attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
    major = ask(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
    minor = ask(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    buffer = check(driver.cuMemAlloc(count * CTA_BYTES))
    check(driver.cuMemsetD8(buffer, 0, count * CTA_BYTES))
    return Gpu(count, 10 * major + minor, check(driver.cuMemAlloc(count * 1024 * 8)), buffer)


def ptxas() -> str | None:
    """The assembler of this machine: on the path, or where CUDA's compiler is."""
    return shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")


def assembler_name() -> str:
    """What makes code of the PTX."""
    found = ptxas()
    if found is None:
        cuda = int(check(driver.cuDriverGetVersion()))
        return f"the driver's, CUDA {cuda // 1000}.{cuda % 1000 // 10}"
    shown = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"release (\S+),", shown)
    return f"ptxas {version.group(1)}" if version else "ptxas"


@cache
def assembled(text: str, architecture: int) -> bytes:
    """The cubin of a PTX text; the text itself, for the driver to compile, where there is no ptxas."""
    found = ptxas()
    if found is None:
        return text.encode() + b"\0"
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "loop.ptx"), Path(folder, "loop.cubin")
        source.write_text(text)
        subprocess.run(
            [found, f"-arch=sm_{architecture}a", source, "-o", cubin], check=True, stdout=sys.stderr
        )
        return cubin.read_bytes()


def load(text: str, gpu: Gpu) -> Any:
    """The kernel of a PTX text; a text that is rejected ends the program."""
    status, module = driver.cuModuleLoadData(assembled(text, gpu.architecture))
    if status != driver.CUresult.CUDA_SUCCESS:
        sys.exit(f"the driver does not take this PTX ({status!r}):\n{text}")
    return check(driver.cuModuleGetFunction(module, b"loop"))


def cycles(gpu: Gpu, function: Any, threads: int, ctas: int, trips: int) -> float:
    """Cycles per iteration of one launch: the median over CTAs of the slowest thread of each."""
    held = (
        np.array([int(gpu.out)], np.uint64),
        np.array([int(gpu.buffer)], np.uint64),
        np.array([trips], np.uint32),
    )
    addresses = np.array([one.ctypes.data for one in held], np.uint64)
    check(driver.cuMemsetD8(gpu.buffer, 0, gpu.multiprocessors * CTA_BYTES))
    check(driver.cuLaunchKernel(function, ctas, 1, 1, threads, 1, 1, 0, 0, addresses.ctypes.data, 0))
    _await_end()
    passed = np.zeros((ctas, threads), np.uint64)
    check(driver.cuMemcpyDtoH(passed.ctypes.data, gpu.out, passed.nbytes))
    return float(np.median(passed.max(axis=1))) / trips


def _await_end() -> None:
    """Wait for the launch; a loop that does not end ends the program instead of holding the machine."""
    end = time.monotonic() + SECONDS_PER_LAUNCH
    while (answer := driver.cuStreamQuery(0)[0]) == driver.CUresult.CUDA_ERROR_NOT_READY:
        if time.monotonic() > end:
            print(f"a launch did not end within {SECONDS_PER_LAUNCH} s", file=sys.stderr, flush=True)
            os._exit(1)  # the usual end would wait for the launch
    check((answer,))


def programs_of(operation: Operation) -> Iterator[str]:
    """Every text that an operation is measured with."""
    for point in points(operation):
        for body in (operation.body, operation.base):
            yield text_at(operation, body, point)


def assemble_ahead(texts: list[str], gpu: Gpu) -> None:
    """Assemble on all processors before the measurement begins."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda text: assembled(text, gpu.architecture), dict.fromkeys(texts)))


def measured_at_points(
    gpu: Gpu, operation: Operation, repetitions: int, trips: int
) -> Iterator[tuple[Key, list[float]]]:
    """Every point of an operation's grids with its differences, one a repetition."""
    ctas = gpu.multiprocessors // operation.cluster * operation.cluster
    functions: dict[str, Any] = {}
    for point in points(operation):
        texts = [text_at(operation, body, point) for body in (operation.body, operation.base)]
        functions.update({text: load(text, gpu) for text in texts if text not in functions})
        with_it, without = (functions[text] for text in texts)
        threads = launched(operation, point)
        pairs = []
        for _ in range(repetitions + 1):
            base = cycles(gpu, without, threads, ctas, trips)
            pairs.append(cycles(gpu, with_it, threads, ctas, trips) - base)
        # The first launch of each loads its code.
        yield (operation.name, operation.groups, point), pairs[1:]


def provenance(gpu: Gpu, options: argparse.Namespace) -> dict[str, str]:
    """Where the table comes from."""
    fields = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    name, version = subprocess.run(fields, capture_output=True, text=True, check=True).stdout.split(",")[:2]
    return {
        "architecture": f"sm_{gpu.architecture}",
        "device": name.strip(),
        "driver": version.split()[0],
        "assembler": assembler_name(),
        "program": "tests/benchmarks/gpu/costs/run.py",
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "method": (
            f"{options.trips} iterations on all {gpu.multiprocessors} multiprocessors, one CTA on each;"
            f" the median CTA; {options.repetitions} repetitions: median, lowest, highest"
        ),
    }


def table(measured: dict[Key, list[float]], origin: dict[str, str]) -> str:
    """The table as TOML."""
    lines = ["# Written by tests/benchmarks/gpu/costs/run.py; not edited by hand.", "", "[provenance]"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in origin.items()]
    described = {operation.name: operation for operation in OPERATIONS}
    for name, keys in groupby(sorted(measured, key=_place), key=lambda key: key[0]):
        own = list(keys)
        lines += ["", f'[operation."{name}"]']
        lines += [f"instruction = {json.dumps(described[name].instruction)}"]
        lines += [f"meaning = {json.dumps(described[name].meaning)}"]
        lines += ["# threads, loads, stores, groups, cycles: median, lowest, highest", "points = ["]
        lines += [_row(key, measured[key]) for key in own if key[2].work is None]
        lines.append("]")
        worked = [key for key in own if key[2].work is not None]
        if worked:
            lines += ["# threads, loads, work, cycles that the work adds: median, lowest, highest"]
            lines += ["beside_work = [", *(_worked_row(key, measured) for key in worked), "]"]
    return "\n".join(lines) + "\n"


def _place(key: Key) -> tuple[Any, ...]:
    name, groups, point = key
    return name, point.work is not None, point.threads, point.loads, point.stores, point.work, groups


def _row(key: Key, values: list[float]) -> str:
    _, groups, point = key
    return _numbers((point.threads, point.loads, point.stores, groups), values)


def _worked_row(key: Key, measured: dict[Key, list[float]]) -> str:
    """What the work of a point changes: the differences of a repetition, less those of the least work."""
    name, groups, point = key
    least = measured[name, groups, replace(point, work=WORK[0])]
    added = [one - before for one, before in zip(measured[key], least, strict=True)]
    assert point.work is not None
    return _numbers((point.threads, point.loads, point.work), added)


def _numbers(point: tuple[int, ...], values: list[float]) -> str:
    shown = (statistics.median(values), min(values), max(values))
    return f"  [{', '.join(map(str, point))}, {', '.join(f'{one:.1f}' for one in shown)}],"


def _raw(key: Key, values: list[float]) -> list[Any]:
    name, groups, point = key
    return [name, point.threads, point.loads, point.stores, groups, point.work, *values]


def main() -> None:
    """Read the command line, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--raw", type=Path, help="every difference, as JSON")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--trips", type=int, default=1000)
    parser.add_argument("--only", default="", help="operations whose name contains this")
    options = parser.parse_args()
    gpu = open_gpu()
    measured: dict[Key, list[float]] = {}
    wanted = [operation for operation in OPERATIONS if options.only in operation.name]
    assemble_ahead([text for operation in wanted for text in programs_of(operation)], gpu)
    for operation in wanted:
        measured.update(measured_at_points(gpu, operation, options.repetitions, options.trips))
        print(f"{operation.name} (groups {operation.groups}): {len(measured)} points so far", flush=True)
        options.table.write_text(table(measured, provenance(gpu, options)))
    if options.raw:
        options.raw.write_text(json.dumps([_raw(key, values) for key, values in measured.items()]) + "\n")


if __name__ == "__main__":
    main()
