"""What a report amounts to in numbers: one count for every format, so that none disagrees with another."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ptxaudit.rules.model import AuditReport, FunctionReport, Severity, Verdict


@dataclass(frozen=True, slots=True)
class Counts:
    """Findings that are not suppressed by severity, and verdicts: ``clean``, ``unknown``, and ``rests``,
    those with findings where something else could not be decided. ``undecided_functions`` have an unknown
    verdict, ``wrong_functions`` a finding that is not suppressed."""

    severities: Mapping[Severity, int]
    suppressed: int
    clean: int
    unknown: int
    rests: int
    wrong_functions: int
    undecided_functions: int


def count(report: AuditReport) -> Counts:
    """The counts of a report."""
    open_findings = [finding for finding in report.findings if finding.suppressed is None]
    found = Counter(finding.severity for finding in open_findings)
    verdicts = Counter(verdict for one in report.functions for verdict in one.verdicts.values())
    return Counts(
        severities={severity: found[severity] for severity in Severity},
        suppressed=len(report.findings) - len(open_findings),
        clean=verdicts[Verdict.CLEAN],
        unknown=verdicts[Verdict.UNKNOWN],
        rests=sum(len(rests(one)) for one in report.functions),
        wrong_functions=len({(finding.input, finding.function) for finding in open_findings}),
        undecided_functions=sum(bool(undecided(one)) for one in report.functions),
    )


def undecided(function: FunctionReport) -> dict[str, str]:
    """The rules whose verdict is unknown, each with its reason."""
    reasons = function.unknown_reasons
    unknown = (rule for rule, verdict in function.verdicts.items() if verdict is Verdict.UNKNOWN)
    return {rule: reasons.get(rule, "No reason was given.") for rule in unknown}


def rests(function: FunctionReport) -> dict[str, str]:
    """The rules that have a finding and could not decide something else, each with the reason."""
    return {
        rule: reason
        for rule, reason in function.unknown_reasons.items()
        if function.verdicts.get(rule) is Verdict.FINDING
    }
