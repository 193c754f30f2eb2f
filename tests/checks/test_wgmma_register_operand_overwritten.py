"""Which touches of a pending wgmma's registers are findings, how heavy, and what leaves it undecided."""

import os
from pathlib import Path

import pytest

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.checks.wgmma_register_operand_overwritten import check
from ptxaudit.engine.inputs import load_module
from ptxaudit.rules.model import Confidence, Outcome, Severity, Verdict

SHAPE = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
RS = SHAPE + " {%f0, %f1, %f2, %f3}, {%a0, %a1, %a2, %a3}, %rd2, 1, 1, 1, 0;"
SECOND = SHAPE + " {%f4, %f5, %f6, %f7}, {%a4, %a5, %a6, %a7}, %rd2, 1, 1, 1, 0;"
COMMIT = "wgmma.commit_group.sync.aligned;"
WAIT = "wgmma.wait_group.sync.aligned 0;"
ISSUED = f"{RS} {COMMIT}"
CORPUS = os.environ.get("PTXAUDIT_CORPUS", "")
KERNELS = sorted(p for p in Path(CORPUS or "/nonexistent").glob("*") if p.suffix in (".ptx", ".cubin"))


def outcome(body: str) -> Outcome:
    text = f"""
.version 8.8
.target sm_90a
.address_size 64
.func callee ()
{{
    ret;
}}
.visible .entry k(.param .u64 out, .param .u32 trips)
{{
    .reg .pred %p<10>;
    .reg .b32 %r<20>;
    .reg .b32 %a<8>;
    .reg .f32 %f<20>;
    .reg .b64 %rd<5>;
    ld.param.u32 %r2, [trips];
    ld.param.u64 %rd1, [out];
    setp.eq.u32 %p1, %r2, 0;
{body}
    ret;
}}
"""
    module = load_module("k.ptx", text.encode())
    return check(FunctionAnalysis(module.functions[-1], module))


@pytest.mark.parametrize(
    ("touch", "register"),
    [
        ("add.f32 %f8, %f0, %f1;", "%f0"),
        ("mov.f32 %f2, 0f00000000;", "%f2"),
        ("@%p1 mov.f32 %f8, %f3;", "%f3"),
        ("st.global.f32 [%rd1], %f3;", "%f3"),
        ("ld.global.b32 %a2, [%rd1];", "%a2"),
        ("@%p1 mov.b32 %a3, 0;", "%a3"),
        (SHAPE + " {%f4, %f5, %f6, %f7}, {%f0, %a1, %a2, %a3}, %rd2, 1, 1, 1, 0;", "%f0"),
        (SHAPE + " {%a0, %f5, %f6, %f7}, %rd2, %rd2, 1, 1, 1, 0, 0;", "%a0"),
        (RS.replace("m64n8k16.f32.bf16.bf16", "m64n8k32.f32.e4m3.e4m3").replace(", 1, 0;", ";"), "%f0"),
    ],
)
def test_touch_in_flight_is_an_error(touch: str, register: str) -> None:
    found = outcome(f"{ISSUED} {touch} {WAIT}")
    assert [v.details["register"] for v in found.violations] == [register]
    assert [(v.severity, v.confidence) for v in found.violations] == [(None, None)]
    assert found.violations[0].related[0].instruction.opcode == SHAPE


@pytest.mark.parametrize(
    "body",
    [
        f"{ISSUED} {WAIT} add.f32 %f8, %f0, %f1; ld.global.b32 %a2, [%rd1];",
        f"{ISSUED} {RS} {COMMIT} {WAIT}",
        f"{ISSUED} add.u32 %r3, %a0, %a1; {WAIT}",
        f"{ISSUED} xor.b64 %rd2, %rd2, 2; {WAIT}",
        f"{ISSUED} mov.f32 %f0, %f0; {WAIT}",
        f"{ISSUED} // touched: %f0\n {WAIT}",
        f"{ISSUED} {SECOND} {COMMIT} wgmma.wait_group.sync.aligned 1; add.f32 %f0, %f0, %f1; {WAIT}",
        f"@%p1 bra D; {ISSUED} {WAIT} D: add.f32 %f0, %f0, %f1;",
        f"add.f32 %f0, %f0, %f1; call callee; {ISSUED} {WAIT}",
    ],
)
def test_clean(body: str) -> None:
    assert outcome(body) == Outcome.of([])


