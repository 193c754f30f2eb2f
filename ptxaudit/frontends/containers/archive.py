"""Static archives (``ar``): members with their names, in the GNU and the BSD way of long names.

A member's header is 60 bytes of text: name (16), times and owners (32), size in decimal (10), and the two
bytes that end it. ``/`` and ``/SYM64/`` are symbol tables, ``//`` holds the long names of GNU archives, which
``/123`` refers to; BSD names that are long stand before the content as ``#1/LENGTH`` says.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ptxaudit.errors import BinaryFault
from ptxaudit.frontends.containers.content import ARCHIVE_MAGIC
from ptxaudit.frontends.containers.streams import read_exactly, size_of

_HEADER_SIZE = 60
_LONGEST_NAMES = 1 << 26
_SYMBOL_TABLES = {"", "SYM64/", "__.SYMDEF", "__.SYMDEF SORTED", "__.SYMDEF_64"}


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """A member's name, and where its content is in the archive, in bytes."""

    name: str
    offset: int
    size: int


def archive_members(stream: BinaryIO, file: str) -> Iterator[ArchiveMember | BinaryFault]:
    """The members but for symbol tables, and what is wrong where the rest cannot be read."""
    total = size_of(stream)
    position, long_names = len(ARCHIVE_MAGIC), b""
    while position < total:
        try:
            name, offset, size = _member(stream, position, total, file)
            if name == "//":
                long_names = _long_names(stream, offset, size, file)
            elif name.startswith("#1/"):
                yield from _bsd_member(stream, name, offset, size, file)
            elif (plain := _plain_name(name, long_names)) not in _SYMBOL_TABLES:
                yield ArchiveMember(plain, offset, size)
        except BinaryFault as fault:
            yield fault
            return
        position = offset + size + size % 2


def _member(stream: BinaryIO, position: int, total: int, file: str) -> tuple[str, int, int]:
    header = read_exactly(stream, position, _HEADER_SIZE, file, "an archive member's header")
    name = header[:16].decode("utf-8", "replace").rstrip()
    size_text = header[48:58].strip()
    if header[58:] != b"`\n" or not size_text.isdigit():
        raise BinaryFault(file, position, f"bytes {header[48:].hex()}", "the size of an archive member")
    offset, size = position + _HEADER_SIZE, int(size_text)
    if offset + size > total:
        found = f"member {name!r} of {size} bytes"
        raise BinaryFault(file, position, found, f"at most the {total - offset} bytes that are left")
    return name, offset, size


def _long_names(stream: BinaryIO, offset: int, size: int, file: str) -> bytes:
    if size > _LONGEST_NAMES:
        raise BinaryFault(file, offset, f"{size} bytes of member names", f"at most {_LONGEST_NAMES}")
    return read_exactly(stream, offset, size, file, "the names of members")


def _bsd_member(stream: BinaryIO, name: str, offset: int, size: int, file: str) -> Iterator[ArchiveMember]:
    length = int(name[3:]) if name[3:].isdigit() else size + 1
    if length > size:
        raise BinaryFault(file, offset, f"member name {name!r}", f"a length of at most {size}")
    plain = read_exactly(stream, offset, length, file, "a member's name").rstrip(b"\0")
    text = plain.decode("utf-8", "replace")
    if text not in _SYMBOL_TABLES:
        yield ArchiveMember(text, offset + length, size - length)


def _plain_name(name: str, long_names: bytes) -> str:
    if name.startswith("/") and name[1:].isdigit():
        return long_names[int(name[1:]) :].split(b"\n", 1)[0].decode("utf-8", "replace").rstrip("/")
    return name[1:] if name.startswith("/") else name.rstrip("/")
