"""What a cubin holds, without disassembling it: its architecture, the names of its functions, its size.

The ELF structures are read directly: a listing of a library asks this of each of a thousand cubins, for
which pyelftools takes minutes. :mod:`ptxaudit.frontends.sass.elf` reads all that an audit needs.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ptxaudit.arch import Architecture
from ptxaudit.errors import BinaryFault
from ptxaudit.frontends.sass.elf import WITHOUT_CONTENT, read_header
from ptxaudit.frontends.sass.notes import COMPATIBILITY, TOOLKIT_NOTE, assembler_options, target_suffix

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SHT_SYMTAB = 2
_STT_FUNC = 2
_STO_CUDA_ENTRY = 0x10
_SHN_UNDEF = 0
_MOST_SYMBOLS = 4096


@dataclass(frozen=True, slots=True)
class CubinSummary:
    """``kernels`` can be launched; ``functions`` are the others. Names are as they stand in the file."""

    architecture: Architecture
    kernels: tuple[str, ...]
    functions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    index: int
    section: int
    is_kernel: bool


def summarise_cubin(data: bytes, file: str) -> CubinSummary:
    """The summary of a whole cubin; raises :class:`BinaryFault` for a malformed file."""
    header = read_header(data, file)
    sections = _sections(data)
    named = {section.name: section for section in sections}
    options = assembler_options(_content(data, named.get(TOOLKIT_NOTE)))
    suffix = target_suffix(header, options, _content(data, named.get(COMPATIBILITY)))
    symbols = list(_symbols(data, sections, file))
    return CubinSummary(
        Architecture(header.architecture_number, suffix),
        tuple(one.name for one in symbols if one.is_kernel),
        tuple(one.name for one in symbols if not one.is_kernel),
    )


def symbols_to_read(data: bytes, file: str, takes: Callable[[str], bool]) -> tuple[int, ...] | None:
    """Indices of the symbols to disassemble for the functions that ``takes`` says yes to.

    Sections without a kernel are read too: a kernel may call what is in them. ``None`` when that is all of
    the cubin, or more than a command line holds. Raises :class:`BinaryFault` for a malformed file.
    """
    read_header(data, file)
    held: dict[int, list[_Symbol]] = {}
    for symbol in _symbols(data, _sections(data), file):
        held.setdefault(symbol.section, []).append(symbol)
    chosen = [
        symbols
        for symbols in held.values()
        if not any(one.is_kernel for one in symbols) or any(takes(one.name) for one in symbols)
    ]
    if len(chosen) == len(held) or len(chosen) > _MOST_SYMBOLS:
        return None
    return tuple(symbols[0].index for symbols in chosen)


def cubin_extent(read: Callable[[int, int], bytes], most: int) -> int | None:
    """How many bytes an ELF file takes that is somewhere in a larger one, at most ``most``.

    ``read`` gives bytes by offset from the ELF header and size. ``None`` when the header is not that of a
    whole 64-bit little-endian ELF file.
    """
    head = read(0, HEADER.size)
    if len(head) < HEADER.size or head[:6] != b"\x7fELF\x02\x01":
        return None
    fields = HEADER.unpack(head)
    programs, table, program_size, program_count = fields[5], fields[6], fields[9], fields[10]
    entry_size, entries = fields[11], fields[12]
    ends = [HEADER.size, programs + program_size * program_count, table + entry_size * entries]
    if entry_size != SECTION.size or table + entry_size * entries > most:
        return None
    content = read(table, entry_size * entries)
    for _, kind, _, _, offset, size, *_ in SECTION.iter_unpack(content[: entries * SECTION.size]):
        if kind not in WITHOUT_CONTENT:
            ends.append(offset + size)
    extent = max(ends)
    return extent if extent <= most else None


def _sections(data: bytes) -> list[_Section]:
    """The sections; their bounds were checked with the header."""
    fields = HEADER.unpack_from(data)
    table, entries, names_index = fields[6], fields[12], fields[13]
    raw = list(SECTION.iter_unpack(data[table : table + entries * SECTION.size]))
    start, size = raw[names_index][4:6] if names_index < len(raw) else (0, 0)
    strings = data[start : start + size]
    return [
        _Section(_string(strings, name), kind, offset, size, link)
        for name, kind, _, _, offset, size, link, *_ in raw
    ]


def _symbols(data: bytes, sections: list[_Section], file: str) -> Iterator[_Symbol]:
    """The defined functions."""
    for table in sections:
        if table.kind != _SHT_SYMTAB:
            continue
        if table.link >= len(sections):
            found = f"a symbol table whose names are in section {table.link}"
            raise BinaryFault(file, table.offset, found, f"one of the {len(sections)} sections")
        strings = _content(data, sections[table.link])
        content = _content(data, table)
        whole = content[: len(content) // _SYMBOL.size * _SYMBOL.size]
        for index, (name, info, other, section, _, _) in enumerate(_SYMBOL.iter_unpack(whole)):
            if info & 0xF == _STT_FUNC and section != _SHN_UNDEF:
                yield _Symbol(_string(strings, name), index, section, bool(other & _STO_CUDA_ENTRY))


def _content(data: bytes, section: _Section | None) -> bytes:
    if section is None or section.kind in WITHOUT_CONTENT:
        return b""
    return data[section.offset : section.offset + section.size]


def _string(strings: bytes, offset: int) -> str:
    end = strings.find(b"\0", offset)
    return strings[offset : end if end >= 0 else len(strings)].decode("utf-8", "replace")
