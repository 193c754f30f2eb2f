"""The cubin container: sections, function symbols, notes, raw ``.nv.info``, line tables.

A cubin is a 64-bit little-endian ELF file for machine 190. ``read_header`` looks at the fixed part only, so
that a caller can start the disassembler early; ``read_cubin`` reads the rest. Both raise :class:`BinaryFault`
for a malformed file. Line tables are read by pyelftools, which nothing else uses.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import repeat
from typing import Any

from ptxaudit.arch import Architecture
from ptxaudit.errors import BinaryFault
from ptxaudit.frontends.sass.notes import (
    COMPATIBILITY,
    TOOLKIT_NOTE,
    CubinHeader,
    assembler_options,
    target_suffix,
)
from ptxaudit.frontends.sass.sections import (
    HEADER,
    MOST_OVERLAP,
    SECTION,
    WITHOUT_CONTENT,
    Section,
    content_of,
    distinct_symbols,
    read_sections,
    symbol_place,
)

_EM_CUDA = 190
_ABI_WITH_WIDE_ARCHITECTURE = 8
_ACCELERATED_FLAG = 0x800  # in the narrow flag layout only (ABI version 7 and earlier)
_CODE = ".text"
_CONSTANTS = ".nv.constant"
_INFORMATION = ".nv.info"
_PTX_LINES = ".nv_debug_line_sass"
_PTX_TEXT = ".nv_debug_ptx_txt"
_SOURCE_LINES = ".debug_line"
_UNIT_LENGTH_BYTES = 4
_SET_ADDRESS = 2  # DW_LNE_set_address
# An instruction of 16 bytes has one or two rows of some bytes each.
_LINE_BYTES_PER_CODE_BYTE = 2
_LINE_VERSIONS = (2, 3, 4)
_MORE_LINE_BYTES = 1 << 16
_RELOCATION = struct.Struct("<QQ")
_RELOCATION_WITH_ADDEND = struct.Struct("<QQq")


@dataclass(frozen=True, slots=True)
class FunctionSymbol:
    """A code symbol: byte range in its section, and whether a host can launch it."""

    name: str
    section: str
    start: int
    size: int
    is_entry: bool
    index: int


@dataclass(frozen=True, slots=True)
class Cubin:
    """The parts of a cubin that the front end uses.

    ``functions`` are ordered by section and start. ``code`` maps the names of executable sections to their
    content (no copy of it: a library has a hundred megabytes), ``information`` those of the ``.nv.info``
    sections to theirs, ``constants`` those of the constant banks. Sections that are copies of others are left
    out; of others of one name, which no compiler makes, it is the first, as the disassembler has it.
    """

    architecture: Architecture
    functions: tuple[FunctionSymbol, ...]
    code: dict[str, memoryview]
    constants: dict[str, bytes]
    information: dict[str, bytes]


def read_header(data: bytes, file: str) -> CubinHeader:
    """Check the fixed header and the section table's bounds; raises :class:`BinaryFault`."""
    if len(data) < HEADER.size:
        raise BinaryFault(file, len(data), f"{len(data)} bytes", f"an ELF header of {HEADER.size} bytes")
    fields = HEADER.unpack_from(data)
    identity, machine, flags = fields[0], fields[2], fields[7]
    table_offset, entry_size, entries = fields[6], fields[11], fields[12]
    if identity[:4] != b"\x7fELF":
        raise BinaryFault(file, 0, f"bytes {identity[:4].hex()}", "the ELF magic number")
    if identity[4] != 2 or identity[5] != 1:
        raise BinaryFault(file, 4, "another ELF class or byte order", "64-bit little-endian ELF")
    if machine != _EM_CUDA:
        raise BinaryFault(file, 18, f"machine {machine}", f"machine {_EM_CUDA} (NVIDIA CUDA)")
    if not entries or entry_size != SECTION.size:
        raise BinaryFault(file, 58, f"{entries} section headers of {entry_size} bytes", "a section table")
    _check_bounds(data, file, table_offset, entry_size * entries, "the section table")
    held = 0
    for number in range(entries):
        position = table_offset + number * entry_size
        _, kind, _, _, offset, size, *_ = SECTION.unpack_from(data, position)
        if kind not in WITHOUT_CONTENT:
            _check_bounds(data, file, offset, size, f"section {number}")
            held += size
    if held > MOST_OVERLAP * len(data):
        raise BinaryFault(file, table_offset, f"sections of {held} bytes", f"at most the file's {len(data)}")
    if fields[10]:
        _check_bounds(data, file, fields[5], fields[9] * fields[10], "the program headers")
    if identity[8] >= _ABI_WITH_WIDE_ARCHITECTURE:
        return CubinHeader(flags >> 8 & 0xFFFF, accelerated=False)
    return CubinHeader(flags & 0xFF, bool(flags & _ACCELERATED_FLAG))


