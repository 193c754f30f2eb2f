"""The baseline: the findings that a project knows, so that only new ones count.

A JSON file. A finding is known when an entry has its rule, its function and its instruction but for registers
and labels, that of the same number first; else one that has its fingerprint; else, since compilers change
small things, one with its opcode without modifiers, or one whose instruction does the same; else one that
was found in the other one of PTX and SASS, where a rule may name another instruction of the same defect. Each
entry stands for one finding, so that an instruction of which ptxas made copies that SASS alone does not tell
to be one needs an entry for each.

No entry stands for a finding that is more severe than its own was, for one at another of as many equal
instructions of the function in PTX, or for one in another file or architecture while its own is audited, too.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any

from ptxaudit.engine.image import SEPARATOR
from ptxaudit.engine.merge import BOTH
from ptxaudit.errors import UsageError, system_reason
from ptxaudit.rules.model import CodePlace, Finding, FunctionReport, Severity
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
                    "severity": {"enum": [severity.value for severity in Severity]},
                    "occurrence": {
                        "type": "array",
                        "items": {"type": "integer"},
                        "minItems": 2,
                        "maxItems": 2,
                    },
                    "file": {"type": "string"},
                    "architecture": {"type": "string"},
                    "message": {"type": "string"},
                },
            },
        },
    },
}


@dataclass(frozen=True, slots=True)
class BaselineEntry:
    """One known finding. ``operation``, ``likeness``, ``severity``, ``occurrence`` and ``architecture`` are
    as a :class:`Finding` has them, ``evidence`` is ``ptx`` or ``sass``, the language that it was found in,
    and ``file`` the name of its input without folders. Earlier files have none of these.
    """

    fingerprint: str
    rule: str
    function: str
    opcode: str
    operation: str = ""
    likeness: str = ""
    evidence: str = ""
    severity: str = ""
    occurrence: tuple[int, int] | None = None
    file: str = ""
    architecture: str = ""

    @property
    def home(self) -> "Home":
        """The function that it was found in."""
        return self.function, self.file, self.architecture


# A function by its name, the name of its file, and its architecture.
Home = tuple[str, str, str]


class Unmet(StrEnum):
    """Why an entry may have met no finding."""

    GONE = "gone"
    NOT_ASKED = "not asked"
    UNDECIDED = "undecided"
    OTHER_LANGUAGE = "other language"


@dataclass(frozen=True, slots=True)
class Matched:
    """``known`` are positions in the findings; ``gone`` the entries that no finding has.

    ``worse`` are the positions of findings that are more severe than the entry that they have.
    """

    known: frozenset[int]
    gone: tuple[BaselineEntry, ...]
    worse: Mapping[int, BaselineEntry] = field(default_factory=dict)


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
        finding.severity.value,
        finding.occurrence,
        file_name(finding.input),
        finding.architecture,
    )


def home_of(function: FunctionReport) -> Home:
    """A function as entries name it."""
    return function.name, file_name(function.input), function.arch


def file_name(name: str) -> str:
    """The name of an input's file without folders, which builds differ in, or what is inside of the file."""
    return Path(name.partition(SEPARATOR)[0]).name


def _language(place: CodePlace) -> str:
    """The language of the code that a place is of; of a line of the source that of what it became."""
    kinds = [one.location.kind for one in (place, *place.twins)]
    return next((kind.value for kind in kinds if kind is not LocationKind.SOURCE), "")


def _opcode(text: str) -> str:
    """The first word of an instruction without guard and modifiers."""
    words = [word for word in text.split() if not word.startswith("@")]
    return words[0].split(".")[0].rstrip(";") if words else ""


_Key = tuple[object, ...] | None
_Tier = Callable[[BaselineEntry], _Key]
_OTHER = {"ptx": "sass", "sass": "ptx"}


def _same(tier: _Tier) -> tuple[_Tier, _Tier]:
    return tier, tier


