"""SASS operands: the forms that nvdisasm prints, and text that it never prints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxaudit.frontends.sass.operands import parse_operand, parse_operands, with_commas
from ptxaudit.ir.operands import Immediate, Memory, Negated, Opaque, Operand, Register, Symbol, Vector

R = Register

FORMS: list[tuple[str, tuple[Operand, ...]]] = [
    ("R4,RZ,0x10,!PT", (R("R4"), R("RZ"), Immediate(16), Negated(R("PT")))),
    ("R23.reuse,-R2,-0x10", (R("R23"), Negated(R("R2")), Immediate(-16))),
    ("0.5,-INF ,+INF,12582912", tuple(Immediate(v) for v in (0.5, -float("inf"), float("inf"), 12582912.0))),
    ("|R3|,~R3", (Vector((R("R3"), Opaque("||"))), Vector((R("R3"), Opaque("~"))))),
    ("R2.H1_H1,R4.64", (Vector((R("R2"), Opaque("H1_H1"))), R("R4"))),
    ("c[0x0][0x28]", (Memory((), 0x28, space="const", bank=0),)),
    ("cx[UR4][R2+0x10]", (Memory((R("R2"),), 16, space="const", descriptor=R("UR4")),)),
    ("-c[0x0][0x8]", (Negated(Memory((), 8, space="const", bank=0)),)),
    ("[R3+URZ+0x2d0b0]", (Memory((R("R3"),), 0x2D0B0),)),
    ("[R2+UR4+-0x4]", (Memory((R("R2"), R("UR4")), -4),)),
    ("[R0.X16+0x4]", (Memory((), 4, (Vector((R("R0"), Opaque("X16"))),)),)),
    ("desc[UR6][R4.64+-0x4],R3", (Memory((R("R4"),), -4, descriptor=R("UR6")), R("R3"))),
    ("desc[URZ]", (Memory((), space="desc"),)),
    ("[R229+0x4000],[R6.64],P5", (Memory((R("R229"),), 0x4000), Memory((R("R6"),)), R("P5"))),
    ("[R2],desc[UR4][R6.64]", (Memory((R("R2"),)), Memory((R("R6"),), descriptor=R("UR4")))),
    ("gdesc[UR8].tnspB", (Memory((R("UR8"),), 0, (Opaque("tnspB"),), "gdesc"),)),
    (
        "tmem[UR5+0x100],idesc[UR39]",
        (Memory((R("UR5"),), 256, space="tmem"), Memory((R("UR39"),), space="idesc")),
    ),
    ("SB0,0x1", (R("SB0"), Immediate(1))),
    ("{5,4,0}", (Vector((Immediate(5), Immediate(4), Immediate(0))),)),
    ("SR_TID.X,SR_CgaCtaId,Rpc.LO", (R("SR_TID.X"), R("SR_CgaCtaId"), R("Rpc.LO"))),
    ("R2,$__internal_0_$__name", (R("R2"), Symbol("$__internal_0_$__name"))),
    ("QNAN", (Opaque("QNAN"),)),
]


@pytest.mark.parametrize(("text", "expected"), FORMS, ids=[text for text, _ in FORMS])
def test_form(text: str, expected: tuple[Operand, ...]) -> None:
    assert parse_operands(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("R6[UR8]", "R6,[UR8]"),
        ("P4[UR16],R7", "P4,[UR16],R7"),
        ("PT,RZ[R3.64+UR4],R2", "PT,RZ,[R3.64+UR4],R2"),
        ("URZ[UR8+0x20008],UR4", "URZ,[UR8+0x20008],UR4"),
        ("R2.reuse[R4]", "R2.reuse,[R4]"),
        ("R0,desc[UR4][R2.64]", "R0,desc[UR4][R2.64]"),
        ("R0desc[UR4][R2.64]", "R0,desc[UR4][R2.64]"),
        ("[R229+0x4000][R6.64],P5", "[R229+0x4000],[R6.64],P5"),
        ("[R2]desc[UR4][R6.64]", "[R2],desc[UR4][R6.64]"),
        ("[UR4][UR14],UR6", "[UR4],[UR14],UR6"),
        ("R1,c[0x0][0x28],cx[UR4][R2+0x10]", "R1,c[0x0][0x28],cx[UR4][R2+0x10]"),
        ("gdesc[UR8].tnspB,R24,tmem[UR5+0x100]", "gdesc[UR8].tnspB,R24,tmem[UR5+0x100]"),
    ],
)
def test_a_comma_that_a_release_of_the_disassembler_leaves_out(text: str, expected: str) -> None:
    """nvdisasm 13.2 to 13.4 print ``R6[UR8]`` where 13.5 prints ``R6,[UR8]``."""
    assert with_commas(text) == expected
    assert with_commas(expected) == expected


def test_no_operands() -> None:
    assert parse_operands("") == ()


@given(st.text(alphabet="RUPZ0123456789xabcdef.[]{}+-!~|,cdesgtm _@$\u00e9", max_size=40))
def test_anything_parses(text: str) -> None:
    operands = parse_operands(text)
    assert bool(operands) == bool(text)


@given(st.text(max_size=20))
def test_what_is_not_understood_keeps_its_text(text: str) -> None:
    operand = parse_operand(text)
    assert not isinstance(operand, Opaque) or operand.text == text.strip()