def _check_bounds(data: bytes, file: str, offset: int, size: int, what: str) -> None:
    if offset + size > len(data):
        found = f"end of file at {len(data):#x}"
        raise BinaryFault(file, offset, found, f"{what}, {size:#x} bytes from {offset:#x}")


def read_cubin(data: bytes, file: str, header: CubinHeader) -> Cubin:
    """Read sections, symbols and notes; raises :class:`BinaryFault`."""
    table = read_sections(data, file)
    sections: dict[str, memoryview] = {}
    for one in table:
        if one.kind not in WITHOUT_CONTENT and not one.is_copy:
            sections.setdefault(one.name, memoryview(data)[one.offset : one.offset + one.size])
    functions = tuple(_functions(data, table, file))
    code = {name: content for name, content in sections.items() if name.startswith(_CODE) and content}
    for symbol in functions:
        limit = len(code.get(symbol.section, b""))
        if symbol.start + symbol.size > limit:
            found = f"function {symbol.name!r} of {symbol.size:#x} bytes at {symbol.start:#x}"
            raise BinaryFault(file, None, found, f"at most {limit:#x} bytes of code")
    # A damaged table can place an empty function where no code is.
    functions = tuple(symbol for symbol in functions if symbol.section in code)
    options = assembler_options(bytes(sections.get(TOOLKIT_NOTE, b"")))
    suffix = target_suffix(header, options, bytes(sections.get(COMPATIBILITY, b"")))
    return Cubin(
        architecture=Architecture(header.architecture_number, suffix),
        functions=tuple(sorted(functions, key=lambda f: (f.section, f.start, f.index))),
        code=code,
        constants={name: bytes(held) for name, held in sections.items() if name.startswith(_CONSTANTS)},
        information={name: bytes(held) for name, held in sections.items() if name.startswith(_INFORMATION)},
    )


def _functions(data: bytes, table: list[Section], file: str) -> Iterator[FunctionSymbol]:
    for one in distinct_symbols(data, table, file):
        if one.section >= len(table):
            found = f"function {one.name!r} in section {one.section}"
            raise BinaryFault(file, None, found, f"one of the {len(table)} sections")
        section = table[one.section].name
        yield FunctionSymbol(one.name, section, one.value, one.size, one.is_kernel, one.index)


@dataclass(frozen=True, slots=True)
class LineRow:
    """From ``offset`` in its section on, up to the next row, code comes from ``line`` of ``file``."""

    offset: int
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class DebugLines:
    """The line information of a cubin, each table by the name of its code section, rows by offset.

    ``ptx`` are lines of the PTX it was assembled from (``.nv_debug_line_sass``), ``source`` those of the
    source that the PTX named (``.debug_line``). ``ptx_text`` is that PTX with its comments left out,
    ``None`` where the cubin does not carry it or carries several. All are empty without ``-lineinfo``.
    """

    ptx: dict[str, tuple[LineRow, ...]]
    source: dict[str, tuple[LineRow, ...]]
    ptx_text: str | None


def read_debug_lines(data: bytes, file: str) -> DebugLines:
    """Read the line tables of a cubin; raises :class:`BinaryFault` for malformed ones."""
    if _PTX_LINES.encode() not in data and _SOURCE_LINES.encode() not in data:
        return DebugLines({}, {}, None)
    try:
        table = read_sections(data, file)
        texts = [content_of(data, one) for one in table if one.name.startswith(_PTX_TEXT)]
        ptx, source = _line_tables(data, table, _PTX_LINES), _line_tables(data, table, _SOURCE_LINES)
    except Exception as error:  # the library lets struct, construct, decoding and index errors through
        found = f"malformed line information ({type(error).__name__}: {error})"
        raise BinaryFault(file, None, found, "DWARF line tables") from error
    if len(texts) != 1:
        return DebugLines(ptx, source, None)
    text = texts[0].rstrip(b"\0").replace(b"\0", b"\n").decode("utf-8", "replace")
    return DebugLines(ptx, source, f"{text}\n")


