"""Text, spans and locations: where something stands in an input, in words a person can follow."""

from bisect import bisect_right
from dataclasses import dataclass, field
from enum import StrEnum


class LocationKind(StrEnum):
    """The language a location points into."""

    PTX = "ptx"
    SASS = "sass"
    SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Location:
    """A place in an input.

    PTX and source locations have a 1-based ``line`` and ``column``; SASS locations have ``offset``,
    the byte offset of the instruction in its text section.
    """

    kind: LocationKind
    file: str
    line: int | None = None
    column: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        if self.offset is not None:
            return f"{self.file}+{self.offset:#06x}"
        parts = [self.file] + [str(part) for part in (self.line, self.column) if part is not None]
        return ":".join(parts)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the source that a compiler noted (PTX ISA 11.5.5, ``.loc``); columns are often 0.

    Code of an inlined function has its own line, and ``inlined_at`` is where it was called.
    """

    file: str
    line: int
    column: int = 0
    inlined_at: "SourceLine | None" = None

    @property
    def outermost(self) -> "SourceLine":
        """The line in the kernel itself: that of the outermost call."""
        return self.chain[-1]

    @property
    def chain(self) -> "tuple[SourceLine, ...]":
        """The line itself and where it was called from, outwards to the kernel."""
        places = [self]
        while places[-1].inlined_at is not None:
            places.append(places[-1].inlined_at)
        return tuple(places)


@dataclass(frozen=True, slots=True)
class SourceText:
    """A named text with cheap conversion from offsets to lines and columns."""

    name: str
    text: str
    _line_starts: list[int] = field(default_factory=list, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = self._line_starts
        starts.append(0)
        position = self.text.find("\n")
        while position >= 0:
            starts.append(position + 1)
            position = self.text.find("\n", position + 1)

    def line_column(self, offset: int) -> tuple[int, int]:
        """The 1-based line and column of a character offset."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """The text of a 1-based line, without its end; empty when there is no such line."""
        if not 1 <= line <= len(self._line_starts):
            return ""
        start = self._line_starts[line - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end].rstrip("\r")
