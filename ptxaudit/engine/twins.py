"""Where an instruction is in the other language and in the source: the places that a joined finding shows."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from ptxaudit.analysis.join import Join, JoinMethod
from ptxaudit.engine.findings import shown_text
from ptxaudit.engine.sources import found_name, identity, source_text
from ptxaudit.ir.function import Function
from ptxaudit.ir.instruction import Instruction
from ptxaudit.rules.model import CodePlace, Confidence, Finding
from ptxaudit.source import Location, LocationKind, SourceLine

CONFIDENCE: Mapping[JoinMethod, Confidence] = {
    JoinMethod.LINE_TABLE: Confidence.HIGH,
    JoinMethod.SAME_CODE: Confidence.HIGH,
    JoinMethod.ASSEMBLED: Confidence.MEDIUM,
    JoinMethod.SOURCE_LINES: Confidence.MEDIUM,
    JoinMethod.EVENT_ORDER: Confidence.LOW,
}
_SHOWN_TWINS = 4


class Twins:
    """The places of one function in PTX, SASS and source; ``join`` is ``None`` where only one is at hand.

    ``sources`` are the lines of the source by SASS instruction, for code whose PTX does not tell them.
    """

    def __init__(
        self,
        ptx: Function | None,
        sass: Function | None,
        join: Join | None,
        sources: Mapping[int, tuple[str, int]] | None = None,
    ) -> None:
        self.ptx = ptx
        self.sass = sass
        self.join = join
        self.sources = sources or {}

    @cached_property
    def _ptx_places(self) -> dict[tuple[int | None, int | None], int]:
        instructions = () if self.ptx is None else self.ptx.instructions
        return {(one.location.line, one.location.column): one.index for one in instructions}

    @cached_property
    def _sass_places(self) -> dict[int | None, int]:
        instructions = () if self.sass is None else self.sass.instructions
        return {one.location.offset: one.index for one in instructions}

    def ptx_index(self, place: CodePlace) -> int | None:
        """The PTX instruction that a place is, or was assembled from."""
        location = place.location
        if location.kind is LocationKind.PTX:
            return self._ptx_places.get((location.line, location.column))
        index = self._sass_places.get(location.offset)
        return None if index is None or self.join is None else self.join.ptx_of.get(index)

    def decorated(self, finding: Finding) -> Finding:
        """The finding with every place shown in all the languages at hand."""
        return replace(
            finding,
            primary=self.with_twins(finding.primary),
            related=tuple(self.with_twins(place) for place in finding.related),
        )

    def with_twins(self, place: CodePlace) -> CodePlace:
        """The place with the same instruction in the other language and in the source."""
        known = {twin.location for twin in place.twins}
        found = tuple(twin for twin in self._twins(place) if twin.location not in known)
        return replace(place, twins=(*place.twins, *found))

    def _twins(self, place: CodePlace) -> Iterator[CodePlace]:
        index = self.ptx_index(place)
        if index is not None and self.ptx is not None:
            if place.location.kind is LocationKind.PTX:
                yield from self._sass_twins(index)
            else:
                yield _code(self.ptx.instructions[index], f"the PTX that it comes from{self._doubt}")
        line = self._source_line(place, index)
        if line is not None and line.line > 0:
            yield source_place(line)

    def _source_line(self, place: CodePlace, index: int | None) -> SourceLine | None:
        """By the PTX, which knows what was inlined, else by the SASS that the place is or became."""
        told = None if self.ptx is None or index is None else self.ptx.source_lines.get(index)
        if told is not None:
            return told
        candidates: tuple[int, ...] = ()
        if place.location.kind is LocationKind.SASS:
            own = self._sass_places.get(place.location.offset)
            candidates = () if own is None else (own,)
        elif index is not None and self.join is not None:
            candidates = self.join.sass_of.get(index, ())
        found = next((self.sources[one] for one in candidates if one in self.sources), None)
        return None if found is None else SourceLine(*found)

    def _sass_twins(self, index: int) -> Iterator[CodePlace]:
        if self.sass is None or self.join is None:
            return
        for one in self.join.sass_of.get(index, ())[:_SHOWN_TWINS]:
            yield _code(self.sass.instructions[one], f"assembled to this{self._doubt}")

    @property
    def _doubt(self) -> str:
        if self.join is None or CONFIDENCE[self.join.method] is Confidence.HIGH:
            return ""
        return f" (by the {self.join.method}, confidence {CONFIDENCE[self.join.method]})"


def source_first(finding: Finding, source: str) -> Finding:
    """The finding with its places given as lines of the source, where that is known.

    ``source`` is how the user named the file that was compiled; compilers note its whole path.
    """
    places = (_source_first(place, source) for place in (finding.primary, *finding.related))
    primary, *related = places
    return replace(finding, primary=primary, related=tuple(related))


def _source_first(place: CodePlace, name: str) -> CodePlace:
    source = next((one for one in place.twins if one.location.kind is LocationKind.SOURCE), None)
    if source is None:
        return place
    own = replace(place, role="related", twins=(), note=source.note)
    others = tuple(one for one in place.twins if one is not source)
    location = source.location
    if identity(location.file) == identity(name):
        location = replace(location, file=name)
    return replace(source, location=location, role=place.role, note=place.note, twins=(own, *others))


def _code(instruction: Instruction, note: str) -> CodePlace:
    return CodePlace("related", instruction.location, shown_text(instruction), note)


def source_place(line: SourceLine) -> CodePlace:
    """The line of the kernel's own source; its note says what was inlined there."""
    own = line.outermost
    note = None if own is line else f"inlined there from {found_name(line.file)}:{line.line}"
    inlined = tuple(_location(one) for one in reversed(line.chain[:-1]))
    return CodePlace("related", _location(own), source_text(own.file, own.line), note, inlined=inlined)


def _location(line: SourceLine) -> Location:
    return Location(LocationKind.SOURCE, found_name(line.file), line.line, line.column or None)
