"""The section and symbol tables of a cubin, read directly: listing a library asks for a thousand of them.

What a table claims is bounded by the size of the file: sections may overlap and names share their strings, so
that a small file could claim to hold gigabytes of either.
"""

import re
import struct
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

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
SHT_SYMTAB = 2
_SHF_EXECINSTR = 4
_STT_FUNC = 2
_STT_SECTION = 3
_STO_CUDA_ENTRY = 0x10
_SHN_UNDEF = 0
_SHN_RESERVED = 0xFF00
_LONGEST_NAME = 1 << 16
CODE = ".text."
_OF_A_FUNCTION = re.compile(
    r"(?:\.nv\.info|\.nv\.shared|\.nv\.local|\.nv\.constant\d+|\.rela?\.text)\.(.+)", re.DOTALL
)
# What the driver finishes code by, which shows in no listing.
OF_THE_DRIVER = (".nv.capmerc.", ".nv.merc.")
REGISTERS = 0xFF000000  # of sh_info of a code section; a symbol's index is below
OWN_NAME_MARK = b"__ptxaudit_"
"""What names have that are made up for the disassembler, and no name in a cubin may have."""
# nvdisasm prints names into its JSON as they are: these would end one there, and what follows pass for code.
_NOT_IN_NAMES = re.compile(rb'[\x01-\x1f"\\]|' + OWN_NAME_MARK)


@dataclass(frozen=True, slots=True)
class Section:
    """An entry of the section table; offset and size in bytes.

    ``ordinal`` counts code sections of one name, and what goes with each, from 1; from the second on it is
    part of ``name``. ``is_copy`` says of these that they are the same as the first.
    """

    name: str
    kind: int
    offset: int
    size: int
    link: int
    information: int
    flags: int
    ordinal: int = 1
    is_copy: bool = False

    @property
    def name_in_file(self) -> str:
        """The name that the cubin itself has for it."""
        return self.name if self.ordinal == 1 else self.name.removesuffix(f"@{self.ordinal}")


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
    """The sections, whose bounds were checked with the header; raises :class:`BinaryFault`.

    A linker keeps a local function once for each object that brings it along, in sections of one name. These
    get names of their own here: the second ``.text.f`` is ``.text.f@2``.
    """
    fields = HEADER.unpack_from(data)
    table, entries, names_index = fields[6], fields[12], fields[13]
    raw = list(SECTION.iter_unpack(data[table : table + entries * SECTION.size]))
    start, size = raw[names_index][4:6] if names_index < len(raw) else (0, 0)
    names = _Names(data[start : start + size], file, len(data))
    sections = [
        Section(names.at(name), kind, offset, size, link, information, flags)
        for name, kind, flags, _, offset, size, link, information, *_ in raw
    ]
    return _told_apart(data, sections, file)


def code_of(section: Section, sections: list[Section]) -> int | None:
    """The index of the code that notes, constants or relocations are of; ``None`` for other sections."""
    match = _OF_A_FUNCTION.fullmatch(section.name)
    place = section.information
    if match is None or place >= len(sections) or sections[place].name != f"{CODE}{match[1]}":
        return None
    return place


def require_printable_names(data: bytes, sections: list[Section], file: str) -> None:
    """Raises :class:`BinaryFault` for names after which a listing could not be trusted.

    No compiler makes such names: they are identifiers, and those of sections begin with a dot.
    """
    tables = {one.link for one in sections if one.kind == SHT_SYMTAB and one.link < len(sections)}
    tables |= {HEADER.unpack_from(data)[13]} & set(range(len(sections)))
    for table in sorted(tables):
        found = _NOT_IN_NAMES.search(content_of(data, sections[table]))
        if found is not None:
            offset = sections[table].offset + found.start()
            raise BinaryFault(file, offset, f"{found[0].decode()!r} in a name", "names of identifiers")


def _told_apart(data: bytes, sections: list[Section], file: str) -> list[Section]:
    """The sections with names of their own for code that shares one, and for what belongs to it.

    Notes, constants and relocations say which code section they belong to by its index; where they do not
    they keep their name.
    """
    counts = Counter(one.name for one in sections if one.name.startswith(CODE))
    if not any(count > 1 for count in counts.values()):
        return sections
    belongings: dict[int, list[int]] = {}
    for place, one in enumerate(sections):
        code = code_of(one, sections)
        if code is not None:
            belongings.setdefault(code, []).append(place)
    functions: dict[int, list[Symbol]] = {}
    for symbol in read_symbols(data, sections, file):
        functions.setdefault(symbol.section, []).append(symbol)
    named = list(sections)
    first: dict[str, tuple[object, ...]] = {}
    met: Counter[str] = Counter()
    for place, one in enumerate(sections):
        if counts[one.name] < 2:
            continue
        met[one.name] += 1
        own = belongings.get(place, [])
        held = _held(data, one, [sections[other] for other in own], functions.get(place, []))
        is_copy = held == first.setdefault(one.name, held)
        if met[one.name] > 1:
            for other in (place, *own):
                named[other] = _renamed(sections[other], met[one.name], is_copy)
        if met[one.name] > 1 and named[place].name in counts:
            found = f"sections that are called {one.name!r} and {named[place].name!r}"
            raise BinaryFault(file, None, found, "names without '@'")
    return named


def _held(
    data: bytes, code: Section, belongings: Iterable[Section], functions: Iterable[Symbol]
) -> tuple[object, ...]:
    """What is the same in copies of a code section: all but where it stands in the cubin."""
    others = sorted((one.name, content_of(data, one)) for one in belongings)
    symbols = [(one.name, one.value, one.size, one.is_kernel) for one in functions]
    return code.kind, code.flags, code.information & REGISTERS, content_of(data, code), symbols, others


