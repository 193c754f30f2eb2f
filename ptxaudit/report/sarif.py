"""SARIF 2.1.0 (OASIS, 2020) for code scanning."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ptxaudit.rules.model import AuditReport, CodePlace, Finding
from ptxaudit.rules.pattern import Pattern

_FINGERPRINT = "ptxaudit/v1"


def render(report: AuditReport, patterns: Mapping[str, Pattern]) -> str:
    """The report as SARIF text; ``patterns`` describe the rules by id."""
    return json.dumps(to_document(report, patterns), indent=1, ensure_ascii=False) + "\n"


def to_document(report: AuditReport, patterns: Mapping[str, Pattern]) -> dict[str, Any]:
    """The report as a SARIF log with one run."""
    rules = [_rule(pattern) for pattern in patterns.values()]
    indices = {rule_id: index for index, rule_id in enumerate(patterns)}
    failed = [one for one in report.inputs if one.error is not None]
    notifications = [
        {
            "level": "error",
            "message": {"text": one.error},
            "locations": [{"physicalLocation": {"artifactLocation": _artifact(one.path)}}],
        }
        for one in failed
    ]
    return {
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "ptxaudit", "version": report.tool_version, "rules": rules}},
                "invocations": [
                    {"executionSuccessful": not failed, "toolExecutionNotifications": notifications}
                ],
                "artifacts": [
                    {
                        "location": _artifact(one.path),
                        **({"hashes": {"sha-256": one.sha256}} if one.sha256 else {}),
                    }
                    for one in report.inputs
                ],
                "results": [_result(finding, indices) for finding in report.findings],
            }
        ],
    }


def _rule(pattern: Pattern) -> dict[str, Any]:
    return {
        "id": pattern.id,
        "shortDescription": {"text": pattern.title},
        "fullDescription": {"text": pattern.rationale},
        "help": {"text": pattern.fix.summary},
        "defaultConfiguration": {"level": pattern.severity.value},
        "properties": {"category": pattern.category.value, "tags": [pattern.category.value]},
    }


def _result(finding: Finding, indices: Mapping[str, int]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "level": finding.severity.value,
        "message": {"text": finding.message},
        "locations": [_location(finding.primary, finding.function)],
        "partialFingerprints": {_FINGERPRINT: finding.fingerprint},
        "properties": {"confidence": finding.confidence.value},
    }
    if finding.rule in indices:
        result["ruleIndex"] = indices[finding.rule]
    if finding.related:
        result["relatedLocations"] = [
            {"id": number, **_location(place, finding.function)}
            for number, place in enumerate(finding.related, 1)
        ]
    if finding.suppressed is not None:
        result["suppressions"] = [{"kind": "external", "justification": finding.suppressed}]
    return result


def _location(place: CodePlace, function: str) -> dict[str, Any]:
    location = place.location
    physical: dict[str, Any] = {"artifactLocation": _artifact(location.file)}
    if location.line is not None:
        region: dict[str, Any] = {"startLine": location.line, "snippet": {"text": place.text}}
        if location.column is not None:
            region["startColumn"] = location.column
        physical["region"] = region
    elif location.offset is not None:
        # An offset in a text section; SARIF's byteOffset would mean one in the file.
        physical["address"] = {"relativeAddress": location.offset, "fullyQualifiedName": function}
    document: dict[str, Any] = {
        "physicalLocation": physical,
        "logicalLocations": [{"fullyQualifiedName": function, "kind": "function"}],
    }
    text = place.note or (place.text if location.line is None else None)
    return document if text is None else {**document, "message": {"text": text}}


def _artifact(path: str) -> dict[str, str]:
    return {"uri": Path(path).as_uri() if Path(path).is_absolute() else quote(path)}
