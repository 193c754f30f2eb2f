"""A comparison of two builds as text, Markdown for a pull request, and JSON."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ptxaudit.engine.changes import SynchronisationChange
from ptxaudit.engine.compare import Comparison, CostChange, CountChange, KernelChange, VerdictChange
from ptxaudit.printable import log_lines
from ptxaudit.report.markdown import code
from ptxaudit.report.text import abridged, cost
from ptxaudit.rules.model import Finding, Synchronisation, Verdict
from ptxaudit.source import Location
from ptxaudit.words import counted

_SHOWN_PLACES = 6


def render_text(comparison: Comparison) -> str:
    """What is missing on the first line, what changed, one paragraph a kernel, and a line of totals."""
    unread = comparison.unread
    short = incomplete(comparison)
    parts = [short] if short else []
    parts += ["\n".join(_kernel(kernel, unread)) for kernel in comparison.kernels if kernel.is_changed]
    return log_lines("\n\n".join([*parts, totals(comparison)])) + "\n"


def incomplete(comparison: Comparison) -> str:
    """What keeps the two sides from being whole, in one line; empty where they are."""
    sides = zip(("old", "new"), comparison.shortcomings, strict=True)
    short = "; ".join(f"the {side} side: {', '.join(phrases)}" for side, phrases in sides if phrases)
    return f"incomplete: {short}" if short else ""


_Unread = tuple[tuple[str, ...], tuple[str, ...]]


def _kernel(kernel: KernelChange, unread: _Unread) -> Iterator[str]:
    yield f"{abridged(kernel.name)} [{_architectures(kernel)}]"
    if kernel.old is None or kernel.new is None:
        yield f"  {_one_sided(kernel, unread)}"
    verdicts = {verdict.rule: verdict for verdict in kernel.verdicts}
    for new, findings in ((True, kernel.new_findings), (False, kernel.gone_findings)):
        for finding, alike in grouped(findings):
            more = f" (and {alike} more like it)" if alike else ""
            yield f"  {'new' if new else fixed_or_gone(kernel, finding)}: {_finding(finding)}{more}"
            if finding.cost is not None:
                yield f"    cost: {cost(finding.cost)}"
            if not new:
                yield from (f"    {line}" for line in _why_gone(kernel, finding, verdicts))
    yield from (f"  worse: {_worse(pair)}" for pair in kernel.worse_findings)
    if kernel.unchanged:
        yield f"  unchanged: {counted(kernel.unchanged, 'finding')}"
    changed = list(_synchronisation(kernel))
    if changed:
        yield "  synchronisation:"
        yield from (f"    {line}" for line in changed)
    if kernel.costs:
        yield "  cost of synchronisation:"
        yield from (f"    {priced(change)}" for change in kernel.costs)
    told = {finding.rule for finding in (*kernel.new_findings, *kernel.gone_findings)}
    settled = [verdict for verdict in kernel.verdicts if verdict.rule not in told]
    if settled:
        yield "  verdicts:"
        for verdict in settled:
            yield f"    {verdict.rule}: {verdict.old or 'not asked'} -> {verdict.new or 'not asked'}"
            yield from (f"      {line}" for line in _reason(kernel, verdict.rule))


def _one_sided(kernel: KernelChange, unread: _Unread) -> str:
    """What to say of a kernel that one side does not have, or of which that is not known."""
    said, missing = ("new kernel", unread[0]) if kernel.old is None else ("gone", unread[1])
    side = "old" if kernel.old is None else "new"
    return f"{said}, or in an input of the {side} side that could not be read" if missing else said


def fixed_or_gone(kernel: KernelChange, finding: Finding) -> str:
    """A finding that is no longer made is mended only if the rule is clean."""
    clean = kernel.new is not None and kernel.new.verdicts.get(finding.rule) is Verdict.CLEAN
    return "fixed" if clean else "gone"


def _why_gone(kernel: KernelChange, finding: Finding, verdicts: Mapping[str, VerdictChange]) -> Iterator[str]:
    """What the rule says now of a kernel in which it finds this no longer, where that is not clean."""
    verdict = verdicts.get(finding.rule)
    if verdict is None or verdict.new is Verdict.CLEAN or kernel.new is None:
        return
    yield f"the rule is {verdict.new or 'not asked'} now"
    yield from _reason(kernel, finding.rule)


def _reason(kernel: KernelChange, rule: str) -> Iterator[str]:
    """Why a rule does not decide the new kernel."""
    if kernel.new is not None and kernel.new.verdicts.get(rule) is Verdict.UNKNOWN:
        yield kernel.new.unknown_reasons.get(rule, "")


def _synchronisation(kernel: KernelChange) -> Iterator[str]:
    """The changes with their places; numbers alone where there are only those."""
    for change in kernel.changes:
        yield said(change)
    aligned = {one.kind for change in kernel.changes for one in (*change.old, *change.new)}
    for number in kernel.counts:
        if number.kind not in aligned:
            yield f"{number.kind}: {_numbers(number)}"


def said(change: SynchronisationChange) -> str:
    """A change in words: ``added fence.acq_rel.gpu in a loop, 2 times: lines 12 and 40``."""
    count = max(len(change.old), len(change.new))
    times = f", {count} times" if count > 1 else ""
    if not change.old or not change.new:
        verb, side = ("added", change.new) if change.new else ("removed", change.old)
        return f"{verb} {_kind(side[0])}{times}: {_places(side)}"
    old, new = change.old[0], change.new[0]
    places = f"{_places(change.old)} -> {_places(change.new)}"
    if old.kind == new.kind:
        return f"moved {old.kind} {'into' if new.looped else 'out of'} a loop{times}: {places}"
    if old.looped != new.looped:
        return f"changed {_kind(old)} -> {_kind(new)}{times}: {places}"
    looped = " in a loop" if old.looped else ""
    return f"changed {old.kind} -> {new.kind}{looped}{times}: {places}"


def priced(change: CostChange) -> str:
    """A change of cost in words: ``down: one iteration of each loop 350 -> 110 cycles (flush 240 -> 0)``."""
    where = "one iteration of each loop" if change.looped else "outside of loops"
    parts = ", ".join(f"{part} {old:,.0f} -> {new:,.0f}" for part, (old, new) in change.parts.items())
    direction = "up" if change.new > change.old else "down"
    numbers = f"{change.old:,.0f} -> {change.new:,.0f} cycles"
    return f"{direction}: {where} {numbers}{f' ({parts})' if parts else ''}, estimated for {change.measured}"


def _kind(one: Synchronisation) -> str:
    return f"{one.kind} in a loop" if one.looped else one.kind


def _places(several: tuple[Synchronisation, ...]) -> str:
    shown = [_place(one.location) for one in several[:_SHOWN_PLACES]]
    more = [f"{len(several) - _SHOWN_PLACES} more"] if len(several) > _SHOWN_PLACES else []
    *first, last = [*shown, *more]
    listed = f"{', '.join(first)} and {last}" if first else last
    if several[0].location.offset is not None:
        return listed
    return f"line{'s' if len(several) > 1 else ''} {listed}"


def _place(location: Location) -> str:
    return str(location.line) if location.offset is None else f"+{location.offset:#06x}"


def grouped(findings: Iterable[Finding]) -> list[tuple[Finding, int]]:
    """The first finding of each rule and severity, and how many more (unrolled copies)."""
    first: dict[tuple[str, str], tuple[Finding, int]] = {}
    for finding in findings:
        key = (finding.rule, finding.severity.value)
        known, alike = first.get(key, (finding, -1))
        first[key] = (known, alike + 1)
    return list(first.values())


def _numbers(change: CountChange) -> str:
    looped = f" (in loops {change.looped[0]} -> {change.looped[1]})" if any(change.looped) else ""
    same = f"{change.old}" if change.old == change.new else f"{change.old} -> {change.new}"
    return f"{same}{looped}"


def _architectures(kernel: KernelChange) -> str:
    sides = [side.arch for side in (kernel.old, kernel.new) if side is not None]
    return " -> ".join(dict.fromkeys(sides))


def _finding(finding: Finding) -> str:
    suppressed = "" if finding.suppressed is None else f" (suppressed: {finding.suppressed})"
    return f"{finding.severity}[{finding.rule}] {finding.primary.location}: {finding.message}{suppressed}"


def _worse(pair: tuple[Finding, Finding]) -> str:
    """A finding that is more severe now, and what it was."""
    old, new = pair
    return f"{_finding(new)} (was: {old.severity} at {old.primary.location})"


def _ended(kernels: Iterable[KernelChange]) -> Iterator[str]:
    """How many findings are mended, and how many are only made no longer."""
    ended = Counter(fixed_or_gone(kernel, one) for kernel in kernels for one in kernel.gone_findings)
    yield from (f"{ended[word]} {word}" for word in ("fixed", "gone"))


def totals(comparison: Comparison) -> str:
    """One line of counts."""
    kernels = comparison.kernels
    paired = [kernel for kernel in kernels if kernel.old is not None and kernel.new is not None]
    numbers = (
        f"{counted(len(paired), 'kernel')} in both",
        f"{sum(kernel.is_changed for kernel in paired)} of them changed",
        f"{sum(kernel.old is None for kernel in kernels)} new",
        f"{sum(kernel.new is None for kernel in kernels)} gone",
    )
    worse = sum(len(kernel.worse_findings) for kernel in kernels)
    found = (
        f"{sum(len(kernel.new_findings) for kernel in kernels)} new",
        *([f"{worse} worse"] if worse else []),
        *_ended(kernels),
        f"{sum(kernel.unchanged for kernel in kernels)} unchanged",
    )
    moved = Counter(
        "up" if change.new > change.old else "down" for kernel in kernels for change in kernel.costs
    )
    priced_ones = [f"costs: {moved['up']} up, {moved['down']} down"] if moved else []
    return "; ".join([", ".join(numbers), f"findings: {', '.join(found)}", *priced_ones])


def render_markdown(comparison: Comparison) -> str:
    """The same for a pull-request comment: a table of numbers a kernel."""
    unread = comparison.unread
    changed = [kernel for kernel in comparison.kernels if kernel.is_changed]
    parts = ["\n".join(_kernel_markdown(kernel, unread)) for kernel in changed]
    short = incomplete(comparison)
    opening = [f"**{short}**"] if short else []
    return "\n\n".join([*opening, f"**{totals(comparison)}**", *parts]) + "\n"


def _kernel_markdown(kernel: KernelChange, unread: _Unread) -> Iterator[str]:
    yield f"### {code(kernel.name)} {_architectures(kernel)}"
    if kernel.old is None or kernel.new is None:
        yield _one_sided(kernel, unread)
    for new, findings in ((True, kernel.new_findings), (False, kernel.gone_findings)):
        for finding, alike in grouped(findings):
            more = f" and {alike} more like it" if alike else ""
            yield f"- {'new' if new else fixed_or_gone(kernel, finding)}: {code(_finding(finding))}{more}"
    yield from (f"- worse: {code(_worse(pair))}" for pair in kernel.worse_findings)
    yield from (f"- {code(said(change))}" for change in kernel.changes)
    yield from (f"- cost of synchronisation {code(priced(change))}" for change in kernel.costs)
    if kernel.counts:
        yield "\n| synchronisation | old | new | in loops, old | new |\n|---|---:|---:|---:|---:|"
        yield from (_count_row(change) for change in kernel.counts)
    if kernel.verdicts:
        yield "\n| rule | old | new |\n|---|---|---|"
        yield from (f"| `{one.rule}` | {one.old or ''} | {one.new or ''} |" for one in kernel.verdicts)


def _count_row(change: CountChange) -> str:
    numbers = (change.old, change.new, *change.looped)
    return f"| {change.kind} | {' | '.join(str(number or '') for number in numbers)} |"


def render_json(comparison: Comparison) -> str:
    """The same as JSON text."""
    old, new = comparison.unread
    short = any(comparison.shortcomings)
    document = {
        "schema_version": "1.0",
        **({"incomplete": dict(zip(("old", "new"), comparison.shortcomings, strict=True))} if short else {}),
        "unread": {"old": list(old), "new": list(new)},
        "kernels": [_document(kernel) for kernel in comparison.kernels],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _document(kernel: KernelChange) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "old": None if kernel.old is None else {"input": kernel.old.input, "arch": kernel.old.arch},
        "new": None if kernel.new is None else {"input": kernel.new.input, "arch": kernel.new.arch},
        "synchronisation": {
            change.kind: {
                "old": change.old,
                "new": change.new,
                "old_in_loops": change.looped[0],
                "new_in_loops": change.looped[1],
            }
            for change in kernel.counts
        },
        "changes": [
            {
                "old": [_change_document(one) for one in change.old],
                "new": [_change_document(one) for one in change.new],
            }
            for change in kernel.changes
        ],
        "costs": [_cost_document(change) for change in kernel.costs],
        "verdicts": {one.rule: [one.old, one.new] for one in kernel.verdicts},
        "findings": {
            "new": [_finding_document(finding) for finding in kernel.new_findings],
            "gone": [_finding_document(finding) for finding in kernel.gone_findings],
            "worse": [
                {**_finding_document(new), "old_severity": old.severity.value}
                for old, new in kernel.worse_findings
            ],
            "unchanged": kernel.unchanged,
        },
    }


def _cost_document(change: CostChange) -> dict[str, Any]:
    return {
        "in_loops": change.looped,
        "old": round(change.old, 1),
        "new": round(change.new, 1),
        "parts": {part.value: [round(old, 1), round(new, 1)] for part, (old, new) in change.parts.items()},
        "measured": change.measured,
    }


def _finding_document(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "place": str(finding.primary.location),
        "message": finding.message,
        "fingerprint": finding.fingerprint,
        **({} if finding.suppressed is None else {"suppressed": finding.suppressed}),
    }


def _change_document(one: Synchronisation) -> dict[str, Any]:
    return {"kind": one.kind, "in_a_loop": one.looped, "place": str(one.location)}
