"""Writes small containers by the documented layouts, so that tests can break each part of them."""

import io
import struct
import zipfile
from pathlib import Path

import lz4.block
import zstandard

FIXTURES = Path(__file__).parent.parent / "fixtures"
CONTAINERS = FIXTURES / "containers"
CUBIN = (FIXTURES / "cubin" / "dispatch.sm_90a.cubin").read_bytes()
PTX = b".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry tiny()\n{\n    ret;\n}\n"
LZ4, ZSTD = 0x2000, 0x8000
TARGET_A, TARGET_F = 0x100000, 0x200000


def fatbin_entry(content: bytes, kind: int = 2, number: int = 90, flags: int = TARGET_A) -> bytes:
    """One entry, compressed as ``flags`` say."""
    stored = content
    if flags & LZ4:
        stored = lz4.block.compress(content, store_size=False)
    if flags & ZSTD:
        stored = zstandard.compress(content)
    packed = bool(flags & (LZ4 | ZSTD))
    padded = stored + bytes(-len(stored) % 8)
    header = struct.pack(
        "<HHIQIIHHIIIQQQ",
        kind, 0x101, 64, len(padded), len(stored) if packed else 0, 0, 8, 1, number, 0, 0,
        flags, 0, len(content) if packed else 0,
    )  # fmt: skip
    return header + padded


def fatbin(*entries: bytes) -> bytes:
    """A container of entries."""
    body = b"".join(entries)
    return struct.pack("<4sHHQ", b"\x50\xed\x55\xba", 1, 16, len(body)) + body


def host_elf(sections: dict[str, bytes], machine: int = 62) -> bytes:
    """A 64-bit little-endian ELF file with these sections and nothing else."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in (*sections, ".shstrtab"))
    body, headers = b"", [bytes(64)]
    for name, content in {**sections, ".shstrtab": names}.items():
        body += bytes(-len(body) % 8)
        offset = 64 + len(body)
        position = names.index(b"\0" + name.encode() + b"\0") + 1
        headers.append(struct.pack("<IIQQQQIIQQ", position, 1, 2, 0, offset, len(content), 0, 0, 8, 0))
        body += content
    body += bytes(-len(body) % 8)
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        identity, 3, machine, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, len(headers), len(headers) - 1,
    )  # fmt: skip
    return header + body + b"".join(headers)


def archive(members: dict[str, bytes]) -> bytes:
    """A GNU archive; names of more than 15 bytes go to the table of long names."""
    long_names = b"".join(name.encode() + b"/\n" for name in members if len(name) > 15)
    parts = [b"!<arch>\n", _member(b"/", bytes(4))]
    if long_names:
        parts.append(_member(b"//", long_names))
    for name, content in members.items():
        short = name.encode() + b"/"
        if len(name) > 15:
            short = b"/%d" % long_names.index(name.encode() + b"/\n")
        parts.append(_member(short, content))
    return b"".join(parts)


def _member(name: bytes, content: bytes) -> bytes:
    header = name.ljust(16) + b"0".ljust(12) + b"0".ljust(6) * 2 + b"644".ljust(8)
    return header + str(len(content)).encode().ljust(10) + b"`\n" + content + b"\n" * (len(content) % 2)


def zipped(members: dict[str, bytes]) -> bytes:
    """A zip file of deflated members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return stream.getvalue()