def _renamed(section: Section, ordinal: int, is_copy: bool) -> Section:
    return replace(section, name=_numbered(section.name, ordinal), ordinal=ordinal, is_copy=is_copy)


def _numbered(name: str, ordinal: int) -> str:
    return name if ordinal == 1 else f"{name}@{ordinal}"


def read_symbols(data: bytes, sections: list[Section], file: str) -> Iterator[Symbol]:
    """The defined functions; raises :class:`BinaryFault`."""
    for table in sections:
        if table.kind != SHT_SYMTAB:
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
                ordinal = sections[place].ordinal if place < len(sections) else 1
                yield Symbol(_numbered(names.at(name), ordinal), index, place, value, size, is_kernel)


def distinct_symbols(data: bytes, sections: list[Section], file: str) -> Iterator[Symbol]:
    """The defined functions but for those in copies of other sections; raises :class:`BinaryFault`."""
    for symbol in read_symbols(data, sections, file):
        if symbol.section >= len(sections) or not sections[symbol.section].is_copy:
            yield symbol


def code_symbols(data: bytes, sections: list[Section]) -> int:
    """How many symbols name a place in a code section, functions among them, sections themselves not."""
    count = 0
    for table in sections:
        if table.kind == SHT_SYMTAB and table.link < len(sections):
            names = content_of(data, sections[table.link])
            content = content_of(data, table)
            whole = content[: len(content) // SYMBOL.size * SYMBOL.size]
            for name, info, _, place, _, _ in SYMBOL.iter_unpack(whole):
                if 0 < place < len(sections) and sections[place].name.startswith(".text"):
                    # Some assemblers give the symbols of sections no type, but the section's name.
                    whole_section = names.startswith(f"{sections[place].name_in_file}\0".encode(), name)
                    count += info & 0xF != _STT_SECTION and not whole_section
    return count


def is_plain(data: bytes, file: str) -> bool:
    """Whether the tables of a cubin leave no doubt of what code it has and what is in it.

    So each section that the front end or a listing is made from has a name of its own, given here or not,
    and the sections of code, by name, by type and flag, and by the symbols of functions, are the same ones.
    All cubins of compilers are like that; of another the disassembler is asked as a whole, since which
    section it takes for a name is its own choice. Raises :class:`BinaryFault` for a malformed file.
    """
    sections = read_sections(data, file)
    places = range(len(sections))
    named = {place for place in places if sections[place].name.startswith(CODE) and sections[place].size}
    executable = {place for place in places if sections[place].flags & _SHF_EXECINSTR}
    names = [one.name for one in sections if not one.name.startswith(OF_THE_DRIVER)]
    return (
        len(set(names)) == len(names)
        and sum(one.kind == SHT_SYMTAB for one in sections) == 1
        and all(sections[place].kind == _SHT_PROGBITS for place in executable)
        and named == executable == {symbol.section for symbol in read_symbols(data, sections, file)}
    )


def code_sizes(data: bytes, file: str, symbols: Collection[int] | None = None) -> dict[str, int]:
    """The bytes of each code section by its name, or of those that hold the functions with these indices.

    Copies are left out. Raises :class:`BinaryFault`.
    """
    sections = read_sections(data, file)
    places: Collection[int] = range(len(sections))
    if symbols is not None:
        asked = frozenset(symbols)
        places = {one.section for one in read_symbols(data, sections, file) if one.index in asked}
    return {one.name: one.size for place, one in enumerate(sections) if place in places and _is_code(one)}


def _is_code(section: Section) -> bool:
    named = section.name.startswith(CODE.removesuffix("."))
    holds = section.size > 0 and section.kind not in WITHOUT_CONTENT and not section.is_copy
    return holds and (named or bool(section.flags & _SHF_EXECINSTR))


def symbol_place(content: bytes, index: int) -> tuple[int, int]:
    """The section's index and the value of a symbol of a table; raises :class:`struct.error` for none."""
    _, _, _, place, value, _ = SYMBOL.unpack_from(content, index * SYMBOL.size)
    return place, value


def content_of(data: bytes, section: Section | None) -> bytes:
    """The bytes of a section, as they are in the file; nothing for none."""
    if section is None or section.kind in WITHOUT_CONTENT:
        return b""
    return data[section.offset : section.offset + section.size]


def most_of_names(size: int) -> int:
    """How many bytes all names of a file of this size may take, however many share their strings."""
    return MOST_OVERLAP * size + _LONGEST_NAME


def too_many_names(file: str) -> BinaryFault:
    """What is wrong with a file whose names take more than that."""
    return BinaryFault(file, None, "more names than it has bytes for", "a well-formed cubin")


class _Names:
    """The strings of a table, as long as they are not more than the file could hold."""

    def __init__(self, strings: bytes, file: str, size: int) -> None:
        self._strings = strings
        self._file = file
        self._left = most_of_names(size)

    def at(self, offset: int) -> str:
        """The string that begins at an offset; raises :class:`BinaryFault` where it is too long."""
        end = self._strings.find(b"\0", offset, offset + _LONGEST_NAME)
        if end < 0 and len(self._strings) - offset > _LONGEST_NAME:
            found = f"a name at {offset:#x} of the string table without an end"
            raise BinaryFault(self._file, None, found, f"one of at most {_LONGEST_NAME} bytes")
        name = self._strings[offset : end if end >= 0 else len(self._strings)]
        self._left -= len(name)
        if self._left < 0:
            raise too_many_names(self._file)
        return name.decode("utf-8", "replace")
