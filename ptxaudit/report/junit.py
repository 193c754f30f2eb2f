"""JUnit XML: a suite for each input, a case for each rule and function."""

import re
from collections.abc import Iterable
from dataclasses import replace
from xml.etree import ElementTree

from ptxaudit.rules.model import AuditReport, Finding, FunctionReport, InputReport, Severity, Verdict
from ptxaudit.words import brief

# XML 1.0 has no way to write these at all.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: AuditReport, fail_on: Severity | None) -> str:
    """The report as JUnit XML.

    A case fails when it has a finding at ``fail_on`` or worse (``None``: never), so that the file says
    what the exit code says. Milder findings are in ``system-out``, unknown verdicts are skipped cases.
    """
    root = ElementTree.Element("testsuites", name="ptxaudit")
    findings: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in report.findings:
        if finding.suppressed is None:
            findings.setdefault((finding.input, finding.function, finding.rule), []).append(finding)
    functions: dict[str, list[FunctionReport]] = {}
    for function in report.functions:
        functions.setdefault(function.input, []).append(function)
    _whole(root, report)
    for one in report.inputs:
        _suite(root, one, functions.get(one.path, []), findings, fail_on)
    _total(root, root)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _whole(root: ElementTree.Element, report: AuditReport) -> None:
    """What is said of the audit as a whole: properties, and a case that fails where it is cut short.

    Inputs that could not be read have cases of their own; images that were passed over are no failure.
    """
    short = f"incomplete: {', '.join(report.shortcomings)}" if report.shortcomings else ""
    said = [*([("incomplete", short)] if short else []), *(("notice", notice) for notice in report.notices)]
    if not said:
        return
    suite = ElementTree.SubElement(root, "testsuite", name="ptxaudit")
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in said:
        ElementTree.SubElement(properties, "property", name=name, value=_clean(value))
    if _is_cut_short(report):
        case = ElementTree.SubElement(suite, "testcase", classname="ptxaudit", name="complete")
        ElementTree.SubElement(case, "error", message=_clean(short))
    _total(suite, suite)


def _is_cut_short(report: AuditReport) -> bool:
    """Whether something is missing that no input's own case tells of."""
    expected = replace(report, skipped=())
    return bool(set(expected.shortcomings) & set(replace(expected, inputs=()).shortcomings))


def _suite(
    root: ElementTree.Element,
    one: InputReport,
    functions: Iterable[FunctionReport],
    findings: dict[tuple[str, str, str], list[Finding]],
    fail_on: Severity | None,
) -> None:
    suite = ElementTree.SubElement(root, "testsuite", name=_clean(one.path))
    if one.error is not None:
        case = ElementTree.SubElement(suite, "testcase", classname="input", name=_clean(one.path))
        ElementTree.SubElement(case, "error", message=_clean(one.error))
    for function in functions:
        for rule, verdict in function.verdicts.items():
            if verdict is Verdict.NOT_APPLICABLE:
                continue
            case = ElementTree.SubElement(suite, "testcase", classname=_clean(function.demangled), name=rule)
            _case(case, function, rule, findings.get((one.path, function.name, rule), []), fail_on)
    _total(suite, suite)


def _case(
    case: ElementTree.Element,
    function: FunctionReport,
    rule: str,
    findings: list[Finding],
    fail_on: Severity | None,
) -> None:
    failing = [f for f in findings if fail_on is not None and f.severity.rank >= fail_on.rank]
    if failing:
        message = failing[0].message if len(failing) == 1 else f"{len(failing)} findings"
        failure = ElementTree.SubElement(case, "failure", message=_clean(message), type=failing[0].severity)
        failure.text = _clean("\n".join(_line(finding) for finding in failing))
    elif function.verdicts[rule] is Verdict.UNKNOWN:
        ElementTree.SubElement(case, "skipped", message=_clean(function.unknown_reasons[rule]))
    mild = [finding for finding in findings if finding not in failing]
    if mild:
        output = ElementTree.SubElement(case, "system-out")
        output.text = _clean("\n".join(_line(finding) for finding in mild))


def _line(finding: Finding) -> str:
    place = finding.primary
    return f"{finding.severity}: {finding.message} [{place.location}: {brief(place.text)}]"


def _total(element: ElementTree.Element, within: ElementTree.Element) -> None:
    counted = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
    for attribute, tag in counted.items():
        element.set(attribute, str(sum(1 for _ in within.iter(tag))))


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
