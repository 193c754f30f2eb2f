"""What nvdisasm gets of a cubin: code sections of one name told apart, and no more than it is asked for.

nvdisasm tells sections apart by their names only. It shows the first of a name, and of the others some, under
names that it makes up, as it does for calls of them. In the copy of the cubin that it gets, each has the name
that :func:`ptxaudit.frontends.sass.sections.read_sections` gives it, spelled so that nvdisasm takes it for
any other. Of a large cubin, whose every byte costs it several, the copy has only the code that is asked for,
with what belongs to that: all else keeps its place in the tables, so that symbols mean the same.
"""

import re
from collections.abc import Collection

from ptxaudit.frontends.sass import size
from ptxaudit.frontends.sass.elf_writer import elf_file
from ptxaudit.frontends.sass.sections import (
    CODE,
    HEADER,
    OF_THE_DRIVER,
    OWN_NAME_MARK,
    SECTION,
    SHT_SYMTAB,
    SYMBOL,
    Section,
    code_of,
    content_of,
    is_plain,
    most_of_names,
    read_sections,
    read_symbols,
    require_printable_names,
    too_many_names,
)

_NAMES_AT = 13  # e_shstrndx
_SPELLED = re.compile(OWN_NAME_MARK + rb"(\d+)(c?)_")


def for_nvdisasm(data: bytes, file: str, symbols: Collection[int] | None = None) -> bytes:
    """The cubin that nvdisasm gets, to be asked for the functions with these indices or for all.

    The header must have been checked; raises :class:`BinaryFault` for malformed section or symbol tables.
    """
    sections = read_sections(data, file)
    require_printable_names(data, sections, file)
    if (
        symbols is not None
        and len(data) > size.LARGEST_WHOLE
        and size.is_linked(data)
        and is_plain(data, file)
    ):
        asked = frozenset(symbols)
        kept = {one.section for one in read_symbols(data, sections, file) if one.index in asked}
        return _written(data, file, sections, kept)
    if all(one.ordinal == 1 for one in sections):
        return data
    return _written(data, file, sections, None)


def _written(data: bytes, file: str, sections: list[Section], kept: Collection[int] | None) -> bytes:
    """The cubin with names of its own for each section, and with the code that is kept or with all."""
    most = most_of_names(len(data))
    header = HEADER.unpack_from(data)
    rows = [
        list(SECTION.unpack_from(data, header[6] + place * SECTION.size)) for place in range(len(sections))
    ]
    contents: dict[int, bytes | bytearray] = {}
    if header[_NAMES_AT] < len(sections):
        names = _strings(data, sections, contents, header[_NAMES_AT])
        for place, section in enumerate(sections):
            rows[place][0] = _renamed(names, rows[place][0], section)
    places = range(len(sections))
    left_out = {place for place in places if kept is not None and _is_left_out(place, sections, kept)}
    for place, section in enumerate(sections):
        if section.kind == SHT_SYMTAB and section.link < len(sections):
            names = _strings(data, sections, contents, section.link)
            contents[place] = _renamed_symbols(content_of(data, section), sections, names, left_out, most)
            if len(names) > most:
                raise too_many_names(file)
    contents |= dict.fromkeys(left_out, b"")
    held = (contents.get(place, content_of(data, section)) for place, section in enumerate(sections))
    return elf_file(header, zip(rows, held, strict=True))


def _strings(
    data: bytes, sections: list[Section], contents: dict[int, bytes | bytearray], place: int
) -> bytearray:
    """A table of strings that can be added to."""
    held = contents.get(place)
    if not isinstance(held, bytearray):
        held = contents[place] = bytearray(content_of(data, sections[place]))
    return held


def _renamed(names: bytearray, offset: int, section: Section) -> int:
    """Where the name of something in, or of, a section stands now."""
    if section.ordinal == 1 or offset >= len(names):
        return offset
    end = names.find(b"\0", offset)
    name = names[offset : end if end >= 0 else len(names)]
    if end < 0:
        names += b"\0"
    place = len(names)
    names += name + OWN_NAME_MARK + str(section.ordinal).encode() + (b"c_\0" if section.is_copy else b"_\0")
    return place


def _renamed_symbols(
    content: bytes, sections: list[Section], names: bytearray, left_out: Collection[int], most: int
) -> bytes:
    """The symbols with names of their own, as long as these take at most so many bytes."""
    renamed = bytearray(content)
    for offset in range(0, len(content) // SYMBOL.size * SYMBOL.size, SYMBOL.size):
        name, information, other, place, value, extent = SYMBOL.unpack_from(content, offset)
        if place < len(sections):
            if name and len(names) <= most:
                name = _renamed(names, name, sections[place])
            if place in left_out:
                value = extent = 0
            SYMBOL.pack_into(renamed, offset, name, information, other, place, value, extent)
    return bytes(renamed)


def _is_left_out(place: int, sections: list[Section], kept: Collection[int]) -> bool:
    section = sections[place]
    if section.name.startswith(CODE):
        return place not in kept
    return section.name.startswith(OF_THE_DRIVER) or code_of(section, sections) not in {None, *kept}


def with_reported_names(listing: bytes) -> bytes:
    """What nvdisasm printed, with names as reports have them; a copy has that of what it is a copy of."""
    if OWN_NAME_MARK not in listing:
        return listing
    return _SPELLED.sub(lambda match: b"" if match[2] else b"@" + match[1], listing)
