"""Host ELF files, archives and zips: members by name and place, faults by what is wrong."""

import io
import random
import struct
from typing import BinaryIO

import pytest
from container_builders import CONTAINERS, CUBIN, PTX, archive, host_elf, zipped

from ptxaudit.errors import BinaryFault
from ptxaudit.frontends.containers.archive import ArchiveMember, archive_members
from ptxaudit.frontends.containers.content import Content, recognise
from ptxaudit.frontends.containers.host_elf import host_sections
from ptxaudit.frontends.containers.streams import ForwardStream, window
from ptxaudit.frontends.containers.zips import ZipReader


@pytest.mark.parametrize(
    ("head", "content"),
    [
        (CUBIN, Content.CUBIN),
        (PTX, Content.PTX),
        (b"// comment\n/* another */ " + PTX, Content.PTX),
        (host_elf({}), Content.HOST_ELF),
        (archive({}), Content.ARCHIVE),
        (b"!<thin>\n", Content.THIN_ARCHIVE),
        (zipped({}), Content.ZIP),
        (b"\x50\xed\x55\xba", Content.FATBIN),
        (b"MZ\x90\0", Content.PROGRAM),
        (b"", Content.UNKNOWN),
        (b"import os", Content.UNKNOWN),
    ],
)
def test_content_tells_what_a_file_is(head: bytes, content: Content) -> None:
    assert recognise(head) is content


def test_sections_of_a_library() -> None:
    stream = io.BytesIO((CONTAINERS / "libtwo.so").read_bytes())
    named = {section.name: section for section in host_sections(stream, "libtwo.so")}
    section = named[".nv_fatbin"]
    stream.seek(section.offset)
    assert stream.read(4) == b"\x50\xed\x55\xba"
    assert section.size == 0x3190
    assert ".bss" not in named


def test_sections_are_in_the_order_of_the_file() -> None:
    data = host_elf({".nv_fatbin": b"abc", ".rodata": b"de"})
    sections = host_sections(io.BytesIO(data), "k.so")
    assert [(one.name, data[one.offset : one.offset + one.size]) for one in sections][:2] == [
        (".nv_fatbin", b"abc"),
        (".rodata", b"de"),
    ]


def test_more_sections_than_the_header_can_count() -> None:
    data = bytearray(host_elf({".nv_fatbin": b"abc"}))
    table, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    data[60:62] = data[62:64] = b"\0\0"
    data[62:64] = b"\xff\xff"
    struct.pack_into("<Q", data, table + 32, count)
    struct.pack_into("<I", data, table + 40, count - 1)
    assert [one.name for one in host_sections(io.BytesIO(data), "k.so")] == [".nv_fatbin", ".shstrtab"]


def test_a_file_without_a_section_table_has_no_sections() -> None:
    data = bytearray(host_elf({".nv_fatbin": b"abc"}))
    data[40:48] = bytes(8)
    assert host_sections(io.BytesIO(data), "k.so") == ()


@pytest.mark.parametrize(
    ("patch", "complaint"),
    [
        ({4: b"\x07"}, "an ELF header"),
        ({40: b"\xff\xff\xff\xff"}, "found the end of the file"),
        ({58: b"\x07\0"}, "section headers of 7 bytes"),
        ({60: b"\xff\xff"}, "found 65535 section headers"),
    ],
)
def test_a_malformed_host_file_is_one_line(patch: dict[int, bytes], complaint: str) -> None:
    data = bytearray(host_elf({".nv_fatbin": b"abc"}))
    for offset, content in patch.items():
        data[offset : offset + len(content)] = content
    with pytest.raises(BinaryFault, match=complaint):
        host_sections(io.BytesIO(data), "k.so")


def test_a_section_behind_the_end_is_named() -> None:
    data = host_elf({".nv_fatbin": bytes(64)})
    table = struct.unpack_from("<Q", data, 40)[0]
    broken = bytearray(data)
    struct.pack_into("<Q", broken, table + 64 + 32, 1 << 30)
    with pytest.raises(BinaryFault, match=r"section '\.nv_fatbin' to 0x40000040"):
        host_sections(io.BytesIO(broken), "k.so")


def members(data: bytes) -> list[tuple[str, bytes]]:
    found = archive_members(io.BytesIO(data), "k.a")
    return [
        (one.name, data[one.offset : one.offset + one.size])
        for one in found
        if isinstance(one, ArchiveMember)
    ]


def test_archive_members_by_short_and_long_names() -> None:
    content = {"a.o": b"odd", "a_name_longer_than_fifteen.o": b"even", "b.o": b""}
    assert members(archive(content)) == list(content.items())
    assert [name for name, _ in members((CONTAINERS / "libtwo.a").read_bytes())] == ["a.o", "b.o"]


