"""From the syntax tree to the IR: names, reads and writes, blocks, launch facts, source lines, notes."""

import pytest

from ptxaudit.arch import Architecture
from ptxaudit.frontends.ptx import load_ptx, scopes
from ptxaudit.frontends.ptx.construct import make_instruction, make_location, make_statement
from ptxaudit.frontends.ptx.syntax import Instruction as Statement
from ptxaudit.ir.function import Function, Module, Variable
from ptxaudit.ir.instruction import Guard, Instruction
from ptxaudit.ir.operands import (
    Immediate,
    LabelReference,
    Memory,
    Negated,
    Opaque,
    Register,
    Symbol,
    Vector,
)
from ptxaudit.source import Location, LocationKind, SourceLine, SourceText

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"
REGISTERS = ".reg .pred %p<5>; .reg .b32 %r<20>; .reg .b64 %rd<5>; .reg .f32 %f<9>; .reg .v4 .f32 v;\n"


def load(text: str) -> Module:
    return load_ptx(SourceText("t.ptx", HEAD + text))


def kernel(text: str, before: str = "") -> Function:
    functions = load(f"{before}.entry k() {{\n{REGISTERS}{text}\n}}").functions
    return functions[-1]


def one(text: str) -> Instruction:
    return kernel(text).instructions[0]


def names(registers: tuple[Register, ...]) -> list[str]:
    return [register.name for register in registers]


def successors(function: Function) -> list[tuple[int, ...]]:
    return [block.successors for block in function.blocks]


def test_module_and_function_facts():
    module = load(".visible .entry _Z1kPf(.param .u64 p) { ret; }\n.func f() { ret; }\n.extern .func g;")
    assert module.architecture == Architecture(90, "a")
    assert [(f.name, f.demangled, f.is_entry) for f in module.functions] == [
        ("_Z1kPf", "k(float*)", True),
        ("f", "f", False),
    ]
    assert module.functions[0].isa_version == (8, 8)
    assert module.functions[0].parameters == (Variable("p", "param", 8, 8),)
    assert module.notes == ()


def test_location_and_text():
    found = kernel("  @!%p1\tadd.s32 %r1,\n\t%r2, /* x */ 3;").instructions[0]
    assert found.location == Location(LocationKind.PTX, "t.ptx", 6, 3)
    assert found.text == "@!%p1 add.s32 %r1, %r2, 3"
    assert one("add.s32 \t%r1,  %r2, 3 ;").text == "add.s32 %r1, %r2, 3"


def test_guard_is_read():
    found = one("@!%p1 mov.u32 %r1, %r2;")
    assert found.guard == Guard(Register("%p1"), True)
    assert names(found.reads) == ["%p1", "%r2"]
    assert names(found.writes) == ["%r1"]


@pytest.mark.parametrize(
    ("text", "operands", "writes", "reads"),
    [
        (
            "mov.u32 %r1, %tid.x;",
            (Register("%r1"), Register("%tid.x")),
            ["%r1"],
            ["%tid.x"],
        ),
        (
            "ld.global.v2.b32 {%r1, _}, [%rd1+8];",
            (Vector((Register("%r1"), Opaque("_"))), Memory((Register("%rd1"),), 8)),
            ["%r1"],
            ["%rd1"],
        ),
        (
            "st.global.b32 [%rd1+-8], %r1;",
            (Memory((Register("%rd1"),), -8), Register("%r1")),
            [],
            ["%rd1", "%r1"],
        ),
        (
            "setp.eq.and.s32 %p1|%p2, %r1, -3, !%p3;",
            (
                Vector((Register("%p1"), Register("%p2"))),
                Register("%r1"),
                Immediate(-3),
                Negated(Register("%p3")),
            ),
            ["%p1", "%p2"],
            ["%r1", "%p3"],
        ),
        (
            "mov.f32 v.y, 0f3F800000;",
            (Register("v.y"), Immediate(1.0)),
            ["v.y"],
            [],
        ),
        (
            "st.global.v4.f32 [s], v;",
            (Memory((Symbol("s"),)), Vector(tuple(Register(f"v.{c}") for c in "xyzw"))),
            [],
            ["v.x", "v.y", "v.z", "v.w"],
        ),
        (
            "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
            " [%r1], [%rd1, {%r2, 0}], [%r3];",
            (
                Memory((Register("%r1"),)),
                Memory((Register("%rd1"),), 0, (Vector((Register("%r2"), Immediate(0))),)),
                Memory((Register("%r3"),)),
            ),
            [],
            ["%r1", "%rd1", "%r2", "%r3"],
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
            " {%f1, %f2, %f3, %f4}, %rd1, %rd2, %p1, 1, 1, 0, 0;",
            None,
            ["%f1", "%f2", "%f3", "%f4"],
            ["%f1", "%f2", "%f3", "%f4", "%rd1", "%rd2", "%p1"],
        ),
        ("mbarrier.arrive.shared.b64 _, [%r1];", (Opaque("_"), Memory((Register("%r1"),))), [], ["%r1"]),
        ("mov.u64 %rd1, s+4;", (Register("%rd1"), Opaque("s + 4")), ["%rd1"], []),
        ("bar.sync 1, WARP_SZ;", (Immediate(1), Immediate(32)), [], []),
        ("ld.shared.b32 %r1, [16];", (Register("%r1"), Memory((), 16)), ["%r1"], []),
        (
            "call (%r1), f, (%r2, s);",
            (Vector((Register("%r1"),)), Symbol("f"), Vector((Register("%r2"), Symbol("s")))),
            ["%r1"],
            ["%r2"],
        ),
        ("call %rd1, (%r2), P;", None, [], ["%rd1", "%r2"]),
    ],
)
def test_operands_reads_and_writes(text, operands, writes, reads):
    found = one(f"{text}\nP: .callprototype _ (.param .b32 _);")
    if operands is not None:
        assert found.operands == operands
    assert names(found.writes) == writes
    assert names(found.reads) == reads
    assert found.known


