"""Whatever the bytes are, a container reader answers with members or a fault, never another exception."""

import io

import pytest
from container_builders import (
    CONTAINERS,
    CUBIN,
    LZ4,
    PTX,
    ZSTD,
    archive,
    fatbin,
    fatbin_entry,
    host_elf,
    zipped,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxaudit.engine.image import BrokenImage, KernelImage, Place
from ptxaudit.engine.summary import summarise
from ptxaudit.errors import InputError
from ptxaudit.intake.fatbins import WalkOptions
from ptxaudit.intake.walk import Part, walk

FATBIN = fatbin(
    fatbin_entry(CUBIN, flags=LZ4), fatbin_entry(PTX, 1, flags=ZSTD), fatbin_entry(CUBIN, flags=0)
)
LIBRARY = host_elf({".nv_fatbin": FATBIN, ".rodata": b"x" + PTX + b"\0" + CUBIN, "__nv_relfatbin": FATBIN})
ARCHIVE = archive({"a_name_longer_than_fifteen.o": LIBRARY, "b.cubin": CUBIN})
SEEDS = {
    "cubin": CUBIN,
    "fatbin": FATBIN,
    "library": LIBRARY,
    "archive": ARCHIVE,
    "zip": zipped({"pkg/lib.so": LIBRARY, "k.ptx": PTX}),
    "nested": zipped({"inner.whl": zipped({"lib.a": ARCHIVE})}),
    "real": (CONTAINERS / "libtwo.so").read_bytes(),
}
PATCHES = st.lists(st.tuples(st.integers(0, 1 << 20), st.binary(min_size=1, max_size=8)), max_size=6)


def images(data: bytes) -> list[KernelImage | BrokenImage]:
    found = list(walk(Part(io.BytesIO(data), Place(("k",)), WalkOptions(relocatable=True))))
    assert found, "a named file without kernels is a fault"
    for one in found:
        if isinstance(one, BrokenImage):
            assert one.message.startswith("k")
            assert "\n" not in one.message
        elif isinstance(one, KernelImage):
            with_summary(one)
    return [one for one in found if isinstance(one, KernelImage | BrokenImage)]


def with_summary(image: KernelImage) -> None:
    try:
        summarise(image)
    except InputError as error:
        assert image.name in str(error)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_seeds_are_whole(seed: str) -> None:
    assert all(isinstance(one, KernelImage) for one in images(SEEDS[seed]))


@pytest.mark.parametrize("name", ["two\nlines.o", "\x1b[2Jcleared.o", "\u202eo.nrettap", "bell\a.cubin"])
def test_a_members_name_stays_on_its_line(name: str) -> None:
    broken = [one for one in images(zipped({name: LIBRARY[:200]})) if isinstance(one, BrokenImage)]
    assert broken
    assert all(one.message.isprintable() for one in broken)


@pytest.mark.parametrize("seed", SEEDS)
@given(patches=PATCHES, cut=st.integers(0, 1 << 20))
@settings(max_examples=60, deadline=None)
def test_mutated_containers_raise_nothing(seed: str, patches: list[tuple[int, bytes]], cut: int) -> None:
    data = bytearray(SEEDS[seed])
    for position, content in patches:
        start = position % len(data)
        data[start : start + len(content)] = content
    images(bytes(data[: max(1, len(data) - cut % len(data))]) if cut % 3 == 0 else bytes(data))


@pytest.mark.parametrize("seed", ["fatbin", "library", "archive", "zip"])
def test_every_truncation_raises_nothing(seed: str) -> None:
    data = SEEDS[seed]
    step = max(1, len(data) // 150)
    for size in range(1, len(data), step):
        images(data[:size])


@given(
    st.binary(max_size=200),
    st.sampled_from([b"", b"!<arch>\n", b"PK\x03\x04", b"\x7fELF\x02\x01", FATBIN[:16]]),
)
@settings(max_examples=200, deadline=None)
def test_any_bytes_raise_nothing(content: bytes, magic: bytes) -> None:
    images(magic + content)


def test_headers_with_the_largest_numbers_raise_nothing() -> None:
    for data in SEEDS.values():
        for offset in range(0, min(len(data), 256), 4):
            broken = data[:offset] + b"\xff\xff\xff\xff" + data[offset + 4 :]
            images(broken)
