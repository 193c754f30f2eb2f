"""A kernel image: its identity is its content, its name is the way to it."""

import hashlib

from ptxaudit.engine.image import ImageKind, KernelImage, Place


def test_a_nested_place_is_named_by_the_way_to_it() -> None:
    place = Place(("pkg.whl",)).inside("pkg/lib.so").inside("fatbin 3 sm_90a")
    assert str(place) == "pkg.whl!pkg/lib.so!fatbin 3 sm_90a"
    assert str(place.container) == "pkg.whl!pkg/lib.so"
    assert Place(("kernel.ptx",)).container == Place(("kernel.ptx",))


def test_identity_is_the_content() -> None:
    one = KernelImage(Place(("a.ptx",)), b".version 8.0", ImageKind.PTX)
    other = KernelImage(Place(("b.zip", "a.ptx")), b".version 8.0", ImageKind.PTX, unit="b")
    assert one.sha256 == other.sha256 == hashlib.sha256(b".version 8.0").hexdigest()
    assert (one.name, other.name) == ("a.ptx", "b.zip!a.ptx")
