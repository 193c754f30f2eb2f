"""What synchronisation costs, for a terminal: each kernel's loops and places."""

from collections.abc import Iterator

from ptxaudit.printable import log_line
from ptxaudit.report import budgets
from ptxaudit.report.colors import BOLD, paint
from ptxaudit.rules.model import AuditReport, FunctionReport
from ptxaudit.words import counted


def render(report: AuditReport, color: bool = False) -> str:
    """The budgets of a report's functions, those with loops and places first in their order."""
    return "\n".join(_lines(report, color)) + "\n"


def _lines(report: AuditReport, color: bool) -> Iterator[str]:
    if report.shortcomings:
        yield f"incomplete: {', '.join(report.shortcomings)}"
    priced = [one for one in report.functions if one.budget is not None and one.budget.places]
    for one in priced:
        yield from _function(one, color)
        yield ""
    quiet = len(report.functions) - len(priced)
    if priced:
        yield from (f"note: {line}" for line in budgets.LEGEND)
    total = f"{counted(len(priced), 'function')} with synchronisation"
    yield total + (f", {quiet} without" if quiet else "")


def _function(one: FunctionReport, color: bool) -> Iterator[str]:
    assert one.budget is not None
    name = one.demangled or one.name
    yield paint(log_line(name), BOLD, color)
    known = "not measured" if one.budget.measured is None else f"measured on an {one.budget.device}"
    language = {"ptx": "PTX", "sass": "SASS", "both": "SASS"}[one.evidence]
    place = f"{one.input}, {one.arch} ({known}), {language}, {counted(one.budget.threads, 'thread')} a CTA"
    yield log_line(f"  {place}")
    if one.incomplete is not None:
        yield log_line(f"  incomplete: {one.incomplete}")
    yield from (f"  {line}" for line in budgets.lines(one.budget))
