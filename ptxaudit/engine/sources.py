"""The sources that kernels were compiled from, where they are there to be read.

Their names come from the code that is audited: only what is named like a source is opened.
"""

import hashlib
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG

from ptxaudit.engine.results import COMMENT_WORD
from ptxaudit.ir.function import Function
from ptxaudit.rules.model import CodePlace, CommentedSource, Finding
from ptxaudit.source import Location, LocationKind

_SUFFIXES = frozenset({".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".inl", ".mlir", ".py"})
_LARGEST = 1 << 24


@dataclass(frozen=True, slots=True)
class _Source:
    """The lines of a source, none where it cannot be read; ``text`` is empty unless it says something to
    ptxaudit."""

    lines: tuple[str, ...] = ()
    text: str = ""


def source_text(file: str, line: int) -> str:
    """A line of a source file, empty where that is not there to be read."""
    lines = _source(file).lines
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def source_window(file: str, first: int, last: int) -> dict[int, str]:
    """The lines ``first`` to ``last`` (inclusive) of a source, by number; those that can be read."""
    lines = _source(file).lines
    return {number: lines[number - 1] for number in range(max(1, first), min(last, len(lines)) + 1)}


class _Consulted(threading.local):
    """The sources that this thread has looked at."""

    def __init__(self) -> None:
        self.files: set[str] = set()


_CONSULTED = _Consulted()


def consulted() -> dict[str, str]:
    """The sources that this thread has looked at since this was last asked, each with its digest."""
    files, _CONSULTED.files = _CONSULTED.files, set()
    return {file: source_digest(file) for file in sorted(files)}


def source_digest(file: str) -> str:
    """What tells whether a source is still the same: a hash of its lines and of the way to it."""
    lines = "\n".join((identity(file), *_source(file).lines))
    _CONSULTED.files.discard(file)
    return hashlib.sha256(lines.encode("utf-8", "surrogatepass")).hexdigest()


def _source(file: str) -> _Source:
    _CONSULTED.files.add(file)
    path = Path(file)
    try:
        state = path.stat()
        if path.suffix not in _SUFFIXES or not S_ISREG(state.st_mode) or state.st_size > _LARGEST:
            return _Source()
        return _read(path, state.st_mtime_ns, state.st_size)
    except (OSError, ValueError):
        return _Source()


@lru_cache(maxsize=256)
def _read(path: Path, time: int, size: int) -> _Source:
    """A source as it is at this time of change and of this size: a long-lived process sees it change."""
    text = path.read_text("utf-8", "replace")
    return _Source(tuple(text.splitlines()), text if COMMENT_WORD in text else "")


def source_places(place: CodePlace) -> Iterator[Location]:
    """The lines of the source that a place is about: its own, and those that were inlined there."""
    for one in (place, *place.twins):
        if one.location.kind is LocationKind.SOURCE:
            yield one.location
            yield from one.inlined


def identity(file: str) -> str:
    """One name for a source, however a compiler or a user wrote the way to it."""
    return str(Path(file).resolve())


def commented_sources(
    functions: Iterable[Function], findings: Iterable[Finding]
) -> Mapping[str, CommentedSource]:
    """The sources of these functions in which something is said to ptxaudit, by :func:`identity`."""
    lines: dict[str, set[int]] = defaultdict(set)
    for function in functions:
        # Most instructions share the object of their line with others.
        for told in {id(line): line for line in function.source_lines.values()}.values():
            for one in told.chain:
                lines[one.file].add(one.line)
    for finding in findings:
        for location in source_places(finding.primary):
            lines[location.file].add(location.line or 0)
    found: dict[str, CommentedSource] = {}
    for file, compiled in lines.items():
        text = _source(file).text
        if text:
            found[identity(file)] = CommentedSource(file, text, frozenset(compiled))
    return found


def merged_sources(
    first: Mapping[str, CommentedSource], second: Mapping[str, CommentedSource]
) -> dict[str, CommentedSource]:
    """Both; of a source that is in both, the lines of both."""
    merged = dict(first)
    for name, source in second.items():
        known = merged.get(name)
        lines = source.compiled if known is None else source.compiled | known.compiled
        merged[name] = CommentedSource(source.file, source.text, lines)
    return merged
