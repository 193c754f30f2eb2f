"""The baseline: the findings that a project knows, so that only new ones count.

A JSON file. A finding is known when an entry has its fingerprint, or, since compilers change small things,
when an entry that no finding's fingerprint took has its rule, its function and its opcode without
modifiers. Each entry stands for one finding.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptxaudit.errors import UsageError, system_reason
from ptxaudit.rules.model import Finding
from ptxaudit.schema import schema_fault

_SCHEMA = {
    "type": "object",
    "required": ["version", "findings"],
    "additionalProperties": False,
    "properties": {
        "version": {"const": 1},
        "findings": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["fingerprint", "rule", "function", "opcode"],
                "additionalProperties": False,
                "properties": {
                    "fingerprint": {"type": "string"},
                    "rule": {"type": "string"},
                    "function": {"type": "string"},
                    "opcode": {"type": "string"},
                    "message": {"type": "string"},
                },
            },
        },
    },
}


@dataclass(frozen=True, slots=True)
class BaselineEntry:
    """One known finding."""

    fingerprint: str
    rule: str
    function: str
    opcode: str

    @property
    def likeness(self) -> tuple[str, str, str]:
        """What stays the same when a kernel is compiled again with small changes."""
        return self.rule, self.function, self.opcode


@dataclass(frozen=True, slots=True)
class Matched:
    """``known`` are positions in the findings; ``gone`` the entries that no finding has."""

    known: frozenset[int]
    gone: tuple[BaselineEntry, ...]


def entry_of(finding: Finding) -> BaselineEntry:
    """The entry that stands for a finding."""
    return BaselineEntry(finding.fingerprint, finding.rule, finding.function, _opcode(finding.primary.text))


def _opcode(text: str) -> str:
    """The first word of an instruction without guard and modifiers."""
    words = [word for word in text.split() if not word.startswith("@")]
    return words[0].split(".")[0].rstrip(";") if words else ""


def match(findings: Iterable[Finding], entries: Iterable[BaselineEntry]) -> Matched:
    """Pair findings with entries, exactly first, then by likeness; one for one."""
    left = list(entries)
    known: set[int] = set()
    waiting: list[tuple[int, BaselineEntry]] = []
    by_fingerprint: dict[str, list[BaselineEntry]] = defaultdict(list)
    for entry in left:
        by_fingerprint[entry.fingerprint].append(entry)
    for position, finding in enumerate(findings):
        exact = by_fingerprint[finding.fingerprint]
        if exact:
            left.remove(exact.pop())
            known.add(position)
        else:
            waiting.append((position, entry_of(finding)))
    for position, wanted in waiting:
        alike = next((entry for entry in left if entry.likeness == wanted.likeness), None)
        if alike is not None:
            left.remove(alike)
            known.add(position)
    return Matched(frozenset(known), tuple(left))


def read_baseline(path: Path) -> tuple[BaselineEntry, ...]:
    """The entries of a file. Raises :class:`UsageError` naming the file and what is wrong."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--baseline {path}: {system_reason(error)}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--baseline {path}: found no JSON, expected a baseline ({error})") from error
    fault = schema_fault(_SCHEMA, document)
    if fault is not None:
        raise UsageError(f"--baseline {path}: {fault}")
    return tuple(
        BaselineEntry(entry["fingerprint"], entry["rule"], entry["function"], entry["opcode"])
        for entry in document["findings"]
    )


def render_baseline(findings: Iterable[Finding]) -> str:
    """A baseline that knows these findings; messages are there for whoever reads the file."""
    entries = [_document(finding) for finding in findings]
    entries.sort(key=lambda entry: (entry["function"], entry["rule"], entry["fingerprint"]))
    return json.dumps({"version": 1, "findings": entries}, indent=1, ensure_ascii=False) + "\n"


def _document(finding: Finding) -> dict[str, Any]:
    entry = entry_of(finding)
    return {
        "fingerprint": entry.fingerprint,
        "rule": entry.rule,
        "function": entry.function,
        "opcode": entry.opcode,
        "message": finding.message,
    }