def test_archive_members_by_bsd_names() -> None:
    body = b"a_long_name.o\0\0\0content"
    header = b"#1/16".ljust(16) + b"0".ljust(32) + str(len(body)).encode().ljust(10) + b"`\n"
    symbols = b"#1/12".ljust(16) + b"0".ljust(32) + b"12".ljust(10) + b"`\n__.SYMDEF\0\0\0"
    assert members(b"!<arch>\n" + symbols + header + body) == [("a_long_name.o", b"content")]


def test_a_truncated_archive_gives_what_is_whole() -> None:
    data = archive({"a.o": b"first", "b.o": b"second"})
    assert members(data[:-3]) == [("a.o", b"first")]
    (fault,) = [one for one in archive_members(io.BytesIO(data[:-3]), "k.a") if isinstance(one, BinaryFault)]
    assert "member 'b.o/' of 6 bytes" in str(fault)
    broken = data.replace(b"5         `\n", b"x         `\n")
    assert members(broken) == []


def opened(data: bytes, name: str = "k.whl") -> list[tuple[str, bytes]]:
    reader = ZipReader(io.BytesIO(data), name)
    return [(one.name, reader.open(one, one.name).read()) for one in reader.members()]


def test_zip_members() -> None:
    assert opened(zipped({"a/": b"", "a/b.ptx": PTX, "c": b""})) == [("a/b.ptx", PTX), ("c", b"")]


def zip_with(data: bytes, field: int, value: int) -> bytes:
    """The zip with a 32-bit field of its only directory entry replaced."""
    at = data.index(b"PK\x01\x02") + field
    return data[:at] + value.to_bytes(4, "little") + data[at + 4 :]


@pytest.mark.parametrize("size", [10, len(CUBIN) - 1, len(CUBIN) + 1, 1 << 20])
def test_a_member_that_lies_about_its_size_is_refused(size: int) -> None:
    with pytest.raises(BinaryFault, match=r"k.cubin: found (broken content|the end of what it holds)"):
        opened(zip_with(zipped({"k.cubin": CUBIN}), 24, size))


def test_a_member_that_claims_too_large_a_ratio_is_refused() -> None:
    with pytest.raises(BinaryFault, match="claims to hold 3000000000, expected at most 200 times its size"):
        opened(zip_with(zipped({"k.cubin": CUBIN}), 24, 3_000_000_000))


def test_a_large_member_that_holds_less_than_it_claims_is_refused() -> None:
    size = 33 << 20
    content = random.Random(0).randbytes(1 << 18) * (size >> 18)
    reader = ZipReader(io.BytesIO(zip_with(zipped({"k.so": content}), 24, size + 100)), "k.whl")
    (member,) = reader.members()
    stream = reader.open(member, "k.so")
    assert stream.read(256) == content[:256]
    stream.seek(size + 50)
    with pytest.raises(BinaryFault, match=r"k.so"):
        stream.read(10)


def test_corrupt_encrypted_and_broken_zips_are_one_line() -> None:
    data = zipped({"k.cubin": CUBIN})
    corrupt = bytearray(data)
    corrupt[60:90] = bytes(30)
    with pytest.raises(BinaryFault, match=r"k.cubin: found broken content"):
        opened(bytes(corrupt))
    flags = data.index(b"PK\x01\x02") + 8
    with pytest.raises(BinaryFault, match=r"k.cubin: found an encrypted zip member"):
        opened(data[:flags] + b"\x01" + data[flags + 1 :])
    with pytest.raises(BinaryFault, match=r"k.whl: found a broken zip file"):
        opened(data[:-30])


def test_windows_end_where_they_should() -> None:
    stream = window(io.BytesIO(b"0123456789"), 2, 5)
    assert stream.read() == b"23456"
    stream.seek(-2, io.SEEK_END)
    assert stream.read(10) == b"56"
    assert window(io.BytesIO(b"0123"), 2, 5).read() == b"23"


def test_a_stream_that_only_goes_forward_can_be_read_anywhere() -> None:
    content = bytes(i * 7 % 251 for i in range(5 << 20))
    opened_times = 0

    def reopen() -> BinaryIO:
        nonlocal opened_times
        opened_times += 1
        return io.BytesIO(content)

    stream = io.BufferedReader(ForwardStream(reopen, len(content), "k", ()))
    for offset in (0, 100, 3 << 20, (3 << 20) - 1000, (2 << 20) + 1, len(content) - 10, 5):
        stream.seek(offset)
        assert stream.read(300_000) == content[offset : offset + 300_000]
    assert opened_times == 2
    assert stream.seek(0, io.SEEK_END) == len(content)
