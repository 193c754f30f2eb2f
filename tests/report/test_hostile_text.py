"""Every text in a report that a stranger may have written, in every format: none of it acts."""

import json
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from audit_support import KERNEL, audit_text, run_cli, tiny_registry

from ptxaudit.engine.compare import compare
from ptxaudit.engine.registry import Rule
from ptxaudit.report import compare_text, github, json_report, junit, markdown, sarif, text
from ptxaudit.report.write import write_report
from ptxaudit.rules.model import AuditReport, InputReport, Severity, SkippedInput

POISON = "\n::error file=x::forged\r\x1b[2J\x9b1m##[add-mask]x\u202e\udc80</script><b>`|*@all\x00"
# What a report is looked up by stays as it is.
KEYS = {"rule", "name", "input", "path", "file", "function", "fingerprint", "tool_version", "arch"}


def poisoned(value: Any) -> Any:
    """``value`` with something hostile at both ends of each text that is no key."""
    if is_dataclass(value) and not isinstance(value, type):
        changed = {
            one.name: poisoned(getattr(value, one.name)) for one in fields(value) if one.name not in KEYS
        }
        return replace(value, **changed)
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return POISON + value + POISON
    if isinstance(value, tuple):
        return tuple(poisoned(one) for one in value)
    if isinstance(value, dict):
        return {key: poisoned(one) for key, one in value.items()}
    return value


@pytest.fixture
def registry(tmp_path: Path) -> dict[str, Rule]:
    return tiny_registry(tmp_path)


@pytest.fixture
def report(registry: dict[str, Rule]) -> AuditReport:
    whole = audit_text(KERNEL, tuple(registry.values())).report
    whole = replace(
        whole,
        inputs=(*whole.inputs, InputReport("other", "ptx", "", f"{POISON}broken", ("note", "two\nlines"))),
        skipped=(SkippedInput("third", "cubin", "", "not known"),),
        notices=("a notice",),
    )
    return poisoned(whole)  # type: ignore[no-any-return]


def lines(printed: str) -> list[str]:
    """The lines as whoever reads a log splits them."""
    return printed.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")


def is_command(line: str) -> bool:
    return line.lstrip().startswith("::") or "##[" in line


@pytest.mark.parametrize("color", [False, True])
def test_text_has_only_lines_and_colours_of_its_own(report: AuditReport, color: bool) -> None:
    printed = text.render(report, color)
    assert not any(is_command(line) for line in lines(printed))
    for own in ("\x1b[0m", "\x1b[1m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;36m") if color else ():
        printed = printed.replace(own, "")
    assert all(line.isprintable() for line in lines(printed))
    assert "forged" in printed


def test_github_has_only_commands_of_its_own(report: AuditReport) -> None:
    printed = lines(github.render(report))
    assert all(line.isprintable() for line in printed)
    assert sum(is_command(line) for line in printed) == len(report.findings) + 2
    assert not any("##[" in line for line in printed)


def test_a_comparison_has_only_lines_of_its_own(report: AuditReport) -> None:
    nothing = replace(report, functions=(), findings=())
    comparison = compare(nothing, report)
    assert "forged" in compare_text.render_text(comparison)
    for line in lines(compare_text.render_text(comparison)):
        assert line.isprintable()
        assert not is_command(line)


def test_markdown_has_all_of_it_in_code(report: AuditReport) -> None:
    printed = markdown.render(report)
    assert all(line.isprintable() for line in lines(printed))
    cells = [line for line in printed.splitlines() if "forged" in line and line.startswith("| ")]
    assert cells
    for row in cells:
        assert row.count(" | ") == 4, row


def test_junit_is_xml(report: AuditReport) -> None:
    root = ElementTree.fromstring(junit.render(report, Severity.NOTE))
    messages = [one.get("message", "") for one in root.iter("failure")]
    assert messages
    assert len(list(root.iter("testcase"))) > len(messages)


def test_files_can_be_written_and_read(
    report: AuditReport, registry: dict[str, Rule], tmp_path: Path
) -> None:
    patterns = {rule.id: rule.pattern for rule in registry.values()}
    for rendered in (json_report.render(report), sarif.render(report, patterns)):
        write_report(tmp_path / "report", rendered)
        assert "forged" in json.dumps(json.loads((tmp_path / "report").read_text("utf-8")))


def test_the_excerpt_of_a_syntax_error_is_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(".version 8.0\n.target sm_90\n::add-mask::x\x1b[2J\n")
    assert run_cli(monkeypatch, "audit", str(path)) == 3
    assert run_cli(monkeypatch, "dump", "cfg", str(path)) == 3
    printed = capfd.readouterr()
    for line in (*lines(printed.out), *lines(printed.err)):
        assert line.isprintable()
        assert not is_command(line)
    assert "add-mask" in printed.out
    assert "add-mask" in printed.err