def test_register_types():
    function = kernel("{ .reg .f16 a; } mov.u32 %r1, %tid.x;")
    types = function.register_types
    assert {name: types[name] for name in types if name[1] not in "prf"} == {
        **{f"v.{c}": "f32" for c in "xyzw"},
        "a@2": "f16",
    }
    assert (types["%r19"], types["%p0"], types["%rd4"]) == ("b32", "pred", "b64")
    assert "%r20" not in types
    assert "%tid.x" not in types


@pytest.mark.parametrize("expanded", [0, 16384])
def test_numbered_registers_follow_their_range(monkeypatch, expanded):
    monkeypatch.setattr(scopes, "_LARGEST_EXPANDED", expanded)
    text = (
        ".entry k() {.reg .b32 a1<3>; .reg .b64 a<10>; mov.b32 a12, a10; mov.b32 a9, a25; mov.b32 a07, a7;}"
    )
    function = load(text).functions[0]
    assert function.instructions[0].operands == (Register("a12"), Register("a10"))
    assert function.instructions[1].operands == (Register("a9"), Symbol("a25"))
    assert function.instructions[2].operands == (Symbol("a07"), Register("a7"))
    assert function.register_types["a12"] == "b32"
    assert function.register_types["a9"] == "b64"
    assert ("a8" in function.register_types) == (expanded > 0)


INLINE_WAIT = """{
    .reg .pred P1;
    WAIT:
    mbarrier.try_wait.parity.shared.b64 P1, [%r1], 0;
    @P1 bra.uni DONE;
    bra.uni WAIT;
    DONE:
    }
"""


def test_inline_assembly_scopes_get_names_of_their_own():
    function = kernel(INLINE_WAIT + INLINE_WAIT + "ret;")
    first, branch, back, second, *_ = function.instructions
    assert first.writes == (Register("P1@2"),)
    assert second.writes == (Register("P1@3"),)
    assert branch.guard == Guard(Register("P1@2"))
    assert branch.operands == (LabelReference("DONE@2"),)
    assert back.operands == (LabelReference("WAIT@2"),)
    assert successors(function) == [(1, 2), (0,), (3, 4), (2,), ()]
    assert [block.label for block in function.blocks] == ["WAIT@2", None, "WAIT@3", None, "DONE@3"]
    assert function.register_types["P1@3"] == "pred"


def test_inner_names_shadow_from_their_declaration_on():
    function = kernel(
        ".reg .b32 a; { mov.b32 a, 1; .reg .b32 a; mov.b32 a, 2; { mov.b32 a, 3; } } mov.b32 a, 4;"
    )
    assert [names(i.writes) for i in function.instructions] == [["a"], ["a@2"], ["a@2"], ["a"]]


def test_inner_labels_shadow_even_before_they_stand():
    function = kernel("L: { bra L; L: } { bra L; } bra L;")
    targets = [instruction.operands[0] for instruction in function.instructions]
    assert targets == [LabelReference("L@2"), LabelReference("L"), LabelReference("L")]


def test_variables_of_module_function_and_scope():
    function = kernel(
        ".shared .align 128 .b8 s[64]; { .local .v2 .f32 s; st.local.v2.f32 [s], {%f1, %f2}; }"
        " mov.u32 %r1, s;",
        before=".extern .shared .align 16 .b8 dsm[];\n.global .b32 t[2][3] = {{1}, {2}};\n"
        ".const .b64 c[] = {1, 2};\n",
    )
    assert function.variables == (
        Variable("dsm", "shared", None, 16, external=True),
        Variable("t", "global", 24, 4),
        Variable("c", "const", 16, 8),
        Variable("s", "shared", 64, 128),
        Variable("s@2", "local", 8, 8),
    )
    assert function.instructions[0].operands[0] == Memory((Symbol("s@2"),))
    assert function.instructions[1].operands[1] == Symbol("s")


def test_parameters():
    text = (
        ".func (.param .b32 r) f(.param .u64 .ptr .global .align 16 p, .reg .b32 q, .param .b8 a[])"
        " {mov.b32 q, q;}"
    )
    function = load(text).functions[0]
    assert function.parameters == (
        Variable("p", "param", 8, 8),
        Variable("q", "reg", 4, 4),
        Variable("a", "param", None, 1),
    )
    assert function.variables == (Variable("r", "param", 4, 4),)
    assert function.instructions[0].operands[0] == Register("q")


