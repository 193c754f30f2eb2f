"""What a user reads about text that is not PTX: the place, what was found and what was expected."""

import pytest

from ptxaudit.errors import InputError, SyntaxFault, UnsupportedArchitecture
from ptxaudit.frontends.ptx import load_ptx
from ptxaudit.source import SourceText

HEAD = ".version 8.8\n.target sm_90a\n"
KERNEL = HEAD + ".entry k() {\n"


def fault(text: str) -> SyntaxFault:
    with pytest.raises(SyntaxFault) as caught:
        load_ptx(SourceText("t.ptx", text))
    return caught.value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t.ptx:1:1: found an empty file, expected '.version'"),
        (" \n\t", "t.ptx:1:1: found an empty file, expected '.version'"),
        ("hello world", "t.ptx:1:1: found 'hello', expected '.version' (the text is not PTX)"),
        ("\x7fELF\0", "t.ptx:1:1: found character '\\x7f', expected '.version' (the text is not PTX)"),
        ("// only\n", "t.ptx:2:1: found end of file, expected '.version' (the text is not PTX)"),
        (".version 8\n", "t.ptx:1:10: found '8', expected a version number such as 8.8"),
        (".version 8.8\n", "t.ptx:2:1: found end of file, expected a .target directive in the module"),
        (HEAD + "mov.u32 a, b;", "t.ptx:3:1: found 'mov', expected a module-level directive"),
        (HEAD + ".global b;", "t.ptx:3:9: found 'b', expected a type such as .b32"),
        (HEAD + ".global .b33 b;", "t.ptx:3:9: found '.b33', expected a state space, a type or a name"),
        (HEAD + ".foo", "t.ptx:3:1: found '.foo', expected a declaration or directive"),
        (HEAD + ".entry k() ", "t.ptx:3:12: found end of file, expected a function directive, '{' or ';'"),
        (KERNEL + "ret;", "t.ptx:4:5: found end of file, expected '}' at the end of the function"),
        (KERNEL + "  mov.u32 %r1 %r2;}", "t.ptx:4:15: found '%r2', expected ',' or ';'"),
        (KERNEL + "  mov.u32 %r1,, %r2;}", "t.ptx:4:15: found ',', expected an operand"),
        (KERNEL + "  ld.b32 %r1, [%r2;}", "t.ptx:4:19: found ';', expected ',' or ']'"),
        (KERNEL + "  mov.u32 %r1, 09;}", "t.ptx:4:16: found malformed number '09', expected a number"),
        (KERNEL + "  mov.u32 %r1, {%r2;\n}", "t.ptx:4:20: found ';', expected ',' or '}'"),
        (KERNEL + "ret /* x", "t.ptx:4:5: found an unterminated comment, expected '*/'"),
        (KERNEL + '.pragma "x', "t.ptx:4:9: found an unterminated string, expected '\"' on the same line"),
        (KERNEL + "@p {ret;}}", "t.ptx:4:4: found '{', expected an instruction"),
        (KERNEL + "bra L;}", "t.ptx:4:1: found undeclared label 'L', expected a label in scope"),
        (KERNEL + "{L:} bra L;}", "t.ptx:4:6: found undeclared label 'L', expected a label in scope"),
        (KERNEL + "L: brx.idx a, L;}", "t.ptx:4:4: found 'L', expected a label of .branchtargets"),
        (KERNEL + "L: L: ret;}", "t.ptx:4:4: found a second label 'L', expected a new name"),
        (KERNEL + "L: L: .calltargets f;}", "t.ptx:4:4: found a second label 'L', expected a new name"),
        (KERNEL + "bra 3;}", "t.ptx:4:1: found 'bra', expected one target label"),
        (KERNEL + "MOV a, b;}", "t.ptx:4:1: found 'MOV', expected an instruction"),
        (KERNEL + "mov.u32 a, é;}", "t.ptx:4:12: found character '\\xe9', expected PTX text"),
        (
            KERNEL + ".branchtargets L;}",
            "t.ptx:4:1: found '.branchtargets', expected a label before .branchtargets",
        ),
        (
            HEAD + ".global .b32 q<99999999>;",
            "t.ptx:3:16: found '99999999', expected at most 65536 variables",
        ),
    ],
)
def test_messages(text, message):
    assert str(fault(text)) == message


def test_caret_points_at_the_column():
    excerpt = fault(KERNEL + "\tmov.u32 %r1 %r2;\n}").excerpt()
    assert excerpt == "\tmov.u32 %r1 %r2;\n\t            ^"


@pytest.mark.parametrize("opening", ["{", "mov.b32 a, (", "mov.b32 a, -", "ld.b32 a, [", "mov.b64 a, {"])
def test_deep_nesting_is_refused(opening):
    text = opening + opening[-1] * 5000
    assert fault(KERNEL + text).expected == "no more than 64 levels of nesting"


def test_long_numbers_are_refused():
    assert "more than 64 bits" in fault(KERNEL + "mov.u32 a, " + "9" * 10000 + ";}").found


def test_unknown_architecture():
    with pytest.raises(UnsupportedArchitecture, match=r"t.ptx:2:1: found architecture 'gfx900'"):
        load_ptx(SourceText("t.ptx", ".version 8.8\n.target gfx900\n"))


def test_faults_are_input_errors():
    assert isinstance(fault(""), InputError)
