"""The fatbin: containers one after the other, each with one entry for each PTX text and cubin.

The layout is not documented by NVIDIA; it was taken from what ``fatbinary`` of CUDA 13.0 and 13.5 writes
and checked against ``cuobjdump`` on libnccl, vLLM and bitsandbytes. All numbers are little-endian. A
container is a 16-byte header (magic, version 1, size of the header, size of the rest) and its entries. An
entry is a header, 64 bytes and then what its offsets point to (identifier, options), and a payload that is
padded to 8 bytes. The fields of the entry's header that are read here:

====== ==== ===================================================================
offset size meaning
====== ==== ===================================================================
0      2    kind: 1 PTX, 2 cubin; others (NVVM, LTO) have no kernel to audit
4      4    size of the header
8      8    size of the payload with padding
16     4    size of the compressed payload, 0 when it is not compressed
28     4    architecture: 90
32     4    offset of the identifier (the source's name) in the header, or 0
36     4    length of the identifier
40     8    flags: 0x2000 LZ4 block, 0x8000 zstd frame, 0x100000 ``a`` target, 0x200000 ``f`` target
56     8    size of the payload when it is decompressed
====== ==== ===================================================================

The target's suffix is only here for many cubins: ``cuobjdump -lelf`` names those of ``sm_100f`` ``sm_100``,
and so does the ELF header.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ptxaudit.arch import Architecture
from ptxaudit.errors import BinaryFault
from ptxaudit.frontends.containers.compression import UNCHECKED_BYTES, decompress_lz4, decompress_zstd
from ptxaudit.frontends.containers.content import FATBIN_MAGIC
from ptxaudit.frontends.containers.search import find_all
from ptxaudit.frontends.containers.streams import read_at, read_exactly
from ptxaudit.limits import limits

KIND_PTX = 1
KIND_CUBIN = 2
_HEADER = struct.Struct("<4sHHQ")
_ENTRY = struct.Struct("<HHIQI8xIIIQ8xQ")
_LZ4 = 0x2000
_ZSTD = 0x8000
_ARCHITECTURE_SPECIFIC = 0x100000
_FAMILY_SPECIFIC = 0x200000
_LARGEST_HEADER = 1 << 16
_PADDING_STEP = 1 << 16


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry; offsets are in the stream, sizes in bytes.

    ``container`` is where its container begins. ``stored`` is what there is to read, ``size`` what it
    decompresses to. ``identifier`` names the source that it was compiled from, often nothing.
    """

    container: int
    kind: int
    architecture: Architecture
    flags: int
    offset: int
    stored: int
    size: int
    identifier: str


def read_entries(stream: BinaryIO, start: int, end: int, file: str) -> Iterator[Entry | BinaryFault]:
    """All entries of the containers between two offsets, and what is wrong where some are missing.

    Padding between containers is skipped. After a malformed part reading goes on at the next container.
    """
    position = start
    while (position := _skip_padding(stream, position, end)) < end:
        try:
            after_header, container_end = _container(stream, position, file)
        except BinaryFault as fault:
            yield fault
            position = next(find_all(stream, position + 1, end, (FATBIN_MAGIC,)), (end, b""))[0]
            continue
        if container_end > end:
            found = f"a fatbin of {container_end - position} bytes"
            yield BinaryFault(file, position, found, f"at most the {end - position} bytes that are left")
        yield from _entries(stream, after_header, min(container_end, end), file, position)
        position = container_end


def _skip_padding(stream: BinaryIO, position: int, end: int) -> int:
    while position < end:
        content = read_at(stream, position, min(_PADDING_STEP, end - position))
        rest = content.lstrip(b"\0")
        if rest:
            return position + len(content) - len(rest)
        if not content:
            return end
        position += len(content)
    return end