def test_guarded_and_plain_transfers():
    function = kernel("@%p1 exit; @%p1 ret; @%p1 trap; @%p1 bra L; bra L; mov.b32 %r1, 0; L: exit;")
    assert successors(function) == [(1,), (2,), (3,), (4, 6), (6,), (6,), ()]


def test_indexed_branch():
    function = kernel("T: .branchtargets A, B, A;\n brx.idx %r1, T;\nA: ret;\nB: ret;")
    assert successors(function) == [(1, 2), (), ()]
    branch = function.instructions[0]
    assert branch.operands == (Register("%r1"), LabelReference("T"))
    assert names(branch.reads) == ["%r1"]


def test_branch_behind_the_last_instruction_leaves():
    assert successors(kernel("@%p1 bra END; mov.b32 %r1, 0; END:")) == [(1,), ()]


def test_calls_end_a_block_only_if_they_never_return():
    before = ".extern .func f;\n.extern .func g .noreturn;\n"
    assert successors(kernel("call f; ret;", before)) == [()]
    assert successors(kernel("call g; ret;", before)) == [(), ()]
    assert successors(kernel("@%p1 call g; ret;", before)) == [(1,), ()]
    prototype = "P: .callprototype _ () .noreturn;\n"
    assert successors(kernel(prototype + "call %rd1, (), P; ret;")) == [(), ()]


def test_block_positions_are_lines():
    function = kernel("mov.b32 %r1, 0;\nL:\nadd.s32 %r1, %r1, 1;\n@%p1 bra L;\nret;")
    assert [(b.start_position, b.end_position) for b in function.blocks] == [(6, 8), (8, 10), (10, 11)]


def test_function_without_instructions():
    function = load(".entry k() { }").functions[0]
    assert (function.instructions, function.blocks) == ((), ())


def test_launch_facts():
    text = (
        ".entry k() .reqntid 128, 2 .maxntid 256 .minnctapersm 3 .maxnreg 64 .reqnctapercluster 2 "
        '.explicitcluster .maxclusterrank 8 .blocksareclusters .pragma "x"; { ret; }'
    )
    facts = load(text).functions[0].facts
    assert facts.required_threads == (128, 2, 1)
    assert facts.maximum_threads == (256, 1, 1)
    assert facts.threads == 256
    assert facts.cluster == (2, 1, 1)
    assert facts.explicit_cluster
    assert (facts.maximum_cluster_rank, facts.maximum_registers, facts.minimum_ctas) == (8, 64, 3)
    assert facts.attributes == {"blocksareclusters": True, "pragmas": ("x",)}


def test_source_lines():
    text = (
        ".entry k() { mov.b32 a, b;\n.loc 1 10 2\nret;\n"
        ".loc 2 20 3, function_name f, inlined_at 1 11 0\nret;}\n"
        '.file 1 "k.cu"'
    )
    lines = load(text).functions[0].source_lines
    assert lines == {
        1: SourceLine("k.cu", 10, 2),
        2: SourceLine("file 2", 20, 3, inlined_at=SourceLine("k.cu", 11, 0)),
    }
    assert lines[2].outermost == SourceLine("k.cu", 11, 0)
    assert kernel("ret;").source_lines == {}


def test_source_lines_follow_calls_of_calls():
    text = (
        ".entry k() { .loc 1 10 2\nret;\n.loc 2 20 3, function_name f, inlined_at 1 10 2\nret;\n"
        '.loc 3 30 4, function_name f, inlined_at 2 20 3\nret;}\n.file 1 "k.cu"\n.file 2 "f.h"\n.file 3 "g.h"'
    )
    lines = load(text).functions[0].source_lines
    assert [lines[2].file, lines[2].inlined_at.file, lines[2].outermost.file] == ["g.h", "f.h", "k.cu"]


def test_unknown_opcodes_are_kept_and_noted_once():
    module = load(
        ".entry k() {.reg .b32 a;\nfrobnicate.u32 a, a;\nfrobnicate.u32 a, [a];\n"
        "ld.global.sideways.b32 a, [a];}"
    )
    assert [instruction.known for instruction in module.functions[0].instructions] == [False, False, False]
    assert [(note.message, note.location) for note in module.notes] == [
        ("unknown instruction 'frobnicate': assumed to touch any memory", "t.ptx:5:1"),
        ("unknown modifier '.sideways' of 'ld': assumed to touch any memory", "t.ptx:7:1"),
    ]


def test_quick_construction_gives_ordinary_nodes():
    statement = make_statement(None, "ret", (), 1, 2)
    assert type(statement) is Statement
    assert repr(statement) == repr(Statement(None, "ret", (), 1, 2))
    location = make_location("f", 1, 2)
    assert location == Location(LocationKind.PTX, "f", 1, 2)
    made = make_instruction(0, "ret", None, (), (), (), location, "ret", True)
    assert made == Instruction(0, "ret", None, (), (), (), location, "ret", True)
    assert hash(made) == hash(Instruction(0, "ret", None, (), (), (), location, "ret", True))
