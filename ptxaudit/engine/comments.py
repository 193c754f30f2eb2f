"""Suppressions in comments that reach the PTX, as those in inline assembly do.

``// ptxaudit: ignore[RULE, RULE] REASON`` stands on the line of the finding or alone above it, and may give
its last day as ``until=2027-01-31`` before the reason.
"""

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ptxaudit.engine.settings import Suppression

_COMMENT = re.compile(
    r"//\s*ptxaudit:\s*(?P<verb>\w*)\s*(?:\[(?P<rules>[^\]]*)\])?\s*(?:until=(?P<until>\S+))?(?P<reason>.*)"
)


@dataclass(frozen=True, slots=True)
class CommentedSuppression:
    """A suppression and the 1-based line of code that it is for."""

    line: int
    suppression: Suppression


def read_comments(name: str, text: str) -> tuple[list[CommentedSuppression], list[str]]:
    """The suppressions in a PTX text, and a line on each comment that is meant as one but is wrong."""
    found: list[CommentedSuppression] = []
    faults: list[str] = []
    if "ptxaudit:" not in text:
        return found, faults
    waiting: list[Suppression] = []
    for number, line in enumerate(text.splitlines(), 1):
        code, _, _ = line.partition("//")
        match = _COMMENT.search(line)
        here: list[Suppression] = []
        if match is not None:
            try:
                here = list(_suppressions(match, f"{name}:{number}"))
            except ValueError as error:
                faults.append(f"{name}:{number}: {error}")
        if code.strip():
            found += [CommentedSuppression(number, one) for one in (*waiting, *here)]
            waiting = []
        else:
            waiting += here
    return found, faults


def _suppressions(match: re.Match[str], origin: str) -> Iterator[Suppression]:
    """Raises ``ValueError`` saying what was found and what was expected."""
    form = "expected // ptxaudit: ignore[RULE] REASON"
    if match["verb"] != "ignore" or not (match["rules"] or "").strip():
        raise ValueError(f"found {match[0].strip()!r}, {form}")
    reason = match["reason"].strip()
    if not reason:
        raise ValueError(f"found no reason, {form}")
    until = None
    if match["until"]:
        try:
            until = datetime.date.fromisoformat(match["until"])
        except ValueError as error:
            raise ValueError(f"found until={match['until']}, expected a date such as 2027-01-31") from error
    for rule in match["rules"].split(","):
        yield Suppression(rule.strip(), reason, origin, until=until)
