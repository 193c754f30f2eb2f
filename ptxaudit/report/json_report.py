"""The JSON report; ``schema.json`` beside this module is its contract."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from ptxaudit.report import budgets
from ptxaudit.rules.model import (
    AuditReport,
    CodePlace,
    Cost,
    Finding,
    Fix,
    FunctionReport,
    InputReport,
    JoinReport,
)
from ptxaudit.stopwatch import Timings

SCHEMA_VERSION = "1.0"


def load_schema() -> dict[str, Any]:
    """The JSON schema that every report follows."""
    text = files("ptxaudit.report").joinpath("schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def render(report: AuditReport) -> str:
    """The report as JSON text, keys in the contract's order."""
    return "".join(chunks(report))


def chunks(report: AuditReport) -> Iterator[str]:
    """:func:`render` in pieces: that of a whole library takes several times its length when it is made at
    once. Each entry of a list of records has a line of its own."""
    opening = "{"
    for key, value in _members(report):
        yield f"{opening}\n {_text(key)}: "
        opening = ","
        if isinstance(value, Iterator):
            yield from _entries(value)
        else:
            yield _text(value)
    yield "\n}\n"


def _entries(values: Iterator[Any]) -> Iterator[str]:
    opening = "["
    for value in values:
        yield f"{opening}\n  {_text(value)}"
        opening = ","
    yield "[]" if opening == "[" else "\n ]"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _members(report: AuditReport) -> Iterator[tuple[str, Any]]:
    """Keys and values of the report; records come one at a time."""
    yield "schema_version", SCHEMA_VERSION
    yield "tool", {"name": "ptxaudit", "version": report.tool_version}
    if report.shortcomings:
        yield "incomplete", list(report.shortcomings)
    yield "inputs", map(_input, report.inputs)
    yield "functions", map(_function, report.functions)
    yield "findings", map(_finding, report.findings)
    if report.notices:
        yield "notices", list(report.notices)
    if report.skipped:
        yield "skipped", map(asdict, report.skipped)
    if report.timings:
        yield "timings", _timings(report.timings)


def _timings(timings: Timings) -> dict[str, float]:
    return {stage.value: round(seconds, 4) for stage, seconds in timings.items()}


def _input(one: InputReport) -> dict[str, Any]:
    document: dict[str, Any] = {"path": one.path, "kind": one.kind, "sha256": one.sha256}
    document["status"] = one.status
    if one.same_as is not None:
        document["same_as"] = one.same_as
    if one.timings:
        document["timings"] = _timings(one.timings)
    return document if one.error is None else {**document, "error": one.error}


def _function(one: FunctionReport) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": one.name,
        "demangled": one.demangled,
        "input": one.input,
        "arch": one.arch,
        "evidence": one.evidence,
        "verdicts": {rule: verdict.value for rule, verdict in one.verdicts.items()},
        "unknown_reasons": dict(one.unknown_reasons),
    }
    if one.incomplete is not None:
        document["incomplete"] = one.incomplete
    if one.assumptions:
        document["assumptions"] = list(one.assumptions)
    if one.budget is not None and one.budget.places:
        document["budget"] = budgets.document(one.budget)
    if one.join is not None:
        document["join"] = _join(one.join)
        document["decided_by"] = dict(one.decided_by)
    return document


def _join(one: JoinReport) -> dict[str, Any]:
    return {
        "method": one.method,
        "confidence": one.confidence.value,
        "ptx": one.ptx,
        "sass": one.sass,
        "origin": one.origin,
        "dropped": list(one.dropped),
    }


def _finding(one: Finding) -> dict[str, Any]:
    document: dict[str, Any] = {
        "rule": one.rule,
        "category": one.category.value,
        "severity": one.severity.value,
        "confidence": one.confidence.value,
        "function": one.function,
        "input": one.input,
        "message": one.message,
        "locations": list(_locations(one)),
    }
    if one.fix is not None:
        document["fix"] = _fix(one.fix)
    if one.cost is not None:
        document["cost"] = _cost(one.cost)
    document["fingerprint"] = one.fingerprint
    if one.suppressed is not None:
        document["suppressed"] = {"reason": one.suppressed}
    return document


def _locations(one: Finding) -> Iterator[dict[str, Any]]:
    """The places, each followed by the same instruction in the other language and in the source."""
    yield _primary(one)
    for place in (one.primary, *one.related):
        if place is not one.primary:
            yield _place(place, place.note)
        yield from (_place(twin, twin.note) for twin in place.twins)


def _primary(one: Finding) -> dict[str, Any]:
    return _place(one.primary, one.primary.note or " ".join(one.evidence) or None)


def _place(place: CodePlace, note: str | None) -> dict[str, Any]:
    location = place.location
    optional = {"line": location.line, "column": location.column, "offset": location.offset}
    document: dict[str, Any] = {"role": place.role, "kind": location.kind.value, "file": location.file}
    document.update({key: value for key, value in optional.items() if value is not None})
    document["text"] = place.text
    return document if note is None else {**document, "note": note}


def _fix(fix: Fix) -> dict[str, Any]:
    return {"summary": fix.summary} if fix.code is None else {"summary": fix.summary, "code": fix.code}


def _cost(cost: Cost) -> dict[str, Any]:
    document: dict[str, Any] = {"frequency": cost.frequency, "summary": cost.summary}
    if cost.cycles is not None:
        document["cycles"] = list(cost.cycles)
    return document if cost.architecture is None else {**document, "architecture": cost.architecture}
