"""Kernels that stand in a binary without a section that says so: fatbins, cubins, PTX, by their beginnings.

TVM keeps PTX in a string, generated launchers keep a cubin in an array, a Windows library keeps its fatbins
in a section of another format. A beginning is only taken with more of the header behind it: the magic number
of a fatbin is also an immediate in the runtime's code, and ``.version`` is a word in every assembler.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ptxaudit.errors import BinaryFault
from ptxaudit.frontends.containers.content import EM_CUDA, FATBIN_MAGIC, Content, elf_machine, first_token
from ptxaudit.frontends.containers.fatbin import Entry, read_entries
from ptxaudit.frontends.containers.search import find_all
from ptxaudit.frontends.containers.streams import read_at
from ptxaudit.frontends.sass.summary import cubin_extent

_CUBIN_MAGIC = b"\x7fELF\x02\x01"
_PTX_WORD = b".version"
_FATBIN_HEADER = re.compile(rb"\x50\xed\x55\xba\x01\x00\x10\x00", re.DOTALL)
_PTX_START = re.compile(rb"\.version[ \t]+\d+\.\d+[ \t\r\n]")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_FATBIN_HEADER_SIZE = 16
_ELF_HEADER_SIZE = 64
_LEAD = 1 << 14
_PIECE = 1 << 16
_LONGEST_PTX = 1 << 28


@dataclass(frozen=True, slots=True)
class Embedded:
    """A fatbin, cubin or PTX text at ``offset`` of the stream; ``size`` in bytes."""

    content: Content
    offset: int
    size: int


def scan(stream: BinaryIO, start: int, end: int, file: str) -> Iterator[Embedded | BinaryFault]:
    """What stands between two offsets, in order; a cubin that is cut short is a fault."""
    passed = start
    for offset, needle in find_all(stream, start, end, (FATBIN_MAGIC, _CUBIN_MAGIC, _PTX_WORD)):
        if offset < passed:
            continue
        found = _RECOGNISERS[needle](stream, offset, end, file)
        if isinstance(found, Embedded):
            passed = found.offset + found.size
        if found is not None:
            yield found


def _fatbin(stream: BinaryIO, offset: int, end: int, file: str) -> Embedded | None:
    """A fatbin whose first entry is one: programs that write fatbins have the header in their code."""
    header = read_at(stream, offset, _FATBIN_HEADER_SIZE)
    if len(header) < _FATBIN_HEADER_SIZE or not _FATBIN_HEADER.match(header):
        return None
    size = _FATBIN_HEADER_SIZE + int.from_bytes(header[8:], "little")
    first = next(read_entries(stream, offset, min(offset + size, end), file), None)
    return Embedded(Content.FATBIN, offset, min(size, end - offset)) if isinstance(first, Entry) else None


def _cubin(stream: BinaryIO, offset: int, end: int, file: str) -> Embedded | BinaryFault | None:
    header = read_at(stream, offset, min(_ELF_HEADER_SIZE, end - offset))
    if elf_machine(header) != EM_CUDA:
        return None
    size = cubin_extent(lambda at, count: read_at(stream, offset + at, count), end - offset)
    if size is None:
        found = f"a cubin that is longer than the {end - offset} bytes that are left"
        return BinaryFault(file, offset, found, "a whole one")
    return Embedded(Content.CUBIN, offset, size)


def _ptx(stream: BinaryIO, offset: int, end: int, file: str) -> Embedded | None:
    head = read_at(stream, offset, min(_PIECE, end - offset))
    if not _PTX_START.match(head) or b".target" not in _CONTROL.split(head, maxsplit=1)[0]:
        return None
    stop, is_kernel = offset, False
    while stop < min(end, offset + _LONGEST_PTX):
        piece = read_at(stream, stop, min(_PIECE, end - stop))
        control = _CONTROL.search(piece)
        text = piece if control is None else piece[: control.start()]
        is_kernel = is_kernel or b".entry" in text
        stop += len(text)
        if control is not None or not piece:
            break
    if not is_kernel:
        return None
    start = _start_of_text(stream, offset)
    return Embedded(Content.PTX, start, stop - start)


def _start_of_text(stream: BinaryIO, offset: int) -> int:
    """Where the comments in front of ``.version`` begin, so that lines count as the compiler wrote them."""
    base = max(0, offset - _LEAD)
    before = read_at(stream, base, offset - base)
    controls = list(_CONTROL.finditer(before))
    start = controls[-1].end() if controls else 0
    lead = before[start:].decode("latin-1") + ".version"
    return base + start if first_token(lead)[0] == ".version" else offset


_RECOGNISERS = {FATBIN_MAGIC: _fatbin, _CUBIN_MAGIC: _cubin, _PTX_WORD: _ptx}
