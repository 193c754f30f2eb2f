"""The report formats on reports with anything in their texts."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ptxaudit.report import github, json_report, junit, sarif, text
from ptxaudit.rules.model import (
    AuditReport,
    Category,
    CodePlace,
    Confidence,
    Cost,
    Finding,
    Fix,
    FunctionReport,
    InputReport,
    Severity,
    SkippedInput,
    Verdict,
)
from ptxaudit.source import Location, LocationKind

SCHEMA = Draft202012Validator(json_report.load_schema())
SKIPPED = SkippedInput("z", "cubin", "b" * 64, "its architecture is not known")
WORDS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=30)


def report(words: str, severity: Severity = Severity.ERROR) -> AuditReport:
    ptx = CodePlace("primary", Location(LocationKind.PTX, words, 3, 5), words)
    sass = CodePlace("related", Location(LocationKind.SASS, words, offset=0x1A0), words, words)
    finding = Finding(
        rule="tiny-rule",
        category=Category.PERFORMANCE,
        severity=severity,
        confidence=Confidence.HIGH,
        function=words,
        input=words,
        message=words,
        primary=ptx,
        fingerprint="0" * 20,
        related=(sass,),
        evidence=(words,),
        fix=Fix(words, words),
        cost=Cost(words, words, (1, 2), "sm_90"),
    )
    suppressed = replace(finding, suppressed=words)
    verdicts = {"tiny-rule": Verdict.FINDING, "tiny-undecided": Verdict.UNKNOWN}
    function = FunctionReport(words, words, words, "sm_90", "ptx", verdicts, {"tiny-undecided": words})
    inputs = (InputReport(words, "ptx", "a" * 64), InputReport("gone", "unknown", "", words))
    return AuditReport("1", inputs, (function,), (finding, suppressed), {words: words})


@given(WORDS)
def test_json_follows_its_schema(words: str) -> None:
    document = json.loads(json_report.render(report(words)))
    assert list(SCHEMA.iter_errors(document)) == []
    shown, hidden = document["findings"]
    assert shown["locations"][1]["offset"] == 0x1A0
    assert shown["cost"] == {"frequency": words, "summary": words, "cycles": [1, 2], "architecture": "sm_90"}
    assert "suppressed" not in shown
    assert hidden["suppressed"] == {"reason": words}


def test_schema_refuses_what_the_contract_does_not_have() -> None:
    good = json.loads(json_report.render(report("x")))
    for path, key, value in [
        ((), "extra", 1),
        (("findings", 0), "extra", 1),
        (("findings", 0), "severity", "fatal"),
        (("findings", 0), "locations", []),
        (("functions", 0, "verdicts"), "tiny-rule", "maybe"),
        (("inputs", 0), "error", "but audited"),
        (("inputs", 1), "status", "audited"),
    ]:
        bad = json.loads(json.dumps(good))
        target = bad
        for step in path:
            target = target[step]
        target[key] = value
        assert list(SCHEMA.iter_errors(bad)), (path, key)


@given(WORDS)
def test_junit_is_xml_whatever_the_text(words: str) -> None:
    root = ElementTree.fromstring(junit.render(report(words), Severity.ERROR))
    assert (root.attrib["failures"], root.attrib["errors"], root.attrib["skipped"]) == ("1", "1", "1")
    assert ElementTree.fromstring(junit.render(report(words), None)).attrib["failures"] == "0"


@given(WORDS.filter(lambda words: "!" not in words))
def test_github_commands_keep_to_a_line(words: str) -> None:
    first, *lines = github.render(report(words)).split("\n")
    assert first == "::warning title=ptxaudit%3A incomplete::1 input could not be read"
    assert lines[0].startswith("::error file=")
    assert lines[1].startswith("::error file=gone,title=")
    assert not {"\r", "\n"} & set(lines[0])
    properties = lines[0].removeprefix("::error ").partition("::")[0].split(",")
    assert [one.partition("=")[0] for one in properties] == ["file", "line", "col", "title"]
    assert all(":" not in one for one in properties)


IN_SOURCE = CodePlace("primary", Location(LocationKind.SOURCE, "k.cu", 7, 0), "fence();")
IN_PTX = CodePlace("primary", Location(LocationKind.PTX, "k.ptx", 3, 5), "fence.sc.gpu;")
IN_IMAGE = CodePlace("primary", Location(LocationKind.PTX, "k.so!a.ptx", 3, 5), "fence.sc.gpu;")
IN_SASS = CodePlace("primary", Location(LocationKind.SASS, "k.so!a.cubin", 542, None, 0x40), "MEMBAR.SC.GPU")


@pytest.mark.parametrize(
    ("primary", "twins", "annotated"),
    [
        (IN_PTX, (IN_SASS,), "file=k.ptx,line=3,col=5"),
        (IN_PTX, (IN_SASS, IN_SOURCE), "file=k.cu,line=7"),
        (IN_SASS, (IN_SOURCE,), "file=k.cu,line=7"),
        (IN_SASS, (), "file=k.so"),
        (IN_IMAGE, (), "file=k.so"),
    ],
)
def test_github_annotates_the_line_that_sarif_names(
    primary: CodePlace, twins: tuple[CodePlace, ...], annotated: str
) -> None:
    whole = report("words")
    finding = replace(whole.findings[0], primary=replace(primary, twins=twins), related=())
    _, shown, *_ = github.render(replace(whole, findings=(finding,))).splitlines()
    assert shown.startswith(f"::error {annotated},title=")


@given(WORDS)
def test_sarif_names_places_and_suppressions(words: str) -> None:
    (run,) = sarif.to_document(report(words), {})["runs"]
    shown, hidden = run["results"]
    assert shown["locations"][0]["physicalLocation"]["region"]["startLine"] == 3
    assert shown["relatedLocations"][0]["physicalLocation"]["address"]["relativeAddress"] == 0x1A0
    assert "suppressions" not in shown
    assert hidden["suppressions"] == [{"kind": "external", "justification": words}]
    assert run["invocations"][0]["executionSuccessful"] is False


def test_text_says_everything_once() -> None:
    shown = text.render(report("words"))
    assert "error[tiny-rule]: words" in shown
    assert "words+0x01a0" in shown
    assert "cost: words (words), 1 to 2 cycles each on sm_90" in shown
    assert "  words\n    leaves open: tiny-undecided\n    in words" in shown
    assert "1 suppressed" in shown
    assert "\x1b[" not in shown
    assert "\x1b[1;31merror" in text.render(report("words"), color=True)
