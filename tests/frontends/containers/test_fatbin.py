"""Fatbins: what fatbinary writes is read whole, what is broken is named and passed."""

import io

import pytest
from container_builders import CONTAINERS, CUBIN, LZ4, PTX, TARGET_A, TARGET_F, ZSTD, fatbin, fatbin_entry

from ptxaudit.errors import BinaryFault
from ptxaudit.frontends.containers.fatbin import Entry, entry_content, read_entries


def read(data: bytes) -> list[Entry | BinaryFault]:
    return list(read_entries(io.BytesIO(data), 0, len(data), "k.fatbin"))


def faults(data: bytes) -> list[str]:
    return [str(one) for one in read(data) if isinstance(one, BinaryFault)]


def entries(data: bytes) -> list[Entry]:
    return [one for one in read(data) if isinstance(one, Entry)]


@pytest.mark.parametrize("mode", ["none", "speed", "size"])
def test_every_compression_gives_the_same_images(mode: str) -> None:
    data = (CONTAINERS / f"{mode}.fatbin").read_bytes()
    found = entries(data)
    assert [(one.kind, one.architecture.name) for one in found] == [
        (2, "sm_90a"),
        (2, "sm_100"),
        (2, "sm_100a"),
        (2, "sm_100f"),
        (1, "sm_100f"),
    ]
    assert {one.identifier for one in found} == {"b.cu"}
    contents = [entry_content(io.BytesIO(data), one, "k").rstrip(b"\0") for one in found]
    plain = (CONTAINERS / "none.fatbin").read_bytes()
    assert contents == [entry_content(io.BytesIO(plain), one, "k").rstrip(b"\0") for one in entries(plain)]
    assert all(one.startswith(b"\x7fELF") for one in contents[:4])
    assert b".target sm_100f" in contents[4]


@pytest.mark.parametrize("flags", [0, LZ4, ZSTD])
@pytest.mark.parametrize(("suffix", "name"), [(0, "sm_90"), (TARGET_A, "sm_90a"), (TARGET_F, "sm_90f")])
def test_flags_say_the_target_and_the_compression(flags: int, suffix: int, name: str) -> None:
    data = fatbin(fatbin_entry(PTX, 1, 90, flags | suffix))
    (entry,) = entries(data)
    assert entry.architecture.name == name
    assert entry_content(io.BytesIO(data), entry, "k").rstrip(b"\0") == PTX


def test_containers_follow_each_other_with_padding_between() -> None:
    one, other = fatbin(fatbin_entry(PTX, 1)), fatbin(fatbin_entry(CUBIN), fatbin_entry(CUBIN))
    found = entries(one + bytes(72) + other + bytes(8))
    assert [entry.container for entry in found] == [0, len(one) + 72, len(one) + 72]


def test_reading_goes_on_behind_a_broken_header() -> None:
    good = fatbin(fatbin_entry(PTX, 1))
    broken = b"\x50\xed\x55\xba\x07\x00\x10\x00" + bytes(64)
    assert faults(good + broken + good) == [
        f"k.fatbin+{len(good):#x}: found a fatbin of version 7 with a header of 16 bytes, "
        "expected version 1 and 16 bytes"
    ]
    assert len(entries(good + broken + good)) == 2
    assert len(entries(good + b"rubbish!" * 9 + good)) == 2
    assert "found bytes 72756262" in faults(b"rubbish!" * 9 + good)[0]


def test_a_broken_entry_ends_its_container_only() -> None:
    first, second = fatbin_entry(PTX, 1), bytearray(fatbin_entry(CUBIN))
    second[4:8] = (7).to_bytes(4, "little")
    data = fatbin(first, bytes(second)) + fatbin(first)
    assert len(entries(data)) == 2
    assert ["header of 7 bytes" in fault for fault in faults(data)] == [True]


def test_a_truncated_fatbin_gives_what_is_whole() -> None:
    data = fatbin(fatbin_entry(PTX, 1), fatbin_entry(CUBIN))
    cut = data[:-100]
    assert len(entries(cut)) == 1
    assert len(faults(cut)) == 2
    assert "bytes that are left" in faults(cut)[0]


@pytest.mark.parametrize(
    ("flags", "damage", "complaint"),
    [
        (LZ4, lambda stored: bytes(len(stored)), "LZ4"),
        (ZSTD, lambda stored: bytes(len(stored)), "zstd"),
        (ZSTD, lambda stored: stored[: len(stored) // 2] + bytes(len(stored) - len(stored) // 2), "zstd"),
    ],
)
def test_a_corrupt_compressed_entry_is_named(flags: int, damage: object, complaint: str) -> None:
    data = fatbin(fatbin_entry(CUBIN, flags=flags))
    (entry,) = entries(data)
    stored = data[entry.offset : entry.offset + entry.stored]
    broken = data[: entry.offset] + damage(stored) + data[entry.offset + entry.stored :]  # type: ignore[operator]
    with pytest.raises(BinaryFault, match=f"a compressed fatbin entry that is broken \\({complaint}"):
        entry_content(io.BytesIO(broken), entry, "k.fatbin")


@pytest.mark.parametrize("flags", [LZ4, ZSTD])
@pytest.mark.parametrize("claimed", [1, len(CUBIN) - 1, len(CUBIN) + 1, 1 << 29, 1 << 40])
def test_an_entry_that_lies_about_its_size_is_refused(flags: int, claimed: int) -> None:
    data = bytearray(fatbin(fatbin_entry(CUBIN, flags=flags)))
    data[16 + 56 : 16 + 64] = claimed.to_bytes(8, "little")
    (entry,) = entries(bytes(data))
    assert entry.size == claimed
    with pytest.raises(BinaryFault, match=r"found a (compressed )?fatbin entry"):
        entry_content(io.BytesIO(data), entry, "k.fatbin")
