"""The sources that kernels were compiled from, where they are there to be read.

Their names come from the code that is audited, which strangers may have written: read is only a regular file
that is named like a source, through every link to it, and holds text. A relative name is looked up beside the
image, in the folders above it (up to the working directory, or a few), then from the working directory.
"""

import contextlib
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
from ptxaudit.words import clipped

_SUFFIXES = frozenset({".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".inl", ".mlir", ".py"})
_LARGEST = 1 << 24
# Of an image outside of the working directory: a build folder lies less deep in its project.
_FOLDERS_ABOVE = 3


@dataclass(frozen=True, slots=True)
class _Source:
    """The lines of a source, none where it cannot be read; ``text`` is empty unless it says something to
    ptxaudit."""

    lines: tuple[str, ...] = ()
    text: str = ""


def source_text(file: str, line: int) -> str:
    """A line of a source file as code names it, empty where that is not there to be read."""
    lines = _source(file).lines
    return clipped(lines[line - 1].strip()) if 0 < line <= len(lines) else ""


def source_window(file: str, first: int, last: int) -> dict[int, str]:
    """The lines ``first`` to ``last`` (inclusive) of a source, by number; those that can be read."""
    lines = _source(file).lines
    numbers = range(max(1, first), min(last, len(lines)) + 1)
    return {number: clipped(lines[number - 1]) for number in numbers}


class _Lookup(threading.local):
    """The folders in which this thread looks for sources, nearest first, the names that it found there, and
    the sources that it has looked at."""

    def __init__(self) -> None:
        self.folders: tuple[Path, ...] = ()
        self.names: dict[str, str] = {}
        self.files: set[str] = set()


_LOOKUP = _Lookup()


@contextlib.contextmanager
def sources_beside(folder: Path) -> Iterator[None]:
    """Look for sources with relative names from this folder, that of the image that names them, too."""
    before = _LOOKUP.folders, _LOOKUP.names
    _LOOKUP.folders, _LOOKUP.names = tuple(_folders_from(folder)), {}
    try:
        yield
    finally:
        _LOOKUP.folders, _LOOKUP.names = before


def _folders_from(folder: Path) -> Iterator[Path]:
    top = Path.cwd()
    is_below = folder.resolve().is_relative_to(top.resolve())
    for above, one in enumerate((folder, *folder.parents)):
        if one.name == ".." or (above > _FOLDERS_ABOVE and not is_below):
            return
        yield one
        if one.resolve() == top.resolve():
            return


def found_name(file: str) -> str:
    """The way to a source from the working directory; its name as it is where that is not found."""
    if file in _LOOKUP.names:
        return _LOOKUP.names[file]
    _LOOKUP.files.add(file)
    ways = () if Path(file).is_absolute() else (str(one / file) for one in _LOOKUP.folders)
    name = next((way for way in ways if _is_readable(Path(way))), file)
    if _LOOKUP.folders:
        # The way, met again in a finding, is not looked up once more from the folders.
        _LOOKUP.names.update({name: name, file: name})
    return name


def _is_readable(path: Path) -> bool:
    """Whether there is a source under this name, and no other kind of file."""
    try:
        state = path.stat()
        named = path.suffix in _SUFFIXES and path.resolve().suffix in _SUFFIXES
        return named and S_ISREG(state.st_mode) and state.st_size <= _LARGEST
    except (OSError, ValueError, RuntimeError):  # what the system does not look up, or links in a circle
        return False


def consulted() -> dict[str, str]:
    """The sources that this thread has looked at since this was last asked, each with its digest."""
    files, _LOOKUP.files = _LOOKUP.files, set()
    return {file: source_digest(file) for file in sorted(files)}


def source_digest(file: str) -> str:
    """What tells whether a source is still the same: a hash of its lines and of the way to it.

    The same for all that have no lines to be read.
    """
    name, text = found_name(file), _source(file).lines
    lines = "\n".join((name, identity(name), *text)) if text else ""
    _LOOKUP.files.discard(file)
    return hashlib.sha256(lines.encode("utf-8", "surrogatepass")).hexdigest()


def _source(file: str) -> _Source:
    path = Path(found_name(file))
    if not _is_readable(path):
        return _Source()
    try:
        state = path.stat()
        return _read(path, state.st_mtime_ns, state.st_size)
    except OSError:
        return _Source()


@lru_cache(maxsize=256)
def _read(path: Path, time: int, size: int) -> _Source:
    """A source as it is at this time of change and of this size: a long-lived process sees it change."""
    text = path.read_text("utf-8", "replace")
    if "\0" in text:
        return _Source()
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
            name = found_name(file)
            found[identity(name)] = CommentedSource(name, text, frozenset(compiled))
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
