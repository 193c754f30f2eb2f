"""Text from an input is one printable line, and what printed as itself before is unchanged."""

from hypothesis import given
from hypothesis import strategies as st

from ptxaudit.printable import printable


@given(st.text(st.characters(codec=None)))
def test_any_text_becomes_one_printable_line(text: str) -> None:
    assert printable(text).isprintable()
    assert printable(printable(text)) == printable(text)


def test_names_as_people_write_them_are_kept() -> None:
    assert printable("pkg.whl!käfig/核.so fatbin 3 sm_90a") == "pkg.whl!käfig/核.so fatbin 3 sm_90a"


def test_what_does_not_print_is_spelt() -> None:
    assert printable("a\nb\x1b[2J\u202e\udc80") == "a\\nb\\x1b[2J\\u202e\\udc80"
