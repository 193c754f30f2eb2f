"""The section and symbol tables of a cubin, read directly: listing a library asks for a thousand of them.

What a table claims is bounded by the size of the file: sections may overlap and names share their strings, so
that a small file could claim to hold gigabytes of either.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ptxaudit.errors import BinaryFault

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
# Types of sections that take no bytes of the file: the general one, uninitialised global data
# (SHT_CUDA_GLOBAL) and shared memory (SHT_CUDA_SHARED), as cubins compiled for Windows hosts have them.
WITHOUT_CONTENT = frozenset({0, 8, 0x70000007, 0x7000000A})
# A file may be read so many times over by way of its tables.
MOST_OVERLAP = 4
SYMBOL = struct.Struct("<IBBHQQ")
_SHT_PROGBITS = 1
_SHT_SYMTAB = 2
_SHF_EXECINSTR = 4
_STT_FUNC = 2
_STT_SECTION = 3
_STO_CUDA_ENTRY = 0x10
_SHN_UNDEF = 0
_SHN_RESERVED = 0xFF00
_LONGEST_NAME = 1 << 16


@dataclass(frozen=True, slots=True)
class Section:
    """An entry of the section table; offset and size in bytes."""

    name: str
    kind: int
    offset: int
    size: int
    link: int
    flags: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """A defined function; ``value`` is where it begins in the section of that index, both in bytes."""

    name: str
    index: int
    section: int
    value: int
    size: int
    is_kernel: bool


def read_sections(data: bytes, file: str) -> list[Section]:
    """The sections, whose bounds were checked with the header; raises :class:`BinaryFault`."""
    fields = HEADER.unpack_from(data)
    table, entries, names_index = fields[6], fields[12], fields[13]
    raw = list(SECTION.iter_unpack(data[table : table + entries * SECTION.size]))
    start, size = raw[names_index][4:6] if names_index < len(raw) else (0, 0)
    names = _Names(data[start : start + size], file, len(data))
    return [
        Section(names.at(name), kind, offset, size, link, flags)
        for name, kind, flags, _, offset, size, link, *_ in raw
    ]


def read_symbols(data: bytes, sections: list[Section], file: str) -> Iterator[Symbol]:
    """The defined functions; raises :class:`BinaryFault`."""
    for table in sections:
        if table.kind != _SHT_SYMTAB:
            continue
        if table.link >= len(sections):
            found = f"a symbol table whose names are in section {table.link}"
            raise BinaryFault(file, table.offset, found, f"one of the {len(sections)} sections")
        names = _Names(content_of(data, sections[table.link]), file, len(data))
        content = content_of(data, table)
        whole = content[: len(content) // SYMBOL.size * SYMBOL.size]
        for index, (name, info, other, place, value, size) in enumerate(SYMBOL.iter_unpack(whole)):
            if info & 0xF == _STT_FUNC and _SHN_UNDEF < place < _SHN_RESERVED:
                # The bit that marks a kernel.
                is_kernel = bool(other & _STO_CUDA_ENTRY)
                yield Symbol(names.at(name), index, place, value, size, is_kernel)


def code_symbols(data: bytes, sections: list[Section]) -> int:
    """How many symbols name a place in a code section, functions among them, sections themselves not."""
    count = 0
    for table in sections:
        if table.kind == _SHT_SYMTAB and table.link < len(sections):
            names = content_of(data, sections[table.link])
            content = content_of(data, table)
            whole = content[: len(content) // SYMBOL.size * SYMBOL.size]
            for name, info, _, place, _, _ in SYMBOL.iter_unpack(whole):
                if 0 < place < len(sections) and sections[place].name.startswith(".text"):
                    # Some assemblers give the symbols of sections no type, but the section's name.
                    whole_section = names.startswith(f"{sections[place].name}\0".encode(), name)
                    count += info & 0xF != _STT_SECTION and not whole_section
    return count


def is_plain(data: bytes, file: str) -> bool:
    """Whether the tables of a cubin leave no doubt of what code it has and what is in it.

    So each section has a name of its own, and the sections of code, by name, by type and flag, and by the
    symbols of functions, are the same ones. All cubins of compilers are like that; of another the
    disassembler is asked as a whole, since which section it takes for a name is its own choice. Raises
    :class:`BinaryFault` for a malformed file.
    """
    sections = read_sections(data, file)
    places = range(len(sections))
    named = {place for place in places if sections[place].name.startswith(".text.") and sections[place].size}
    executable = {place for place in places if sections[place].flags & _SHF_EXECINSTR}
    return (
        len({one.name for one in sections}) == len(sections)
        and sum(one.kind == _SHT_SYMTAB for one in sections) == 1
        and all(sections[place].kind == _SHT_PROGBITS for place in executable)
        and named == executable == {symbol.section for symbol in read_symbols(data, sections, file)}
    )


def symbol_place(content: bytes, index: int) -> tuple[int, int]:
    """The section's index and the value of a symbol of a table; raises :class:`struct.error` for none."""
    _, _, _, place, value, _ = SYMBOL.unpack_from(content, index * SYMBOL.size)
    return place, value


def content_of(data: bytes, section: Section | None) -> bytes:
    """The bytes of a section, as they are in the file; nothing for none."""
    if section is None or section.kind in WITHOUT_CONTENT:
        return b""
    return data[section.offset : section.offset + section.size]


class _Names:
    """The strings of a table, as long as they are not more than the file could hold."""

    def __init__(self, strings: bytes, file: str, size: int) -> None:
        self._strings = strings
        self._file = file
        self._left = MOST_OVERLAP * size + _LONGEST_NAME

    def at(self, offset: int) -> str:
        """The string that begins at an offset; raises :class:`BinaryFault` where it is too long."""
        end = self._strings.find(b"\0", offset, offset + _LONGEST_NAME)
        if end < 0 and len(self._strings) - offset > _LONGEST_NAME:
            found = f"a name at {offset:#x} of the string table without an end"
            raise BinaryFault(self._file, None, found, f"one of at most {_LONGEST_NAME} bytes")
        name = self._strings[offset : end if end >= 0 else len(self._strings)]
        self._left -= len(name)
        if self._left < 0:
            raise BinaryFault(self._file, None, "more names than it has bytes for", "a well-formed cubin")
        return name.decode("utf-8", "replace")
