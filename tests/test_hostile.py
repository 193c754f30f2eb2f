"""Every input of fixtures/hostile, and larger ones made here: what comes of each, and of a whole one."""

import io
import json
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audit_support import KERNEL, run_cli
from container_builders import CUBIN, FIXTURES, PTX, archive, fatbin, fatbin_entry, zipped

from ptxaudit.engine.image import BrokenImage, KernelImage, Place
from ptxaudit.errors import BinaryFault
from ptxaudit.frontends.sass.elf import read_cubin, read_debug_lines, read_header
from ptxaudit.frontends.sass.summary import summarise_cubin
from ptxaudit.intake.fatbins import WalkOptions
from ptxaudit.intake.walk import Part, walk
from ptxaudit.limits import Limits, in_force

HOSTILE = FIXTURES / "hostile"
# The exit code, and what the report says of it.
EXPECTED = {
    "empty_name.zip": (0, "empty_name.zip!b.ptx"),
    "endless.ptx": (0, "stopped after 150000 operations"),
    "endless_branch.ptx": (0, "stopped after 150000 operations"),
    "growing_name.ptx": (0, '"_Z1fI1AIiiES_IS0_S0_E'),
    "huge_block.ptx": (0, "274877906944 threads for a CTA are stated, and a device takes 1 to 1024"),
    "huge_cluster.ptx": (0, "1000000 CTAs for a cluster are stated"),
    "lanes_apart.ptx": (0, "the search for races would have taken more than"),
    "long_sum.ptx": (3, "found an expression of too many terms"),
    "names.zip": (0, "names.zip!../../escaped.ptx"),
    "nested.zip": (3, "expected fewer (nesting)"),
    "nested_blocks.ptx": (3, "expected no more than 64 levels of nesting"),
    "nested_expression.ptx": (3, "expected no more than 64 levels of nesting"),
    "runner_command.ptx": (3, "found ':'"),
    "zstd_bomb.fatbin": (3, "times its size (unpacked-ratio)"),
}
SECONDS = 20


def test_each_input_is_expected() -> None:
    assert {path.name for path in HOSTILE.iterdir()} == {*EXPECTED, "README.md"}


@pytest.mark.parametrize("name", sorted(EXPECTED))
@pytest.mark.parametrize("output", ["text", "github"])
def test_it_costs_nothing_but_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str, output: str
) -> None:
    folder = tmp_path / "deep" / "work"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    Path(name).write_bytes((HOSTILE / name).read_bytes())
    Path("whole.ptx").write_text(KERNEL)
    rules = "divergent-barrier,synchronization-deadlock"
    options = ["--no-assemble", "--select", rules, "--format", output, "--json", "r.json", "--jobs", "1"]
    started = time.process_time()
    code = run_cli(monkeypatch, "audit", name, "whole.ptx", *options)
    assert time.process_time() - started < SECONDS
    expected, said = EXPECTED[name]
    assert code == expected
    assert said in Path("r.json").read_text()
    document = json.loads(Path("r.json").read_text())
    assert {one["path"]: one["status"] for one in document["inputs"]}["whole.ptx"] == "audited"
    assert {one.name for one in folder.iterdir()} == {name, "whole.ptx", "r.json"}
    assert {one.name for one in tmp_path.rglob("*")} == {"deep", "work", name, "whole.ptx", "r.json"}
    printed = capfd.readouterr()
    for line in (*printed.out.splitlines(), *printed.err.splitlines()):
        assert line.isprintable()
        assert "##[" not in line
        assert not line.lstrip().startswith("::") or output == "github"
    assert "\n::error::forged" not in printed.out
    assert "Traceback" not in printed.err


def found_in(content: bytes, **limits: int) -> tuple[list[Any], list[str]]:
    """The images that a file holds, and what is wrong with it."""
    with in_force(Limits(**limits)):
        found = list(walk(Part(io.BytesIO(content), Place(("file",)), WalkOptions())))
    images = [one for one in found if isinstance(one, KernelImage)]
    return images, [one.message for one in found if isinstance(one, BrokenImage)]


def test_members_of_an_archive_are_counted() -> None:
    many = archive({f"{number}.ptx": PTX for number in range(20)})
    assert len(found_in(many)[0]) == 20
    images, faults = found_in(many, members=5)
    assert len(images) == 5
    assert faults == ["file!5.ptx: found more than 5 members (members)"]


def test_entries_of_fatbins_are_counted_in_archives_too() -> None:
    many = archive({"a.fatbin": fatbin(*(fatbin_entry(PTX, 1) for _ in range(20))), "b.ptx": PTX})
    images, faults = found_in(many, members=5)
    assert len(images) == 4
    assert faults == ["file!a.fatbin!fatbin 1 compute_90a #5: found more than 5 members (members)"]


def test_a_file_that_is_too_deep_in_others_is_named() -> None:
    deep = zipped({"a.zip": zipped({"b.zip": zipped({"c.ptx": PTX})}), "d.ptx": PTX})
    assert len(found_in(deep)[0]) == 2
    images, faults = found_in(deep, nesting=3)
    assert [image.name for image in images] == ["file!d.ptx"]
    assert faults == ["file!a.zip!b.zip!c.ptx: found a file 3 deep in others, expected fewer (nesting)"]


