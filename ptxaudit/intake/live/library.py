"""Builds the injection library on first use and finds the CUPTI that it opens."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from platformdirs import user_cache_path

from ptxaudit.errors import ToolError

SOURCE = Path(__file__).with_name("injection.c")
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O2", "-shared", "-fPIC", "-x", "c", str(SOURCE), "-ldl", "-lpthread")
COMPILE_SECONDS = 120
# Where wheels and toolkits put CUPTI, below a site-packages directory and below a toolkit's root.
_IN_WHEELS = ("nvidia/cu13/lib", "nvidia/cuda_cupti/lib")
_IN_TOOLKIT = ("extras/CUPTI/lib64", "lib64", "lib", "targets/x86_64-linux/lib")
_NAMES = ("libcupti.so.13", "libcupti.so.12", "libcupti.so")


def injection_library() -> Path:
    """The built library, from the user's cache when this source was built before.

    Raises :class:`ToolError` when there is no C compiler, or it fails.
    """
    key = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    library = user_cache_path("ptxaudit") / f"injection-{key}.so"
    if library.is_file():
        return library
    compiler = _compiler()
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        built = Path(scratch) / library.name
        command = [compiler, *FLAGS[:3], "-o", str(built), *FLAGS[3:]]
        run = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False)
        if run.returncode != 0:
            first = (run.stderr.strip() or f"exit code {run.returncode}").splitlines()[0]
            raise ToolError(f"{compiler}: could not build the capture library: {first}")
        built.replace(library)
    return library


def _compiler() -> str:
    for name in (os.environ.get("CC", ""), *COMPILERS):
        found = shutil.which(name) if name else None
        if found is not None:
            return found
    raise ToolError("capture: found no C compiler (cc, gcc or clang), expected one to build its library once")


def find_cupti(python: str | None = None) -> Path | None:
    """The CUPTI to open: ``$PTXAUDIT_CUPTI``, a wheel's, a toolkit's; ``None`` leaves it to the loader.

    ``python`` is the interpreter of the program that is captured; a CUPTI among its packages goes first, so
    that the process does not get two.
    """
    named = os.environ.get("PTXAUDIT_CUPTI")
    if named:
        return Path(named)
    for directory in _directories(python):
        for name in _NAMES:
            path = directory / name
            if path.is_file():
                return path
    return None


def _directories(python: str | None) -> Iterator[Path]:
    for packages in _site_packages(python):
        yield from (packages / part for part in _IN_WHEELS)
    roots = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    toolkits = [Path(root) for root in roots if root]
    toolkits += sorted(Path("/usr/local").glob("cuda*"), reverse=True)
    for root in toolkits:
        yield from (root / part for part in _IN_TOOLKIT)


def _site_packages(python: str | None) -> list[Path]:
    """The package directories of an interpreter, told by its place (it is not run); else this one's."""
    if python is not None:
        prefix = Path(python).parent.parent
        found = sorted(prefix.glob("lib/python*/site-packages"))
        if found:
            return found
    return [Path(entry) for entry in sys.path if entry.endswith("-packages")]
