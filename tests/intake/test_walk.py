"""The walk: every image by its place, whatever it is nested in; what is broken by name, the rest whole."""

import io

import pytest
from container_builders import (
    CONTAINERS,
    CUBIN,
    LZ4,
    PTX,
    TARGET_F,
    ZSTD,
    archive,
    fatbin,
    fatbin_entry,
    host_elf,
    zipped,
)

from ptxaudit.arch import Architecture
from ptxaudit.engine.image import BrokenImage, Found, KernelImage, PassedOver, Place
from ptxaudit.engine.selection import Selection
from ptxaudit.engine.summary import summarise
from ptxaudit.intake.fatbins import WalkOptions
from ptxaudit.intake.sources import find_images
from ptxaudit.intake.walk import Part, walk

FATBIN = fatbin(fatbin_entry(CUBIN, flags=LZ4 | 0x100000), fatbin_entry(PTX, 1, flags=ZSTD | 0x100000))


def found_in(data: bytes, name: str = "k", **options: object) -> list[Found]:
    return list(walk(Part(io.BytesIO(data), Place((name,)), WalkOptions(**options))))  # type: ignore[arg-type]


def names(found: list[Found]) -> list[str]:
    return [str(one.place) for one in found if isinstance(one, KernelImage)]


def messages(found: list[Found]) -> list[str]:
    return [one.message for one in found if isinstance(one, BrokenImage)]


@pytest.mark.parametrize("file", ["libtwo.so", "libtwo.a"])
def test_a_real_library_gives_every_kernel(file: str) -> None:
    path = CONTAINERS / file
    images = [one for one in find_images([str(path)], WalkOptions()) if isinstance(one, KernelImage)]
    summaries = [summarise(image) for image in images]
    assert [
        (image.kind.value, summary.architecture, summary.kernels)
        for image, summary in zip(images, summaries, strict=True)
    ] == [
        (kind, Architecture(number, suffix), (kernel,))
        for kernel in ("_Z3addPfPKf", "_ZN2ns5scaleIfEEvPT_S1_")
        for kind, number, suffix in (("cubin", 90, "a"), ("cubin", 100, "f"), ("ptx", 100, "f"))
    ]
    inside = [image.name.removeprefix(f"{path}!") for image in images]
    if file.endswith(".so"):
        assert inside == [
            f"fatbin {number} {target}"
            for number in (1, 2)
            for target in ("sm_90a", "sm_100f", "compute_100f")
        ]
    else:
        assert inside == [
            f"{member}!fatbin 1 {target}"
            for member in ("a.o", "b.o")
            for target in ("sm_90a", "sm_100f", "compute_100f")
        ]
    assert [image.unit for image in images] == [image.name.rpartition(" ")[0] for image in images]


def test_one_kernel_is_the_same_image_wherever_it_is() -> None:
    library = host_elf({".nv_fatbin": FATBIN})
    data = zipped(
        {
            "a.cubin": CUBIN,
            "a.ptx": PTX,
            "lib.so": library,
            "lib.a": archive({"a_rather_long_member_name.o": library}),
            "inner.zip": zipped({"raw.so": host_elf({".rodata": b"x" + CUBIN + b"y" + b"\0" + PTX + b"\0"})}),
        }
    )
    images = [one for one in found_in(data, "pkg.whl") if isinstance(one, KernelImage)]
    assert [(image.name, image.content) for image in images] == [
        ("pkg.whl!a.cubin", CUBIN),
        ("pkg.whl!a.ptx", PTX),
        ("pkg.whl!lib.so!fatbin 1 sm_90a", CUBIN),
        ("pkg.whl!lib.so!fatbin 1 compute_90a", PTX),
        ("pkg.whl!lib.a!a_rather_long_member_name.o!fatbin 1 sm_90a", CUBIN),
        ("pkg.whl!lib.a!a_rather_long_member_name.o!fatbin 1 compute_90a", PTX),
        ("pkg.whl!inner.zip!raw.so!cubin at 0x41", CUBIN),
        (f"pkg.whl!inner.zip!raw.so!ptx at {0x41 + len(CUBIN) + 2:#x}", PTX),
    ]
    assert len({image.sha256 for image in images}) == 2
    assert images[0].unit == images[1].unit == "pkg.whl!a"


def test_two_images_for_one_target_are_told_apart() -> None:
    data = fatbin(fatbin_entry(CUBIN), fatbin_entry(CUBIN))
    assert names(found_in(data)) == ["k!fatbin 1 sm_90a", "k!fatbin 1 sm_90a #2"]


def test_relocatable_code_is_taken_where_nothing_is_linked_or_when_asked_for() -> None:
    both = host_elf({"__nv_relfatbin": FATBIN, ".nv_fatbin": FATBIN})
    linked = ["k!fatbin 1 sm_90a", "k!fatbin 1 compute_90a"]
    relocatable = ["k!relfatbin 1 sm_90a", "k!relfatbin 1 compute_90a"]
    assert names(found_in(both)) == linked
    assert names(found_in(both, relocatable=True)) == relocatable + linked
    assert names(found_in(host_elf({"__nv_relfatbin": FATBIN}))) == relocatable


