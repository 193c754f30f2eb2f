"""Verdicts, severities and wording of the two checks about polling and memory barriers in loops."""

import pytest
from cost_support import repeated

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.checks import gpu_membar_in_hot_loop
from ptxaudit.engine.inputs import load_module
from ptxaudit.engine.registry import ShippedCheck
from ptxaudit.rules.model import Outcome, Severity, Verdict

WAIT = "mbarrier.try_wait.parity.acquire.{scope}.shared::cta.b64 %p2, [%r10], %r3; @!%p2 bra {label};"


def kernel(body: str, target: str = "sm_90a", directive: str = ".visible .entry k") -> FunctionAnalysis:
    text = f"""
.version 8.8
.target {target}
.address_size 64
{directive} (.param .u64 out, .param .u32 trips)
{{
    .reg .pred %p<10>;
    .reg .b32 %r<20>;
    .reg .b64 %rd<5>;
    .shared .align 8 .b64 full[2];
    mov.u32 %r10, full;
    mov.u32 %r3, 0;
    ld.param.u32 %r2, [trips];
    ld.param.u64 %rd1, [out];
{body}
    ret;
}}
"""
    module = load_module("k.ptx", text.encode())
    return FunctionAnalysis(module.functions[0], module)


def wait(scope: str, label: str = "W") -> str:
    return f"{label}: {WAIT.format(scope=scope, label=label)}"


LOAD = "ld.global.u32 %r5, [%rd1];"
ZERO = "mov.u32 %r7, 0;"
STORE = "st.global.u32 [%rd1], %r4;"
FLAG = "F: ld.acquire.gpu.global.u32 %r7, [%rd1]; setp.eq.u32 %p2, %r7, 0; @%p2 bra F;"


def invalidates(analysis: FunctionAnalysis) -> Outcome:
    return ShippedCheck("l1-invalidate-in-poll-loop")(analysis)


def flushes(analysis: FunctionAnalysis) -> Outcome:
    return gpu_membar_in_hot_loop.check(analysis)


@pytest.mark.parametrize(
    ("body", "severity", "frequency", "loads"),
    [
        (
            repeated(wait("cluster") + LOAD),
            Severity.WARNING,
            "once per successful wait",
            "1 load that can hit L1 follows in the loop around it",
        ),
        (
            repeated(wait("cluster") + LOAD + LOAD),
            Severity.WARNING,
            "once per successful wait",
            "2 loads that can hit L1 follow in the loop around it",
        ),
        (
            repeated(wait("cluster") + STORE),
            Severity.NOTE,
            "once per successful wait",
            "no load that could hit L1 follows in the loop around it",
        ),
        (
            wait("cluster") + LOAD,
            Severity.NOTE,
            "once per successful wait",
            "1 load that can hit L1 follows after it",
        ),
        (
            repeated(FLAG + LOAD + STORE),
            Severity.WARNING,
            "at every attempt",
            "1 load that can hit L1 follows in the loop around it",
        ),
        (
            FLAG + LOAD,
            Severity.WARNING,
            "at every attempt",
            "1 load that can hit L1 follows after it",
        ),
        (
            repeated(FLAG + STORE),
            Severity.WARNING,
            "at every attempt",
            "no load that could hit L1 follows in the loop around it",
        ),
    ],
)
def test_invalidate_says_how_often_and_who_pays(
    body: str, severity: Severity, frequency: str, loads: str
) -> None:
    (violation,) = invalidates(kernel(body)).violations
    assert violation.severity is severity
    assert violation.details["frequency"] == frequency
    assert violation.details["loads"] == loads


def test_invalidate_names_what_is_polled() -> None:
    (waits,) = invalidates(kernel(wait("cluster"))).violations
    (flag,) = invalidates(kernel(FLAG)).violations
    assert waits.details["polled"] == "the mbarrier [%r10]"
    assert flag.details["polled"] == "the global flag [%rd1]"


