"""SARIF: the format's models accept it, what GitHub asks of it, places in binaries, schedules."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from audit_support import run_cli
from html_sample import CUBIN, pattern, sample_report
from sarif_pydantic import Sarif

from ptxaudit.report import sarif
from ptxaudit.rules.model import AuditReport, CodePlace
from ptxaudit.rules.pattern import Pattern, load_patterns
from ptxaudit.source import Location, LocationKind

# docs.github.com, "SARIF support for code scanning": limits on what one file may hold.
MOST_RESULTS, MOST_TAGS, MOST_FLOW_STEPS = 25_000, 20, 10_000
REPOSITORY = Path(__file__).parents[2]


def patterns(report: AuditReport) -> dict[str, Pattern]:
    return {rule: pattern(rule) for rule in sorted({finding.rule for finding in report.findings})}


def run_of(report: AuditReport, **options: Any) -> Any:
    document = json.loads(sarif.render(report, patterns(report), **options))
    Sarif.model_validate(document)
    return document["runs"][0]


def every_location(result: Any) -> Iterator[Any]:
    yield from result["locations"]
    yield from result.get("relatedLocations", ())
    for flow in result.get("codeFlows", ()):
        for thread in flow["threadFlows"]:
            yield from (step["location"] for step in thread["locations"])


def test_what_github_asks_for() -> None:
    report = sample_report()
    written = {name: file for name, (file, _) in sarif.disassemblies(report).items()}
    run = run_of(report, written=written)
    assert 0 < len(run["results"]) <= MOST_RESULTS
    for rule in run["tool"]["driver"]["rules"]:
        assert rule["id"]
        assert rule["shortDescription"]["text"]
        assert rule["fullDescription"]["text"]
        assert "**Fix.**" in rule["help"]["markdown"]
        assert len(rule["properties"]["tags"]) <= MOST_TAGS
        assert rule["properties"]["precision"] in {"very-high", "high", "medium", "low"}
        assert rule["properties"]["problem.severity"] in {"error", "warning", "recommendation"}
    hashes = [result["partialFingerprints"]["primaryLocationLineHash"] for result in run["results"]]
    assert len(set(hashes)) == len(hashes)
    for result in run["results"]:
        rule = run["tool"]["driver"]["rules"][result["ruleIndex"]]
        assert rule["id"] == result["ruleId"]
        (location,) = result["locations"]
        assert location["physicalLocation"]["region"]["startLine"] >= 1
        assert not location["physicalLocation"]["artifactLocation"]["uri"].startswith("/")


def test_a_place_in_a_binary_is_a_line_of_the_disassembly_with_its_offset() -> None:
    report = sample_report()
    found = sarif.disassemblies(report)
    assert set(found) == {CUBIN}
    file, text = found[CUBIN]
    run = run_of(report, written={CUBIN: f"out.sarif.disassembly/{file}"})
    placed = [
        location["physicalLocation"]
        for result in run["results"]
        for location in every_location(result)
        if "address" in location.get("physicalLocation", {})
    ]
    listed = [one for one in placed if one["artifactLocation"]["uri"].endswith(".sass")]
    assert listed
    for physical in listed:
        line = text.split("\n")[physical["region"]["startLine"] - 1]
        assert f"{physical['address']['relativeAddress']:04x}" in line
        assert physical["artifactLocation"]["uri"] == f"out.sarif.disassembly/{file}"
    for physical in placed:
        assert physical in listed or physical["region"]["startLine"] == 1, "not told apart in the listing"


def test_a_schedule_is_a_flow_in_its_order() -> None:
    report = sample_report()
    flows = {
        finding.fingerprint: finding.witness for finding in report.findings if finding.witness is not None
    }
    assert flows
    for result in run_of(report)["results"]:
        witness = flows.get(result["partialFingerprints"]["ptxaudit/v1"])
        assert ("codeFlows" in result) == (witness is not None)
        if witness is None:
            continue
        (thread,) = result["codeFlows"][0]["threadFlows"]
        assert len(thread["locations"]) == len(witness.steps) <= MOST_FLOW_STEPS
        for step, shown in zip(witness.steps, thread["locations"], strict=True):
            assert shown["location"]["message"]["text"] == f"{step.role}: {step.text}"


def test_the_users_source_line_goes_first() -> None:
    report = sample_report()
    finding = report.findings[0]
    location = Location(LocationKind.SOURCE, "src/gemm.cu", 41, 3)
    source = CodePlace(finding.primary.role, location, "bar.arrive();")
    with_source = replace(finding, primary=replace(finding.primary, twins=(source,)))
    result = run_of(replace(report, findings=(with_source,)))["results"][0]
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("src/gemm.cu", 41)
    uris = [one["physicalLocation"]["artifactLocation"]["uri"] for one in result["relatedLocations"]]
    assert finding.primary.location.file in uris


def test_suppressed_results_are_marked_or_left_out() -> None:
    report = sample_report()
    known = replace(report, findings=tuple(replace(one, suppressed="known") for one in report.findings))
    results = run_of(known)["results"]
    assert len(results) == len(report.findings) > 0
    assert all(result["suppressions"] for result in results)
    assert run_of(known, suppressed=False)["results"] == []


def test_notices_and_faults_are_notifications() -> None:
    report = replace(sample_report(), notices=("an ignore meets no finding",))
    (invocation,) = run_of(report)["invocations"]
    texts = [one["message"]["text"] for one in invocation["toolExecutionNotifications"]]
    assert "an ignore meets no finding" in texts
    assert all(one.error in texts for one in report.inputs if one.error is not None)


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b\\c.cubin", "..", "\x00<b>.cubin", "x" * 500])
def test_names_of_inputs_never_become_paths(name: str) -> None:
    report = sample_report()
    renamed = tuple(
        replace(
            one, input=name, primary=replace(one.primary, location=replace(one.primary.location, file=name))
        )
        for one in report.findings
        if one.primary.location.kind is LocationKind.SASS
    )
    assert renamed
    alone = replace(report, findings=renamed, listings={name: "text"})
    ((file, _),) = sarif.disassemblies(alone).values()
    assert Path(file).name == file
    assert not file.startswith(".")
    assert len(file) < 120


def test_a_real_cubin_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = REPOSITORY / "fixtures" / "kernels" / "gemm_ring"
    # The cubin names its source relative to where it was compiled: places are then files of the checkout.
    build = tmp_path / "build"
    build.mkdir()
    for name in ("gemm_ring_early_release.cubin", "gemm_ring.cu"):
        shutil.copy(folder / name, build)
    assert run_cli(monkeypatch, "audit", "build", "--sarif", "out.sarif") == 1
    document = json.loads(Path("out.sarif").read_text())
    Sarif.model_validate(document)
    results = document["runs"][0]["results"]
    assert results
    assert {rule["id"] for rule in document["runs"][0]["tool"]["driver"]["rules"]} == set(load_patterns())
    for result in results:
        physical = result["locations"][0]["physicalLocation"]
        line = (
            Path(physical["artifactLocation"]["uri"])
            .read_text()
            .split("\n")[physical["region"]["startLine"] - 1]
        )
        assert physical["region"]["snippet"]["text"].split()[0] in line