def _line_tables(data: bytes, table: list[Section], name: str) -> dict[str, tuple[LineRow, ...]]:
    """The rows of one line section. Its sequences begin with an address that a relocation names."""
    # Importing pyelftools takes longer than reading most cubins.
    from elftools.common.utils import struct_parse  # noqa: PLC0415
    from elftools.dwarf.lineprogram import LineProgram  # noqa: PLC0415
    from elftools.dwarf.structs import DWARFStructs  # noqa: PLC0415

    content = content_of(data, _named(table, name))
    code = sum(one.size for one in table if one.name.startswith(_CODE))
    if len(content) > _LINE_BYTES_PER_CODE_BYTE * code + _MORE_LINE_BYTES:
        raise ValueError(f"{len(content)} bytes of lines for {code} of code")
    structs = DWARFStructs(little_endian=True, dwarf_format=32, address_size=8)
    bases = iter(_sequence_bases(data, table, name))
    rows: dict[str, list[LineRow]] = {}
    start = 0
    while start < len(content):
        # A unit is read from its own bytes only.
        length = int.from_bytes(content[start : start + _UNIT_LENGTH_BYTES], "little")
        end = start + _UNIT_LENGTH_BYTES + length
        unit = content[start:end]
        # Tables of version 5 may state 2^64 entries that take no bytes.
        version = int.from_bytes(unit[_UNIT_LENGTH_BYTES : _UNIT_LENGTH_BYTES + 2], "little")
        if version not in _LINE_VERSIONS:
            raise ValueError(f"a line table of version {version}")
        stream = BytesIO(unit)
        header = struct_parse(structs.Dwarf_lineprog_header, stream, 0)
        holder, base = "", 0
        for entry in LineProgram(header, stream, structs, stream.tell(), len(unit)).get_entries():
            if entry.is_extended and entry.command == _SET_ADDRESS:
                holder, base = next(bases, ("", 0))
            elif entry.state is not None and holder and not entry.state.end_sequence:
                state = entry.state
                rows.setdefault(holder, []).append(
                    LineRow(base + state.address, _line_file(header, state.file), state.line)
                )
        start = end
    return {holder: tuple(sorted(one, key=lambda row: row.offset)) for holder, one in rows.items()}


def _named(table: list[Section], name: str) -> Section | None:
    return next((one for one in table if one.name == name), None)


def _sequence_bases(data: bytes, table: list[Section], name: str) -> Iterator[tuple[str, int]]:
    """The code section and offset that each sequence of a line section starts at, in their order."""
    added = _named(table, f".rela{name}")
    relocations = added or _named(table, f".rel{name}")
    if relocations is None:
        code = [one.name for one in table if one.name.startswith(_CODE) and one.size]
        if len(code) == 1:
            yield from repeat((code[0], 0))
        return
    symbols = content_of(data, table[relocations.link])
    layout = _RELOCATION if added is None else _RELOCATION_WITH_ADDEND
    content = content_of(data, relocations)
    whole = content[: len(content) // layout.size * layout.size]
    for _, information, *addend in sorted(layout.iter_unpack(whole)):
        # A CUDA relocation has the generic layout: the symbol in the upper half of the information.
        place, value = symbol_place(symbols, information >> 32)
        held = table[place].name if place < len(table) else ""
        yield held, value + sum(addend)


def _line_file(header: Any, index: int) -> str:
    """The name of a line table's file; the PTX table has none."""
    files = header["file_entry"]
    if not 1 <= index <= len(files):
        return ""
    entry = files[index - 1]
    name = entry["name"].decode("utf-8", "replace")
    directory = entry["dir_index"]
    if name.startswith("/") or not 1 <= directory <= len(header["include_directory"]):
        return str(name)
    return f"{header['include_directory'][directory - 1].decode('utf-8', 'replace')}/{name}"
