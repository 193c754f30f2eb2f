"""Thresholds: what can be set, where, and that verdicts follow."""

from pathlib import Path
from typing import Any

import pytest
from audit_support import report_of, run_cli

from ptxaudit.engine.registry import load_registry
from ptxaudit.engine.settings import read_settings
from ptxaudit.engine.thresholds import SetThresholds
from ptxaudit.report.explain import explain, rule_table
from ptxaudit.rules.thresholds import Threshold

FIXTURES = Path(__file__).parent.parent / "fixtures" / "performance"
MAILBOX = FIXTURES / "l1-invalidate-in-poll-loop" / "mailbox_acquire_cluster_loop.ptx"
MEMBAR = FIXTURES / "gpu-membar-in-hot-loop" / "remote_arrive_release_cluster.ptx"
SERIAL = FIXTURES / "wgmma-serialized" / "waits_in_source.sm_90a.cubin"
RING = FIXTURES / "wait-depth-too-conservative" / "ring_current_stage.ptx"
COPIES = FIXTURES / "wait-depth-too-conservative" / "bulk_ring_three.ptx"


@pytest.mark.parametrize(
    ("threshold", "value", "fault"),
    [
        (Threshold(1, "loads", "", whole=True), 2, None),
        (Threshold(1, "cycles", ""), 2.5, None),
        (Threshold(1, "loads", "", whole=True), 2.5, "found 2.5, expected a whole number of at least 0"),
        (Threshold(1, "waits", "", least=1), 0, "found 0, expected a number of at least 1"),
        (Threshold(0, "per cent", "", most=100), 101, "found 101, expected a number from 0 to 100"),
        (Threshold(0, "cycles", ""), float("nan"), "found nan, expected a number of at least 0"),
        (Threshold(0, "cycles", ""), float("inf"), "found inf, expected a number of at least 0"),
    ],
)
def test_what_a_threshold_can_be(threshold: Threshold, value: float, fault: str | None) -> None:
    assert threshold.fault(value) == fault


def settings_of(folder: Path, text: str) -> SetThresholds:
    path = folder / "ptxaudit.toml"
    path.write_text(text)
    return read_settings(path).set_thresholds


