"""Reads settings: ``ptxaudit.toml``, or ``[tool.ptxaudit]`` of a ``pyproject.toml``.

::

    select = ["wgmma-stage-released-early"]   # default: every rule
    ignore = ["gpu-membar-in-hot-loop"]
    fail-on = "warning"                       # error, warning, note, never
    fail-on-unknown = false
    strict = false
    baseline = "ptxaudit-baseline.json"       # relative to this file, as is launch
    launch = "launch.toml"

    [limits]                                  # see ptxaudit/limits.py
    kernel-seconds = 600

    [severity]
    proxy-fence-not-by-writer = "warning"     # error, warning, note

    [thresholds.gpu-membar-in-hot-loop]       # `ptxaudit rules` lists them, `ptxaudit explain` tells more
    least-cycles = 100

    [[suppress]]                              # says nothing to --fail-on, stays in the reports as suppressed
    rule = "mbarrier-phase-alias"
    kernel = "gemm_.*"                        # a regular expression; default: every kernel
    reason = "the phase is observed by the host"
    until = 2027-01-31                        # optional; afterwards it holds no longer

    [[kernel]]                                # settings of the kernels whose name matches
    match = "legacy_.*"
    ignore = ["wait-depth-too-conservative"]
    severity = { shared-memory-race = "warning" }
    thresholds = { wgmma-serialized = { least-waits = 4 } }
"""

import datetime
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptxaudit.engine.registry import Rule, require_rule
from ptxaudit.engine.thresholds import KernelThresholds, SetThresholds
from ptxaudit.errors import UsageError, system_reason
from ptxaudit.limits import NAMES
from ptxaudit.rules.model import Severity
from ptxaudit.rules.thresholds import Thresholds
from ptxaudit.schema import schema_fault

OWN_FILE = "ptxaudit.toml"
PROJECT_FILE = "pyproject.toml"
NEVER = "never"

_RULES = {"type": "array", "items": {"type": "string"}}
_SEVERITIES = {
    "type": "object",
    "additionalProperties": {"enum": [severity.value for severity in Severity]},
}
_THRESHOLDS = {
    "type": "object",
    "additionalProperties": {"type": "object", "additionalProperties": {"type": "number"}},
}
_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "select": _RULES,
        "ignore": _RULES,
        "fail-on": {"enum": [*(severity.value for severity in Severity), NEVER]},
        "fail-on-unknown": {"type": "boolean"},
        "strict": {"type": "boolean"},
        "baseline": {"type": "string", "minLength": 1},
        "launch": {"type": "string", "minLength": 1},
        "severity": _SEVERITIES,
        "thresholds": _THRESHOLDS,
        "limits": {
            "type": "object",
            "additionalProperties": False,
            "properties": {name: {"type": "integer", "minimum": 1, "maximum": 10**15} for name in NAMES},
        },
        "suppress": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["rule", "reason"],
                "properties": {
                    "rule": {"type": "string"},
                    "kernel": {"type": "string"},
                    "reason": {"type": "string", "pattern": r"\S"},
                    "until": {},
                },
            },
        },
        "kernel": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["match"],
                "properties": {
                    "match": {"type": "string"},
                    "ignore": _RULES,
                    "severity": _SEVERITIES,
                    "thresholds": _THRESHOLDS,
                },
            },
        },
    },
}


@dataclass(frozen=True, slots=True)
class Suppression:
    """Findings of ``rule`` in matching kernels are known; ``reason`` says why, ``origin`` where that stands.

    ``until`` is the last day on which it holds.
    """

    rule: str
    reason: str
    origin: str
    kernel: re.Pattern[str] | None = None
    until: datetime.date | None = None

    def covers(self, rule: str, names: tuple[str, ...]) -> bool:
        """Whether it is about this rule in a kernel of these (mangled, demangled) names."""
        named = self.kernel is None or any(self.kernel.search(name) for name in names)
        return self.rule == rule and named

    def has_expired(self, today: datetime.date) -> bool:
        """Whether its last day is over."""
        return self.until is not None and self.until < today


