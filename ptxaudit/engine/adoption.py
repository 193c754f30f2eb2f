"""What a project has decided about findings: severities, suppressions, the baseline. Applied to a report."""

import datetime
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ptxaudit.engine.baseline import BaselineEntry, Unmet, home_of, match, why_unmet
from ptxaudit.engine.comments import read_comments
from ptxaudit.engine.findings import report_order
from ptxaudit.engine.registry import Rule, require_rule
from ptxaudit.engine.settings import KernelSettings, Settings, Suppression
from ptxaudit.engine.sources import identity, source_places
from ptxaudit.errors import UsageError
from ptxaudit.rules.model import AuditReport, CodePlace, Finding, FunctionReport, Verdict
from ptxaudit.source import LocationKind
from ptxaudit.words import counted

IN_BASELINE = "in the baseline"


@dataclass(frozen=True, slots=True)
class Decisions:
    """What holds on ``today``: settings and the entries of a baseline, ``None`` when there is none.

    ``registry`` has every rule that a comment can name.
    """

    settings: Settings
    registry: Mapping[str, Rule]
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
    commented, unmet, notices = _commented(report, decisions.registry)
    notices += _changed_thresholds(report, decisions)
    used: set[Suppression] = set()
    findings = [
        _suppressed(finding, names[finding.input, finding.function], decisions, commented, used)
        for finding in findings
    ]
    if decisions.baseline is not None:
        matched = match(findings, decisions.baseline, {home_of(one) for one in functions})
        findings = [
            replace(finding, suppressed=finding.suppressed or IN_BASELINE)
            if position in matched.known
            else finding
            for position, finding in enumerate(findings)
        ]
        notices += _unmet(matched.gone, functions)
        notices += _worse(len(matched.worse))
    notices += _unused((*settings.suppressions, *unmet), used, decisions.today)
    return replace(
        report,
        functions=functions,
        findings=tuple(sorted(findings, key=report_order)),
        notices=(*report.notices, *notices),
    )


def _changed_thresholds(report: AuditReport, decisions: Decisions) -> list[str]:
    """By what else than the defaults the rules have judged: ``clean`` says no more than that."""
    judged = {rule for function in report.functions for rule in function.verdicts}
    said = decisions.settings.set_thresholds.changes(decisions.registry, judged)
    return [f"{decisions.settings.path}: thresholds are set: {', '.join(said)}"] if said else []


def _unmet(entries: Iterable[BaselineEntry], functions: Iterable[FunctionReport]) -> Iterator[str]:
    """A line on the entries of a baseline that met no finding, for each reason."""
    named: dict[str, list[FunctionReport]] = defaultdict(list)
    for function in functions:
        named[function.name].append(function)
    numbers = Counter(why_unmet(entry, named[entry.function]) for entry in entries)
    for reason in Unmet:
        if number := numbers[reason]:
            one, several = _UNMET[reason]
            told = one if number == 1 else several
            yield f"{counted(number, 'baseline entry', 'baseline entries')} met no finding: {told}"


def _worse(number: int) -> list[str]:
    """A line on the entries whose findings are more severe than they were."""
    if not number:
        return []
    told = "a finding that is more severe now: it counts"
    several = "findings that are more severe now: they count"
    entries = counted(number, "baseline entry", "baseline entries")
    return [f"{entries} met {told if number == 1 else several}"]


_UNMET = {
    Unmet.GONE: ("it is gone", "they are gone"),
    Unmet.NOT_ASKED: (
        "its kernel or its rule is not in this audit",
        "their kernels or their rules are not in this audit",
    ),
    Unmet.UNDECIDED: ("its rule is undecided here", "their rules are undecided here"),
    Unmet.OTHER_LANGUAGE: (
        "it was found in the other one of PTX and SASS than decides its rule here",
        "they were found in the other one of PTX and SASS than decides their rules here",
    ),
}


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


_Comments = Mapping[tuple[str, int], list[Suppression]]


def _commented(
    report: AuditReport, registry: Mapping[str, Rule]
) -> tuple[_Comments, list[Suppression], list[str]]:
    """The suppressions in comments by file and line, those of them that should meet a finding, and what is
    wrong with others."""
    found: dict[tuple[str, int], list[Suppression]] = defaultdict(list)
    due: list[Suppression] = []
    faults: list[str] = []
    for one in report.inputs:
        text = report.listings.get(one.path)
        if text is not None and one.kind == LocationKind.PTX.value:
            comments, wrong = read_comments(one.path, text)
            faults += wrong
            for comment in comments:
                found[one.path, comment.line].append(comment.suppression)
                due.append(comment.suppression)
    for way, source in report.sources.items():
        comments, wrong = read_comments(source.file, source.text)
        faults += wrong
        for comment in comments:
            found[way, comment.line].append(comment.suppression)
            # Of what was not compiled here (a template, another architecture) nothing can be said.
            due += [comment.suppression] if comment.line in source.compiled else []
    misnamed = {one: fault for one in _named(found) if (fault := _unknown_rule(one, registry)) is not None}
    return found, [one for one in due if one not in misnamed], [*faults, *misnamed.values()]


def _named(comments: _Comments) -> Iterator[Suppression]:
    for several in comments.values():
        yield from several


def _unknown_rule(suppression: Suppression, registry: Mapping[str, Rule]) -> str | None:
    """What is wrong with the rule that a comment names."""
    try:
        require_rule(registry, suppression.rule)
    except UsageError as error:
        return f"{suppression.origin}: {error}"
    return None


def _lines(place: CodePlace) -> Iterator[tuple[str, int]]:
    """Every line of PTX and of sources that a comment about this place can be for."""
    for one in (place, *place.twins):
        if one.location.kind is LocationKind.PTX and one.location.line is not None:
            yield one.location.file, one.location.line
    for location in source_places(place):
        yield identity(location.file), location.line or 0


def _suppressed(
    finding: Finding,
    names: tuple[str, ...],
    decisions: Decisions,
    commented: _Comments,
    used: set[Suppression],
) -> Finding:
    """The finding, marked when suppressions that hold are about it; ``used`` gathers those that are."""
    beside = [one for line in _lines(finding.primary) for one in commented.get(line, ())]
    about = [
        one
        for one in (*decisions.settings.suppressions, *beside)
        if one.covers(finding.rule, names) and not one.has_expired(decisions.today)
    ]
    used.update(about)
    return replace(finding, suppressed=about[0].reason) if about else finding


def _unused(
    suppressions: Iterable[Suppression], used: set[Suppression], today: datetime.date
) -> Iterator[str]:
    for suppression in suppressions:
        if suppression.has_expired(today):
            yield f"{suppression.origin}: ignore of {suppression.rule} expired on {suppression.until}"
        elif suppression not in used:
            yield f"{suppression.origin}: ignore of {suppression.rule} meets no finding"
