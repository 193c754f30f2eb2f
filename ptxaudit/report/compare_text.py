"""A comparison of two builds as text, Markdown for a pull request, and JSON."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ptxaudit.engine.compare import Comparison, CountChange, KernelChange
from ptxaudit.printable import log_line
from ptxaudit.report.markdown import code
from ptxaudit.rules.model import Finding


def render_text(comparison: Comparison) -> str:
    """What changed, one paragraph a kernel, and a line of totals."""
    parts = ["\n".join(map(log_line, _kernel(kernel))) for kernel in comparison.kernels if kernel.is_changed]
    return "\n\n".join([*parts, totals(comparison)]) + "\n"


def _kernel(kernel: KernelChange) -> Iterator[str]:
    yield f"{kernel.name} [{_architectures(kernel)}]"
    if kernel.old is None or kernel.new is None:
        yield f"  {'new kernel' if kernel.old is None else 'gone'}"
    for sign, findings in (("+", kernel.new_findings), ("-", kernel.gone_findings)):
        for finding, alike in grouped(findings):
            more = f" (and {alike} more like it)" if alike else ""
            yield f"  {sign} {_finding(finding)}{more}"
    if kernel.unchanged:
        yield f"  = {kernel.unchanged} finding{'' if kernel.unchanged == 1 else 's'} unchanged"
    for change in kernel.counts:
        yield f"  ~ {change.kind}: {_numbers(change)}"
    for verdict in kernel.verdicts:
        yield f"  ~ {verdict.rule}: {verdict.old or 'not asked'} -> {verdict.new or 'not asked'}"


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


def totals(comparison: Comparison) -> str:
    """One line of counts."""
    kernels = comparison.kernels
    paired = [kernel for kernel in kernels if kernel.old is not None and kernel.new is not None]
    numbers = (
        (len(paired), f"kernel{'' if len(paired) == 1 else 's'} in both"),
        (sum(kernel.is_changed for kernel in paired), "of them changed"),
        (sum(kernel.old is None for kernel in kernels), "new"),
        (sum(kernel.new is None for kernel in kernels), "gone"),
    )
    found = (
        (sum(len(kernel.new_findings) for kernel in kernels), "new"),
        (sum(len(kernel.gone_findings) for kernel in kernels), "gone"),
        (sum(kernel.unchanged for kernel in kernels), "unchanged"),
    )
    return f"{_listed(numbers)}; findings: {_listed(found)}"


def _listed(numbers: Iterable[tuple[int, str]]) -> str:
    return ", ".join(f"{number} {what}" for number, what in numbers)


def render_markdown(comparison: Comparison) -> str:
    """The same for a pull-request comment: a table of numbers a kernel."""
    parts = ["\n".join(_kernel_markdown(kernel)) for kernel in comparison.kernels if kernel.is_changed]
    return "\n\n".join([f"**{totals(comparison)}**", *parts]) + "\n"


def _kernel_markdown(kernel: KernelChange) -> Iterator[str]:
    yield f"### {code(kernel.name)} {_architectures(kernel)}"
    if kernel.old is None or kernel.new is None:
        yield "new kernel" if kernel.old is None else "gone"
    for new, findings in ((True, kernel.new_findings), (False, kernel.gone_findings)):
        for finding, alike in grouped(findings):
            more = f" and {alike} more like it" if alike else ""
            yield f"- {'new' if new else 'gone'}: {code(_finding(finding))}{more}"
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
    document = {"schema_version": "1.0", "kernels": [_document(kernel) for kernel in comparison.kernels]}
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
        "verdicts": {one.rule: [one.old, one.new] for one in kernel.verdicts},
        "findings": {
            "new": [_finding_document(finding) for finding in kernel.new_findings],
            "gone": [_finding_document(finding) for finding in kernel.gone_findings],
            "unchanged": kernel.unchanged,
        },
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
