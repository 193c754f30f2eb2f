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


def doubling(levels: int) -> str:
    """A name in which each part consists of the one before it, twice."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    numbers = [(digits[at // 36] if at >= 36 else "") + digits[at % 36] for at in range(levels)]
    return f"_Z1fI1AIiiE{''.join(f'S_IS{one}_S{one}_E' for one in numbers)}Evv"


def test_a_name_that_grows_a_little_is_read() -> None:
    assert demangle(doubling(8)).startswith("void f<A<int, int>, f<A, A>")
    assert demangle(doubling(22)).startswith("_Z1fI1A"), "longer than a person reads"


def test_a_name_that_stands_for_gigabytes_costs_nothing_but_its_spelling() -> None:
    """Unguarded, LLVM's demangler takes 3 GB for one of 542 bytes and aborts for the next longer ones."""
    assert demangle(doubling(60)) == doubling(60)
    assert demangle(doubling(18)).startswith("void f<A<int, int>")
    assert demangle("_Z3addPfPKf") == "add(float*, float const*)"
