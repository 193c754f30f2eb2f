"""Names of functions as a person reads them; what is no mangled name stays as it is."""

import pytest

from ptxaudit.frontends.demangle import demangle


@pytest.mark.parametrize(
    ("name", "readable"),
    [
        ("_Z3addPfPKf", "add(float*, float const*)"),
        ("_ZN2ns5scaleIfEEvPT_S1_", "void ns::scale<float>(float*, float)"),
        ("_Z6kernelILi4EEvv", "void kernel<4>()"),
        ("matmul_kernel", "matmul_kernel"),
        ("_Z", "_Z"),
        ("_Zbroken", "_Zbroken"),
        ("_Z\udc80x", "_Z\udc80x"),
        ("", ""),
    ],
)
def test_names(name: str, readable: str) -> None:
    assert demangle(name) == readable


def test_a_name_that_is_very_long_is_left() -> None:
    assert demangle("_Z1f" + "P" * 100_000 + "i").startswith("_Z1f")
    assert demangle("_Z1f" + "P" * 10_000 + "i").startswith("f(int*")
