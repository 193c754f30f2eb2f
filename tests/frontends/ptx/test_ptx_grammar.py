"""The grammar: what each construct of PTX becomes in the syntax tree, and that printing keeps it."""

import pytest

from ptxaudit.frontends.ptx import parse_ptx, print_ptx, syntax
from ptxaudit.frontends.ptx.constants import constant_value
from ptxaudit.source import SourceText

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"


def module(text: str) -> syntax.Module:
    tree = parse_ptx(SourceText("t.ptx", HEAD + text))
    assert parse_ptx(SourceText("p.ptx", print_ptx(tree))) == tree
    assert parse_ptx(SourceText("t.ptx", HEAD + text), fast=False) == tree
    return tree


def item(text: str) -> syntax.Item:
    items = module(text).items
    assert len(items) == 4
    return items[3]


def body(text: str) -> tuple[syntax.Statement, ...]:
    function = item(".entry k() {\n" + text + "\n}")
    assert isinstance(function, syntax.Function)
    assert function.body is not None
    return function.body.statements


def operands(text: str) -> tuple[syntax.Operand, ...]:
    (statement,) = body(text)
    assert isinstance(statement, syntax.Instruction)
    return statement.operands


def test_module_head():
    tree = parse_ptx(SourceText("t.ptx", ".version 9.0\n.target sm_100a, debug\n.address_size 64"))
    assert tree.version == (9, 0)
    assert tree.target.options == ("sm_100a", "debug")
    assert tree.items[2] == syntax.AddressSize(64)


def test_module_items():
    text = (
        '.file 1 "a b.cu", 12, 34\n.alias f, g;\n.pragma "nounroll", "x";\n'
        '@@DWARF .byte 0x2b, 0x00\n.file 2 "c.py"\n'
    )
    assert module(text).items[3:] == (
        syntax.File(1, "a b.cu", 12, 34),
        syntax.Alias("f", "g"),
        syntax.Pragma(("nounroll", "x")),
        syntax.DwarfLine("@@DWARF .byte 0x2b, 0x00"),
        syntax.File(2, "c.py"),
    )


def test_dwarf_section():
    text = (
        ".section .debug_info\n{\n.b8 1 // one\n.b32 .debug_abbrev\n$L__x:\n.b64 $L__a\n"
        ".b8 2\n.b16 1, 2\n.b32 $L__b-$L__a\n.b8 0}\n.section .debug_macinfo { }"
    )
    section, empty = module(text).items[3:]
    one = syntax.Literal("1")
    two = syntax.Literal("2")
    assert section == syntax.Section(
        ".debug_info",
        (
            syntax.DebugData("b8", (one,)),
            syntax.DebugData("b32", (syntax.Name(".debug_abbrev"),)),
            syntax.Label("$L__x"),
            syntax.DebugData("b64", (syntax.Name("$L__a"),)),
            syntax.DebugData("b8", (two,)),
            syntax.DebugData("b16", (one, two)),
            syntax.DebugData("b32", (syntax.Binary("-", syntax.Name("$L__b"), syntax.Name("$L__a")),)),
            syntax.DebugData("b8", (syntax.Literal("0"),)),
        ),
    )
    assert empty == syntax.Section(".debug_macinfo", ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            ".extern .shared .align 1024 .b8 dsm[];",
            syntax.VariableDeclaration(
                "shared", "b8", (syntax.Declarator("dsm", None, (None,)),), "extern", alignment=1024
            ),
        ),
        (
            ".align 8 .global .v4 .f32 a[2][3], b;",
            syntax.VariableDeclaration(
                "global",
                "f32",
                (syntax.Declarator("a", None, (2, 3)), syntax.Declarator("b")),
                alignment=8,
                vector=4,
            ),
        ),
        (
            ".weak .global .attribute(.managed, .unified(19, 0x5F)) .s32 g = -3;",
            syntax.VariableDeclaration(
                "global",
                "s32",
                (syntax.Declarator("g", None, (), syntax.Unary("-", syntax.Literal("3"))),),
                "weak",
                (syntax.Attribute("managed"), syntax.Attribute("unified", ("19", "0x5F"))),
            ),
        ),
        (
            ".const .b8 c[4] = {1, 0xFF(x), 0xFF00(generic(x))};",
            syntax.VariableDeclaration(
                "const",
                "b8",
                (
                    syntax.Declarator(
                        "c",
                        None,
                        (4,),
                        syntax.VectorList(
                            (
                                syntax.Literal("1"),
                                syntax.Applied(syntax.Literal("0xFF"), syntax.Name("x")),
                                syntax.Applied(
                                    syntax.Literal("0xFF00"),
                                    syntax.Applied(syntax.Name("generic"), syntax.Name("x")),
                                ),
                            )
                        ),
                    ),
                ),
            ),
        ),
        (
            ".global .samplerref s = { addr_mode_0 = wrap, filter_mode = linear };",
            syntax.VariableDeclaration(
                "global",
                "samplerref",
                (
                    syntax.Declarator(
                        "s",
                        initializer=syntax.VectorList(
                            (
                                syntax.Assignment("addr_mode_0", syntax.Name("wrap")),
                                syntax.Assignment("filter_mode", syntax.Name("linear")),
                            )
                        ),
                    ),
                ),
            ),
        ),
    ],
)
def test_variables(text, expected):
    assert item(text) == expected


