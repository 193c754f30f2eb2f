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
from ptxaudit.frontends.sass.notes import COMPATIBILITY, TOOLKIT_NOTE, target_suffix, toolkit_note

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SHT_SYMTAB = 2
_STT_FUNC = 2
_STO_CUDA_ENTRY = 0x10
_SHN_UNDEF = 0


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


def summarise_cubin(data: bytes, file: str) -> CubinSummary:
    """The summary of a whole cubin; raises :class:`BinaryFault` for a malformed file."""
    header = read_header(data, file)
    sections = _sections(data)
    named = {section.name: section for section in sections}
    _, options = toolkit_note(_content(data, named.get(TOOLKIT_NOTE)))
    suffix = target_suffix(header, options, _content(data, named.get(COMPATIBILITY)))
    names = list(_functions(data, sections, file))
    return CubinSummary(
        Architecture(header.architecture_number, suffix),
        tuple(name for name, is_kernel in names if is_kernel),
        tuple(name for name, is_kernel in names if not is_kernel),
    )


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


def _functions(data: bytes, sections: list[_Section], file: str) -> Iterator[tuple[str, bool]]:
    """Names of the defined functions, and whether each is a kernel."""
    for section in sections:
        if section.kind != _SHT_SYMTAB:
            continue
        if section.link >= len(sections):
            found = f"a symbol table whose names are in section {section.link}"
            raise BinaryFault(file, section.offset, found, f"one of the {len(sections)} sections")
        strings = _content(data, sections[section.link])
        content = _content(data, section)
        for name, info, other, place, _, _ in _SYMBOL.iter_unpack(content[: len(content) // 24 * 24]):
            if info & 0xF == _STT_FUNC and place != _SHN_UNDEF:
                yield _string(strings, name), bool(other & _STO_CUDA_ENTRY)


def _content(data: bytes, section: _Section | None) -> bytes:
    if section is None or section.kind in WITHOUT_CONTENT:
        return b""
    return data[section.offset : section.offset + section.size]


def _string(strings: bytes, offset: int) -> str:
    end = strings.find(b"\0", offset)
    return strings[offset : end if end >= 0 else len(strings)].decode("utf-8", "replace")
