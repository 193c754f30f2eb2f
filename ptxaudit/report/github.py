"""Workflow commands: findings as annotations on a pull request.

An annotation stands where SARIF has the result: at the line of the source where a finding knows it, else at
that of the PTX. What is found in a binary alone is said of the file, without a line.
"""

from collections.abc import Iterator, Mapping

from ptxaudit.engine.image import SEPARATOR
from ptxaudit.printable import log_lines, printable
from ptxaudit.report import text
from ptxaudit.report.places import best_place, has_no_lines
from ptxaudit.rules.model import AuditReport, Finding, Severity
from ptxaudit.source import Location
from ptxaudit.words import brief

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(report: AuditReport) -> str:
    """One command a line for each finding and each input that could not be read, then the summary."""
    short = report.shortcomings
    said = {"title": "ptxaudit: incomplete"}
    lines = [_command("warning", said, ", ".join(short))] if short else []
    lines += [_finding(finding) for finding in report.findings if finding.suppressed is None]
    lines += [
        _command("error", {"file": one.path, "title": "ptxaudit: input"}, one.error)
        for one in report.inputs
        if one.error is not None
    ]
    return "\n".join([*lines, text.summary(report)]) + "\n"


def _finding(finding: Finding) -> str:
    properties = {**_annotated(best_place(finding).location), "title": f"ptxaudit: {finding.rule}"}
    return _command(_COMMANDS[finding.severity], properties, "\n".join(_message(finding)))


def _annotated(location: Location) -> dict[str, str | int | None]:
    """The properties of a command that say where it is about; columns of 0 are such as are not known."""
    if has_no_lines(location):
        return {"file": location.file.partition(SEPARATOR)[0]}
    return {"file": location.file, "line": location.line, "col": location.column or None}


def _message(finding: Finding) -> Iterator[str]:
    yield finding.message
    for place in (finding.primary, *finding.related):
        for shown in (place, *place.twins):
            yield f"{shown.location}: {brief(shown.text)}{f' ({shown.note})' if shown.note else ''}"
    if finding.fix is not None:
        yield f"fix: {finding.fix.summary}"


def _command(name: str, properties: Mapping[str, str | int | None], message: str) -> str:
    known = {key: printable(str(value)) for key, value in properties.items() if value is not None}
    given = ",".join(f"{key}={escape_property(value)}" for key, value in known.items())
    return f"::{name} {given}::{escape_data(log_lines(message))}"


def escape_data(value: str) -> str:
    """A command's message: percent signs and line ends escaped."""
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(value: str) -> str:
    """A command's property: the separators escaped as well."""
    return escape_data(value).replace(":", "%3A").replace(",", "%2C")