def _container(stream: BinaryIO, position: int, file: str) -> tuple[int, int]:
    """Where the entries of the container at ``position`` begin and end."""
    header = read_exactly(stream, position, _HEADER.size, file, "a fatbin header")
    magic, version, header_size, size = _HEADER.unpack(header)
    if magic != FATBIN_MAGIC:
        raise BinaryFault(file, position, f"bytes {magic.hex()}", "the magic number of a fatbin")
    if version != 1 or not _HEADER.size <= header_size <= _LARGEST_HEADER:
        found = f"a fatbin of version {version} with a header of {header_size} bytes"
        raise BinaryFault(file, position, found, f"version 1 and {_HEADER.size} bytes")
    return position + header_size, position + header_size + size


def _entries(
    stream: BinaryIO, position: int, end: int, file: str, container: int
) -> Iterator[Entry | BinaryFault]:
    while (position := _skip_padding(stream, position, end)) < end:
        try:
            entry, position = _entry(stream, position, end, file, container)
        except BinaryFault as fault:
            yield fault
            return
        yield entry


def _entry(stream: BinaryIO, position: int, end: int, file: str, container: int) -> tuple[Entry, int]:
    """The entry at ``position`` and where the next one begins."""
    fixed = read_exactly(stream, position, _ENTRY.size, file, "a fatbin entry's header")
    kind, _, header_size, padded, compressed, number, name_at, name_size, flags, size = _ENTRY.unpack(fixed)
    if not _ENTRY.size <= header_size <= _LARGEST_HEADER:
        found = f"a fatbin entry's header of {header_size} bytes"
        raise BinaryFault(file, position, found, f"{_ENTRY.size} to {_LARGEST_HEADER} bytes")
    if position + header_size + padded > end or compressed > padded:
        found = f"a fatbin entry of {max(padded, compressed)} bytes"
        raise BinaryFault(file, position, found, f"at most the {end - position - header_size} that are left")
    whole = read_exactly(stream, position, header_size, file, "a fatbin entry's header")
    packed = bool(flags & (_LZ4 | _ZSTD))
    suffix = "a" if flags & _ARCHITECTURE_SPECIFIC else "f" if flags & _FAMILY_SPECIFIC else ""
    entry = Entry(
        container=container,
        kind=kind,
        architecture=Architecture(number, suffix),
        flags=flags,
        offset=position + header_size,
        stored=compressed if packed else padded,
        size=size if packed else padded,
        identifier=whole[name_at : name_at + name_size].split(b"\0", 1)[0].decode("utf-8", "replace"),
    )
    return entry, position + header_size + padded


def entry_content(stream: BinaryIO, entry: Entry, file: str) -> bytes:
    """The decompressed payload; raises :class:`BinaryFault` when it is not what the header says."""
    allowed = limits()
    if entry.size > allowed.image_bytes:
        found = f"a fatbin entry of {entry.size} bytes"
        raise BinaryFault(file, entry.offset, found, f"at most {allowed.image_bytes} (image-megabytes)")
    if entry.size > UNCHECKED_BYTES and entry.size > allowed.unpacked_ratio * max(1, entry.stored):
        found = f"a fatbin entry of {entry.stored} bytes that claims to hold {entry.size}"
        expected = f"at most {allowed.unpacked_ratio} times its size (unpacked-ratio)"
        raise BinaryFault(file, entry.offset, found, expected)
    content = read_exactly(stream, entry.offset, entry.stored, file, "a fatbin entry")
    if entry.flags & _ZSTD:
        return _unpacked(decompress_zstd, content, entry, file)
    if entry.flags & _LZ4:
        return _unpacked(decompress_lz4, content, entry, file)
    return content


def _unpacked(decompress: Callable[[bytes, int], bytes], content: bytes, entry: Entry, file: str) -> bytes:
    try:
        unpacked = decompress(content, entry.size)
    except ValueError as error:
        found = f"a compressed fatbin entry that is broken ({error})"
        raise BinaryFault(file, entry.offset, found, "a whole one") from error
    if len(unpacked) != entry.size:
        found = f"a fatbin entry that decompresses to {len(unpacked)} bytes"
        raise BinaryFault(file, entry.offset, found, f"the {entry.size} bytes that its header states")
    return unpacked
