"""Findings in SASS that are one in the code that it was compiled from: ptxas unrolls loops and inlines calls.

Copies are findings of one rule, equally severe, in one function whose instructions come from the same PTX
instruction. Where the PTX is not at hand they come from the same line of the source, or, of pairs, no line is
known, and all instructions that they are about are the same but for registers.
The finding in front stands for all.
"""

import re
from collections.abc import Hashable, Iterable
from dataclasses import replace

from ptxaudit.rules.model import CodePlace, Finding
from ptxaudit.source import LocationKind
from ptxaudit.words import counted

_REGISTER = re.compile(r"\b(U?[RP])\d+\b")
_NOTE = "another copy of it"
_SHOWN_COPIES = 32


def without_copies(findings: Iterable[Finding]) -> list[Finding]:
    """The findings of one function in their order, each with the places of its copies."""
    groups: dict[Hashable, list[Finding]] = {}
    for position, finding in enumerate(findings):
        origin = _origin(finding)
        groups.setdefault(position if origin is None else origin, []).append(finding)
    return [_one(group) for group in groups.values()]


def _origin(finding: Finding) -> Hashable | None:
    """What copies have in common; ``None`` for what is a copy of nothing, as a finding outside SASS."""
    place = finding.primary
    if place.location.kind is not LocationKind.SASS:
        return None
    rule = (finding.rule, finding.severity, finding.suppressed, finding.input, finding.function)
    lines = {twin.location.kind: twin.location for twin in reversed(place.twins)}
    if LocationKind.PTX in lines:
        return rule, lines[LocationKind.PTX]
    code = tuple(_REGISTER.sub(r"\1", one.text) for one in (place, *finding.related))
    source = lines.get(LocationKind.SOURCE)
    if source is None and not finding.related:
        return None  # an invalidate looks like any other
    return rule, source, code


def _one(group: list[Finding]) -> Finding:
    first, *others = group
    if not others:
        return first
    copies = [_copy(finding.primary) for finding in others[:_SHOWN_COPIES]]
    said = (
        f"{counted(len(group), 'copy', 'copies')} of this instruction (unrolled or inlined) are found so; "
        "the schedule is that of one of them."
    )
    return replace(
        first,
        primary=replace(first.primary, twins=(*copies, *first.primary.twins)),
        evidence=(*first.evidence, said),
        assumptions=tuple(dict.fromkeys(one for finding in group for one in finding.assumptions)),
    )


def _copy(place: CodePlace) -> CodePlace:
    """A place as one more of the same instruction; where it comes from is known."""
    return replace(place, role="related", note=_NOTE, twins=())
