"""Colours of a terminal (ECMA-48), for the reports that are read there."""

from ptxaudit.rules.model import Severity

BOLD = "\x1b[1m"
SEVERITY = {Severity.ERROR: "\x1b[1;31m", Severity.WARNING: "\x1b[1;33m", Severity.NOTE: "\x1b[1;36m"}
_RESET = "\x1b[0m"


def paint(text: str, code: str, color: bool) -> str:
    """The text in a colour, or as it is."""
    return f"{code}{text}{_RESET}" if color else text
