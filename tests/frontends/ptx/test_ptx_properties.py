"""Properties of the front end on generated text: faults only, two paths with one language, exact printing."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ptxaudit.errors import SyntaxFault
from ptxaudit.frontends.ptx import load_ptx, parse_ptx, print_ptx, syntax
from ptxaudit.frontends.ptx.expressions import PRECEDENCE
from ptxaudit.source import SourceText

HEAD = ".version 8.8\n.target sm_90a\n"

WORDS = """
    .version .target .entry .func .reg .b32 .pred .shared .global .align .section .b8 .loc .pragma .file
    .branchtargets .callprototype .calltargets .attribute .visible .extern .ptr .param .v4 .reqntid .alias
    .managed .debug_info .unified .s64 mov.u32 mov .u32 bra ret call call.uni setp.eq.s32 ld.global.v2.b32
    cp.async.bulk.tensor.2d.shared::cta.global brx.idx L T L: T: :: : %r1 %r %p a b _ _a $x %tid.x v.x .x % @
    @! ! @p @@ @@DWARF 0 1 8.8 12U 0x1F 0b1 017 09 1.5 1e3 .5 5. 0f3F800000 0d3FE0000000000000 "s" " ( ) [ ] {
    } < > , ; + - * / | || & && ^ << >> = == != ? ~ . # \\ /* */ // function_name inlined_at generic WARP_SZ
