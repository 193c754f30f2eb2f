"""What runs NVRTC and nvJitLink, in a process of its own: a crash, a hang or gigabytes cost one input.

A script that imports nothing of ptxaudit: ``library_child.py REQUEST``, run in a folder of its own, where it
reads ``input`` and leaves ``outcome.json`` and, where all went well, ``product``. REQUEST is JSON: ``do``
is what to do, the rest are arguments of the function for that. An outcome is ``kind`` with ``text``, what the
library says: ``done``, ``missing`` (no such library), ``refused`` (the input), ``option`` (an option),
``failed``.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

INPUT, PRODUCT, OUTCOME = "input", "product", "outcome.json"
Outcome = tuple[str, str, bytes | None]


def main(request: str) -> None:
    """Do what a request asks for."""
    folder = Path.cwd()
    asked = json.loads(request)
    kind, text, product = _done(asked.pop("do"), asked)
    if product is not None:
        (folder / PRODUCT).write_bytes(product)
    (folder / OUTCOME).write_text(json.dumps({"kind": kind, "text": text}))


def _done(do: str, asked: dict[str, Any]) -> Outcome:
    if do == "compile":
        return compile_cuda(**asked)
    return link(**asked) if do == "link" else version()


def compile_cuda(directory: str, name: str, headers: dict[str, str], arguments: list[str]) -> Outcome:
    """CUDA C++ to PTX by NVRTC; relative names are taken from ``directory``."""
    try:
        from cuda.bindings import nvrtc  # noqa: PLC0415

        nvrtc.nvrtcVersion()
    except Exception as error:  # not installed, or its library is not
        return "missing", str(error), None
    source = Path(INPUT).read_bytes()
    os.chdir(directory)
    names, texts = [one.encode() for one in headers], [one.encode() for one in headers.values()]
    status, program = nvrtc.nvrtcCreateProgram(source, os.fsencode(name), len(headers), texts, names)
    result = nvrtc.nvrtcResult
    if status != result.NVRTC_SUCCESS:
        return "failed", status.name, None
    given = [os.fsencode(one) for one in arguments]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
    log = _text(nvrtc, program, "ProgramLog").decode("utf-8", "replace")
    if status == result.NVRTC_ERROR_COMPILATION:
        return "refused", log, None
    if status == result.NVRTC_ERROR_INVALID_OPTION:
        return "option", log, None
    if status != result.NVRTC_SUCCESS:
        return "failed", status.name, None
    return "done", log, _text(nvrtc, program, "PTX")


def _text(nvrtc: Any, program: Any, what: str) -> bytes:
    _, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    # NVRTC writes into the object. One of a single byte (an empty log) would be shared by all of Python.
    content = bytes(size + 1)
    getattr(nvrtc, f"nvrtcGet{what}")(program, content)
    return content.rstrip(b"\0")


def version() -> Outcome:
    """The release of nvJitLink as ``text``."""
    try:
        from cuda.bindings import nvjitlink  # noqa: PLC0415

        release = nvjitlink.version()
    except Exception as error:  # not installed, or its library is not
        return "missing", str(error), None
    return "done", f"{release[0]}.{release[1]}", None


def link(architecture: str, name: str) -> Outcome:
    """PTX to a cubin by nvJitLink."""
    from cuda.bindings import nvjitlink  # noqa: PLC0415

    ptx = Path(INPUT).read_bytes()
    try:
        handle = nvjitlink.create(2, [f"-arch={architecture}", "-lineinfo"])
    except nvjitlink.nvJitLinkError as error:
        return "failed", str(error), None
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, ptx, len(ptx), name)
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        return "refused", log.decode("utf-8", "replace").rstrip("\0\n") or str(error), None
    return "done", "", bytes(cubin)


if __name__ == "__main__":
    main(sys.argv[1])
