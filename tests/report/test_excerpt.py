"""Places are found in listings, and only where the listing really shows them."""

from html_sample import CUBIN, INVALIDATE, SPLITK_NAME, SPLITK_PTX, sample_report

from ptxaudit.report.excerpt import excerpt, index_listing, locate
from ptxaudit.rules.model import CodePlace
from ptxaudit.source import Location, LocationKind


def _ptx(line: int, text: str) -> CodePlace:
    return CodePlace("wait", Location(LocationKind.PTX, "k.ptx", line, 1), text)


def test_a_ptx_place_has_context_and_one_primary_line():
    listing = index_listing("k.ptx", SPLITK_PTX, {SPLITK_NAME})
    number = next(n for n, line in enumerate(listing.lines, 1) if "try_wait" in line)
    place = _ptx(number, "mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r70], %r61;")
    assert locate(place, SPLITK_NAME, listing) == number
    shown = excerpt(place, listing, number, {number + 4: "related"})
    numbers = [line.number for line in shown.lines]
    assert numbers.index(number) == 4
    assert all(line.text.strip() for line in shown.lines)
    assert {line.label: line.mark for line in shown.lines if line.mark} == {
        str(number): "primary",
        str(number + 4): "related",
    }
    assert shown.lines[4].text == "    mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r70], %r61;"
    assert any(line.text == "$L__mailbox_wait:" for line in shown.lines)


def test_a_line_without_the_opcode_is_never_marked():
    listing = index_listing("k.ptx", SPLITK_PTX, {SPLITK_NAME})
    assert locate(_ptx(4, "mbarrier.try_wait.parity.b64 %p, [%r], %r;"), SPLITK_NAME, listing) is None
    assert locate(_ptx(9999, "ret;"), SPLITK_NAME, listing) is None
    assert locate(_ptx(2, " "), SPLITK_NAME, listing) is None


def test_an_instruction_after_its_guard_line_is_found():
    listing = index_listing("k.ptx", "ret;\n@%p1\n  bra.uni\n  $L;\n", set())
    assert locate(_ptx(2, "@%p1 bra.uni $L;"), "k", listing) == 2


def test_an_offset_belongs_to_its_own_function():
    text = "\n".join(
        f".text.{name}:\n        /*0000*/  LDC R1, c[0x0][0x28] ;\n        /*0010*/  {code} ;"
        for name, code in (("one", "EXIT"), ("two", "EXIT"), ("three", "NOP"))
    )
    listing = index_listing("k.cubin", text, {"one", "two", "three"})
    place = CodePlace("exit", Location(LocationKind.SASS, "k.cubin", offset=0x10), "EXIT ;")
    assert locate(place, "two", listing) == 6
    assert locate(place, "elsewhere", listing) is None, "two functions have it: ambiguous"
    assert locate(place, "three", listing) is None, "its own instruction there is another"
    assert listing.starts == {"one": 1, "two": 4, "three": 7}


def test_a_sass_excerpt_shows_offsets_once():
    listing = index_listing(CUBIN, sample_report().listings[CUBIN], {SPLITK_NAME})
    number = locate(INVALIDATE.primary, SPLITK_NAME, listing)
    assert number is not None
    shown = excerpt(INVALIDATE.primary, listing, number, {})
    marked = next(line for line in shown.lines if line.mark)
    assert (marked.label, marked.text.strip()) == ("0a40", "CCTL.IVALL ;")
    labels = [line.text for line in shown.lines if not line.label]
    assert labels == [".L_x_12:"]
    assert not any("/*" in line.text for line in shown.lines)


def test_a_place_without_a_listing_stands_alone():
    place = CodePlace("fence", Location(LocationKind.SASS, "k.cubin", offset=0x40), "  MEMBAR.SC.GPU ;")
    shown = excerpt(place, None, 0, {}, "related")
    assert shown.listing is None
    assert [(line.label, line.text, line.mark) for line in shown.lines] == [
        ("0040", "MEMBAR.SC.GPU ;", "related")
    ]


def test_line_separators_of_other_kinds_do_not_shift_lines():
    listing = index_listing("k.ptx", "// a\u2028b\x0cc\r\nret;\r\n", set())
    assert listing.lines[1] == "ret;"
    assert locate(_ptx(2, "ret;"), "k", listing) == 2


def test_a_stated_line_of_a_sass_listing_decides_among_equal_offsets():
    text = "// one\n0x0000  NOP\n0x0010  EXIT\n// two\n0x0000  NOP\n0x0010  EXIT"
    listing = index_listing("k.cubin", text, {"one", "two"})
    assert listing.starts == {"one": 1, "two": 4}
    for line in (3, 6):
        place = CodePlace("exit", Location(LocationKind.SASS, "k.cubin", line, None, 0x10), "EXIT")
        assert locate(place, "renamed", listing) == line
    wrong = CodePlace("exit", Location(LocationKind.SASS, "k.cubin", 2, None, 0x10), "EXIT")
    assert locate(wrong, "two", listing) == 6


def test_context_is_code_of_the_same_function():
    text = """\
.visible .entry other()
{
    ret;
}
.visible .entry k()
{
    mov.u32 %r1, 1;
    .loc 1 2 3, function_name $L__info_string2, inlined_at 1 2 3
    // begin inline asm
    bar.sync 0;
    // end inline asm

$L__tmp4:
    ret;
}
.visible .entry last()
"""
    listing = index_listing("k.ptx", text, {"k"})
    shown = excerpt(_ptx(10, "bar.sync 0;"), listing, 10, {})
    assert [line.number for line in shown.lines] == [7, 10, 14]
    assert [line.number for line in excerpt(_ptx(10, "bar.sync 0;"), listing, 10, {8: "also"}).lines] == [
        7,
        8,
        10,
        14,
    ]
