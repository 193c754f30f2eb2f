"""Captures three programs on a GPU and holds the capture to account: ``run.py`` (needs torch, triton, nvcc).

Each program runs alone and captured: its output must be the same. Every kernel that it launched, and for
PyTorch every kernel that torch's profiler saw, must be in a captured cubin. Prints sizes and overhead.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from elftools.elf.elffile import ELFFile

HERE = Path(__file__).parent


def main() -> int:
    """Run them all; 1 when one of them shows a difference."""
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        for name, command in programs(work).items():
            faults += [f"{name}: {fault}" for fault in compare(name, command, work / name)]
        faults += [f"profiler: {name} is in no cubin" for name in unseen_by_capture(work / "torch")]
    for fault in faults:
        print("FAULT", fault)
    return 1 if faults else 0


def programs(work: Path) -> dict[str, list[str]]:
    """Three programs that load their kernels in three ways."""
    nvcc = ["nvcc", "-arch=sm_90", str(HERE / "answer.cu")]
    subprocess.run([*nvcc, "-DANSWER=41", "-cubin", "-o", str(work / "a.cubin")], check=True)
    subprocess.run([*nvcc, "-DANSWER=42", "-ptx", "-o", str(work / "a.ptx")], check=True)
    driver = work / "driver_program"
    subprocess.run(
        ["gcc", str(HERE / "driver_program.c"), "-o", str(driver), "-l:libcuda.so.1", *library_path()],
        check=True,
    )
    return {
        "driver": [str(driver), str(work / "a.cubin"), str(work / "a.ptx")],
        "triton": [sys.executable, str(HERE / "triton_program.py")],
        "torch": [sys.executable, str(HERE / "torch_program.py")],
    }


def library_path() -> list[str]:
    """Where the driver's library lies, for the linker."""
    found = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    paths = [line.split("=>")[1].strip() for line in found.splitlines() if "libcuda.so.1 " in line]
    return [f"-L{Path(paths[0]).parent}"] if paths else []


def compare(name: str, command: Sequence[str], folder: Path) -> list[str]:
    """Differences between the program alone and captured."""
    start = time.monotonic()
    alone = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - start
    # Its own process, so that the output can be read.
    captured = subprocess.run(
        [sys.executable, "-c", CAPTURE, str(folder), *command], capture_output=True, text=True, check=False
    )
    marker = "\n@@"
    output, _, said = captured.stdout.rpartition(marker)
    print(f"{name}: alone {seconds:.2f} s; {said.strip()}")
    faults = []
    if output.strip() != alone.stdout.strip() or alone.returncode != 0:
        faults.append(
            f"printed {output.strip()!r} {captured.stderr}, alone {alone.stdout.strip()!r} {alone.stderr}"
        )
    held = kernels_in(folder)
    launched = (folder / "launched.txt").read_text().split()
    if not launched:
        faults.append("no launch was seen")
    faults += [f"{kernel} ran, in no cubin" for kernel in launched if kernel not in held]
    return faults


CAPTURE = """
import sys
from pathlib import Path
from ptxaudit.intake.live.program import run_captured
folder = Path(sys.argv[1])
run = run_captured(sys.argv[2:], folder)
record = run.record
(folder / "launched.txt").write_text("\\n".join(record.kernels))
ptx = sum(1 for _ in folder.rglob("*.ptx"))
print(f"\\n@@captured {run.seconds:.2f} s, {record.seconds_inside:.4f} s in {record.callbacks} callbacks, "
      f"{record.modules} modules, {ptx} PTX, {len(record.kernels)} kernels launched, "
      f"{record.processes} processes, {run.fault} {record.faults}")
"""


def kernels_in(folder: Path) -> set[str]:
    """The mangled names of the kernels in the captured cubins."""
    names: set[str] = set()
    for path in (folder / "modules").glob("*.cubin"):
        with path.open("rb") as stream:
            sections = [section.name for section in ELFFile(stream).iter_sections()]
        names |= {section.removeprefix(".text.") for section in sections if section.startswith(".text.")}
    return names


def unseen_by_capture(folder: Path) -> list[str]:
    """Kernels of torch's profiler, run apart, whose name no captured cubin has."""
    command = [sys.executable, str(HERE / "torch_program.py"), "--profile"]
    seen = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    names = kernels_in(folder)
    held = names | {stem(name) for name in demangled(names)}
    wanted = {name for name in seen if name.strip()}
    print(f"profiler: {len(wanted)} kernels")
    return sorted(name for name in wanted if name not in held and stem(name) not in held)


def demangled(names: Iterable[str]) -> list[str]:
    """The names as c++filt gives them."""
    text = "\n".join(names)
    return subprocess.run(["c++filt"], input=text, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )


def stem(name: str) -> str:
    """A demangled name up to its template arguments: demanglers spell those and what follows differently."""
    head = name.removeprefix("void ").split("<")[0].split("(")[0]
    return head.strip()


if __name__ == "__main__":
    sys.exit(main())