def test_function_header():
    function = item(
        ".visible .entry k(.param .u64 .ptr .global .align 16 p, .param .align 8 .b8 q[24])\n"
        '.reqntid 128, 2\n.minnctapersm 2 .maxnreg 64 .future 1, "x" .later .explicitcluster\n.pragma "a"; {}'
    )
    assert isinstance(function, syntax.Function)
    assert (function.kind, function.linkage, function.name) == ("entry", "visible", "k")
    assert function.parameters is not None
    pointer, array = function.parameters
    assert (pointer.pointer, pointer.pointer_space, pointer.alignment) == (True, "global", 16)
    assert array.declarators == (syntax.Declarator("q", None, (24,)),)
    assert function.directives == (
        syntax.FunctionDirective("reqntid", ("128", "2")),
        syntax.FunctionDirective("minnctapersm", ("2",)),
        syntax.FunctionDirective("maxnreg", ("64",)),
        syntax.FunctionDirective("future", ("1", '"x"')),
        syntax.FunctionDirective("later"),
        syntax.FunctionDirective("explicitcluster"),
        syntax.Pragma(("a",)),
    )


def test_function_declaration():
    function = item(".extern .func (.param .b32 r) f(.param .b64 a, .reg .u32 b) .noreturn .abi_preserve 4;")
    assert isinstance(function, syntax.Function)
    assert function.body is None
    assert function.returns is not None
    assert function.returns[0].declarators[0].name == "r"
    assert [one.name for one in function.directives if isinstance(one, syntax.FunctionDirective)] == [
        "noreturn",
        "abi_preserve",
    ]


def test_entry_without_parameter_list():
    function = item(".entry k {}")
    assert isinstance(function, syntax.Function)
    assert function.parameters is None


def test_register_declarations():
    assert body(".reg .pred p, q; .reg .b32 %r<10>;\n.reg .v2 .f16 h;") == (
        syntax.VariableDeclaration("reg", "pred", (syntax.Declarator("p"), syntax.Declarator("q"))),
        syntax.VariableDeclaration("reg", "b32", (syntax.Declarator("%r", 10),)),
        syntax.VariableDeclaration("reg", "f16", (syntax.Declarator("h"),), vector=2),
    )


def test_scopes_labels_and_directives():
    text = (
        "L: { .reg .pred P; L: @!P bra L; { } }\n.loc 1 2 3\n"
        ".loc 1 2 3, function_name $L__s + 4, inlined_at 2 5 6\n"
        '.pragma "nounroll";\nT: .branchtargets L, M;\nC:.calltargets f;\n'
        "P: .callprototype (.param .b32 _) _ (.param .b64 _, .param .b8 _[]) .noreturn;\nM:"
    )
    label, scope, place, inlined, pragma, targets, calls, prototype, last = body(text)
    assert label == syntax.Label("L")
    assert isinstance(scope, syntax.Scope)
    assert scope.statements[2] == syntax.Instruction(syntax.Guard("P", True), "bra", (syntax.Name("L"),))
    assert scope.statements[3] == syntax.Scope(())
    assert place == syntax.SourceLocation(1, 2, 3)
    assert inlined == syntax.SourceLocation(1, 2, 3, "$L__s", 4, (2, 5, 6))
    assert pragma == syntax.Pragma(("nounroll",))
    assert targets == syntax.BranchTargets("T", ("L", "M"))
    assert calls == syntax.CallTargets("C", ("f",))
    assert isinstance(prototype, syntax.CallPrototype)
    assert prototype.directives == (syntax.FunctionDirective("noreturn"),)
    assert last == syntax.Label("M")


