"""Finding and running the disassemblers and the assembler of the CUDA toolkit.

The wheels ``nvidia-cuda-nvdisasm``, ``-cuobjdump`` and ``-nvcc`` (ptxas) install their programs below
``nvidia/cu*/bin`` (or ``nvidia/<package>/bin`` in older wheels) of the interpreter's site-packages; a
program on ``PATH`` is the fallback. Programs run without a shell, on a private copy of the input.
"""

import contextlib
import re
import resource
import shutil
import signal
import site
import subprocess
import sysconfig
import tempfile
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Self

from ptxaudit.errors import ToolError, system_reason
from ptxaudit.limits import DISTURBANCES, limits
from ptxaudit.stopwatch import STOPWATCH, Stage

# Of what each tool prints, what is read was compared from this release on: nvdisasm 13.0 has other operands.
MINIMUM_RELEASES = {"nvdisasm": (13, 2), "cuobjdump": (13, 0), "ptxas": (13, 0)}
_MEGABYTE = 1 << 20
# What a disassembler needs grows with its input; an assembler may take gigabytes for little text.
_TOOL_BASE = 1 << 30
_TOOL_BYTES_PER_BYTE = 512
_OUTPUT_BASE = 1 << 26
_OUTPUT_BYTES_PER_BYTE = 256
_MOST_ERRORS = 1 << 16
_STAGES = {"nvdisasm": Stage.DISASSEMBLER, "ptxas": Stage.ASSEMBLER}
_RELEASE = re.compile(r"release (\d+)\.(\d+)")
_PACKAGES = {
    "nvdisasm": "nvidia-cuda-nvdisasm",
    "cuobjdump": "nvidia-cuda-cuobjdump",
    "ptxas": "nvidia-cuda-nvcc",
}


def site_directories() -> Iterator[Path]:
    """Where packages of this interpreter are installed."""
    paths = sysconfig.get_paths()
    yield Path(paths["purelib"])
    yield Path(paths["platlib"])
    yield from (Path(directory) for directory in site.getsitepackages())
    if site.ENABLE_USER_SITE:
        yield Path(site.getusersitepackages())


@lru_cache(maxsize=8)
def find_tool(name: str) -> Path:
    """The path of a tool of ``_PACKAGES``; raises :class:`ToolError` when missing or too old."""
    package = _PACKAGES[name]
    least = MINIMUM_RELEASES[name]
    minimum = f"{least[0]}.{least[1]}"
    advice = f"pip install '{package}>={minimum}'"
    path = _locate(name)
    if path is None:
        raise ToolError(f"found no {name} beside this Python nor on PATH, expected one: {advice}")
    release = tool_release(path)
    if release < least:
        found = f"{name} {release[0]}.{release[1]} ({path})"
        raise ToolError(f"found {found}, expected {minimum} or later: {advice}")
    return path


def _locate(name: str) -> Path | None:
    for directory in site_directories():
        candidates = sorted(directory.glob(f"nvidia/*/bin/{name}"), reverse=True)
        if candidates:
            return candidates[0]
    found = shutil.which(name)
    return Path(found) if found else None


@lru_cache(maxsize=8)
def tool_version(path: Path) -> str:
    """What a tool says of itself; raises :class:`ToolError` when it cannot be asked."""
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"{path}: cannot be run ({error}), expected a working {path.name}") from error
    return answer.stdout.decode("utf-8", "replace")


@lru_cache(maxsize=8)
def tool_release(path: Path) -> tuple[int, int]:
    """The toolkit release that a tool says it is of; raises :class:`ToolError` when it says none."""
    match = _RELEASE.search(tool_version(path))
    if match is None:
        raise ToolError(f"{path}: found no release in the answer to --version, expected NVIDIA's {path.name}")
    return int(match.group(1)), int(match.group(2))


