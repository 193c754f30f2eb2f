"""What the GPU showed to be wrong, the audit names; about the fixed kernels it is silent."""

import json
from pathlib import Path

import pytest

from ptxaudit.engine.audit import AuditOptions, audit
from ptxaudit.engine.image import image_of
from ptxaudit.engine.registry import load_registry
from ptxaudit.rules.model import Category, Severity

HERE = Path(__file__).parent
COUNTS = json.loads((HERE / "results.json").read_text())["counts"]
PAIRS = sorted({(count["kernel"], count["rule"]) for count in COUNTS})
RULES = tuple(rule for rule in load_registry().values() if rule.pattern.category is Category.CORRECTNESS)


def reported(path: Path) -> set[str]:
    """The rules that the audit of one kernel reports as an error or a warning."""
    run = audit((image_of(str(path), path.read_bytes()),), AuditOptions(RULES))
    assert run.internal_errors == ()
    assert [one.error for one in run.report.inputs] == [None]
    serious = (Severity.ERROR, Severity.WARNING)
    return {finding.rule for finding in run.report.findings if finding.severity in serious}


@pytest.mark.parametrize(("kernel", "rule"), PAIRS)
def test_defect_is_named_and_fix_is_not(kernel: str, rule: str) -> None:
    assert reported(HERE / "kernels" / f"{kernel}.defect.ptx") == {rule}
    assert reported(HERE / "kernels" / f"{kernel}.fixed.ptx") == set()


def test_gpu_shows_defects_wrong_and_fixes_right_under_the_same_delays() -> None:
    delays = {
        variant: {(one["kernel"], one["delay"]) for one in COUNTS if one["variant"] == variant}
        for variant in ("defect", "fixed")
    }
    assert delays["defect"] == delays["fixed"]
    wrong = [one for one in COUNTS if one["wrong"]]
    assert {one["variant"] for one in wrong} == {"defect"}
    shown = {one["rule"] for one in wrong if one["delay"] > 0}
    assert len(shown) >= 3, shown


def test_every_kernel_was_run() -> None:
    kernels = {f"{one['kernel']}.{one['variant']}.ptx" for one in COUNTS}
    assert kernels == {path.name for path in (HERE / "kernels").glob("*.ptx")}