def test_label_directive_behind_a_comment():
    assert body("T: // here\n .branchtargets\n\tA,\n\tB;\nU: /* c */ .branchtargets A;") == (
        syntax.BranchTargets("T", ("A", "B")),
        syntax.BranchTargets("U", ("A",)),
    )


NAME = syntax.Name
LITERAL = syntax.Literal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mov.u32 %r1, %tid.x;", (NAME("%r1"), NAME("%tid.x"))),
        ("ret;", ()),
        ("ret ;", ()),
        ("elect.sync %r1|%p1, -1;", (syntax.Pair(NAME("%r1"), NAME("%p1")), syntax.Unary("-", LITERAL("1")))),
        ("and.pred p, !q, r;", (NAME("p"), syntax.Unary("!", NAME("q")), NAME("r"))),
        (
            "ld.b32 %r1, [a+-4];",
            (
                NAME("%r1"),
                syntax.Address((syntax.Binary("+", NAME("a"), syntax.Unary("-", LITERAL("4"))),)),
            ),
        ),
        ("ld.b32 %r1, [ a ].unified;", (NAME("%r1"), syntax.Address((NAME("a"),), ".unified"))),
        (
            "cp.async.bulk.tensor.2d [d], [m, {x, %r2}], [b];",
            (
                syntax.Address((NAME("d"),)),
                syntax.Address((NAME("m"), syntax.VectorList((NAME("x"), NAME("%r2"))))),
                syntax.Address((NAME("b"),)),
            ),
        ),
        ("mov.b64 %rd1, {lo, hi};", (NAME("%rd1"), syntax.VectorList((NAME("lo"), NAME("hi"))))),
        (
            "call.uni (r), f, (a, 1), P;",
            (
                syntax.ArgumentList((NAME("r"),)),
                NAME("f"),
                syntax.ArgumentList((NAME("a"), LITERAL("1"))),
                NAME("P"),
            ),
        ),
        (
            "mov.u32 a, (1 + 2) * 3;",
            (
                NAME("a"),
                syntax.Binary("*", syntax.Binary("+", LITERAL("1"), LITERAL("2")), LITERAL("3")),
            ),
        ),
        ("mov.f32 f, .5;", (NAME("f"), LITERAL(".5"))),
        ("mov.f32 f, 0f3F800000;", (NAME("f"), LITERAL("0f3F800000"))),
        ("mov.b32 a /* , ; */ , b // ;\n;", (NAME("a"), NAME("b"))),
        ("mov.u64 a, v+4;", (NAME("a"), syntax.Binary("+", NAME("v"), LITERAL("4")))),
    ],
)
def test_operands(text, expected):
    assert operands(text) == expected


def test_opcode_and_guard_apart():
    (statement,) = body("@ ! p mov .b32 a, b;")
    assert statement == syntax.Instruction(syntax.Guard("p", True), "mov.b32", (NAME("a"), NAME("b")))


def test_opcode_with_colons():
    (statement,) = body("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [a], b, [c];")
    assert isinstance(statement, syntax.Instruction)
    assert statement.opcode == "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("1 ? 2 : 3", 2),
        ("!0 | 6", 7),
        ("~0", -1),
        ("0x10 << 2 > 63 && 1", 1),
        ("017", 15),
        ("0b101U", 5),
        ("(.u64) -1", 2**64 - 1),
        ("WARP_SZ / 2", 16),
        ("1 / 0", None),
        ("0fBF800000", -1.0),
        ("0d3FE0000000000000", 0.5),
        ("1.5e1", 15.0),
        ("4 - 2 - 1", 1),
        ("4 - (2 - 1)", 3),
    ],
)
def test_constant_expressions(text, value):
    (_, operand) = operands(f"mov.b64 a, {text};")
    assert constant_value(operand) == value
