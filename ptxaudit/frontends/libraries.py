"""NVRTC and nvJitLink, asked in a process of their own, within the limits of a tool."""

import importlib.util
import json
import sys
from dataclasses import dataclass

from ptxaudit.errors import ToolError
from ptxaudit.frontends import library_child
from ptxaudit.frontends.sass.tools import ToolRun

_KINDS = frozenset({"done", "missing", "refused", "option", "failed"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it went: ``kind`` and ``text`` as :mod:`ptxaudit.frontends.library_child` has them."""

    kind: str
    text: str


def is_bound(library: str) -> bool:
    """Whether cuda-python's module for a library is there; the library itself need not be."""
    try:
        return importlib.util.find_spec(f"cuda.bindings.{library}") is not None
    except (ImportError, ValueError):
        return False


def start(library: str, data: bytes, called: str, do: str, /, **request: object) -> ToolRun:
    """Begin to have a library do something with ``data``; ``called`` is its name in messages.

    Raises :class:`ToolError` where a process cannot be started.
    """
    asked = json.dumps({"do": do, **request})
    # Nothing of the folder that it runs in is code (-P).
    program = [sys.executable, "-P", library_child.__file__, asked]
    return ToolRun(library, [], data, called, library_child.INPUT, program)


def outcome(run: ToolRun, library: str, name: str) -> Outcome:
    """Wait for how it went; raises :class:`ToolError` where the process was ended, or took too long."""
    run.output()
    try:
        found = json.loads(run.product(library_child.OUTCOME))
        kind, text = str(found["kind"]), str(found["text"])
    except (ValueError, KeyError, TypeError, RecursionError):
        kind, text = "", ""
    if kind not in _KINDS:
        raise ToolError(f"{name}: {library} failed: it left no outcome")
    return Outcome(kind, text)


def product(run: ToolRun) -> bytes:
    """What came of it where all went well."""
    return run.product(library_child.PRODUCT)
