"""What ``ptxaudit rules`` and ``ptxaudit explain`` show of the patterns."""

import textwrap
from collections.abc import Iterable, Iterator

from ptxaudit.rules.pattern import Pattern

_WIDTH = 100


def rule_table(patterns: Iterable[Pattern]) -> str:
    """One line for each rule: id, category, severity, title."""
    rows = [("rule", "category", "severity", "title")]
    rows += [(one.id, one.category.value, one.severity.value, one.title) for one in patterns]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def explain(pattern: Pattern) -> str:
    """Everything a pattern says, as text."""
    return "\n".join(_lines(pattern)) + "\n"


def _lines(pattern: Pattern) -> Iterator[str]:
    yield f"{pattern.id}: {pattern.title}"
    yield f"{pattern.category}, {pattern.severity}, confidence {pattern.confidence}, {pattern.status}"
    architectures = ", ".join(pattern.architectures) or "all architectures"
    yield f"reads {' and '.join(name.upper() for name in pattern.inputs)}; {architectures}"
    sections = {
        "Why": pattern.rationale,
        "Evidence": pattern.evidence,
        "Looks the same and is right": pattern.trap,
        "Limits": pattern.limits,
    }
    if pattern.cost is not None:
        sections["Cost"] = f"{pattern.cost.summary} ({pattern.cost.frequency})"
    sections["Fix"] = pattern.fix.summary
    for heading, prose in sections.items():
        yield f"\n{heading}\n{_wrap(prose)}"
    if pattern.fix.code is not None:
        yield f"\n{textwrap.indent(pattern.fix.code.strip(), '    ')}"
    if pattern.thresholds:
        yield "\nThresholds"
        yield from (f"  {name} = {value:g}" for name, value in pattern.thresholds.items())
    yield "\nReferences"
    yield from (f"  PTX ISA {reference}" for reference in pattern.references)
    yield f"\nExample that is reported\n{textwrap.indent(pattern.example.bad.strip(), '    ')}"
    yield f"\nExample that is not\n{textwrap.indent(pattern.example.good.strip(), '    ')}"


def _wrap(prose: str) -> str:
    paragraphs = prose.split("\n\n")
    return "\n\n".join(
        textwrap.fill(paragraph, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
        for paragraph in paragraphs
    )
