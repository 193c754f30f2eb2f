"""Launch facts that compilers write beside a kernel, told by the content of the files.

Triton's entry has ``NAME.ptx``, ``NAME.cubin`` and ``NAME.json`` with the number of warps, the CTAs of a
cluster and the bytes of shared memory (PyTorch's inductor keeps the same entries). TileLang's has the device
code and the host code: the call in the host code ends in the extents of grid and block and the shared memory.
The CuTe DSL writes what there is to know into the PTX (``.reqntid``, ``.reqnctapercluster``).
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeGuard

from ptxaudit.arch import WARP_SIZE
from ptxaudit.engine.launches import NamedLaunch
from ptxaudit.ir.launch import Launch

_TRITON_KEYS = {"name", "num_warps", "shared"}
_LARGEST_FILE = 1 << 24
_LARGEST_BLOCK = 1024
_LARGEST_CLUSTER = 16
_MOST_ARGUMENTS = 4096
_DEVICE_CODE = "device_kernel.cu"
_HOST_CODE = "host_kernel.cu"
_BOUNDED_KERNEL = re.compile(r"__launch_bounds__\(\s*(\d+)[^)]*\)\s*(\w+)\s*\(([^)]*)\)")
_CONSTANT = re.compile(r"\[(\d+)\]\.v_int64\) = \(\(int64_t\)(\d+)\);")
_CALL = re.compile(r"TVMFFIFunctionCall\((\w+)_packed,.*?, (\d+), ")


def launches_beside(path: Path) -> tuple[NamedLaunch, ...]:
    """The launch facts of the images in a file of a compiler's cache; none for any other file."""
    return (*_triton(path.with_suffix(".json")), *_tilelang(path.parent))


def _triton(path: Path) -> Iterator[NamedLaunch]:
    metadata = _json(path)
    if isinstance(metadata, dict) and metadata.keys() >= _TRITON_KEYS:
        launch = triton_launch(metadata)
        if launch is not None:
            yield launch


def triton_launch(metadata: Mapping[str, Any]) -> NamedLaunch | None:
    """What Triton's metadata of a kernel says of its launch; ``None`` where name or warps are not there."""
    name, warps = metadata.get("name"), metadata.get("num_warps")
    lanes = metadata.get("warp_size", WARP_SIZE)
    if not isinstance(name, str) or not _is_extent(warps) or not _is_extent(lanes):
        return None
    threads = warps * lanes
    shared = metadata.get("shared")
    launch = Launch(
        block=(threads, 1, 1) if threads <= _LARGEST_BLOCK else None,
        cluster=_cluster(metadata),
        dynamic_shared=shared if isinstance(shared, int) and shared >= 0 else None,
    )
    return NamedLaunch.of(name, launch)


def _cluster(metadata: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Triton 3 states the CTAs of a cluster, Triton 2 its three extents."""
    extents = metadata.get("cluster_dims", metadata.get("clusterDims"))
    if isinstance(extents, list | tuple) and len(extents) == 3 and all(_is_extent(one) for one in extents):
        x, y, z = extents
        return (x, y, z) if x * y * z <= _LARGEST_CLUSTER else None
    number = metadata.get("num_ctas")
    return (number, 1, 1) if _is_extent(number) and number <= _LARGEST_CLUSTER else None


def _is_extent(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


@lru_cache(maxsize=4)
def _tilelang(folder: Path) -> tuple[NamedLaunch, ...]:
    kernels = {match[2]: match for match in _BOUNDED_KERNEL.finditer(_text(folder / _DEVICE_CODE))}
    if not kernels:
        return ()
    found = []
    for name, arguments in _host_calls(_text(folder / _HOST_CODE)):
        if name in kernels:
            threads, parameters = int(kernels[name][1]), kernels[name][3].count(",") + 1
            launch = _launch(arguments[parameters:], threads)
            found += [] if launch is None else [NamedLaunch.of(name, launch)]
    return tuple(found)


def _host_calls(text: str) -> Iterator[tuple[str, tuple[int | None, ...]]]:
    """The calls in TileLang's host code: what is called, and the arguments that are integer constants."""
    constants: dict[int, int] = {}
    for line in text.splitlines():
        constant, call = _CONSTANT.search(line), _CALL.search(line)
        if constant is not None:
            constants[int(constant[1])] = int(constant[2])
        if call is not None:
            yield call[1], tuple(constants.get(index) for index in range(min(int(call[2]), _MOST_ARGUMENTS)))
            constants = {}


def _launch(extents: tuple[int | None, ...], threads: int) -> Launch | None:
    """The launch by the arguments behind the parameters: grid, three extents of the block, shared memory.

    Shared memory is only there where it is used; the block tells, whose extents are those of the bounds.
    """
    for shared in (1, 0):
        grid, rest = extents[: -3 - shared], extents[-3 - shared :]
        x, y, z = rest[:3] if len(rest) == 3 + shared else (None, None, None)
        if x and y and z and x * y * z == threads:
            sizes = [one for one in grid if one]
            whole = len(sizes) == len(grid) and 1 <= len(grid) <= 3
            columns, rows, layers = (*sizes, 1, 1, 1)[:3]
            return Launch(
                block=(x, y, z),
                grid=(columns, rows, layers) if whole else None,
                dynamic_shared=rest[3] if shared else None,
            )
    return None


def _json(path: Path) -> object:
    try:
        return json.loads(_text(path) or "null")
    except (ValueError, RecursionError):
        return None


def _text(path: Path) -> str:
    """A file's text; empty for one that is not there, is no text or is too large."""
    try:
        return path.read_text(encoding="utf-8") if path.stat().st_size <= _LARGEST_FILE else ""
    except (OSError, UnicodeDecodeError):
        return ""
