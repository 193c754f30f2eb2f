"""The baseline: the findings that a project knows, so that only new ones count.

A JSON file. A finding is known when an entry has its rule, its function and its instruction but for registers
and labels; else one that has its fingerprint; else, since compilers change small things, one with its opcode
without modifiers, or one whose instruction does the same; else one that was found in the other one of PTX and
SASS, where a rule may name another instruction of the same defect. Each entry stands for one finding, so that
an instruction of which ptxas made copies that SASS alone does not tell to be one needs an entry for each.
"""

import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ptxaudit.engine.merge import BOTH
from ptxaudit.errors import UsageError, system_reason
from ptxaudit.rules.model import CodePlace, Finding, FunctionReport
from ptxaudit.schema import schema_fault
from ptxaudit.source import LocationKind

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
                    "operation": {"type": "string"},
                    "likeness": {"type": "string"},
                    "evidence": {"enum": ["ptx", "sass"]},
                    "message": {"type": "string"},
                },
            },
        },
    },
}


@dataclass(frozen=True, slots=True)
class BaselineEntry:
    """One known finding. ``operation`` and ``likeness`` are as a :class:`Finding` has them, ``evidence`` is
    ``ptx`` or ``sass``, the language that it was found in; earlier files have none of the three.
    """

    fingerprint: str
    rule: str
    function: str
    opcode: str
    operation: str = ""
    likeness: str = ""
    evidence: str = ""


class Unmet(StrEnum):
    """Why an entry may have met no finding."""

    GONE = "gone"
    NOT_ASKED = "not asked"
    UNDECIDED = "undecided"
    OTHER_LANGUAGE = "other language"


@dataclass(frozen=True, slots=True)
class Matched:
    """``known`` are positions in the findings; ``gone`` the entries that no finding has."""

    known: frozenset[int]
    gone: tuple[BaselineEntry, ...]


def entry_of(finding: Finding) -> BaselineEntry:
    """The entry that stands for a finding."""
    return BaselineEntry(
        finding.fingerprint,
        finding.rule,
        finding.function,
        _opcode(finding.primary.text),
        finding.operation,
        finding.likeness,
        _language(finding.primary),
    )


def _language(place: CodePlace) -> str:
    """The language of the code that a place is of; of a line of the source that of what it became."""
    kinds = [one.location.kind for one in (place, *place.twins)]
    return next((kind.value for kind in kinds if kind is not LocationKind.SOURCE), "")


def _opcode(text: str) -> str:
    """The first word of an instruction without guard and modifiers."""
    words = [word for word in text.split() if not word.startswith("@")]
    return words[0].split(".")[0].rstrip(";") if words else ""


_Key = tuple[str, ...] | None
_Tier = Callable[[BaselineEntry], _Key]
_OTHER = {"ptx": "sass", "sass": "ptx"}


def _same(tier: _Tier) -> tuple[_Tier, _Tier]:
    return tier, tier


# By what an entry and what a finding pair up, the surest first; ``None`` where that is not known.
_TIERS: tuple[tuple[_Tier, _Tier], ...] = (
    _same(lambda one: (one.rule, one.function, one.likeness) if one.likeness else None),
    _same(lambda one: (one.fingerprint,)),
    _same(lambda one: (one.rule, one.function, one.opcode)),
    _same(lambda one: (one.rule, one.function, one.operation) if one.operation else None),
    (
        lambda entry: (entry.rule, entry.function, _OTHER.get(entry.evidence, "")),
        lambda found: (found.rule, found.function, found.evidence) if found.evidence else None,
    ),
)


def match(findings: Iterable[Finding], entries: Iterable[BaselineEntry]) -> Matched:
    """Pair findings with entries, the surest pairs first; one for one."""
    left = dict(enumerate(entries))
    waiting = {position: entry_of(finding) for position, finding in enumerate(findings)}
    known: set[int] = set()
    for of_entry, of_finding in _TIERS:
        offered: dict[_Key, deque[int]] = defaultdict(deque)
        for number, entry in left.items():
            offered[of_entry(entry)].append(number)
        for position, wanted in list(waiting.items()):
            key = of_finding(wanted)
            if key is not None and offered[key]:
                del left[offered[key].popleft()], waiting[position]
                known.add(position)
    return Matched(frozenset(known), tuple(left.values()))


def why_unmet(entry: BaselineEntry, functions: Iterable[FunctionReport]) -> Unmet:
    """Why no finding met an entry, by what an audit says of the functions of its name.

    It is gone where its rule was decided by the language that it was found in.
    """
    judged = [one for one in functions if entry.rule in one.verdicts]
    if not judged:
        return Unmet.NOT_ASKED
    if any(entry.rule in one.unknown_reasons for one in judged):
        return Unmet.UNDECIDED
    by = {one.decided_by.get(entry.rule, one.evidence) for one in judged}
    return Unmet.OTHER_LANGUAGE if entry.evidence and by.isdisjoint({entry.evidence, BOTH}) else Unmet.GONE


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
        BaselineEntry(**{key: value for key, value in entry.items() if key != "message"})
        for entry in document["findings"]
    )


def render_baseline(findings: Iterable[Finding]) -> str:
    """A baseline that knows these findings; messages are there for whoever reads the file."""
    entries = [_document(finding) for finding in findings]
    entries.sort(key=lambda entry: (entry["function"], entry["rule"], entry["fingerprint"]))
    return json.dumps({"version": 1, "findings": entries}, indent=1, ensure_ascii=False) + "\n"


def _document(finding: Finding) -> dict[str, Any]:
    entry = asdict(entry_of(finding))
    if not entry["evidence"]:
        del entry["evidence"]
    return {**entry, "message": finding.message}
