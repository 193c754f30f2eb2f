"""The container: malformed files, architectures, launch facts."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sass_fixtures import fixture_path, needs_nvdisasm

from ptxaudit.arch import Architecture
from ptxaudit.errors import BinaryFault, InputError, UnsupportedArchitecture
from ptxaudit.frontends.sass import load_cubin
from ptxaudit.frontends.sass.elf import Cubin, read_cubin, read_header
from ptxaudit.frontends.sass.info import decode_attributes, indirect_branch_targets, launch_facts

MAILBOX = fixture_path("mailbox").read_bytes()
DISPATCH = fixture_path("dispatch").read_bytes()
_FLAGS_AT = 48


def read(data: bytes) -> Cubin:
    return read_cubin(data, "k.cubin", read_header(data, "k.cubin"))


@pytest.mark.parametrize(
    ("stem", "architecture"),
    [
        ("dispatch", Architecture(90, "a")),
        ("tensor", Architecture(100, "a")),
        ("ampere", Architecture(80)),
        ("indirect", Architecture(90)),
    ],
)
def test_architecture_with_its_feature_set(stem: str, architecture: Architecture) -> None:
    assert read(fixture_path(stem).read_bytes()).architecture == architecture


def test_function_symbols() -> None:
    functions = read(fixture_path("tensor").read_bytes()).functions
    assert [(f.start, f.is_entry) for f in functions] == [(0, True), (0x740, False), (0x770, False)]
    assert {f.section for f in functions} == {".text.tensor"}


@needs_nvdisasm
@pytest.mark.parametrize("length", range(0, len(DISPATCH), 97))
def test_truncated_file(length: int) -> None:
    with pytest.raises(BinaryFault) as caught:
        load_cubin(DISPATCH[:length], "short.cubin")
    assert str(caught.value).startswith("short.cubin")
    assert caught.value.expected


@given(st.integers(0, len(DISPATCH) - 1), st.integers(0, 255))
@settings(max_examples=300, deadline=None)
def test_damaged_byte_is_refused_or_read(position: int, value: int) -> None:
    data = bytearray(DISPATCH)
    data[position] = value
    try:
        cubin = read(bytes(data))
    except InputError:
        return
    assert all(f.start + f.size <= len(cubin.code[f.section]) for f in cubin.functions)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "0 bytes"),
        (b"//\n.version 8.0" + bytes(80), "bytes"),
        (b"\x7fELF\x01\x01" + bytes(80), "another ELF class"),
        (DISPATCH[:18] + b"\x3e\x00" + DISPATCH[20:], "machine 62"),
    ],
)
def test_other_files(data: bytes, found: str) -> None:
    with pytest.raises(BinaryFault, match=found):
        load_cubin(data, "x.cubin")


def test_unsupported_architecture_is_refused() -> None:
    flags = (75 << 8) | 2
    data = DISPATCH[:_FLAGS_AT] + struct.pack("<I", flags) + DISPATCH[_FLAGS_AT + 4 :]
    with pytest.raises(UnsupportedArchitecture, match="sm_75"):
        load_cubin(data, "old.cubin")


def test_launch_facts() -> None:
    cubin = read(MAILBOX)
    (kernel,) = cubin.functions
    own = decode_attributes(cubin.information[".nv.info.mailbox"])
    facts = launch_facts(own, decode_attributes(cubin.information[".nv.info"]), kernel.index)
    assert facts.required_threads == (256, 1, 1)
    assert facts.threads == 256
    assert facts.cluster == (2, 1, 1)
    assert facts.explicit_cluster is False
    assert facts.maximum_registers == 128
    assert facts.registers == 128
    assert facts.attributes["mbarriers"] == 2
    assert facts.attributes["named_barriers"] == 2
    assert facts.attributes["mbarrier_instructions"] == (0x140, 0x150, 0x3D0, 0x500, 0x5C0)
    assert facts.attributes["register_reconfiguration"] is True
    assert facts.attributes["launches_dependents"] is True


def test_indirect_branch_targets() -> None:
    own = decode_attributes(read(DISPATCH).information[".nv.info.dispatch"])
    assert indirect_branch_targets(own) == {0x90: (0xA0, 0xD0, 0x170, 0x1E0)}


@given(st.binary(max_size=60))
def test_attributes_of_any_bytes(content: bytes) -> None:
    attributes = decode_attributes(content)
    assert sum(4 + len(a.payload) for a in attributes) <= len(content)
    assert all(len(targets) <= len(content) for targets in indirect_branch_targets(attributes).values())