def test_invalidate_tells_of_loads_of_other_roles() -> None:
    other = f"setp.eq.u32 %p5, %r2, 7; @%p5 bra OTHER; {wait('cluster')} bra END; OTHER: {LOAD} END:"
    (violation,) = invalidates(kernel(other)).violations
    assert violation.details["loads"] == "no load that could hit L1 follows after it"
    assert any("Elsewhere the function has 1" in sentence for sentence in violation.evidence)


@pytest.mark.parametrize(
    ("analysis", "verdict"),
    [
        (kernel(repeated(LOAD + STORE)), Verdict.NOT_APPLICABLE),
        (kernel(repeated(wait("cta") + LOAD)), Verdict.CLEAN),
        (kernel(repeated(FLAG.replace("acquire", "relaxed") + LOAD + STORE)), Verdict.CLEAN),
        (kernel(FLAG, target="sm_70"), Verdict.UNKNOWN),
        (kernel(FLAG.replace("acquire", "relaxed"), target="sm_70"), Verdict.CLEAN),
        (kernel(wait("cta").replace("@", "frobnicate.u32 %r9, %r9; @")), Verdict.UNKNOWN),
    ],
)
def test_invalidate_verdicts(analysis: FunctionAnalysis, verdict: Verdict) -> None:
    outcome = invalidates(analysis)
    assert outcome.verdict is verdict
    assert (outcome.reason is not None) == (verdict is Verdict.UNKNOWN)


FENCE = "fence.acq_rel.gpu;"


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        (repeated(STORE + FENCE), Severity.WARNING),
        (repeated(wait("cta") + STORE + FENCE), Severity.WARNING),
        (repeated(ZERO + repeated(LOAD, "INNER", "%r7") + STORE + FENCE), Severity.NOTE),
        (repeated(ZERO + repeated(STORE + FENCE, "INNER", "%r7")), Severity.WARNING),
        (repeated(FLAG.replace("setp", FENCE + " setp") + STORE), Severity.WARNING),
        (repeated(STORE + "st.release.gpu.global.u32 [%rd1+8], %r4;"), Severity.WARNING),
    ],
)
def test_memory_barrier_in_a_loop(body: str, severity: Severity) -> None:
    (violation,) = flushes(kernel(body)).violations
    assert violation.details["flush"] == "MEMBAR.ALL.GPU"
    assert violation.severity is severity


@pytest.mark.parametrize(
    ("fence", "flush"),
    [("fence.sc.gpu;", "MEMBAR.SC.GPU"), ("fence.acq_rel.sys;", "MEMBAR.ALL.SYS")],
)
def test_memory_barrier_is_spelled_as_in_sass(fence: str, flush: str) -> None:
    (violation,) = flushes(kernel(repeated(STORE + fence))).violations
    assert violation.details["flush"] == flush


ONLY_FLAG = FLAG.replace("setp", FENCE + " setp")


@pytest.mark.parametrize(
    ("analysis", "verdict"),
    [
        (kernel(repeated(LOAD + STORE)), Verdict.NOT_APPLICABLE),
        (kernel(repeated(STORE) + FENCE), Verdict.CLEAN),
        (kernel(repeated(STORE + "fence.acq_rel.cta;")), Verdict.CLEAN),
        (kernel(repeated(STORE + "fence.proxy.async.shared::cta;")), Verdict.CLEAN),
        (kernel(ONLY_FLAG), Verdict.CLEAN),
        (kernel(FENCE, directive=".visible .func k"), Verdict.UNKNOWN),
        (kernel(repeated(STORE + FENCE), target="sm_70"), Verdict.UNKNOWN),
    ],
)
def test_memory_barrier_verdicts(analysis: FunctionAnalysis, verdict: Verdict) -> None:
    outcome = flushes(analysis)
    assert outcome.verdict is verdict
    assert (outcome.reason is not None) == (verdict is Verdict.UNKNOWN)
