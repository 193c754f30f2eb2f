"""How heavy a second initialisation of an mbarrier weighs."""

import pytest

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.checks.mbarrier_reinit_without_inval import check
from ptxaudit.engine.inputs import load_module
from ptxaudit.rules.model import Severity

USE = "bar.sync 0;\n    mbarrier.arrive.shared::cta.b64 _, [bar];\n    bar.sync 0;"


def severities(between: str, count: int) -> list[Severity | None]:
    text = f"""
.version 8.8
.target sm_90a
.address_size 64
.visible .entry k()
.reqntid 64, 1, 1
{{
    .reg .pred %p<3>;
    .reg .b32 %r<2>;
    .shared .align 8 .b64 bar;
    mov.u32 %r1, %tid.x;
    setp.eq.u32 %p1, %r1, 0;
    setp.eq.u32 %p2, %r1, 32;
    @%p1 mbarrier.init.shared::cta.b64 [bar], 64;
    {between}
    @%p2 mbarrier.init.shared::cta.b64 [bar], {count};
    bar.sync 0;
    ret;
}}
"""
    module = load_module("k.ptx", text.encode())
    found = check(FunctionAnalysis(module.functions[0], module)).violations
    return [violation.severity for violation in found]


@pytest.mark.parametrize(
    ("between", "count", "severity"),
    [("", 64, Severity.NOTE), ("", 32, Severity.WARNING), (USE, 64, None)],
    ids=["the same again", "another count", "in use"],
)
def test_severity_follows_what_can_be_lost(between: str, count: int, severity: Severity | None) -> None:
    assert severities(between, count) == [severity]
