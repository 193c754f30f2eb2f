"""What a cubin holds by its ELF structures alone, as the front end reads it too."""

import struct
from pathlib import Path

import pytest
from container_builders import CONTAINERS
from join_support import assembled_by, needs_ptxas
from sass_fixtures import fixture_path, needs_nvdisasm

from ptxaudit.errors import BinaryFault
from ptxaudit.frontends.sass import load_cubin
from ptxaudit.frontends.sass.elf import read_cubin, read_header
from ptxaudit.frontends.sass.summary import (
    HEADER,
    SECTION,
    cubin_extent,
    summarise_cubin,
    symbols_to_read,
)

CALLING = """\
.version 8.0
.target sm_90
.address_size 64
.visible .func helper() { bar.sync 0; ret; }
.visible .entry calls() { call helper; ret; }
.visible .entry alone() { ret; }
"""
STEMS = ("dispatch", "mailbox", "tensor", "ampere", "indirect")


@pytest.mark.parametrize("stem", STEMS)
def test_the_summary_is_what_the_front_end_reads(stem: str) -> None:
    data = fixture_path(stem).read_bytes()
    summary = summarise_cubin(data, stem)
    cubin = read_cubin(data, stem, read_header(data, stem))
    assert summary.architecture == cubin.architecture
    assert set(summary.kernels) == {one.name for one in cubin.functions if one.is_entry}
    assert set(summary.functions) == {one.name for one in cubin.functions if not one.is_entry}


@pytest.mark.parametrize("stem", STEMS)
def test_the_extent_is_the_file(stem: str) -> None:
    data = fixture_path(stem).read_bytes()
    more = data + b"what follows"
    assert cubin_extent(lambda offset, size: more[offset : offset + size], len(more)) == len(data)
    assert cubin_extent(lambda offset, size: data[offset : offset + size], len(data) - 1) is None


@pytest.mark.parametrize("kind", [8, 0x70000007, 0x7000000A])
def test_a_section_without_content_may_state_any_size(kind: int) -> None:
    """``.nv.global`` of cubins compiled for Windows hosts is larger than the file (bitsandbytes 0.50.2)."""
    data = bytearray(fixture_path("mailbox").read_bytes())
    fields = HEADER.unpack_from(data)
    tables = [fields[6] + number * SECTION.size for number in range(fields[12])]
    at = next(one for one in tables if struct.unpack_from("<I", data, one + 4)[0] == 8)
    struct.pack_into("<I", data, at + 4, kind)
    struct.pack_into("<Q", data, at + 32, 1 << 40)
    assert len(summarise_cubin(bytes(data), "k.cubin").kernels) > 0
    assert read_cubin(bytes(data), "k.cubin", read_header(bytes(data), "k.cubin")).functions
    assert cubin_extent(lambda offset, size: bytes(data[offset : offset + size]), len(data)) == len(data)
    struct.pack_into("<I", data, at + 4, 1)
    with pytest.raises(BinaryFault, match="found end of file"):
        summarise_cubin(bytes(data), "k.cubin")


@needs_nvdisasm
def test_only_what_is_wanted_is_disassembled() -> None:
    data = (CONTAINERS / "two_kernels.sm_90a.cubin").read_bytes()
    whole = load_cubin(data, "k.cubin")
    assert len(whole.functions) == 2
    for function in whole.functions:
        (part,) = load_cubin(data, "k.cubin", wanted=function.name.__eq__).functions
        assert (part.name, part.facts, part.blocks) == (function.name, function.facts, function.blocks)
        assert [one.text for one in part.instructions] == [one.text for one in function.instructions]


@pytest.mark.parametrize("stem", ["indirect", "tensor", "ampere"])
def test_what_stands_in_the_section_of_a_kernel_goes_with_it(stem: str) -> None:
    data = fixture_path(stem).read_bytes()
    assert symbols_to_read(data, "k.cubin", lambda name: True) is None
    assert symbols_to_read(data, "k.cubin", lambda name: False) == ()


@needs_ptxas
@needs_nvdisasm
def test_what_a_wanted_kernel_may_call_is_read_too(tmp_path: Path) -> None:
    data = assembled_by(tmp_path, CALLING, "-c")
    for wanted in ("calls", "alone"):
        read = load_cubin(data, "k.cubin", wanted=wanted.__eq__)
        assert {one.name for one in read.functions} == {wanted, "helper"}
