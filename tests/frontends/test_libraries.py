"""NVRTC and nvJitLink in a process of their own: what a crash, a hang and a limit cost."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from audit_support import KERNEL, run_cli

from ptxaudit.errors import ToolError
from ptxaudit.frontends import libraries, library_child
from ptxaudit.frontends.nvrtc import CompileOptions, compile_source
from ptxaudit.limits import Limits, in_force

pytest.importorskip("cuda.bindings.nvrtc")

# The expansion of these macros is 2^30 tokens.
GROWING = "#define A0 1+\n" + "".join(f"#define A{n} A{n - 1} A{n - 1}\n" for n in range(1, 31))
GROWING += '__device__ int sum = A30 0;\nextern "C" __global__ void k() {}\n'


def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, body: str) -> None:
    """A child that does ``body`` in place of what it is asked for."""
    script = folder / "child.py"
    script.write_text(f"import os, signal, sys, time\nfrom pathlib import Path\n{body}\n")
    monkeypatch.setattr(library_child, "__file__", str(script))


FAULTS = {
    "os.kill(os.getpid(), signal.SIGSEGV)": "ended by SIGSEGV",
    "time.sleep(60)": "took more than 1 s (tool-seconds)",
    "memory = bytearray(1 << 30)": "MemoryError",
    "Path('outcome.json').write_text('[' * 100000)": "left no outcome",
    'Path(\'outcome.json\').write_text(\'{"kind": "done", "text": ""}\')': "cannot be read",
    "pass": "cannot be read",
}


@pytest.mark.parametrize("body", FAULTS)
def test_a_fault_of_the_compiler_costs_that_source_only(
    body: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    stand_in(monkeypatch, tmp_path, body)
    monkeypatch.chdir(tmp_path)
    Path("temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    Path("a.cu").write_text("__global__ void k() {}")
    Path("b.ptx").write_text(KERNEL)
    limits = ["--limit", "tool-seconds=1", "--limit", "tool-megabytes=500"]
    options = ["--no-assemble", "--select", "divergent-barrier", "--no-store", *limits]
    assert run_cli(monkeypatch, "audit", "a.cu", "b.ptx", *options) == 3
    printed = capfd.readouterr().out
    assert printed.startswith("incomplete: 1 input could not be read\n")
    assert FAULTS[body] in printed
    assert "1 function of 2 inputs" in printed
    assert list(Path("temporary").iterdir()) == []


def test_a_source_that_never_ends_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "growing.cu"
    path.write_text(GROWING)
    started = time.monotonic()
    with (
        in_force(Limits(tool_seconds=2, tool_megabytes=2000)),
        pytest.raises(ToolError, match=r"growing\.cu"),
    ):
        compile_source(path.read_bytes(), path, "growing.cu", CompileOptions())
    assert time.monotonic() - started < 30


COMPILES = """
from pathlib import Path
from ptxaudit.frontends.nvrtc import CompileOptions, compile_source
print(compile_source(b"__global__ void k() {}", Path("k.cu"), "k.cu", CompileOptions()))
print(Path("/proc/self/maps").read_text())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc says what is loaded")
def test_the_process_that_asks_does_not_load_the_library() -> None:
    # In a process of its own: other tests may have loaded it in this one.
    done = subprocess.run([sys.executable, "-c", COMPILES], capture_output=True, text=True, check=True)
    assert ".entry" in done.stdout
    assert "libnvrtc" not in done.stdout


def test_a_module_that_is_not_there_is_not_bound() -> None:
    assert libraries.is_bound("nvrtc")
    assert not libraries.is_bound("of_no_library")
