"""The report as one self-contained HTML page.

Nothing in the page is fetched: styles, script and data are inlined, and the content security policy lets
only the very style and script of this package run (by hash), so that a name in an input could not add
one. Everything from an input passes jinja2's autoescape or its ``tojson``; characters that cannot be
seen or that reorder text (control characters, bidirectional overrides, lone surrogates) are replaced by
visible ones.
"""

import base64
import hashlib
import re
import textwrap
from collections.abc import Mapping
from dataclasses import replace

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ptxaudit.report.characters import seen, visible
from ptxaudit.report.pagedata import CODE_BUDGET, build_data
from ptxaudit.report.sequence import Diagram
from ptxaudit.report.view import build_page, place_name
from ptxaudit.resources import templates_root
from ptxaudit.rules.model import AuditReport, Severity
from ptxaudit.rules.pattern import Pattern
from ptxaudit.source import Location, LocationKind

OPEN_CARDS = 30
MOST_UNDECIDED_ROWS = 6
SCRIPTS = ("common.js", "code.js", "report.js")
_CODE_WORD = re.compile(
    r"((?<![\w.:/%<-])(?:%[\w.]*\w|(?:\.|::)[a-z]\w+(?:(?:\.|::)\w+)*"
    r"|[a-z]\w+(?:(?:\.|::)[a-z_]\w+|\.\d+[a-z]\w*|::\d+)+"
    r"|[A-Z][A-Z0-9]+(?:\.[A-Z0-9][A-Z0-9_x]*)+)(?![\w/>-]))"
)


def render(report: AuditReport, patterns: Mapping[str, Pattern], code_budget: int = CODE_BUDGET) -> str:
    """The page for a report, as text to be written as UTF-8.

    ``patterns`` are the rules' patterns by id; a rule without one is shown by its id. Functions' code is
    put in up to ``code_budget`` characters; the page says which were left out.
    """
    environment = page_environment()
    page = build_page(report, {name: pattern.title for name, pattern in patterns.items()})
    data = build_data(page, code_budget)
    style = inline(environment, "report.css")
    script = Markup("\n").join(inline(environment, name) for name in SCRIPTS)
    shown = {row.rule for row in page.rules} | {card.finding.rule for card in page.suppressed}
    text = environment.get_template("report.html.j2").render(
        page=page,
        data=data,
        style=style,
        script=script,
        style_hash=source_hash(style),
        script_hash=source_hash(script),
        patterns=[pattern for name, pattern in sorted(patterns.items()) if name in shown],
        severities=sorted(Severity, key=lambda severity: -severity.rank),
        open_cards=OPEN_CARDS,
        most_undecided_rows=MOST_UNDECIDED_ROWS,
    )
    return visible(text)


def page_environment() -> Environment:
    """Templates, escaped, with the filters that they use."""
    environment = Environment(
        loader=FileSystemLoader(templates_root()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        prose=prose,
        seen=seen,
        paragraphs=_paragraphs,
        place_name=place_name,
        short_place=_short_place,
        short_name=_short_name,
        cycle_range=_cycle_range,
        code_lines=_code_lines,
        px=_pixels,
        described=_described,
    )
    return environment


def inline(environment: Environment, name: str) -> Markup:
    """A style or script of this package, which needs no escaping, ready to stand in its element."""
    assert environment.loader is not None
    return Markup(environment.loader.get_source(environment, name)[0].strip())


def source_hash(text: str) -> str:
    """What a content security policy calls an inlined style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def prose(text: object) -> Markup:
    """A sentence with code in it set as code: what stands between backticks, and words that only code
    has (``mbarrier.try_wait``, ``.cta``, ``%r4``, ``CCTL.IVALL``). Everything is escaped."""
    parts = str(text).split("`")
    if len(parts) % 2 == 0:
        parts[-2:] = ["`".join(parts[-2:])]
    shown = (_code(part) if odd % 2 else _find_code(part) for odd, part in enumerate(parts))
    return Markup("").join(shown)


def _find_code(text: str) -> Markup:
    parts = _CODE_WORD.split(text)
    return Markup("").join(_code(part) if odd % 2 else escape(part) for odd, part in enumerate(parts))


def _code(text: str) -> Markup:
    return Markup("<code>{}</code>").format(text)


def _paragraphs(text: str) -> list[str]:
    """A pattern's text, split at blank lines."""
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def _short_place(location: Location, input_path: str) -> str:
    """A location for a caption, without its file's folders; without its file where that is the input."""
    kind = location.kind.value if location.kind is LocationKind.SOURCE else location.kind.value.upper()
    if location.file != input_path:
        name = re.split(r"[/\\]", location.file)[-1]
        return f"{kind} {replace(location, file=name)}"
    if location.offset is not None:
        return f"{kind} offset {location.offset:#06x}"
    return kind if location.line is None else f"{kind} line {location.line}"


def _short_name(demangled: str) -> str:
    """A demangled name without the result type, which every kernel shares."""
    return demangled.removeprefix("void ")


def _cycle_range(cycles: tuple[int, int]) -> str:
    low, high = cycles
    return f"{low:,}" if low == high else f"{low:,}\u2013{high:,}"


def _code_lines(code: str) -> list[str]:
    return [line.rstrip() for line in textwrap.dedent(code.strip("\n")).expandtabs(4).split("\n")]


def _pixels(value: float) -> str:
    return f"{round(value, 1):g}"


def _described(diagram: Diagram) -> str:
    """A diagram in words, for those who cannot see it."""
    steps = (
        f"{step.caption}: {diagram.lanes[step.lane].role}: {' '.join(step.lines)}" for step in diagram.steps
    )
    gone = (f"missing: {arrow.label}" for arrow in diagram.arrows if arrow.missing)
    return "; ".join((*steps, *gone))