def test_an_image_that_is_too_large_is_named() -> None:
    large = PTX + b"// " + b"x" * (1 << 20) + b"\n"
    images, faults = found_in(archive({"large.ptx": large, "small.ptx": PTX}), image_megabytes=1)
    assert [image.name for image in images] == ["file!small.ptx"]
    assert faults[0].startswith("file!large.ptx: found ")
    assert faults[0].endswith("expected at most 1048576 (image-megabytes)")


def test_a_zip_whose_members_share_their_content_ends() -> None:
    """Each member is within the ratio; a thousand of them are one piece of 32 KB that holds 4 MB."""
    content = zipped({"a.ptx": PTX + b"// " + bytes(range(32, 127)) * 44_000})
    assert len(found_in(content)[0]) == 1
    start, end = content.index(b"PK\x01\x02"), content.index(b"PK\x05\x06")
    many = 2000
    directory = content[start:end] * many
    tail = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, many, many, len(directory), start, 0)
    started = time.process_time()
    images, faults = found_in(content[:start] + directory + tail)
    assert time.process_time() - started < SECONDS
    assert len(images) < 400
    assert faults[-1].endswith("expected at most 200 times as many (unpacked-ratio)")


def elf_field(data: bytes, change: Callable[[bytearray, int, int], None]) -> bytes:
    """A cubin with its section table changed: given the file, where the table is and how many entries."""
    table, entries = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    changed = bytearray(data)
    change(changed, table, entries)
    return bytes(changed)


def test_sections_that_overlap_are_refused() -> None:
    def whole_file(data: bytearray, table: int, entries: int) -> None:
        for number in range(1, entries):
            struct.pack_into("<QQ", data, table + 64 * number + 24, 0, len(data))

    with pytest.raises(BinaryFault, match=r"found sections of \d+ bytes, expected at most the file's"):
        read_header(elf_field(CUBIN, whole_file), "x.cubin")


def cubin_of_symbols(count: int, strings: bytes) -> bytes:
    """A cubin of a symbol table whose functions all have the first string for a name."""
    symbol = struct.pack("<IBBHQQ", 0, 0x12, 0x10, 1, 0, 0)
    names = b"\0.text.k\0.strtab\0.symtab\0"
    parts = [bytes(128), strings, symbol * count, names]
    sections = [bytes(64)]
    offset = 64
    for part, (name, kind, link) in zip(parts, ((1, 1, 0), (9, 3, 0), (17, 2, 2), (0, 3, 0)), strict=True):
        sections.append(struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, len(part), link, 0, 1, 24))
        offset += len(part)
    fields = (CUBIN[:16], 2, 190, 1, 0, 0, offset, 90 << 8, 64, 0, 0, 64, 5, 4)
    header = struct.pack("<16sHHIQQQIHHHHHH", *fields)
    return header + b"".join(parts) + b"".join(sections)


def test_a_table_of_symbols_that_share_a_long_name_is_refused() -> None:
    """Twenty thousand names of half a megabyte each, in a file of a megabyte."""
    data = cubin_of_symbols(20_000, b"n" * (1 << 19))
    started = time.process_time()
    for read in (lambda: summarise_cubin(data, "x"), lambda: read_cubin(data, "x", read_header(data, "x"))):
        with pytest.raises(BinaryFault, match="expected one of at most 65536 bytes"):
            read()
    data = cubin_of_symbols(20_000, b"n" * 60_000 + b"\0")
    with pytest.raises(BinaryFault, match="found more names than it has bytes for"):
        summarise_cubin(data, "x")
    assert summarise_cubin(cubin_of_symbols(3, b"name\0"), "x").kernels == ("name",) * 3
    assert time.process_time() - started < SECONDS


def test_line_tables_without_code_are_refused() -> None:
    data = CUBIN.replace(b".debug_frame", b".debug_line\0") if b".debug_line" not in CUBIN else CUBIN
    assert b".debug_line" in data
    lengths = bytearray(data)
    table, entries = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    names = struct.unpack_from("<Q", data, table + 64 * struct.unpack_from("<H", data, 62)[0] + 24)[0]
    for number in range(entries):
        name, _, _, _, offset, size = struct.unpack_from("<IIQQQQ", data, table + 64 * number)
        if data[names + name :].startswith(b".debug_line\0"):
            lengths[offset : offset + size] = bytes(size)
    with pytest.raises(BinaryFault, match="malformed line information"):
        read_debug_lines(bytes(lengths), "x.cubin")


def test_a_zip_is_never_unpacked_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("extracted")

    monkeypatch.setattr(zipfile.ZipFile, "extract", refuse)
    monkeypatch.setattr(zipfile.ZipFile, "extractall", refuse)
    images, faults = found_in((HOSTILE / "names.zip").read_bytes())
    assert len(images) == 4
    assert not faults
