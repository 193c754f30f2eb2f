"""Assembling PTX: by ptxas, else by nvJitLink, each in a process of its own.

ptxas comes first by measurement (CUDA 13.5, split-K and Triton kernels): it starts in a few milliseconds
where loading nvJitLink takes a third of a second, and it gives the code that users ship, where nvJitLink adds
checks to ``tcgen05`` allocations. Line information is asked for always: the code is the same with and without
it.
"""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache

from ptxaudit.arch import Architecture
from ptxaudit.errors import ToolError
from ptxaudit.frontends import libraries
from ptxaudit.frontends.sass.tools import ToolRun, find_tool, tool_release
from ptxaudit.limits import DISTURBANCES

ADVICE = "pip install nvidia-cuda-nvcc (ptxas), or cuda-bindings and nvidia-nvjitlink"
_INPUT, _OUTPUT = "input.ptx", "output.cubin"
_COMPLAINT = re.compile(r"^(?:ptxas\s+)?(?:[^,\n]+, line (\d+); )?(?:error|fatal)\s*:\s*(.*)$", re.MULTILINE)
_NVJITLINK = "nvJitLink"
_UNRESOLVED = "Unresolved extern"


class MissingAssembler(ToolError):
    """No assembler is installed."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """A cubin with line information and the assembler that made it, as reports call it."""

    cubin: bytes
    tool: str


@dataclass(frozen=True, slots=True)
class Assembly:
    """An assembler at work; ``result`` waits for it and raises :class:`ToolError` in one line when it
    fails. ``run`` is to be entered and left, whatever becomes of the result."""

    run: AbstractContextManager[object]
    result: Callable[[], Assembled]


def start_assembler(ptx: bytes, name: str, architecture: Architecture) -> Assembly:
    """Begin to assemble PTX for an architecture; ``name`` is what messages call it.

    Raises :class:`MissingAssembler` when there is none.
    """
    try:
        release = tool_release(find_tool("ptxas"))
    except ToolError as missing:
        return _nvjitlink(ptx, name, architecture, missing)
    tool = f"ptxas {release[0]}.{release[1]}"
    run = _ptxas(ptx, name, architecture, ())
    return Assembly(run, lambda: _finished(run, tool, ptx, name, architecture))


def _ptxas(ptx: bytes, name: str, architecture: Architecture, more: tuple[str, ...]) -> ToolRun:
    options = [f"-arch={architecture.name}", "-lineinfo", *more, "-o", _OUTPUT]
    return ToolRun("ptxas", options, ptx, name, _INPUT)


def _finished(run: ToolRun, tool: str, ptx: bytes, name: str, architecture: Architecture) -> Assembled:
    if run.finish() == 0:
        return Assembled(run.product(_OUTPUT), tool)
    complaint = _complaint(run.errors(), name, tool)
    if _UNRESOLVED not in complaint:
        raise ToolError(complaint)
    # What it calls is elsewhere: a relocatable object has the same code for what is here.
    with _ptxas(ptx, name, architecture, ("-c",)) as again:
        if again.finish() != 0:
            raise ToolError(_complaint(again.errors(), name, tool))
        return Assembled(again.product(_OUTPUT), f"{tool} -c")


def _complaint(errors: str, name: str, tool: str) -> str:
    """The first thing that ptxas complains about, in one line with its place."""
    match = _COMPLAINT.search(errors)
    if match is None or match[1] is None:
        DISTURBANCES.count += 1  # nothing that is wrong with the PTX
    if match is None:
        lines = errors.strip().splitlines() or ["no reason given"]
        return f"{name}: {tool} failed: {lines[0]}"
    place = name if match[1] is None else f"{name}:{match[1]}"
    return f"{place}: {tool}: {' '.join(match[2].split())}"


def _nvjitlink(ptx: bytes, name: str, architecture: Architecture, missing: ToolError) -> Assembly:
    release = _nvjitlink_release()
    if release is None:
        raise MissingAssembler(f"found no assembler, expected one: {ADVICE} ({missing})")
    tool = f"{_NVJITLINK} {release}"
    run = libraries.start(_NVJITLINK, ptx, name, "link", architecture=architecture.name, name=name)

    def result() -> Assembled:
        found = libraries.outcome(run, _NVJITLINK, name)
        if found.kind == "failed":
            raise ToolError(f"{name}: {tool} failed for {architecture.name}: {found.text}")
        if found.kind != "done":
            raise ToolError(_complaint(found.text, name, tool))
        return Assembled(libraries.product(run), tool)

    return Assembly(run, result)


def _nvjitlink_release() -> str | None:
    """The release of nvJitLink, ``None`` where there is none."""
    return _asked_release() if libraries.is_bound("nvjitlink") else None


@cache
def _asked_release() -> str | None:
    try:
        with libraries.start(_NVJITLINK, b"", _NVJITLINK, "version") as run:
            found = libraries.outcome(run, _NVJITLINK, _NVJITLINK)
    except ToolError:
        return None
    return found.text if found.kind == "done" else None