"""
TOKENS = st.sampled_from(
    [*WORDS.split(), "\n", "\t", "\r\n", "// c\n", "/* c */", "/* ; */", "é", "\0", "\f"]
)
STARTS = ["", HEAD, HEAD + ".entry k() {", HEAD + ".section .debug_info {", HEAD + ".global "]
SPACES = st.sampled_from(["", " ", "\n", "\t", " /* x */ ", " // y\n"])


@st.composite
def soups(draw: st.DrawFn, largest: int = 30) -> str:
    """Tokens of the language in any order, with any space between."""
    words = draw(st.lists(st.tuples(TOKENS, SPACES), max_size=largest))
    return "".join(word + space for word, space in words)


STATEMENTS = st.sampled_from(
    [
        "mov.u32 %r1, %r2;",
        "@%p1 bra L;",
        "@!p  add.s32\t%r1 ,%r2,  -4 ;",
        "ret;",
        "ret ;",
        "L:",
        "L :",
        "_:",
        "L::",
        "T: .branchtargets L, L;",
        "T: // c\n.branchtargets L;",
        "T: /* c */ .branchtargets L;",
        "{",
        "}",
        ".reg .b32 a;",
        ".reg .b33 a;",
        ".reg .b32 a<3>;",
        ".reg .v2 .b32 a, b;",
        ".loc 1 2 3",
        ".loc 1 2 3 // c",
        ".loc 1 2 3\n , inlined_at 1 2 3",
        ".loc 1 2 3 /* c */ , function_name L",
        ".loc 1 09 3",
        ".loc 1 2",
        "ld.global.v2.b32 {%r1, %r2}, [%rd1+8];",
        "ld.global.b32 %r1, [ %rd1 + -8 ].unified;",
        "elect.sync %r1|%p1, -1;",
        "setp.eq.s32 p | q, a, b;",
        "mov.b64 a, {b,{c},d};",
        "cp.async.bulk.tensor.2d [a], [m, {x, y}], [b];",
        "call.uni (r), f, (a, b), T;",
        "mov.u32 a, (1+2)*3;",
        "mov.u32 a, 1 | 2;",
        "mov.u32 a, b | 2;",
        "mov.u32 a, 7 % 2;",
        "mov.u32 a, 6/2;",
        "mov.u32 a, b",
        "mov.u32 a b;",
        "mov.u32 a,, b;",
        "mov.u32 ,;",
        "mov.u32 a, 09;",
        "mov.u32 a, [b], ];",
        "mov.u32 a, [b][c];",
        "mov.u32 a, {b}{c};",
        "mov.u32 a, b{c};",
        "mov.u32 a, v.x, v .x, v.xyz;",
        "mov.u32 a, %tid.x.y;",
        "mov.u32 a, %;",
        "mov.u32 a, .5;",
        "mov .u32 a, b;",
        "mov.u32;",
        "mov.u32a, b;",
        "mov.u32 a /* , */, b;",
        "mov.u32 a, // ;\n b;",
        'mov.u32 a, "s";',
        "Mov.u32 a, b;",
        "@p{",
        "@p\nret;",
        "@ p ret;",
        "@_ ret;",
        "@%p1 ret; ret;",
        ";",
        "mov.u32 a,\n\t b;",
        "mov.u32 a, é;",
        '.pragma "x";',
        "// c\n",
        "/* c */",
        "/* c",
        "\f",
        "mov.u32\fa, b;",
        "mov.u32 a,\fb;",
        "mov.u32 \u00a0a;",
    ]
)


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """Kernels of usual, unusual and wrong statements."""
    pieces = draw(st.lists(st.tuples(STATEMENTS | soups(3), SPACES), max_size=12))
    return HEAD + ".entry k() {" + "".join(piece + space for piece, space in pieces) + "}"


def outcome(text: str, fast: bool) -> str:
    """The tree with its positions, or the message."""
    try:
        return repr(parse_ptx(SourceText("t.ptx", text), fast=fast))
    except SyntaxFault as fault:
        return f"{fault} {fault.offset}"


LIMITS = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@LIMITS
@given(soups(), st.sampled_from(STARTS))
def test_any_text_loads_or_faults(text, start):
    source = SourceText("t.ptx", start + text)
    try:
        loaded = load_ptx(source)
    except SyntaxFault as fault:
        assert 0 <= fault.offset <= len(source.text)
        assert fault.excerpt().endswith("^")
    else:
        assert loaded.text == source.text


@LIMITS
@given(bodies())
def test_both_paths_accept_the_same_language(text):
    assert outcome(text, fast=True) == outcome(text, fast=False)


@LIMITS
@given(soups())
def test_both_paths_agree_on_sections(text):
    whole = HEAD + ".section .debug_info {\n.b8 1\n.b8 2 // c\n" + text + "\n.b8 3\n}"
    assert outcome(whole, fast=True) == outcome(whole, fast=False)


@LIMITS
@given(bodies())
def test_printing_keeps_the_tree(text):
    try:
        tree = parse_ptx(SourceText("t.ptx", text))
    except SyntaxFault:
        return
    assert parse_ptx(SourceText("p.ptx", print_ptx(tree))) == tree


NAMES = st.sampled_from(["a", "%r1", "v.x", "%tid.x", "_b", "$c"])
LEAVES = st.builds(syntax.Name, NAMES) | st.builds(
    syntax.Literal, st.sampled_from(["0", "12", "0x1FU", "0b1", "017", "1.5", "1e3", ".5", "0f3F800000"])
)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(syntax.Unary, st.sampled_from("-!~+"), inner),
        st.builds(syntax.Binary, st.sampled_from(sorted(PRECEDENCE)), inner, inner),
        st.builds(syntax.Conditional, inner, inner, inner),
        st.builds(syntax.Cast, st.sampled_from(["s64", "u64"]), inner),
        st.builds(syntax.Applied, st.builds(syntax.Name, st.just("generic")), inner),
    ),
    max_leaves=8,
)
TUPLES = st.lists(EXPRESSIONS, min_size=1, max_size=3).map(tuple)
VECTORS = st.builds(syntax.VectorList, TUPLES)
ADDRESSES = st.builds(
    lambda first, rest, suffix: syntax.Address((first, *rest), suffix),
    EXPRESSIONS,
    st.lists(EXPRESSIONS | VECTORS, max_size=2),
    st.sampled_from(["", ".unified"]),
)
PAIRS = st.builds(syntax.Pair, st.builds(syntax.Name, NAMES), st.builds(syntax.Name, NAMES))
INSTRUCTIONS = st.builds(
    syntax.Instruction,
    st.none() | st.builds(syntax.Guard, st.sampled_from(["p", "%p1"]), st.booleans()),
    st.sampled_from(["mov.u32", "ld.global.v2.b32", "st.async.shared::cluster.b32", "ret"]),
    st.lists(EXPRESSIONS | VECTORS | ADDRESSES | PAIRS, max_size=4).map(tuple),
)


@LIMITS
@given(st.lists(INSTRUCTIONS, max_size=4))
def test_reading_what_is_printed(instructions):
    body = syntax.Scope(tuple(instructions))
    function = syntax.Function("entry", "k", parameters=(), body=body)
    tree = syntax.Module((syntax.Version(8, 8), syntax.Target(("sm_90a",)), function))
    assert parse_ptx(SourceText("p.ptx", print_ptx(tree))) == tree
