"""A Markdown summary of a report, for a comment on a pull request or a CI job's summary page."""

import re
from collections import Counter
from collections.abc import Iterator

from ptxaudit.printable import printable
from ptxaudit.report.counts import undecided
from ptxaudit.report.text import summary
from ptxaudit.rules.model import AuditReport, Finding

MOST_FINDINGS = 50


def render(report: AuditReport) -> str:
    """The counts, a table of findings, what was not decided. At most :data:`MOST_FINDINGS` rows."""
    shown = [finding for finding in report.findings if finding.suppressed is None]
    short = report.shortcomings
    heading = f"### ptxaudit: incomplete: {', '.join(short)}" if short else "### ptxaudit"
    parts = [heading, summary(report)]
    if shown:
        parts.append("\n".join(_findings(shown)))
    failed = [one.error for one in report.inputs if one.error is not None]
    if failed:
        parts.append("\n".join(["Could not be read:", "", *(f"- {code(error)}" for error in failed)]))
    unknown = Counter(rule for function in report.functions for rule in undecided(function))
    if unknown:
        rows = [f"| `{rule}` | {number} |" for rule, number in unknown.most_common()]
        table = "\n".join(["| rule | functions |", "|---|---:|", *rows])
        parts.append(f"<details><summary>Not decided</summary>\n\n{table}\n\n</details>")
    if report.notices:
        parts.append("\n".join(f"- {code(notice)}" for notice in report.notices))
    return "\n\n".join(parts) + "\n"


def _findings(findings: list[Finding]) -> Iterator[str]:
    yield "| severity | rule | kernel | where | what |"
    yield "|---|---|---|---|---|"
    for finding in findings[:MOST_FINDINGS]:
        cells = (finding.function, str(finding.primary.location), finding.message)
        yield f"| {finding.severity} | `{finding.rule}` | {' | '.join(map(code, cells))} |"
    if len(findings) > MOST_FINDINGS:
        yield f"| | | | | and {len(findings) - MOST_FINDINGS} more |"


def code(text: str) -> str:
    """Text from an input as a code span in a table cell: nothing in it is markup, a link or a mention."""
    line = printable(" ".join(text.split())).replace("|", "\N{BROKEN BAR}")
    longest = max(map(len, re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    padding = " " if longest else ""
    return f"{fence}{padding}{line}{padding}{fence}"
