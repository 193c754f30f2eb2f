"""Suppressions in comments of the source, or in such that reach the PTX, as those in inline assembly do.

``// ptxaudit: ignore[RULE, RULE] REASON`` (in Python ``# ...``) stands on the line of the finding or alone
above it, and may give its last day as ``until=2027-01-31`` before the reason.
"""

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ptxaudit.engine.results import COMMENT_WORD
from ptxaudit.engine.settings import Suppression

_SAID = r"\s*(?P<verb>\w*)\s*(?:\[(?P<rules>[^\]]*)\])?\s*(?:until=(?P<until>\S+))?(?P<reason>.*)"
_SLASHES, _HASH = "//", "#"
_COMMENTS = {mark: re.compile(rf"{mark}\s*{COMMENT_WORD}{_SAID}") for mark in (_SLASHES, _HASH)}
_QUOTED = re.compile(r"""\"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)'""")


@dataclass(frozen=True, slots=True)
class CommentedSuppression:
    """A suppression and the 1-based line of code that it is for."""

    line: int
    suppression: Suppression


def read_comments(name: str, text: str) -> tuple[list[CommentedSuppression], list[str]]:
    """The suppressions in a PTX text or a source, and a line on each comment that is meant as one but is
    wrong. A comment inside of a string, as those of inline assembly are, is for the PTX to say."""
    found: list[CommentedSuppression] = []
    faults: list[str] = []
    if COMMENT_WORD not in text:
        return found, faults
    waiting: list[Suppression] = []
    mark = _HASH if name.endswith(".py") else _SLASHES
    for number, line in enumerate(text.splitlines(), 1):
        code, comment = _parted(line, mark)
        match = _COMMENTS[mark].match(comment)
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


def _parted(line: str, mark: str) -> tuple[str, str]:
    """The code of a line, and its comment from the mark on."""
    # Strings keep their length but lose what could be taken for a mark.
    bare = _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), line) if '"' in line or "'" in line else line
    code, found, _ = bare.partition(mark)
    return code, line[len(code) :] if found else ""


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
