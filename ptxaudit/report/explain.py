"""What ``ptxaudit rules`` and ``ptxaudit explain`` show of the patterns."""

import textwrap
from collections.abc import Iterable, Iterator

from ptxaudit.report.colors import BOLD, SEVERITY, paint
from ptxaudit.rules.pattern import Pattern
from ptxaudit.rules.thresholds import Threshold

_WIDTH = 100


def rule_table(patterns: Iterable[Pattern], color: bool = False) -> str:
    """One line for each rule: id, category, severity, title; then one for each threshold that can be set.

    ``color`` adds ANSI colours.
    """
    patterns = list(patterns)
    rows = [("rule", "category", "severity", "title")]
    rows += [(one.id, one.category.value, one.severity.value, one.title) for one in patterns]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    codes = {severity.value: code for severity, code in SEVERITY.items()}
    lines = []
    for name, category, severity, title in rows:
        cells = [cell.ljust(width) for cell, width in zip((name, category, severity), widths, strict=True)]
        code = codes.get(severity, BOLD)
        lines.append("  ".join([paint(cells[0], BOLD, color), cells[1], paint(cells[2], code, color), title]))
    settable = [one for one in patterns if one.thresholds]
    if settable:
        lines += ["", "thresholds that settings can change, by [thresholds.RULE]:"]
        width = max(len(one.id) for one in settable)
        lines += [f"  {one.id.ljust(width)}  {_defaults(one)}" for one in settable]
    return "\n".join(lines) + "\n"


def _defaults(pattern: Pattern) -> str:
    return ", ".join(_default(name, threshold) for name, threshold in pattern.thresholds.items())


def _default(name: str, threshold: Threshold) -> str:
    return f"{name} = {threshold.default:g} {threshold.unit}"


def explain(pattern: Pattern, color: bool = False) -> str:
    """Everything a pattern says, as text; ``color`` adds ANSI colours."""
    return "\n".join(_lines(pattern, color)) + "\n"


def _lines(pattern: Pattern, color: bool) -> Iterator[str]:
    def heading(text: str) -> str:
        return paint(text, BOLD, color)

    severity = paint(pattern.severity.value, SEVERITY[pattern.severity], color)
    yield heading(f"{pattern.id}: {pattern.title}")
    yield f"{pattern.category}, {severity}, confidence {pattern.confidence}, {pattern.status}"
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
    for title, prose in sections.items():
        yield f"\n{heading(title)}\n{_wrap(prose)}"
    if pattern.fix.code is not None:
        yield f"\n{textwrap.indent(pattern.fix.code.strip(), '    ')}"
    if pattern.thresholds:
        yield f"\n{heading('Thresholds')} (settings change them by [thresholds.{pattern.id}])"
        for name, threshold in pattern.thresholds.items():
            yield _wrap(f"{_default(name, threshold)}: {threshold.meaning}")
    yield f"\n{heading('References')}"
    yield from (f"  PTX ISA {reference}" for reference in pattern.references)
    yield f"\n{heading('Example that is reported')}\n{textwrap.indent(pattern.example.bad.strip(), '    ')}"
    yield f"\n{heading('Example that is not')}\n{textwrap.indent(pattern.example.good.strip(), '    ')}"


def _wrap(prose: str) -> str:
    paragraphs = prose.split("\n\n")
    return "\n\n".join(
        textwrap.fill(paragraph, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
        for paragraph in paragraphs
    )
