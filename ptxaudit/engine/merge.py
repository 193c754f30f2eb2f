"""One report from two: what PTX and SASS of one function say of each rule.

A finding in either is a finding. ``clean`` and ``not-applicable`` come from evidence that can decide the
rule (``decided-by`` of its pattern) and never stand where all of that is unknown. A finding that both show
is one finding: that of the PTX, with the SASS beside it and what it costs there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ptxaudit.engine.function_audit import FunctionAudit
from ptxaudit.engine.registry import Rule
from ptxaudit.engine.twins import Twins
from ptxaudit.ir.function import Language
from ptxaudit.rules.model import Category, Confidence, Finding, Severity, Verdict

_CONFIDENCES = (Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH)
BOTH = "both"


@dataclass(frozen=True, slots=True)
class Merged:
    """``decided_by`` says for each decided rule by which language (or both); ``settled`` are the rules that
    the other language left unknown."""

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    decided_by: dict[str, str] = field(default_factory=dict)
    settled: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def merge(
    ptx: FunctionAudit, sass: FunctionAudit, rules: Iterable[Rule], twins: Twins, together: bool = True
) -> Merged:
    """What both say; a rule that one of them was not asked is decided by the other.

    Where it is not certain that the two belong ``together``, neither settles what the other leaves open.
    """
    merged = Merged()
    settled: list[str] = []
    findings: list[Finding] = []
    for rule in rules:
        said = {Language.PTX: ptx.verdicts.get(rule.id), Language.SASS: sass.verdicts.get(rule.id)}
        verdict, by = merged_verdict(said, rule.pattern.decided_by)
        if not together and Verdict.UNKNOWN in said.values() and verdict is not Verdict.FINDING:
            verdict, by = Verdict.UNKNOWN, ()
        merged.verdicts[rule.id] = verdict
        reason = _reason(rule.id, verdict, by, (ptx, sass))
        if reason is not None:
            merged.reasons[rule.id] = reason
        if by:
            merged.decided_by[rule.id] = BOTH if len(by) == 2 else by[0].value
            if any(one is Verdict.UNKNOWN for language, one in said.items() if language not in by):
                settled.append(rule.id)
        findings += _findings(rule, ptx, sass, twins)
    return replace(merged, settled=tuple(settled), findings=tuple(findings))


def merged_verdict(
    said: dict[Language, Verdict | None], deciding: Sequence[str]
) -> tuple[Verdict, tuple[Language, ...]]:
    """The verdict and the languages that it comes from; none for ``unknown``.

    ``None`` is a language that was not asked: the verdict is then that of the other.
    """
    asked = {language: verdict for language, verdict in said.items() if verdict is not None}
    if len(asked) == 1:
        ((language, verdict),) = asked.items()
        return verdict, () if verdict is Verdict.UNKNOWN else (language,)
    for verdict, among in (
        (Verdict.FINDING, tuple(Language)),
        (Verdict.CLEAN, tuple(Language(one) for one in deciding)),
    ):
        by = tuple(language for language in among if said[language] is verdict)
        if by:
            return verdict, by
    # What the PTX has none of, the SASS has none of; ptxas may drop what the PTX has.
    if said[Language.PTX] is Verdict.NOT_APPLICABLE:
        return Verdict.NOT_APPLICABLE, (Language.PTX,)
    if all(said[Language(one)] is Verdict.NOT_APPLICABLE for one in deciding):
        return Verdict.NOT_APPLICABLE, (Language.SASS,)
    return Verdict.UNKNOWN, ()


def _reason(
    rule: str, verdict: Verdict, by: tuple[Language, ...], audits: tuple[FunctionAudit, FunctionAudit]
) -> str | None:
    """Why the rule, or with a finding the rest of it, could not be decided."""
    if verdict in (Verdict.CLEAN, Verdict.NOT_APPLICABLE):
        return None
    reasons = [one.reasons[rule] for one in audits if rule in one.reasons]
    if verdict is Verdict.FINDING:
        told = [one.reasons.get(rule) for one in audits if one.function.language in by]
        return None if None in told else next(iter(told))
    return reasons[0] if reasons else "neither the PTX nor the SASS decides it"


def _findings(rule: Rule, ptx: FunctionAudit, sass: FunctionAudit, twins: Twins) -> list[Finding]:
    ours = [one for one in ptx.findings if one.rule == rule.id]
    theirs = [one for one in sass.findings if one.rule == rule.id]
    kept: list[Finding] = []
    for finding in theirs:
        place = _same(finding, ours, twins)
        if place is None:
            kept.append(finding)
        else:
            ours[place] = _joined(ours[place], finding)
    unseen = sass.verdicts.get(rule.id) in (Verdict.CLEAN, Verdict.NOT_APPLICABLE)
    if rule.pattern.category is Category.PERFORMANCE and unseen:
        ours = [replace(one, evidence=(*one.evidence, "The SASS at hand does not show it.")) for one in ours]
    return [twins.decorated(one) for one in (*ours, *kept)]


def _same(finding: Finding, candidates: Sequence[Finding], twins: Twins) -> int | None:
    """The candidate that is about the same PTX instruction, or has it among its places."""
    index = twins.ptx_index(finding.primary)
    if index is None:
        return None
    for place, one in enumerate(candidates):
        if twins.ptx_index(one.primary) == index:
            return place
    own = {index, *(twins.ptx_index(place) for place in finding.related)} - {None}
    for place, one in enumerate(candidates):
        if (
            index in {twins.ptx_index(related) for related in one.related}
            or twins.ptx_index(one.primary) in own
        ):
            return place
    return None


def _joined(ptx: Finding, sass: Finding) -> Finding:
    """The finding of the PTX with what that of the SASS adds: where it is, what it costs."""
    twin = replace(sass.primary, role="related", note="the SASS shows it here")
    return replace(
        ptx,
        severity=max(ptx.severity, sass.severity, key=_rank),
        confidence=max(ptx.confidence, sass.confidence, key=_CONFIDENCES.index),
        primary=replace(ptx.primary, twins=(*ptx.primary.twins, twin)),
        cost=sass.cost or ptx.cost,
        assumptions=tuple(dict.fromkeys((*ptx.assumptions, *sass.assumptions))),
    )


def _rank(severity: Severity) -> int:
    return severity.rank