# By what an entry and what a finding pair up, the surest first; ``None`` where that is not known.
_TIERS: tuple[tuple[_Tier, _Tier], ...] = (
    _same(lambda one: (one.rule, *one.home, one.likeness, one.occurrence) if one.occurrence else None),
    _same(lambda one: (one.rule, one.function, one.likeness, one.occurrence) if one.occurrence else None),
    _same(lambda one: (one.rule, one.function, one.likeness) if one.likeness else None),
    _same(lambda one: (one.fingerprint,)),
    _same(lambda one: (one.rule, one.function, one.opcode)),
    _same(lambda one: (one.rule, one.function, one.operation) if one.operation else None),
    (
        lambda entry: (entry.rule, entry.function, _OTHER.get(entry.evidence, "")),
        lambda found: (found.rule, found.function, found.evidence) if found.evidence else None,
    ),
)


_Fits = Callable[[BaselineEntry, BaselineEntry], bool]


def match(
    findings: Iterable[Finding], entries: Iterable[BaselineEntry], audited: Container[Home] = ()
) -> Matched:
    """Pair findings with entries, the surest pairs first; one for one.

    ``audited`` are the functions in which an entry's own finding would have been made. Findings that are
    suppressed anyway leave the entries that others can have to them.
    """
    left = dict(enumerate(entries))
    ordered = sorted(enumerate(findings), key=lambda one: one[1].suppressed is not None)
    waiting = {position: entry_of(finding) for position, finding in ordered}
    known: set[int] = set()
    worse: dict[int, BaselineEntry] = {}

    def may_be(entry: BaselineEntry, found: BaselineEntry) -> bool:
        elsewhere = entry.home != found.home and entry.home in audited
        return not elsewhere and not _is_another(entry, found)

    def covers(entry: BaselineEntry, found: BaselineEntry) -> bool:
        return may_be(entry, found) and not _is_worse(entry, found)

    for tier, fits in product(_TIERS, (covers, may_be)):
        for position, number in _pairs(tier, fits, left, waiting):
            entry = left.pop(number)
            del waiting[position]
            if fits is covers:
                known.add(position)
            else:
                worse[position] = entry
    return Matched(frozenset(known), tuple(left.values()), worse)


def _pairs(
    tier: tuple[_Tier, _Tier],
    fits: _Fits,
    entries: Mapping[int, BaselineEntry],
    waiting: Mapping[int, BaselineEntry],
) -> list[tuple[int, int]]:
    """Positions of findings, each with the first entry that pairs with it and fits."""
    of_entry, of_finding = tier
    offered: dict[_Key, list[int]] = defaultdict(list)
    for number, entry in entries.items():
        offered[of_entry(entry)].append(number)
    pairs = []
    for position, wanted in waiting.items():
        key = of_finding(wanted)
        several = offered.get(key, []) if key is not None else []
        fitting = next((one for one in several if fits(entries[one], wanted)), None)
        if fitting is not None:
            several.remove(fitting)
            pairs.append((position, fitting))
    return pairs


def _is_another(entry: BaselineEntry, found: BaselineEntry) -> bool:
    """Whether a finding is at another one of equal instructions, of which there are as many as there were.

    That is only told of PTX: ptxas may put equal instructions into another order with every release.
    """
    if entry.occurrence is None or found.occurrence is None or entry.likeness != found.likeness:
        return False
    if (entry.evidence, found.evidence) != ("ptx", "ptx"):
        return False
    return entry.occurrence[1] == found.occurrence[1] and entry.occurrence != found.occurrence


def _is_worse(entry: BaselineEntry, found: BaselineEntry) -> bool:
    """Whether a finding is more severe than an entry's was; what the other language says is no measure."""
    if not entry.severity or entry.evidence != found.evidence:
        return False
    return Severity(found.severity).rank > Severity(entry.severity).rank


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
        BaselineEntry(**{key: _read(value) for key, value in entry.items() if key != "message"})
        for entry in document["findings"]
    )


def _read(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def render_baseline(findings: Iterable[Finding]) -> str:
    """A baseline that knows these findings; messages are there for whoever reads the file."""
    entries = [_document(finding) for finding in findings]
    entries.sort(key=lambda entry: (entry["function"], entry["rule"], entry["fingerprint"]))
    return json.dumps({"version": 1, "findings": entries}, indent=1, ensure_ascii=False) + "\n"


def _document(finding: Finding) -> dict[str, Any]:
    entry = asdict(entry_of(finding))
    for name in ("evidence", "occurrence"):
        if not entry[name]:
            del entry[name]
    return {**entry, "message": finding.message}
