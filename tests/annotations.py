"""Annotations in fixtures: what is due where.

PTX fixtures carry comments, ``// expect: RULE``, ``// ok: RULE`` or ``// todo-expect: RULE`` (several
rules with commas), at the end of a line of code or alone above it. ``// unknown: RULE``, anywhere, tells
that the rule's verdict is unknown for some function of the file; without it, none may be.

A SASS fixture ``NAME.cubin`` has them in ``NAME.expect``, one a line: ``0x1a0 expect: RULE``, or
``FUNCTION+0x1a0 expect: RULE`` where the file has several functions, or ``unknown: RULE``. Lines that
begin with ``#`` are comments.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from ptxaudit.rules.model import AuditReport, CodePlace, Finding, Verdict

KINDS = ("expect", "ok", "todo-expect", "unknown")
_COMMENT = re.compile(r"//\s*(todo-[a-z]+|[a-z]+):\s*([a-z0-9]+(?:-[a-z0-9]+)+(?:\s*,\s*[a-z0-9-]+)*)\s*$")
_SASS_LINE = re.compile(r"(?:(?:(\S+)\+)?(0x[0-9a-f]+)\s+)?([a-z-]+):\s*([a-z0-9-]+)$")


@dataclass(frozen=True)
class Annotation:
    """``place`` is a line (PTX) or offset (SASS), ``None`` for ``unknown``; ``function`` where it is told."""

    kind: str
    rule: str
    place: int | None
    function: str | None = None

    def matches(self, finding: Finding) -> bool:
        location = finding.primary.location
        place = location.line if location.offset is None else location.offset
        named = self.function is None or self.function == finding.function
        return named and finding.rule == self.rule and place == self.place


def kernels_in(folder: Path) -> list[Path]:
    """The PTX kernels below a folder, sorted; the inputs of ``hostile`` are there to be refused."""
    return sorted(path for path in folder.rglob("*.ptx") if path.parent.name != "hostile")


def read_annotations(path: Path) -> list[Annotation]:
    """The annotations of a fixture; raises ``ValueError`` for one that is misspelt or hangs in the air."""
    if path.suffix == ".cubin":
        return _read_sidecar(path.with_suffix(".expect"))
    return parse_ptx(path.read_text())


def parse_ptx(text: str) -> list[Annotation]:
    found: list[Annotation] = []
    waiting: list[tuple[str, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        code, slashes, _ = line.partition("//")
        here = _comment(line, number) if slashes else []
        found += [Annotation(kind, rule, None) for kind, rule in here if kind == "unknown"]
        placed = [(kind, rule) for kind, rule in here if kind != "unknown"]
        if not code.strip():
            waiting += placed
            continue
        found += [Annotation(kind, rule, number) for kind, rule in [*waiting, *placed]]
        waiting = []
    if waiting:
        raise ValueError(f"annotation with no code below it: {waiting}")
    return found


def _comment(line: str, number: int) -> list[tuple[str, str]]:
    match = _COMMENT.search(line)
    if match is None:
        if re.search(r"//\s*(todo-)?(expect|ok|unknown)\b", line):
            raise ValueError(f"line {number}: misspelt annotation {line.strip()!r}")
        return []
    kind, rules = match.groups()
    if kind not in KINDS:
        raise ValueError(f"line {number}: found {kind!r}, expected one of {KINDS}")
    return [(kind, rule.strip()) for rule in rules.split(",")]


def _read_sidecar(path: Path) -> list[Annotation]:
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _SASS_LINE.match(line.strip())
        if match is None or match[3] not in KINDS or (match[2] is None) != (match[3] == "unknown"):
            raise ValueError(f"{path}:{number}: misspelt annotation {line!r}")
        place = None if match[2] is None else int(match[2], 16)
        found.append(Annotation(match[3], match[4], place, match[1]))
    return found


def places_of(finding: Finding) -> tuple[CodePlace, ...]:
    """The place of a finding and those of its copies, in the same language."""
    primary = finding.primary
    return primary, *(twin for twin in primary.twins if twin.location.kind is primary.location.kind)


def disagreements(annotations: list[Annotation], report: AuditReport, *rules: str) -> list[str]:
    """Every way in which a report and its fixture's annotations differ, for ``rules`` and those annotated."""
    scope = {*rules, *(annotation.rule for annotation in annotations)}
    findings = [
        replace(finding, primary=place)
        for finding in report.findings
        if finding.rule in scope
        for place in places_of(finding)
    ]
    problems = []
    for annotation in annotations:
        hit = any(annotation.matches(finding) for finding in findings)
        if annotation.kind == "expect" and not hit:
            problems.append(f"missing: {annotation}")
        elif annotation.kind == "ok" and hit:
            problems.append(f"false alarm: {annotation}")
        elif annotation.kind == "todo-expect" and hit:
            problems.append(f"now found, make it an expect: {annotation}")
    due = [annotation for annotation in annotations if annotation.kind == "expect"]
    for finding in findings:
        if not any(annotation.matches(finding) for annotation in due):
            problems.append(f"not annotated: {finding.rule} at {finding.primary.location}: {finding.message}")
    told = {annotation.rule for annotation in annotations if annotation.kind == "unknown"}
    for one in sorted(scope):
        unknown = [
            f"{function.name}: {function.unknown_reasons[one]}"
            for function in report.functions
            if function.verdicts.get(one) is Verdict.UNKNOWN
        ]
        if unknown and one not in told:
            problems.append(f"not annotated: {one} is unknown: {unknown}")
        elif one in told and not unknown:
            problems.append(f"annotated as unknown, but decided: {one}")
    return problems
