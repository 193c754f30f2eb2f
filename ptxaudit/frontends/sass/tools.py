"""Finding and running the disassemblers and the assembler of the CUDA toolkit.

The wheels ``nvidia-cuda-nvdisasm``, ``-cuobjdump`` and ``-nvcc`` (ptxas) install their programs below
``nvidia/cu*/bin`` (or ``nvidia/<package>/bin`` in older wheels) of the interpreter's site-packages; a
program on ``PATH`` is the fallback. Programs run without a shell, on a private copy of the input.
"""

import re
import shutil
import site
import subprocess
import sysconfig
import tempfile
import threading
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import TracebackType

from ptxaudit.errors import ToolError
from ptxaudit.stopwatch import STOPWATCH, Stage

MINIMUM_RELEASE = (13, 0)
TIMEOUT_SECONDS = 300
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
    minimum = f"{MINIMUM_RELEASE[0]}.{MINIMUM_RELEASE[1]}"
    advice = f"pip install '{package}>={minimum}'"
    path = _locate(name)
    if path is None:
        raise ToolError(f"found no {name} beside this Python nor on PATH, expected one: {advice}")
    release = tool_release(path)
    if release < MINIMUM_RELEASE:
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


class Disturbances(threading.local):
    """Counts the runs of this thread that ended for reasons that another time may not be there."""

    count = 0


DISTURBANCES = Disturbances()


class ToolRun:
    """A tool running on a private copy of ``data``; leaving the context ends it and cleans up.

    The process starts at once, so that the caller can read the container meanwhile. It runs in a folder
    of its own, where the copy is called ``file``.
    """

    def __init__(
        self, tool: str, options: list[str], data: bytes, name: str, file: str = "input.cubin"
    ) -> None:
        self._name = name
        self._tool = tool
        path = find_tool(tool)
        self._directory = tempfile.TemporaryDirectory(prefix="ptxaudit-")
        try:
            self._path(file).write_bytes(data)
            # Files rather than pipes: the tool never waits for the reader, who is busy with the container.
            with self._path("stdout").open("wb") as stdout, self._path("stderr").open("wb") as stderr:
                self._process = subprocess.Popen(
                    [path.absolute(), *options, file],
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    cwd=self._directory.name,
                )
        except OSError as error:
            self._directory.cleanup()
            DISTURBANCES.count += 1
            raise ToolError(f"{name}: {tool} cannot be started ({error})") from error

    def called(self, name: str) -> "ToolRun":
        """The same run, under another name in messages."""
        self._name = name
        return self

    def output(self) -> bytes:
        """What the tool printed; raises :class:`ToolError` when it fails or takes too long."""
        if self.finish() != 0:
            lines = self.errors().strip().splitlines()
            reason = lines[-1].strip() if lines else f"exit status {self._process.returncode}"
            raise ToolError(f"{self._name}: {self._tool} failed: {reason}")
        return self._path("stdout").read_bytes()

    def errors(self) -> str:
        """What the tool has written to standard error."""
        return self._path("stderr").read_text("utf-8", "replace")

    def product(self, file: str) -> bytes:
        """A file that the tool wrote in its folder."""
        return self._path(file).read_bytes()

    def finish(self) -> int:
        """Wait for the exit status; raises :class:`ToolError` when the tool takes too long."""
        # Waiting with a timeout would look for the end only every 50 ms.
        overdue = threading.Event()
        watchdog = threading.Timer(TIMEOUT_SECONDS, self._stop, [overdue])
        watchdog.daemon = True
        watchdog.start()
        try:
            self._wait()
        finally:
            watchdog.cancel()
        if overdue.is_set() or self._process.returncode < 0:
            DISTURBANCES.count += 1
        if overdue.is_set():
            raise ToolError(f"{self._name}: {self._tool} took more than {TIMEOUT_SECONDS} s")
        return self._process.returncode

    def _wait(self) -> None:
        with STOPWATCH.waiting(_STAGES.get(self._tool, Stage.OTHER)):
            self._process.wait()

    def _stop(self, overdue: threading.Event) -> None:
        overdue.set()
        self._process.kill()

    def _path(self, name: str) -> Path:
        return Path(self._directory.name, name)

    def __enter__(self) -> "ToolRun":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._wait()
        self._directory.cleanup()
