"""SARIF 2.1.0 (OASIS, 2020) for code scanning.

A result's place is a line of text: the user's source where a finding knows it, else the PTX, else the line of
the disassembly that :func:`disassemblies` gives for writing beside the report. The schedule that shows a
finding is a code flow of one thread flow, in the order of the schedule; each step's message says which role
takes it (readers of the format show one flow at a time, and the order between the roles is the point).
GitHub keeps alerts apart by ``primaryLocationLineHash``, which is the finding's fingerprint.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ptxaudit.report.excerpt import Listing, index_listing, locate
from ptxaudit.report.places import best_place, has_no_lines
from ptxaudit.rules.model import AuditReport, CodePlace, Confidence, Finding, InputReport, Witness
from ptxaudit.rules.pattern import Pattern
from ptxaudit.source import LocationKind

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_FINGERPRINT = "ptxaudit/v1"
# What code scanning sorts by: how seldom a finding of this confidence is a false alarm.
_PRECISION = {Confidence.HIGH: "very-high", Confidence.MEDIUM: "high", Confidence.LOW: "medium"}
_PROBLEM = {"error": "error", "warning": "warning", "note": "recommendation"}
_LONGEST_NAME = 80
_Locate = Callable[[CodePlace, str], dict[str, Any]]


def render(
    report: AuditReport,
    patterns: Mapping[str, Pattern],
    written: Mapping[str, str] | None = None,
    suppressed: bool = True,
) -> str:
    """The report as SARIF text; ``patterns`` describe the rules by id.

    ``written`` are the paths of the disassemblies that were written, by input. Without ``suppressed`` such
    results are left out, for consumers that do not know suppressions, as GitHub does not.
    """
    document = to_document(report, patterns, written or {}, suppressed)
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def disassemblies(report: AuditReport) -> dict[str, tuple[str, str]]:
    """A file name and a text for each binary, and each PTX inside of one, that places of findings are in.

    They are by the name that the places have. The file name is made of letters, digits, dots, dashes and
    underscores whatever the input is called.
    """
    places = (place for one in report.findings for place in _shown(one))
    wanted = {place.location.file: place.location.kind for place in places if has_no_lines(place.location)}
    return {
        name: (_file_name(name, wanted[name]), report.listings[name])
        for name in sorted(wanted)
        if name in report.listings
    }


def _file_name(name: str, kind: LocationKind) -> str:
    tame = re.sub(r"[^A-Za-z0-9._-]+", "_", name)[-_LONGEST_NAME:].lstrip(".")
    return f"{tame}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.{kind}"


def to_document(
    report: AuditReport,
    patterns: Mapping[str, Pattern],
    written: Mapping[str, str] | None = None,
    suppressed: bool = True,
) -> dict[str, Any]:
    """The report as a SARIF log with one run; the arguments are those of :func:`render`."""
    indices = {rule_id: index for index, rule_id in enumerate(patterns)}
    failed = [one for one in report.inputs if one.error is not None]
    place = _locator(report, written or {})
    findings = [one for one in report.findings if suppressed or one.suppressed is None]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "ptxaudit",
                        "version": report.tool_version,
                        "rules": [_rule(pattern) for pattern in patterns.values()],
                    }
                },
                "invocations": [
                    {
                        "executionSuccessful": not _is_cut_short(report),
                        "toolExecutionNotifications": [
                            *(_short(one) for one in report.shortcomings),
                            *(_fault(one) for one in failed),
                            *({"level": "note", "message": {"text": notice}} for notice in report.notices),
                        ],
                    }
                ],
                "artifacts": [_artifact(one) for one in report.inputs],
                "results": [_result(finding, indices, place) for finding in findings],
                "columnKind": "unicodeCodePoints",
            }
        ],
    }


def _is_cut_short(report: AuditReport) -> bool:
    """Whether something could not be done that should have been: to pass over an image is no failure."""
    return bool(replace(report, skipped=()).shortcomings)


def _short(phrase: str) -> dict[str, Any]:
    return {"level": "warning", "message": {"text": f"incomplete: {phrase}"}}


def _fault(one: InputReport) -> dict[str, Any]:
    return {
        "level": "error",
        "message": {"text": one.error},
        "locations": [{"physicalLocation": {"artifactLocation": _uri(one.path)}}],
    }


def _artifact(one: InputReport) -> dict[str, Any]:
    hashes = {"hashes": {"sha-256": one.sha256}} if one.sha256 else {}
    return {"location": _uri(one.path), **hashes}


def _rule(pattern: Pattern) -> dict[str, Any]:
    return {
        "id": pattern.id,
        "name": "".join(word.capitalize() for word in pattern.id.split("-")),
        "shortDescription": {"text": pattern.title},
        "fullDescription": {"text": " ".join(pattern.rationale.split())},
        "help": {"text": pattern.fix.summary, "markdown": _help(pattern)},
        "defaultConfiguration": {"level": pattern.severity.value},
        "properties": {
            "category": pattern.category.value,
            "tags": [pattern.category.value],
            "precision": _PRECISION[pattern.confidence],
            "problem.severity": _PROBLEM[pattern.severity.value],
        },
    }


def _help(pattern: Pattern) -> str:
    parts = [
        pattern.rationale.strip(),
        f"**Fix.** {pattern.fix.summary.strip()}",
        f"**Looks alike and is right.** {pattern.trap.strip()}",
        f"**Limits.** {pattern.limits.strip()}",
    ]
    return "\n\n".join(parts)


def _result(finding: Finding, indices: Mapping[str, int], place: _Locate) -> dict[str, Any]:
    best = best_place(finding)
    others = [one for one in _shown(finding) if one is not best]
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "level": finding.severity.value,
        "message": {"text": finding.message},
        "locations": [place(best, finding.function)],
        "partialFingerprints": {
            _FINGERPRINT: finding.fingerprint,
            "primaryLocationLineHash": f"{finding.fingerprint}:1",
        },
        "properties": {"confidence": finding.confidence.value},
    }
    if finding.rule in indices:
        result["ruleIndex"] = indices[finding.rule]
    if others:
        result["relatedLocations"] = [
            {"id": number, **place(one, finding.function)} for number, one in enumerate(others, 1)
        ]
    if finding.witness is not None and finding.witness.steps:
        result["codeFlows"] = [_flow(finding.witness, finding.function, place)]
    if finding.suppressed is not None:
        result["suppressions"] = [{"kind": "external", "justification": finding.suppressed}]
    return result


def _shown(finding: Finding) -> Iterator[CodePlace]:
    """The places, each followed by the same instruction in the other language and in the source."""
    for one in (finding.primary, *finding.related):
        yield one
        yield from one.twins


def _flow(witness: Witness, function: str, place: _Locate) -> dict[str, Any]:
    missing = [edge.label for edge in witness.edges if edge.missing]
    return {
        "message": {"text": f"missing: {'; '.join(missing)}" if missing else "a schedule that shows it"},
        "threadFlows": [{"locations": list(_steps(witness, function, place))}],
    }


def _steps(witness: Witness, function: str, place: _Locate) -> Iterator[dict[str, Any]]:
    for number, step in enumerate(witness.steps, 1):
        location: dict[str, Any] = {"message": {"text": f"{step.role}: {step.text}"}}
        if step.location is not None:
            located = place(CodePlace("step", step.location, step.text), function)
            location = {**located, **location}
        yield {"location": location, "executionOrder": number}


def _locator(report: AuditReport, written: Mapping[str, str]) -> _Locate:
    """How places of this report become SARIF locations; listings are indexed when first asked for."""
    names = {one.name for one in report.functions}
    indexed: dict[str, Listing] = {}

    def listing_line(place: CodePlace, function: str) -> int | None:
        file = place.location.file
        if file not in written:
            return None
        if file not in indexed:
            indexed[file] = index_listing(file, report.listings[file], names)
        return locate(place, function, indexed[file])

    def location(place: CodePlace, function: str) -> dict[str, Any]:
        file, line = place.location.file, place.location.line
        if place.location.offset is not None:
            line = listing_line(place, function)
            file = written[file] if line is not None else file
        elif place.location.kind is LocationKind.PTX:
            file = written.get(file, file)
        return _location(place, function, file, line)

    return location


def _location(place: CodePlace, function: str, file: str, line: int | None) -> dict[str, Any]:
    # Code scanning takes no result without a line.
    region: dict[str, Any] = {"startLine": line or 1, "snippet": {"text": place.text}}
    if place.location.column is not None and place.location.offset is None:
        region["startColumn"] = place.location.column
    physical: dict[str, Any] = {"artifactLocation": _uri(file), "region": region}
    if place.location.offset is not None:
        # An offset in a text section; SARIF's byteOffset would mean one in the file.
        physical["address"] = {"relativeAddress": place.location.offset, "fullyQualifiedName": function}
    document: dict[str, Any] = {
        "physicalLocation": physical,
        "logicalLocations": [{"fullyQualifiedName": function, "kind": "function"}],
    }
    text = " ".join(_words(place, line))
    return document if not text else {**document, "message": {"text": text}}


def _words(place: CodePlace, line: int | None) -> Iterable[str]:
    if place.location.offset is not None:
        yield f"{place.location}:"
    if place.note:
        yield place.note
    elif line is None:
        yield place.text


def _uri(path: str) -> dict[str, str]:
    return {"uri": Path(path).as_uri() if Path(path).is_absolute() else quote(path)}