def _confine(process: int, tool: str, size: int) -> None:
    """Limit what a tool that has just started may take; systems without prlimit leave it free."""
    allowed = limits()
    memory, output = allowed.tool_megabytes * _MEGABYTE, allowed.tool_output_megabytes * _MEGABYTE
    if tool == "nvdisasm":
        memory = min(memory, _TOOL_BASE + _TOOL_BYTES_PER_BYTE * size)
        output = min(output, _OUTPUT_BASE + _OUTPUT_BYTES_PER_BYTE * size)
    wanted = ((resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, output), (resource.RLIMIT_CORE, 0))
    # It may also be gone already, or stand under a narrower limit than this.
    with contextlib.suppress(AttributeError, ProcessLookupError, PermissionError, ValueError):
        for kind, most in wanted:
            resource.prlimit(process, kind, (most, most))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class ToolRun:
    """A tool running on a private copy of ``data``; leaving the context ends it and cleans up.

    The process starts at once, so that the caller can read the container meanwhile. It runs in a folder
    of its own, where the copy is called ``file``, within the time, the address space and the output that
    :class:`ptxaudit.limits.Limits` grant. ``program`` is run in place of a tool of ``_PACKAGES`` with its
    ``options``.
    """

    def __init__(
        self,
        tool: str,
        options: list[str],
        data: bytes,
        name: str,
        file: str = "input.cubin",
        program: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self._tool = tool
        self._seconds = limits().tool_seconds
        command = program or [str(find_tool(tool).absolute()), *options, file]
        self._directory = tempfile.TemporaryDirectory(prefix="ptxaudit-")
        try:
            self._path(file).write_bytes(data)
            # Files rather than pipes: the tool never waits for the reader, who is busy with the container.
            with self._path("stdout").open("wb") as stdout, self._path("stderr").open("wb") as stderr:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    cwd=self._directory.name,
                )
            _confine(self._process.pid, tool, len(data))
        except OSError as error:
            self._directory.cleanup()
            DISTURBANCES.count += 1
            raise ToolError(f"{name}: {tool} cannot be started ({error})") from error

    def called(self, name: str) -> Self:
        """The same run, under another name in messages."""
        self.name = name
        return self

    def output(self) -> bytes:
        """What the tool printed; raises :class:`ToolError` when it fails or takes too long."""
        if self.finish() != 0:
            raise ToolError(f"{self.name}: {self._tool} failed: {self._reason()}")
        return self._read("stdout")

    def _reason(self) -> str:
        """Why the tool failed, in a line."""
        code = self._process.returncode
        if code == -signal.SIGXFSZ:
            return "it prints more than it may (tool-output-megabytes)"
        if code < 0:
            return f"ended by {_signal_name(-code)}"
        lines = self.errors().strip().splitlines()
        return lines[-1].strip() if lines else f"exit status {code}"

    def _read(self, file: str) -> bytes:
        try:
            return self._path(file).read_bytes()
        except OSError as error:
            reason = system_reason(error)
            raise ToolError(f"{self.name}: {self._tool}: its {file} cannot be read ({reason})") from error

    def errors(self) -> str:
        """What the tool has written to standard error."""
        return self._read("stderr")[-_MOST_ERRORS:].decode("utf-8", "replace")

    def product(self, file: str) -> bytes:
        """A file that the tool wrote in its folder."""
        return self._read(file)

    def finish(self) -> int:
        """Wait for the exit status; raises :class:`ToolError` when the tool takes too long."""
        # Waiting with a timeout would look for the end only every 50 ms.
        overdue = threading.Event()
        watchdog = threading.Timer(self._seconds, self._stop, [overdue])
        watchdog.daemon = True
        watchdog.start()
        try:
            self._wait()
        finally:
            watchdog.cancel()
        if overdue.is_set() or self._process.returncode < 0:
            DISTURBANCES.count += 1
        if overdue.is_set():
            raise ToolError(f"{self.name}: {self._tool} took more than {self._seconds} s (tool-seconds)")
        return self._process.returncode

    def _wait(self) -> None:
        with STOPWATCH.waiting(_STAGES.get(self._tool, Stage.OTHER)):
            self._process.wait()

    def _stop(self, overdue: threading.Event) -> None:
        overdue.set()
        self._process.kill()

    def _path(self, name: str) -> Path:
        return Path(self._directory.name, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._wait()
        self._directory.cleanup()
