"""What the tests of the engine, the reports and the command line share: a tiny rule of their own."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.engine.audit import AuditOptions, AuditRun, audit
from ptxaudit.engine.image import image_of
from ptxaudit.engine.registry import Rule
from ptxaudit.report.json_report import load_schema
from ptxaudit.rules.model import Outcome, Related, Violation
from ptxaudit.rules.pattern import load_pattern

Run = Callable[..., int]
Install = Callable[[str], None]
TINY = ("--select", "tiny-rule", "--fail-on", "warning")
KERNEL = """\
.version 8.0
.target sm_90
.address_size 64

.visible .entry kernel(
    .param .u64 out,
    .param .u32 count
)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [count];
    setp.eq.s32 %p1, %r1, 0;
    @%p1 bra $done;
    bar.sync 0;
    st.global.u32 [%rd1], %r1;
    bar.sync 0;
$done:
    ret;
}
"""

PATTERN = """\
id = "tiny-rule"
title = "a barrier"
category = "correctness"
severity = "warning"
confidence = "medium"
status = "stable"
message = "{instruction} number {number} in {function}"
rationale = "Barriers are counted."
limits = "Counts nothing else."
evidence = "PTX or SASS."
trap = "No barrier."

[fix]
summary = "Remove it."
code = "// nothing"

[applies-to]
inputs = ["ptx", "sass"]
architectures = []

[[references]]
section = "9.7.13.1"
title = "bar"

[example]
bad = "x"
good = "y"
"""


def tiny_check(analysis: FunctionAnalysis) -> Outcome:
    barriers = [one for one in analysis.function.instructions if one.opcode == "bar.sync"]
    if not barriers:
        return Outcome.not_applicable()
    violations = [
        Violation(
            primary=one,
            details={"number": str(number)},
            related=(Related(barriers[0], "the first: 100%, really"),),
            evidence=("it is a barrier",),
            path=(0,),
        )
        for number, one in enumerate(barriers)
    ]
    return Outcome.of(violations)


def failing_check(analysis: FunctionAnalysis) -> Outcome:
    raise RuntimeError(f"no idea\nabout {analysis.function.name}")


def undecided_check(analysis: FunctionAnalysis) -> Outcome:
    return Outcome.of([], "needs PTX")


def tiny_registry(directory: Path) -> dict[str, Rule]:
    """Three rules: ``tiny-rule`` finds barriers, ``tiny-undecided`` never knows, ``tiny-fault`` raises."""
    checks = {"tiny-rule": tiny_check, "tiny-undecided": undecided_check, "tiny-fault": failing_check}
    folder = directory / "correctness"
    folder.mkdir(parents=True, exist_ok=True)
    registry = {}
    for rule_id, check in checks.items():
        path = folder / f"{rule_id}.toml"
        path.write_text(PATTERN.replace("tiny-rule", rule_id))
        registry[rule_id] = Rule(load_pattern(path), check)
    return registry


def audit_text(text: str, rules: tuple[Rule, ...], **options: object) -> AuditRun:
    """Audit PTX given as text."""
    source = image_of("kernel.ptx", text.encode())
    return audit((source,), AuditOptions(rules, **options))  # type: ignore[arg-type]


def run_cli(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of the command line with these arguments, in this process."""
    from ptxaudit import cli

    monkeypatch.setattr(sys, "argv", ["ptxaudit", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert isinstance(stopped.value.code, int)
    return stopped.value.code


def report_of(path: str) -> Any:
    """The JSON report in a file, which is valid."""
    document = json.loads(Path(path).read_text())
    Draft202012Validator(load_schema()).validate(document)
    return document