@dataclass(frozen=True, slots=True)
class KernelSettings:
    """Settings of the kernels whose name ``match`` finds."""

    match: re.Pattern[str]
    ignore: frozenset[str] = frozenset()
    severity: Mapping[str, Severity] = field(default_factory=dict)
    thresholds: Mapping[str, Thresholds] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a settings file says; ``None`` and empty where it says nothing. ``path`` is the file."""

    path: Path | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: str | None = None
    fail_on_unknown: bool = False
    strict: bool = False
    baseline: Path | None = None
    launch: Path | None = None
    severity: Mapping[str, Severity] = field(default_factory=dict)
    suppressions: tuple[Suppression, ...] = ()
    kernels: tuple[KernelSettings, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    thresholds: Mapping[str, Thresholds] = field(default_factory=dict)

    @property
    def set_thresholds(self) -> SetThresholds:
        """The thresholds of all kernels and of some."""
        of_kernels = (KernelThresholds(one.match, one.thresholds) for one in self.kernels if one.thresholds)
        return SetThresholds(self.thresholds, tuple(of_kernels))

    def require_known(self, registry: Mapping[str, Rule]) -> None:
        """Raise :class:`UsageError`, with the file, for a rule or threshold that there is not, and for a
        number that a threshold cannot be set to."""
        try:
            for rule_id in sorted(self._rules_named()):
                require_rule(registry, rule_id)
        except UsageError as error:
            raise UsageError(f"{self.path}: {error}") from error
        fault = self.set_thresholds.fault(registry)
        if fault is not None:
            raise UsageError(f"{self.path}: {fault}")

    def _rules_named(self) -> set[str]:
        named = {*self.select, *self.ignore, *self.severity, *self.thresholds}
        named |= {one.rule for one in self.suppressions}
        for kernel in self.kernels:
            named |= {*kernel.ignore, *kernel.severity, *kernel.thresholds}
        return named


def find_settings(start: Path) -> Settings:
    """The settings of the nearest directory at or above ``start`` that has some; empty ones when none has.

    Raises :class:`UsageError` when that file is wrong.
    """
    for directory in (start, *start.parents):
        own, project = directory / OWN_FILE, directory / PROJECT_FILE
        if own.is_file():
            return read_settings(own)
        if project.is_file() and "ptxaudit" in _document(project).get("tool", {}):
            return read_settings(project)
    return Settings()


def read_settings(path: Path) -> Settings:
    """The settings of a file. Raises :class:`UsageError` naming the file and the key at fault."""
    document = _document(path)
    if path.name == PROJECT_FILE:
        document = document.get("tool", {}).get("ptxaudit", {})
    fault = schema_fault(_SCHEMA, document)
    if fault is not None:
        raise UsageError(f"{path}: {fault}")
    return Settings(
        path=path,
        select=tuple(document.get("select", ())),
        ignore=tuple(document.get("ignore", ())),
        fail_on=document.get("fail-on"),
        fail_on_unknown=document.get("fail-on-unknown", False),
        strict=document.get("strict", False),
        baseline=_beside(path, document.get("baseline")),
        launch=_beside(path, document.get("launch")),
        severity=_severities(document.get("severity", {})),
        suppressions=tuple(
            _suppression(path, number, entry) for number, entry in enumerate(document.get("suppress", ()), 1)
        ),
        kernels=tuple(
            KernelSettings(
                _regex(path, "kernel.match", entry["match"]),
                frozenset(entry.get("ignore", ())),
                _severities(entry.get("severity", {})),
                entry.get("thresholds", {}),
            )
            for entry in document.get("kernel", ())
        ),
        limits=document.get("limits", {}),
        thresholds=document.get("thresholds", {}),
    )


def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {system_reason(error)}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: found no TOML, expected settings ({error})") from error


def _beside(path: Path, name: str | None) -> Path | None:
    return None if name is None else path.parent / name


def _severities(named: Mapping[str, str]) -> dict[str, Severity]:
    return {rule: Severity(value) for rule, value in named.items()}


def _suppression(path: Path, number: int, entry: Mapping[str, Any]) -> Suppression:
    until = entry.get("until")
    if until is not None and (not isinstance(until, datetime.date) or isinstance(until, datetime.datetime)):
        raise UsageError(f"{path}: suppress.{number}.until: found {until!r}, expected a date (2027-01-31)")
    kernel = entry.get("kernel")
    return Suppression(
        rule=entry["rule"],
        reason=entry["reason"].strip(),
        origin=f"{path} [[suppress]] {number}",
        kernel=None if kernel is None else _regex(path, f"suppress.{number}.kernel", kernel),
        until=until,
    )


def _regex(path: Path, key: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        message = f"{path}: {key}: found {pattern!r}, expected a regular expression ({error})"
        raise UsageError(message) from error
