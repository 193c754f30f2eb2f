"""The Markdown summary: what it says, and that text from inputs stays text."""

from dataclasses import replace

import pytest
from html_sample import sample_report

from ptxaudit.report.markdown import MOST_FINDINGS, code, render
from ptxaudit.report.text import summary


def test_counts_findings_faults_and_what_was_not_decided() -> None:
    report = sample_report()
    text = render(report)
    assert summary(report) in text
    shown = [finding for finding in report.findings if finding.suppressed is None]
    assert shown
    for finding in shown:
        assert f"| {finding.severity} | `{finding.rule}` |" in text
    for one in report.inputs:
        assert one.error is None or code(one.error) in text
    assert "Not decided" in text


def test_suppressed_findings_are_no_rows_and_notices_are_lines() -> None:
    report = sample_report()
    known = tuple(replace(finding, suppressed="known") for finding in report.findings)
    text = render(replace(report, findings=known, notices=("a notice",)))
    assert "| severity |" not in text
    assert "- `a notice`" in text


def test_a_long_table_is_cut_and_says_so() -> None:
    report = sample_report()
    many = tuple(report.findings[:1]) * (MOST_FINDINGS + 7)
    assert "and 7 more" in render(replace(report, findings=many))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "`plain`"),
        ("a|b", "`a\N{BROKEN BAR}b`"),
        ("tick`ed", "`` tick`ed ``"),
        ("``two``", "``` ``two`` ```"),
        ("line\nbreak", "`line break`"),
        ("[x](javascript:1) @team <b>", "`[x](javascript:1) @team <b>`"),
    ],
)
def test_text_from_an_input_is_a_code_span(text: str, expected: str) -> None:
    assert code(text) == expected
