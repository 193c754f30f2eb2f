"""Host ELF files (objects, shared libraries, executables): the sections that hold fatbins.

Only the section table is read. ``nvcc`` and clang put the code that can be loaded into ``.nv_fatbin`` and, in
objects of separate compilation, the code that is still to be linked into ``__nv_relfatbin``. A library made
from such objects has both, and the second repeats the kernels of the first.
"""

import struct
from dataclasses import dataclass
from typing import BinaryIO

from ptxaudit.errors import BinaryFault
from ptxaudit.frontends.containers.content import ELF_MAGIC
from ptxaudit.frontends.containers.streams import read_exactly, size_of

_SHT_NOBITS = 8
_SHN_XINDEX = 0xFFFF
_IDENTITY_SIZE = 16
_LARGEST_TABLE = 1 << 28
# Header fields from the machine on, and the fields of a section header, by ELF class.
_HEADERS = {1: "16sHHIIIIIHHHHHH", 2: "16sHHIQQQIHHHHHH"}
_SECTIONS = {1: "IIIIIIIIII", 2: "IIQQQQIIQQ"}
_BYTE_ORDERS = {1: "<", 2: ">"}


@dataclass(frozen=True, slots=True)
class HostSection:
    """A section with content in the file; offset and size in bytes."""

    name: str
    offset: int
    size: int


def host_sections(stream: BinaryIO, file: str) -> tuple[HostSection, ...]:
    """The sections, in the order of the file; none when the section table was stripped.

    Raises :class:`BinaryFault` when the table, or a section, is not in the file.
    """
    total = size_of(stream)
    identity = read_exactly(stream, 0, _IDENTITY_SIZE, file, "an ELF header")
    word, order = identity[4], _BYTE_ORDERS.get(identity[5])
    if not identity.startswith(ELF_MAGIC) or word not in _HEADERS or order is None:
        raise BinaryFault(file, 0, f"bytes {identity[:6].hex()}", "an ELF header")
    header = struct.Struct(order + _HEADERS[word])
    layout = struct.Struct(order + _SECTIONS[word])
    fields = header.unpack(read_exactly(stream, 0, header.size, file, "an ELF header"))
    table, entry_size, entries, names_index = fields[6], fields[11], fields[12], fields[13]
    if table == 0:
        return ()
    if entry_size != layout.size:
        raise BinaryFault(file, 0, f"section headers of {entry_size} bytes", f"{layout.size} bytes")
    first = layout.unpack(read_exactly(stream, table, layout.size, file, "the section table"))
    # Counts that do not fit the header stand in the first section's header (gABI, "Section Header").
    entries = entries or first[5]
    names_index = first[6] if names_index == _SHN_XINDEX else names_index
    size = entries * layout.size
    if size > min(total, _LARGEST_TABLE):
        raise BinaryFault(file, table, f"{entries} section headers", f"as many as {total} bytes can hold")
    content = read_exactly(stream, table, size, file, "the section table")
    raw = list(layout.iter_unpack(content))
    names = _names(stream, raw, names_index, total, file)
    found = [
        HostSection(_string(names, name), offset, length)
        for name, kind, _, _, offset, length, *_ in raw
        if kind not in (0, _SHT_NOBITS) and length
    ]
    for section in found:
        if section.offset + section.size > total:
            what = f"section {section.name!r} to {section.offset + section.size:#x}"
            raise BinaryFault(file, section.offset, f"the end of the file at {total:#x}", what)
    return tuple(sorted(found, key=lambda section: section.offset))


def _names(stream: BinaryIO, raw: list[tuple[int, ...]], index: int, total: int, file: str) -> bytes:
    if index >= len(raw):
        return b""
    offset, size = raw[index][4], raw[index][5]
    if offset + size > total or size > _LARGEST_TABLE:
        raise BinaryFault(file, offset, f"section names of {size} bytes", f"at most {total} bytes in all")
    return read_exactly(stream, offset, size, file, "the section names")


def _string(strings: bytes, offset: int) -> str:
    return strings[offset : offset + 256].split(b"\0", 1)[0].decode("utf-8", "replace")
