"""How code is shortened in prose."""

import pytest

from ptxaudit.words import brief


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("{%f1, %f2, %f3, %f4}, %rd1", "{%f1, %f2, %f3, %f4}, %rd1"),
        ("{%f1, %f2, %f3, %f4, %f5}, %rd1", "{%f1, %f2, ... %f5}, %rd1"),
        ("mma {%f1,%f2,%f3,%f4,%f5,%f6}, {%r1, %r2}, p", "mma {%f1, %f2, ... %f6}, {%r1, %r2}, p"),
        ("HGMMA R24, gdesc[UR4]", "HGMMA R24, gdesc[UR4]"),
        ("[%rd1, {%r1, %r2, %r3, %r4, %r5}], [%r6]", "[%rd1, {%r1, %r2, ... %r5}], [%r6]"),
    ],
)
def test_of_a_long_list_the_ends_are_shown(code: str, shown: str) -> None:
    assert brief(code) == shown
