"""Reads a rule's pattern file, ``patterns/<category>/<id>.toml``: everything about a rule but its check.

A pattern has exactly these keys (``?`` marks the optional ones)::

    id = "kebab-case, the file's name"     title = "a few words"
    category = "correctness"               # the folder's name; or "performance"
    severity = "error"                     # or "warning", "note"; a violation may state another
    confidence = "high"                    # or "medium", "low"
    status = "stable"                      # or "preview"
    message = "filled from Violation.details: the wait at {scope} ..."
    rationale = "why it is wrong, or what it costs"
    limits = "what the check cannot tell"
    evidence = "what it needs to decide (PTX, or SASS suffices)"
    trap = "correct code that looks the same"
    [fix]           summary = "..."        code? = "..."
    [applies-to]    inputs = ["ptx", "sass"]   architectures = ["sm_90a"]   # [] for all
                    decided-by = ["ptx"]       # optional: whose `clean` counts where both are at hand
    [[references]]  section = "9.7.13.15"  title = "..."      # of the PTX ISA
    [thresholds.NAME]?  default = 1        unit = "loads"   meaning = "..."   # what settings may change
                    least? = 0             most? = 100      whole? = true     # what it can be set to
    [example]       bad = "..."            good = "..."       # whole small PTX modules
    [cost]          frequency = "..."      summary = "..."    cycles? = [235, 305]   architecture? = "sm_90"

``[cost]`` belongs to performance rules, and only to them, as do the thresholds of what a finding costs
(:mod:`ptxaudit.rules.thresholds`). ``{function}`` and ``{instruction}`` may
stand in every message. A pattern that does not follow this raises :class:`PatternError` with the file
and the key.
"""

import string
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptxaudit.errors import PatternError
from ptxaudit.resources import patterns_root
from ptxaudit.rules.model import Category, Confidence, Cost, Fix, Severity
from ptxaudit.rules.thresholds import OF_COSTS, Threshold, Thresholds
from ptxaudit.schema import schema_fault

COMMON_FIELDS = frozenset({"function", "instruction"})


@dataclass(frozen=True, slots=True)
class Reference:
    """A section of the PTX ISA that a rule rests on."""

    section: str
    title: str

    def __str__(self) -> str:
        return f"{self.section}, {self.title}"


@dataclass(frozen=True, slots=True)
class Example:
    """Two whole PTX modules: ``bad`` gives the rule's finding, ``good`` does not."""

    bad: str
    good: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """A rule's words and defaults; see the module's description of the file for the fields.

    ``decided_by`` are the languages whose ``clean`` counts where PTX and SASS are both at hand.
    """

    id: str
    title: str
    category: Category
    severity: Severity
    confidence: Confidence
    status: str
    message: str
    rationale: str
    limits: str
    evidence: str
    trap: str
    fix: Fix
    inputs: tuple[str, ...]
    architectures: tuple[str, ...]
    references: tuple[Reference, ...]
    thresholds: Mapping[str, Threshold]
    example: Example
    cost: Cost | None
    decided_by: tuple[str, ...] = ()

    @property
    def defaults(self) -> Thresholds:
        """The thresholds by name, as they are unless they are set."""
        return {name: threshold.default for name, threshold in self.thresholds.items()}

    @property
    def placeholders(self) -> frozenset[str]:
        """The names that a violation's details must give for the message."""
        names = {name for _, name, _, _ in string.Formatter().parse(self.message) if name is not None}
        return frozenset(names) - COMMON_FIELDS


_TEXT = {"type": "string", "pattern": r"\S"}
_LANGUAGES = {"type": "array", "items": {"enum": ["ptx", "sass"]}, "minItems": 1}


def _table(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": sorted(required),
        "additionalProperties": False,
    }


