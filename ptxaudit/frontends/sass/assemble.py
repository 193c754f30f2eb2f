"""Assembling PTX: by ptxas in a process of its own, else by nvJitLink in this one.

ptxas comes first by measurement (CUDA 13.5, split-K and Triton kernels): it starts in a few milliseconds
where loading nvJitLink takes a third of a second, it runs beside the audit of the PTX and cannot take that
down, and it gives the code that users ship, where nvJitLink adds checks to ``tcgen05`` allocations. Line
information is asked for always: the code is the same with and without it.
"""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from ptxaudit.arch import Architecture
from ptxaudit.errors import ToolError
from ptxaudit.frontends.sass.tools import ToolRun, find_tool, tool_release
from ptxaudit.limits import DISTURBANCES

ADVICE = "pip install nvidia-cuda-nvcc (ptxas), or cuda-bindings and nvidia-nvjitlink"
_INPUT, _OUTPUT = "input.ptx", "output.cubin"
_COMPLAINT = re.compile(r"^(?:ptxas\s+)?(?:[^,\n]+, line (\d+); )?(?:error|fatal)\s*:\s*(.*)$", re.MULTILINE)
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
    try:
        from cuda.bindings import nvjitlink  # noqa: PLC0415

        version = nvjitlink.version()
    except Exception as error:  # not installed, or its library is not
        raise MissingAssembler(f"found no assembler, expected one: {ADVICE} ({missing})") from error
    tool = f"nvJitLink {version[0]}.{version[1]}"

    def result() -> Assembled:
        try:
            handle = nvjitlink.create(2, [f"-arch={architecture.name}", "-lineinfo"])
        except nvjitlink.nvJitLinkError as error:
            raise ToolError(f"{name}: {tool} failed for {architecture.name}: {error}") from error
        try:
            nvjitlink.add_data(handle, nvjitlink.InputType.PTX, ptx, len(ptx), name)
            nvjitlink.complete(handle)
            cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
            nvjitlink.get_linked_cubin(handle, cubin)
        except nvjitlink.nvJitLinkError as error:
            log = bytearray(nvjitlink.get_error_log_size(handle))
            nvjitlink.get_error_log(handle, log)
            text = log.decode("utf-8", "replace").rstrip("\0\n") or str(error)
            raise ToolError(_complaint(text, name, tool)) from error
        finally:
            nvjitlink.destroy(handle)
        return Assembled(bytes(cubin), tool)

    return Assembly(nullcontext(), result)