def test_not_applicable_without_wgmma() -> None:
    assert outcome("add.f32 %f0, %f0, %f1;").verdict is Verdict.NOT_APPLICABLE


def test_wait_does_not_cover_what_is_not_committed() -> None:
    found = outcome(f"{RS} {WAIT} add.f32 %f8, %f0, %f1;")
    assert [v.details["pending"] for v in found.violations] == [
        "no commit_group has put it in a group that a wait could cover"
    ]


def test_wait_on_one_path_only() -> None:
    found = outcome(f"{ISSUED} @%p1 bra D; {WAIT} D: add.f32 %f8, %f0, %f1;")
    assert found.verdict is Verdict.FINDING
    assert len(found.violations[0].path) == 2


def test_copy_of_an_accumulator_is_a_note_that_only_strict_shows() -> None:
    found = outcome(f"{ISSUED} mov.f32 %f8, %f0; {WAIT} add.f32 %f9, %f8, %f8;")
    weights = [(v.severity, v.confidence) for v in found.violations]
    assert weights == [(Severity.NOTE, Confidence.LOW)]


@pytest.mark.parametrize(
    ("copies", "errors"),
    [
        ("mov.f32 %f8, %f0; add.f32 %f9, %f8, %f8;", ["%f8"]),
        ("mov.f32 %f8, %f0; mov.b32 %f10, %f8; add.f32 %f9, %f10, %f10;", ["%f10"]),
        ("mov.b64 %rd3, {%f0, %f1}; st.global.b64 [%rd1], %rd3;", ["%rd3"]),
        ("mov.f32 %f8, %f0; mov.f32 %f8, 0f00000000; add.f32 %f9, %f8, %f8;", []),
        (f"mov.f32 %f8, %f0; {WAIT} add.f32 %f9, %f8, %f8;", []),
        (f"mov.f32 %f8, %f0; {RS.replace('%f0', '%f8')} {COMMIT}", []),
        (f"mov.f32 %f8, %f0; @%p1 bra D; {WAIT} bra E; D: add.f32 %f9, %f8, %f8; E:", ["%f8"]),
    ],
)
def test_use_of_a_copy_before_the_wait_is_an_error(copies: str, errors: list[str]) -> None:
    found = outcome(f"{ISSUED} {copies} {WAIT}")
    assert [v.details["register"] for v in found.violations if v.severity is None] == errors


def test_copy_over_a_fragment_is_a_warning() -> None:
    found = outcome(f"{ISSUED} mov.b32 %a0, %r2; {WAIT}")
    weights = [(v.severity, v.confidence) for v in found.violations]
    assert weights == [(Severity.WARNING, Confidence.MEDIUM)]


@pytest.mark.parametrize("step", ["call callee;", f"@%p1 {WAIT}"])
def test_undecided_where_a_wait_may_be_hidden(step: str) -> None:
    found = outcome(f"{ISSUED} {step} add.f32 %f8, %f0, %f1; {WAIT}")
    assert found.verdict is Verdict.UNKNOWN
    assert found.reason is not None
    assert "%f0" in found.reason


@pytest.mark.skipif(not KERNELS, reason="needs PTXAUDIT_CORPUS")
@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_real_kernels_are_silent(path: Path) -> None:
    module = load_module(path.name, path.read_bytes())
    outcomes = [check(FunctionAnalysis(function, module)) for function in module.functions]
    assert {one.verdict for one in outcomes} <= {Verdict.CLEAN, Verdict.NOT_APPLICABLE}
    if b"wgmma.mma_async" in path.read_bytes():
        assert any(one.verdict is Verdict.CLEAN for one in outcomes)