def test_those_of_a_kernel_go_first_and_of_several_the_first(tmp_path: Path) -> None:
    chosen = settings_of(
        tmp_path,
        """
        [thresholds.wgmma-serialized]
        least-waits = 2
        least-cycles = 10
        [[kernel]]
        match = "gemm"
        thresholds = { wgmma-serialized = { least-waits = 3 } }
        [[kernel]]
        match = "gemm_.*"
        thresholds = { wgmma-serialized = { least-waits = 4, least-share = 5 } }
        """,
    )
    registry = load_registry()
    pattern = registry["wgmma-serialized"].pattern
    assert chosen.fault(registry) is None
    assert chosen.of(pattern, ("attention",)) == {
        "least-waits": 2,
        "least-cycles": 10,
        "least-share": 0,
        "warning-cycles": 0,
    }
    assert chosen.of(pattern, ("_Z4gemm", "gemm_32")) == {
        "least-waits": 3,
        "least-cycles": 10,
        "least-share": 5,
        "warning-cycles": 0,
    }
    assert chosen.of(registry["gpu-membar-in-hot-loop"].pattern, ("gemm",))["least-cycles"] == 0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[thresholds.wgmma-serialized]\nleast-wait = 2", "did you mean least-waits?"),
        ("[thresholds.divergent-barrier]\nleast-cycles = 2", "the rule has none"),
        (
            "[thresholds.wgmma-serialized]\nleast-waits = 0",
            "thresholds.wgmma-serialized.least-waits: found 0, expected a whole number of at least 1 (waits)",
        ),
        (
            "[[kernel]]\nmatch = 'a.b'\nthresholds = { wgmma-serialized = { least-share = 101 } }",
            "kernel 'a.b': thresholds.wgmma-serialized.least-share: found 101, expected a number from 0",
        ),
        ("[thresholds]\nleast-cycles = 1", "thresholds.least-cycles: 1 is not of type 'object'"),
        ("[thresholds.wgmma-serialized]\nleast-waits = true", "True is not of type 'number'"),
    ],
)
@pytest.mark.parametrize("command", ["audit", "diff"])
def test_a_wrong_threshold_is_one_line_with_the_file(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: str,
    text: str,
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ptxaudit.toml").write_text(text)
    inputs = [str(MEMBAR)] if command == "audit" else [str(MEMBAR), str(MEMBAR)]
    assert run_cli(monkeypatch, command, *inputs) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert "ptxaudit.toml: " in line
    assert complaint in line


def audited(monkeypatch: pytest.MonkeyPatch, path: Path, text: str) -> tuple[str, list[str], Any]:
    """The verdict of the rule that a fixture is of, the severities of its findings, and the report."""
    Path("ptxaudit.toml").write_text(text)
    rule = path.parent.name
    run_cli(
        monkeypatch,
        *("audit", str(path), "--select", rule, "--json", "out.json", "--no-assemble", "--no-store"),
    )
    report = report_of("out.json")
    (function,) = report["functions"]
    return function["verdicts"][rule], [one["severity"] for one in report["findings"]], report


@pytest.mark.parametrize(
    ("path", "text", "verdict", "severities"),
    [
        (MAILBOX, "", "finding", ["warning"]),
        (MAILBOX, "[thresholds.l1-invalidate-in-poll-loop]\nwarning-loads = 99", "finding", ["note"]),
        (MAILBOX, "[thresholds.l1-invalidate-in-poll-loop]\nleast-cycles = 9999", "clean", []),
        (MEMBAR, "", "finding", ["warning"]),
        (MEMBAR, "[thresholds.gpu-membar-in-hot-loop]\nleast-cycles = 20", "finding", ["warning"]),
        (MEMBAR, "[thresholds.gpu-membar-in-hot-loop]\nwarning-cycles = 9999", "finding", ["note"]),
        (MEMBAR, "[thresholds.gpu-membar-in-hot-loop]\nleast-share = 100", "clean", []),
        (
            MEMBAR,
            "[[kernel]]\nmatch = '.'\nthresholds = { gpu-membar-in-hot-loop = { least-cycles = 9999 } }",
            "clean",
            [],
        ),
        (SERIAL, "", "finding", ["note"]),
        (SERIAL, "[thresholds.wgmma-serialized]\nleast-waits = 99", "clean", []),
        (RING, "", "finding", ["warning"]),
    ],
)
def test_the_verdict_follows_the_threshold(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    path: Path,
    text: str,
    verdict: str,
    severities: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert audited(monkeypatch, path, text)[:2] == (verdict, severities)


@pytest.mark.parametrize(("most", "depth"), [(4, 2), (1, 1)])
def test_no_deeper_form_is_tried_than_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, most: int, depth: int
) -> None:
    monkeypatch.chdir(tmp_path)
    text = f"[thresholds.wait-depth-too-conservative]\nmost-more-groups = {most}"
    _, _, report = audited(monkeypatch, COPIES, text)
    assert [f"{depth} in place of 0 would" in finding["message"] for finding in report["findings"]] == [True]


def test_reports_name_what_is_set_but_to_its_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = """
    [thresholds.gpu-membar-in-hot-loop]
    least-cycles = 9999
    least-share = 0
    [thresholds.wgmma-serialized]
    least-waits = 2
    """
    verdict, _, report = audited(monkeypatch, MEMBAR, text)
    assert verdict == "clean"
    said = "thresholds are set: gpu-membar-in-hot-loop.least-cycles = 9999 (default 0)"
    assert [line.partition(": ")[2] for line in report["notices"]] == [said]
    assert said in capfd.readouterr().out


def test_rules_and_explain_show_them() -> None:
    pattern = load_registry()["wgmma-serialized"].pattern
    assert "wgmma-serialized  least-waits = 1 waits, least-cycles = 0 cycles" in rule_table([pattern])
    shown = " ".join(explain(pattern).split())
    assert (
        "(settings change them by [thresholds.wgmma-serialized]) least-waits = 1 waits: a function" in shown
    )
    assert "thresholds" not in rule_table([load_registry()["divergent-barrier"].pattern])
