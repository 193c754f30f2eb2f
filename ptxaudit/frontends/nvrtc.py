"""CUDA C++ to PTX by NVRTC, through cuda-python; needs neither a driver nor a host compiler.

NVRTC compiles device code only. Headers of the C and C++ libraries, which it does not have, are stood in
for by those of libcu++ (``cuda/std``), so that sources with ``#include <cstdint>`` compile as by nvcc.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptxaudit.arch import Architecture
from ptxaudit.errors import InputError, ToolError, UsageError
from ptxaudit.frontends.sass.tools import site_directories

ADVICE = "pip install cuda-bindings nvidia-cuda-nvrtc"
DEFAULT_ARCHITECTURE = Architecture(90, "a")
_ERROR = re.compile(r"^(.+)\((\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (.*)$", re.MULTILINE)
_HOST_CODE = re.compile(r"device-side kernel launch|identifier \"cuda[A-Z]\w*\" is undefined")
_GUARD_HOST_CODE = "keep host code from NVRTC with #ifndef __CUDACC_RTC__"
_C_OF_LIBCUXX = ("cassert", "climits", "cmath", "cstddef", "cstdint", "cstring")
_CPP_OF_LIBCUXX = ("array", "functional", "initializer_list", "limits", "tuple", "type_traits", "utility")
_IN_STD = "namespace std { using namespace ::cuda::std; }\n"
_C_HEADERS = {
    "assert.h": "#include <cassert>\n",
    "limits.h": "#include <climits>\n",
    "stddef.h": "#include <cstddef>\nusing ::cuda::std::ptrdiff_t;\n",
    "stdint.h": "#include <cstdint>\n",
    "string.h": "#include <cstring>\n",
}
# NVRTC declares printf, malloc and the functions of math.h itself.
_BUILT_IN = ("cstdio", "cstdlib", "math.h", "stdio.h", "stdlib.h")


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """What a compilation is told, like a compiler's ``-I``, ``-D``, ``-std`` and ``-arch``."""

    includes: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    standard: str | None = None
    architecture: Architecture = DEFAULT_ARCHITECTURE


class CompileError(InputError):
    """A source that does not compile; the message is its first error, ``log`` all that NVRTC said."""

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message)
        self.log = log


def compile_source(source: bytes, path: Path, name: str, options: CompileOptions) -> str:
    """The PTX of CUDA C++; ``path`` is where its own includes are looked for, ``name`` what messages call it.

    Raises :class:`CompileError` for an error in the source, :class:`UsageError` for an option that NVRTC does
    not take, :class:`ToolError` when it is not installed.
    """
    nvrtc = _nvrtc()
    headers = _standard_headers()
    names, texts = [one.encode() for one in headers], [one.encode() for one in headers.values()]
    status, program = nvrtc.nvrtcCreateProgram(source, name.encode(), len(headers), texts, names)
    _require(nvrtc, status, name)
    try:
        given = [one.encode() for one in _arguments(path, options)]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
        log = _text(nvrtc, program, "ProgramLog")
        if status == nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION:
            raise CompileError(_first_error(log, name), log)
        if status == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
            complaint = log.strip().partition("\n")[0].removeprefix("nvrtc: error: ")
            raise UsageError(f"NVRTC refuses to compile {name} as asked: {complaint}")
        _require(nvrtc, status, name)
        return _text(nvrtc, program, "PTX")
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc  # noqa: PLC0415

        nvrtc.nvrtcVersion()
    except Exception as error:  # not installed, or its library is not
        raise ToolError(f"found no NVRTC, expected it to compile CUDA C++: {ADVICE} ({error})") from error
    return nvrtc


def _require(nvrtc: Any, status: Any, name: str) -> None:
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise ToolError(f"{name}: NVRTC failed: {status.name}")


def _text(nvrtc: Any, program: Any, what: str) -> str:
    _, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    # NVRTC writes into the object. One of a single byte (an empty log) would be shared by all of Python.
    content = bytes(size + 1)
    getattr(nvrtc, f"nvrtcGet{what}")(program, content)
    return str(content.rstrip(b"\0"), "utf-8", "replace")


def _arguments(path: Path, options: CompileOptions) -> list[str]:
    architecture = options.architecture
    arguments = [f"--gpu-architecture=sm_{architecture.number}{architecture.suffix}", "--generate-line-info"]
    # Headers such as cuda.h declare host functions, which would be errors without this.
    arguments += ["--device-as-default-execution-space", f"--include-path={path.parent}"]
    arguments += [f"--include-path={folder}" for folder in (*options.includes, *_toolkit_includes())]
    arguments += [f"--define-macro={one}" for one in options.defines]
    return arguments + ([] if options.standard is None else [f"--std={options.standard}"])


def _toolkit_includes() -> list[str]:
    """The headers of the wheels nvidia-cuda-runtime and nvidia-cuda-cccl, beside this Python."""
    for directory in site_directories():
        found = sorted(directory.glob("nvidia/cu*/include"), reverse=True)
        if found:
            return [str(found[0]), str(found[0] / "cccl")]
    return []


def _standard_headers() -> dict[str, str]:
    headers = {
        one: f"#pragma once\n#include <cuda/std/{one}>\n{_IN_STD}"
        for one in (*_C_OF_LIBCUXX, *_CPP_OF_LIBCUXX)
    }
    headers |= {one: f"#pragma once\n{text}" for one, text in _C_HEADERS.items()}
    return headers | dict.fromkeys(_BUILT_IN, "#pragma once\n")


def _first_error(log: str, name: str) -> str:
    match = _ERROR.search(log)
    if match is None:
        return f"{name}: NVRTC failed: {' '.join(log.split())[:200]}"
    file, line, text = match.groups()
    text = " ".join(text.split())
    if _HOST_CODE.search(text):
        text += f" (host code? {_GUARD_HOST_CODE})"
    inside = "" if file == name else f"{name}: "
    return f"{inside}{file}:{line}: error: {text}"