def test_what_is_for_another_architecture_is_passed_over_without_reading_it() -> None:
    broken = fatbin_entry(CUBIN, number=100, flags=ZSTD | TARGET_F).replace(b"\x28\xb5\x2f\xfd", b"oops")
    data = fatbin(fatbin_entry(CUBIN), broken)
    found = found_in(data, selection=Selection(architecture=Architecture(90)))
    assert names(found) == ["k!fatbin 1 sm_90a"]
    assert [one for one in found if isinstance(one, PassedOver)] == [
        PassedOver(Place(("k", "fatbin 1 sm_100f")))
    ]
    assert messages(found) == []


def test_a_fatbin_states_the_suffix_that_a_cubin_does_not() -> None:
    (image,) = found_in(fatbin(fatbin_entry(CUBIN, number=90, flags=TARGET_F)))
    assert isinstance(image, KernelImage)
    assert image.architecture == Architecture(90, "f")
    # This cubin notes its own target.
    assert summarise(image).architecture == Architecture(90, "a")


def test_broken_members_are_named_and_the_rest_is_found() -> None:
    corrupt = fatbin_entry(CUBIN, flags=ZSTD)[:-40] + bytes(40)
    cut = CUBIN[: len(CUBIN) // 2]
    library = host_elf({".nv_fatbin": fatbin(corrupt, fatbin_entry(PTX, 1)), ".rodata": bytes(8) + cut})
    data = zipped({"lib.so": library, "lying.cubin": CUBIN, "good.cubin": CUBIN})
    at = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 4) + 24
    data = data[:at] + (1 << 20).to_bytes(4, "little") + data[at + 4 :]
    found = found_in(data, "pkg.whl")
    assert names(found) == ["pkg.whl!lib.so!fatbin 1 compute_90a", "pkg.whl!good.cubin"]
    first, second, third = messages(found)
    assert first.startswith("pkg.whl!lib.so!fatbin 1 sm_90+")
    assert "a compressed fatbin entry that is broken" in first
    assert second.startswith("pkg.whl!lib.so+")
    assert "a cubin that is longer than" in second
    assert third.startswith("pkg.whl!lying.cubin: found ")


def test_a_library_that_was_cut_short_gives_what_is_left() -> None:
    data = host_elf({".nv_fatbin": FATBIN + FATBIN})
    found = found_in(data[: 64 + len(FATBIN) + 200])
    assert names(found)[:2] == ["k!fatbin 1 sm_90a", "k!fatbin 1 compute_90a"]
    assert any("expected the section table" in message for message in messages(found))


def test_zips_in_zips_have_an_end() -> None:
    data = zipped({"k.ptx": PTX})
    for _ in range(12):
        data = zipped({"inner.zip": data})
    found = found_in(data)
    assert names(found) == []
    assert len(messages(found)) == 1
    assert "8 deep" in messages(found)[0]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (host_elf({".text": b"abc"}), "k: found a host ELF without kernels"),
        (zipped({"readme.txt": b"hello"}), "k: found a zip without kernels"),
        (archive({"a.o": host_elf({})}), "k: found an archive without kernels"),
        (bytes(100), "k: found a file without kernels"),
        (b"!<thin>\n", "k: found a thin archive, expected one that holds its members"),
    ],
)
def test_a_named_file_without_kernels_is_a_fault(data: bytes, complaint: str) -> None:
    (message,) = messages(found_in(data))
    assert message.startswith(complaint)


def test_a_binary_of_another_system_is_searched() -> None:
    assert names(found_in(b"MZ" + bytes(510) + FATBIN + bytes(100) + FATBIN)) == [
        "k!fatbin 1 sm_90a",
        "k!fatbin 1 compute_90a",
        "k!fatbin 2 sm_90a",
        "k!fatbin 2 compute_90a",
    ]


def test_what_only_looks_like_an_image_is_left() -> None:
    code = FATBIN[:8] + b"\x48\x89\x45\xf0\x48\x8b\x84\x24" * 20
    assert names(found_in(host_elf({".text": code, ".nv_fatbin": FATBIN}))) == [
        "k!fatbin 1 sm_90a",
        "k!fatbin 1 compute_90a",
    ]
    words = b"\0.version %d.%d\n.target sm_%d\0.version 7.0\nno target\0\x50\xed\x55\xbabut no fatbin\0"
    lead = b"\0// Generated by a compiler\n//\n" + PTX + b"\0"
    (image,) = found_in(host_elf({".rodata": words + lead}))
    assert isinstance(image, KernelImage)
    assert image.content == lead.strip(b"\0")


def test_images_across_the_pieces_of_a_search_are_found() -> None:
    for at in ((1 << 22) - 8, (1 << 22) - 1, 1 << 22, (1 << 22) + 3):
        data = host_elf({".data": bytes(at - 64) + CUBIN + bytes(50) + PTX})
        assert names(found_in(data)) == [f"k!cubin at {at:#x}", f"k!ptx at {at + len(CUBIN) + 50:#x}"]
