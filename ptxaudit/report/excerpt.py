"""Code excerpts: the lines around a place, found in an input's listing.

A place is shown in its context only where the listing line carries the opcode the finding names. A
listing that does not match (another build, an ambiguous offset) gives no context, so that a reader
never sees a wrong line marked.
"""

import itertools
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ptxaudit.rules.model import CodePlace
from ptxaudit.source import LocationKind
from ptxaudit.words import clipped

CONTEXT_LINES = 4
_OPCODE_REACH = 3
_REACH = 8
# As the page's script has it: beside the source and the opened instruction these say nothing.
_NO_CODE = re.compile(
    r"^\s*(?:\.loc\b.*|\.pragma\b.*|//\s*(?:begin|end) inline asm|[{}]"
    r"|\$L__(?:tmp|func_(?:begin|end))\d*:)?\s*$"
)
_LABEL_INDENT = 4
_OFFSET = re.compile(r"^\s*(?:/\*)?(?:0x)?([0-9a-fA-F]{4,})(?:\*/|:|\s)")
_SECTION = re.compile(r"^\s*(?:\.section\s+)?\.text\.([^\s:,]+)")
_LABEL = re.compile(r"^\s*([^\s:]+):\s*$")
_HEADER = re.compile(r"^// (\S+)$")
_DECLARATION = re.compile(r"\.(?:entry|func)\b")
_SYMBOL = re.compile(r"[A-Za-z_$%][\w$]*")


@dataclass(frozen=True, slots=True)
class ExcerptLine:
    """One shown line: ``number`` is its 1-based line in the listing (0 when it is not from one),
    ``label`` what the gutter shows (a line number or an offset). ``mark`` is ``primary`` (the finding's own
    line), ``related`` (what this excerpt or finding is also about), ``also`` (another place of the finding)
    or empty."""

    number: int
    label: str
    text: str
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines to show for a place; ``listing`` is the input whose listing they come from, if any."""

    lines: tuple[ExcerptLine, ...]
    listing: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The text of one input, indexed. ``offsets`` maps a byte offset to (line, function) pairs;
    ``starts`` maps a function to the line that it starts on. Lines are 1-based."""

    name: str
    lines: tuple[str, ...]
    offsets: Mapping[int, tuple[tuple[int, str], ...]]
    starts: Mapping[str, int]

    def line(self, number: int) -> str:
        """The text of a 1-based line; empty when there is none."""
        return self.lines[number - 1] if 1 <= number <= len(self.lines) else ""

    def code(self, number: int) -> str:
        """A line as shown beside its label: a SASS listing's offsets are left out."""
        text = self.line(number)
        match = _OFFSET.match(text) if self.offsets else None
        return text[match.end() :] if match else text

    def label(self, number: int) -> str:
        """What the gutter shows for a line: its offset in a SASS listing, else its number."""
        if not self.offsets:
            return str(number)
        offset = self.offset(number)
        return "" if offset is None else f"{offset:04x}"

    def offset(self, number: int) -> int | None:
        """The byte offset that a line of a SASS listing starts with."""
        match = _OFFSET.match(self.line(number))
        return int(match[1], 16) if match else None


def index_listing(name: str, text: str, functions: Collection[str]) -> Listing:
    """Index a listing. ``functions`` are the names whose starts are wanted."""
    lines = tuple(line.rstrip("\r") for line in text.split("\n"))
    offsets: dict[int, list[tuple[int, str]]] = {}
    starts: dict[str, int] = {}
    current = ""
    for number, line in enumerate(lines, 1):
        match = _OFFSET.match(line)
        if match:
            offsets.setdefault(int(match[1], 16), []).append((number, current))
            continue
        if _DECLARATION.search(line):
            named = [symbol for symbol in _SYMBOL.findall(line) if symbol in functions]
            starts.update({named[-1]: number} if named else {})
            continue
        header = _HEADER.match(line) or _SECTION.match(line) or _LABEL.match(line)
        if header and header[1] in functions:
            current = header[1]
            starts.setdefault(current, number)
    return Listing(name, lines, {key: tuple(value) for key, value in offsets.items()}, starts)


def locate(place: CodePlace, function: str, listing: Listing) -> int | None:
    """The 1-based line of a place in a listing, or ``None`` when the listing does not clearly show it."""
    location = place.location
    opcode = _opcode(place.text)
    if not opcode:
        return None
    if location.kind is LocationKind.SASS and location.offset is not None:
        stated = location.line or 0
        if listing.offset(stated) == location.offset and opcode in listing.line(stated):
            return stated
        named = [item for item in listing.offsets.get(location.offset, ()) if opcode in listing.line(item[0])]
        own = [number for number, owner in named if owner == function]
        candidates = own or [number for number, _ in named]
        return candidates[0] if len(candidates) == 1 else None
    if location.line is None:
        return None
    reach = range(location.line, location.line + _OPCODE_REACH)
    return location.line if any(opcode in listing.line(number) for number in reach) else None


def excerpt(
    place: CodePlace,
    listing: Listing | None,
    number: int,
    marks: Mapping[int, str],
    mark: str = "primary",
    context: int = CONTEXT_LINES,
) -> Excerpt:
    """A place at line ``number`` of a listing with ``context`` lines of code on both sides, or alone when
    there is no listing. ``marks`` are other lines to mark, by line number.

    Line information and what stands around inline assembly is no code, nor is another function's.
    """
    if listing is None:
        return Excerpt((ExcerptLine(0, place_label(place), place.text.strip(), mark),))
    sass = bool(listing.offsets)
    before = _code_lines(listing, range(number - 1, 0, -1), marks, context)
    after = _code_lines(listing, range(number + 1, len(listing.lines) + 1), marks, context)
    shown = {line: _untab(clipped(listing.code(line))) for line in (*reversed(before), number, *after)}
    coded = [text for line, text in shown.items() if text.strip() and not (sass and not listing.label(line))]
    indent = min((len(text) - len(text.lstrip()) for text in coded), default=0)
    if sass and len(coded) < len(shown):
        indent = max(0, indent - _LABEL_INDENT)  # labels stand left of the instructions
    marked = {**marks, number: mark}
    lines = (
        ExcerptLine(line, listing.label(line), _outdent(text, indent), marked.get(line, ""))
        for line, text in shown.items()
    )
    return Excerpt(tuple(lines), listing.name)


def _code_lines(listing: Listing, numbers: Iterable[int], marks: Mapping[int, str], most: int) -> list[int]:
    """The first lines among these that are code or marked."""
    near = itertools.islice(numbers, most * _REACH)
    own = itertools.takewhile(lambda number: not _DECLARATION.search(listing.line(number)), near)
    code = (number for number in own if number in marks or not _NO_CODE.match(listing.line(number)))
    return list(itertools.islice(code, most))


def place_label(place: CodePlace) -> str:
    """The short form of a location for a gutter: an offset or a line number."""
    location = place.location
    if location.offset is not None:
        return f"{location.offset:04x}"
    return "" if location.line is None else str(location.line)


def _outdent(text: str, indent: int) -> str:
    return text[min(indent, len(text) - len(text.lstrip())) :]


def _untab(line: str) -> str:
    """Leading tabs as four columns; those that align operands, which only cost width here, as one blank."""
    code = line.lstrip()
    leading = line[: len(line) - len(code)].expandtabs(4)
    return leading + re.sub(r"\s+(?=//)", "  ", re.sub(r" *\t\s*", " ", code)).rstrip()


def _opcode(text: str) -> str:
    words = [word for word in text.replace(";", " ").split() if not word.startswith("@")]
    return words[0] if words else ""
