"""What a project has decided about findings: severities, suppressions, the baseline. Applied to a report."""

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ptxaudit.engine.baseline import BaselineEntry, match
from ptxaudit.engine.comments import CommentedSuppression, read_comments
from ptxaudit.engine.findings import report_order
from ptxaudit.engine.settings import KernelSettings, Settings, Suppression
from ptxaudit.rules.model import AuditReport, Finding, FunctionReport, Verdict
from ptxaudit.source import LocationKind

IN_BASELINE = "in the baseline"


@dataclass(frozen=True, slots=True)
class Decisions:
    """What holds on ``today``: settings and the entries of a baseline, ``None`` when there is none."""

    settings: Settings
    baseline: tuple[BaselineEntry, ...] | None
    today: datetime.date


def decided(report: AuditReport, decisions: Decisions) -> AuditReport:
    """The report with severities changed, ignored findings gone, known ones marked as suppressed.

    Its notices say which suppressions met no finding or have expired, and how many baseline entries are
    gone. A rule that is ignored for a kernel has no verdict there.
    """
    names = {(one.input, one.name): (one.name, one.demangled) for one in report.functions}
    settings = decisions.settings
    functions = tuple(_without_ignored(one, settings.kernels) for one in report.functions)
    findings = [
        _weighed(finding, settings, names[finding.input, finding.function])
        for finding in report.findings
        if not _is_ignored(finding.rule, names[finding.input, finding.function], settings.kernels)
    ]
    commented, notices = _commented(report)
    used: set[Suppression] = set()
    findings = [
        _suppressed(finding, names[finding.input, finding.function], decisions, commented, used)
        for finding in findings
    ]
    if decisions.baseline is not None:
        matched = match(findings, decisions.baseline)
        findings = [
            replace(finding, suppressed=finding.suppressed or IN_BASELINE)
            if position in matched.known
            else finding
            for position, finding in enumerate(findings)
        ]
        notices += [f"{len(matched.gone)} baseline entries are gone"] if matched.gone else []
    every = (*settings.suppressions, *(one.suppression for one in _every(commented)))
    notices += _unused(every, used, decisions.today)
    return replace(
        report,
        functions=functions,
        findings=tuple(sorted(findings, key=report_order)),
        notices=(*report.notices, *notices),
    )


def _is_ignored(rule: str, names: tuple[str, ...], kernels: Iterable[KernelSettings]) -> bool:
    return any(rule in kernel.ignore and any(map(kernel.match.search, names)) for kernel in kernels)


def _without_ignored(function: FunctionReport, kernels: Iterable[KernelSettings]) -> FunctionReport:
    names = (function.name, function.demangled)
    kept: Mapping[str, Verdict] = {
        rule: verdict for rule, verdict in function.verdicts.items() if not _is_ignored(rule, names, kernels)
    }
    reasons = {rule: reason for rule, reason in function.unknown_reasons.items() if rule in kept}
    return replace(function, verdicts=kept, unknown_reasons=reasons)


def _weighed(finding: Finding, settings: Settings, names: tuple[str, ...]) -> Finding:
    """The finding at the severity that the project gives its rule; a kernel's own settings go first."""
    tables = [kernel.severity for kernel in settings.kernels if any(map(kernel.match.search, names))]
    for table in (*tables, settings.severity):
        if finding.rule in table:
            return replace(finding, severity=table[finding.rule])
    return finding


_Comments = Mapping[str, list[CommentedSuppression]]


def _commented(report: AuditReport) -> tuple[_Comments, list[str]]:
    """The suppressions in comments, by input, and the lines on those that are wrong."""
    found: dict[str, list[CommentedSuppression]] = {}
    faults: list[str] = []
    for one in report.inputs:
        text = report.listings.get(one.path)
        if text is not None and one.kind == LocationKind.PTX.value:
            found[one.path], wrong = read_comments(one.path, text)
            faults += wrong
    return found, faults


def _every(commented: _Comments) -> Iterator[CommentedSuppression]:
    for several in commented.values():
        yield from several


def _suppressed(
    finding: Finding,
    names: tuple[str, ...],
    decisions: Decisions,
    commented: _Comments,
    used: set[Suppression],
) -> Finding:
    """The finding, marked when a suppression that holds is about it; ``used`` gathers those that are."""
    place = finding.primary.location
    beside = [one.suppression for one in commented.get(place.file, ()) if one.line == place.line]
    for suppression in (*decisions.settings.suppressions, *beside):
        if suppression.covers(finding.rule, names) and not suppression.has_expired(decisions.today):
            used.add(suppression)
            return replace(finding, suppressed=suppression.reason)
    return finding


def _unused(
    suppressions: Iterable[Suppression], used: set[Suppression], today: datetime.date
) -> Iterator[str]:
    for suppression in suppressions:
        if suppression.has_expired(today):
            yield f"{suppression.origin}: ignore of {suppression.rule} expired on {suppression.until}"
        elif suppression not in used:
            yield f"{suppression.origin}: ignore of {suppression.rule} meets no finding"
