"""CUDA C++ to PTX by NVRTC, through cuda-python; needs neither a driver nor a host compiler.

NVRTC runs in a process of its own (:mod:`ptxaudit.frontends.libraries`) and compiles device code only.
Headers of the C and C++ libraries, which it does not have, are stood in for by those of libcu++
(``cuda/std``), so that sources with ``#include <cstdint>`` compile as by nvcc.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ptxaudit.arch import Architecture
from ptxaudit.errors import InputError, ToolError, UsageError
from ptxaudit.frontends import libraries
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
    not take, :class:`ToolError` when it is not installed, crashes, or reaches a limit.
    """
    if not libraries.is_bound("nvrtc"):
        raise _missing("cuda-bindings is not installed")
    asked = {"directory": os.getcwd(), "headers": _standard_headers(), "arguments": _arguments(path, options)}
    with libraries.start("NVRTC", source, name, "compile", name=name, **asked) as run:
        found = libraries.outcome(run, "NVRTC", name)
        if found.kind == "done":
            return libraries.product(run).decode("utf-8", "replace")
    if found.kind == "missing":
        raise _missing(found.text)
    if found.kind == "refused":
        raise CompileError(_first_error(found.text, name), found.text)
    if found.kind == "option":
        complaint = found.text.strip().partition("\n")[0].removeprefix("nvrtc: error: ")
        raise UsageError(f"NVRTC refuses to compile {name} as asked: {complaint}")
    raise ToolError(f"{name}: NVRTC failed: {found.text}")


def _missing(reason: str) -> ToolError:
    return ToolError(f"found no NVRTC, expected it to compile CUDA C++: {ADVICE} ({reason})")


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