_SCHEMA = _table(
    {
        "id": {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
        "title": _TEXT,
        "category": {"enum": [category.value for category in Category]},
        "severity": {"enum": [severity.value for severity in Severity]},
        "confidence": {"enum": [confidence.value for confidence in Confidence]},
        "status": {"enum": ["stable", "preview"]},
        "message": _TEXT,
        "rationale": _TEXT,
        "limits": _TEXT,
        "evidence": _TEXT,
        "trap": _TEXT,
        "fix": _table({"summary": _TEXT}, {"code": _TEXT}),
        "applies-to": _table(
            {
                "inputs": _LANGUAGES,
                "architectures": {
                    "type": "array",
                    "items": {"type": "string", "pattern": r"^sm_\d{2,3}[af]?$"},
                },
            },
            {"decided-by": _LANGUAGES},
        ),
        "references": {"type": "array", "items": _table({"section": _TEXT, "title": _TEXT}), "minItems": 1},
        "example": _table({"bad": _TEXT, "good": _TEXT}),
    },
    {
        "thresholds": {
            "type": "object",
            "propertyNames": {"pattern": "^[a-z]+(-[a-z]+)*$"},
            "additionalProperties": _table(
                {"default": {"type": "number"}, "unit": _TEXT, "meaning": _TEXT},
                {"least": {"type": "number"}, "most": {"type": "number"}, "whole": {"type": "boolean"}},
            ),
        },
        "cost": _table(
            {"frequency": _TEXT, "summary": _TEXT},
            {
                "cycles": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
                "architecture": {"type": "string", "pattern": r"^sm_\d{2,3}[af]?$"},
            },
        ),
    },
)


def load_shipped_pattern(path: Path) -> Pattern:
    """A pattern of this installation, whose schema is held by the tests and so not checked again here.

    Checking would take longer than auditing a small kernel. Where the file cannot be built from,
    :class:`PatternError` names the key as :func:`load_pattern` does.
    """
    try:
        return _build(_read(path))
    except (LookupError, TypeError, ValueError, AttributeError):
        return load_pattern(path)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PatternError(f"{path}: {error}") from error


def load_pattern(path: Path) -> Pattern:
    """The pattern in one file. Raises :class:`PatternError` naming the file and the key."""
    raw = _read(path)
    fault = schema_fault(_SCHEMA, raw)
    if fault is not None:
        raise PatternError(f"{path}: {fault}")
    _require(raw["id"] == path.stem, path, "id", raw["id"], f"{path.stem!r}, the file's name")
    _require(raw["category"] == path.parent.name, path, "category", raw["category"], "the folder's name")
    is_performance = raw["category"] == Category.PERFORMANCE
    _require(
        ("cost" in raw) == is_performance,
        path,
        "cost",
        "a table" if "cost" in raw else "none",
        "a table in performance rules only",
    )
    for name in OF_COSTS:
        found = "a table" if name in raw.get("thresholds", {}) else "none"
        expected = "a table in performance rules only"
        _require((found == "a table") == is_performance, path, f"thresholds.{name}", found, expected)
    pattern = _build(raw)
    for name, threshold in pattern.thresholds.items():
        fault = threshold.fault(threshold.default)
        if fault is not None:
            raise PatternError(f"{path}: thresholds.{name}.default: {fault}")
    try:
        names = pattern.placeholders
    except ValueError as error:
        raise PatternError(f"{path}: message: {error}") from error
    bad_names = sorted(name for name in names if not name.isidentifier())
    _require(not bad_names, path, "message", ", ".join(map(repr, bad_names)), "names in braces")
    return pattern


def _require(holds: bool, path: Path, key: str, found: str, expected: str) -> None:
    if not holds:
        raise PatternError(f"{path}: {key}: found {found}, expected {expected}")


def _build(raw: Mapping[str, Any]) -> Pattern:
    cost = raw.get("cost")
    return Pattern(
        id=raw["id"],
        title=raw["title"],
        category=Category(raw["category"]),
        severity=Severity(raw["severity"]),
        confidence=Confidence(raw["confidence"]),
        status=raw["status"],
        message=raw["message"],
        rationale=raw["rationale"].strip(),
        limits=raw["limits"].strip(),
        evidence=raw["evidence"].strip(),
        trap=raw["trap"].strip(),
        fix=Fix(raw["fix"]["summary"].strip(), raw["fix"].get("code")),
        inputs=tuple(raw["applies-to"]["inputs"]),
        decided_by=tuple(raw["applies-to"].get("decided-by", raw["applies-to"]["inputs"])),
        architectures=tuple(raw["applies-to"]["architectures"]),
        references=tuple(Reference(one["section"], one["title"]) for one in raw["references"]),
        thresholds={name: _threshold(one) for name, one in raw.get("thresholds", {}).items()},
        example=Example(raw["example"]["bad"], raw["example"]["good"]),
        cost=None if cost is None else _cost(cost),
    )


def _threshold(raw: Mapping[str, Any]) -> Threshold:
    return Threshold(
        default=raw["default"],
        unit=raw["unit"],
        meaning=" ".join(raw["meaning"].split()),
        least=raw.get("least", 0),
        most=raw.get("most"),
        whole=raw.get("whole", False),
    )


def _cost(raw: Mapping[str, Any]) -> Cost:
    cycles = raw.get("cycles")
    span = None if cycles is None else (int(cycles[0]), int(cycles[1]))
    return Cost(raw["frequency"], " ".join(raw["summary"].split()), span, raw.get("architecture"))


def load_patterns(directory: Path | None = None) -> dict[str, Pattern]:
    """All patterns by id, sorted: correctness first, then by id.

    ``directory`` is ``patterns/`` of this installation unless given. Raises :class:`PatternError`.
    """
    return {rule_id: load_pattern(path) for rule_id, path in pattern_files(directory).items()}


def pattern_files(directory: Path | None = None) -> dict[str, Path]:
    """The files of :func:`load_patterns` by id, unread: a pattern's id is its file's name."""
    root = patterns_root() if directory is None else directory
    found: dict[str, Path] = {}
    for category in Category:
        for path in sorted((root / category.value).glob("*.toml")):
            if path.stem in found:
                raise PatternError(f"{path}: id: found {path.stem} twice, expected ids to be unique")
            found[path.stem] = path
    return found
