"""The HTML page: structure, escaping, size and what it says."""

import base64
import gzip
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import pytest
from html_sample import (
    INVALIDATE,
    MEMBAR,
    PATTERNS,
    SCOPE,
    SCOPE_REASON,
    SPLITK,
    SPLITK_NAME,
    SPLITK_PTX,
    large_report,
    sample_code,
    sample_report,
)

from ptxaudit.report.characters import visible
from ptxaudit.report.codepage import code_anchor, pack_code
from ptxaudit.report.html import OPEN_CARDS, prose, render
from ptxaudit.report.index_names import index_names
from ptxaudit.report.markdown import render as render_markdown
from ptxaudit.report.text import render as render_text
from ptxaudit.report.view import build_page
from ptxaudit.resources import templates_root
from ptxaudit.rules.budget import Budget, Cycles, Executions, Part, PlaceCost
from ptxaudit.rules.model import (
    AuditReport,
    CodePlace,
    FunctionReport,
    InputReport,
    Severity,
    SkippedInput,
    Verdict,
)
from ptxaudit.source import Location, LocationKind

VOID = {"meta", "input", "br", "link", "img", "hr"}
SVG_EMPTY = {"line", "rect", "path"}


class Page(HTMLParser):
    """The page as a flat list of elements with their text, checked to be well nested."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[int, list[str]] = {}
        self.stack: list[tuple[str, int]] = []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "br":
            self.handle_data(" ")
        if tag not in VOID:
            self.stack.append((tag, len(self.elements) - 1))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in SVG_EMPTY, tag
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        opened, _ = self.stack.pop()
        assert opened == tag, f"</{tag}> closes <{opened}>"

    def handle_data(self, data: str) -> None:
        for _, index in self.stack:
            self.texts.setdefault(index, []).append(data)

    def all(self, tag: str, kind: str = "") -> list[int]:
        return [
            index
            for index, (name, attributes) in enumerate(self.elements)
            if name == tag and (not kind or kind in (attributes.get("class") or "").split())
        ]

    def text(self, index: int) -> str:
        return " ".join("".join(self.texts.get(index, [])).split())

    def by_id(self, name: str) -> int:
        found = [index for index, (_, attributes) in enumerate(self.elements) if attributes.get("id") == name]
        assert len(found) == 1, name
        return found[0]

    def data(self, name: str = "data") -> object:
        return json.loads("".join(self.texts[self.by_id(name)]))


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(render(sample_report(), PATTERNS))


def test_the_summary_says_what_is_wrong_undecided_and_spent(page: Page):
    assert page.text(page.by_id("summary-title")) == (
        "2 errors, 1 warning, 1 note in 4 of 5 functions. 4 verdicts unknown, in 3 functions."
    )
    summary = page.text(page.by_id("summary"))
    assert "1 input could not be read" in summary
    assert summary.index("truncated.cubin") < summary.index("By rule"), "failed inputs come first"
    assert f"2 functions {SCOPE_REASON}" in summary
    assert "235\u2013305 cycles (measured on sm_90) every poll attempt, at 1 place" in summary


def test_findings_stand_in_order_of_severity(page: Page):
    cards = [page.elements[index][1] for index in page.all("details", "card")]
    assert [card["id"] for card in cards] == [
        "f-9c41f0a27be3d518",
        "f-41be77d0c2a9e603",
        "f-d07a55318ce0b6f2",
        "f-0b8812fd64aa9917",
        "f-77aa",
    ]
    assert "suppressed" in str(cards[-1]["class"])


def test_a_card_has_everything_a_reviewer_needs(page: Page):
    text = page.text(page.by_id("f-9c41f0a27be3d518"))
    for part in (
        *SCOPE.evidence,
        *SCOPE.assumptions,
        *(place.note for place in SCOPE.related),
        SCOPE.message,
        SCOPE.fix.summary if SCOPE.fix else "",
        SCOPE.fix.code if SCOPE.fix else "",
        "high confidence",
        "observed at .cta, needs .cluster",
    ):
        assert part is not None
        assert part.replace("`", "") in text


def test_the_offending_line_is_marked_with_its_number(page: Page):
    marked = [page.text(index) for index in page.all("span", "primary")]
    assert "26mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r70], %r61;" in [
        text.replace("26 ", "26") for text in marked
    ]
    assert any(text.startswith("0a40") and "CCTL.IVALL" in text for text in marked)


def test_every_local_link_has_a_target(page: Page):
    ids = [attributes["id"] for _, attributes in page.elements if attributes.get("id")]
    assert len(ids) == len(set(ids))
    links = [attributes.get("href") or "" for name, attributes in page.elements if name == "a"]
    assert links
    code = {"data-" + link[1:].split(":")[0] for link in links if link.startswith("#c-")}
    assert code
    assert {link[1:] for link in links if not link.startswith("#c-")} | code <= set(ids)


def test_undecided_functions_are_grouped_by_reason(page: Page):
    groups = [page.text(index) for index in page.all("details", "undecided")]
    assert len(groups) == 2
    assert groups[0].startswith("2 functions Only SASS was given")
    assert "reduce_rows(float const*, float*, int)" in groups[0]
    assert "only mbarrier-wait-scope-too-narrow" in groups[0]


def test_the_function_data_is_complete(page: Page):
    data = page.data()
    assert isinstance(data, dict)
    first = data["functions"][0]
    rules = data["rules"]
    named = {rules[int(key)]: code for key, code in first["verdicts"].items()}
    assert named["mbarrier-wait-scope-too-narrow"] == "f"
    assert named["l1-invalidate-in-poll-loop"] == "n"
    assert [data["findings"][number]["rule"] for number in first["findings"]] == [SCOPE.rule]
    assert [bool(item["code"]) for item in data["functions"]] == [True] * 5
    assert first["code"] == code_anchor(SPLITK, first["name"])


def unpacked(page: Page, input_name: str, function: str) -> dict[str, Any]:
    """The code of a function as the page carries it."""
    block = "".join(page.texts[page.by_id("data-" + code_anchor(input_name, function))])
    code = json.loads(gzip.decompress(base64.b64decode(block)))
    assert isinstance(code, dict)
    return code


def test_the_code_of_a_function_is_complete(page: Page):
    code = unpacked(page, SPLITK, SPLITK_NAME)
    ptx, sass = code["texts"]
    assert (ptx["language"], sass["language"]) == ("ptx", "sass")
    lines = sample_report().listings[SPLITK].split("\n")
    assert ptx["lines"] == lines[ptx["first"] - 1 : ptx["first"] - 1 + len(ptx["lines"])]
    wait = next(i for i, line in enumerate(ptx["lineOf"]) if "try_wait" in ptx["lines"][line])
    theirs = [sass["offsets"][i] for i, own in enumerate(code["pairs"]["ptxOf"]) if own == wait]
    assert theirs == [0xA20, 0xA30]
    assert [sass["offsets"][i] for i in code["pairs"]["telling"]] == [0xA20, 0xA60, 0x1880]
    file, line, caller = code["sources"][ptx["sources"][wait]]
    assert code["sourceTexts"][file][str(line)] == "while (!barrier.try_wait(phase)) {}"
    assert code["sources"][caller][:2] == ["python/kernel.py", 7]
    assert all(len(text["picture"]["boxes"]) == len(text["blocks"]) for text in code["texts"])


def test_the_same_code_is_packed_to_the_same_bytes():
    first, second = (pack_code(sample_code()[SPLITK, SPLITK_NAME]) for _ in range(2))
    assert first == second


def test_nothing_is_loaded_and_only_this_script_may_run(page: Page):
    policy = next(
        str(attributes["content"])
        for name, attributes in page.elements
        if name == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "http" not in policy
    for name, attributes in page.elements:
        assert "src" not in attributes
        assert "style" not in attributes, "the policy would refuse it"
        assert not any(key.startswith("on") for key in attributes)
        assert name not in {"link", "iframe", "object", "base", "img"}
    scripts = [page.elements[index][1].get("type") for index in page.all("script")]
    assert scripts.count(None) == 1
    assert set(scripts) == {None, "application/json", "text/plain"}
    assert not re.search(r"url\(\s*['\"]?(?!#)|@import", page.text(page.all("style")[0]))


HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "</template></details></style><img src=x onerror=alert(3)>",
    "]]>",
    "{{7*7}}{% raw %}",
    '" onclick="alert(4)" x=\'',
    "a\x00b\x1b[31mc\x7f",
    "x\u2028y\u2029z",
    "\u202egnirts\u202c",
    "\ud800",
    "<!--<script>",
    "&lt;b&gt;&amp;",
    "`</code>`",
)


def _hostile(name: str) -> AuditReport:
    """The sample with every text that an input can give replaced by one name."""
    base = sample_report()
    place = replace(SCOPE.primary, text=name, note=name, role=name)
    finding = replace(
        SCOPE,
        function=name,
        message=name,
        primary=place,
        related=(replace(SCOPE.related[0], text=name, note=name),),
        evidence=(name,),
        path=(name,),
        assumptions=(name,),
        fingerprint=name,
    )
    assert SCOPE.witness is not None
    steps = tuple(replace(step, role=name + step.role, text=name) for step in SCOPE.witness.steps)
    edges = tuple(replace(edge, label=name) for edge in SCOPE.witness.edges)
    witness = replace(SCOPE.witness, steps=steps, edges=edges)
    cost = replace(INVALIDATE.cost, frequency=name, summary=name) if INVALIDATE.cost else None
    function = FunctionReport(
        name, name, SPLITK, name, "ptx", {SCOPE.rule: Verdict.UNKNOWN}, {SCOPE.rule: name}, {name: name}
    )
    return replace(
        base,
        inputs=(InputReport(name, name, name, name, (name,)), InputReport(SPLITK, "ptx", "0", None, (name,))),
        functions=(function,),
        findings=(replace(finding, witness=witness, cost=cost), replace(finding, suppressed=name)),
        listings={SPLITK: name + "\n" + base.listings[SPLITK], name: name},
    )


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_stay_text(name: str):
    text = render(_hostile(name), PATTERNS)
    text.encode("utf-8")
    page = Page(text)
    tags = {tag for tag, _ in page.elements}
    assert "img" not in tags
    assert "b" not in {tag for tag, attributes in page.elements if attributes.get("onclick")}
    assert [page.elements[index][1].get("type") for index in page.all("script")].count(None) == 1
    message = page.text(page.all("span", "message")[0])
    assert message == " ".join(visible(name).replace("`", "" if name.count("`") == 2 else "`").split())
    data = page.data()
    assert isinstance(data, dict)
    assert data["functions"][0]["name"] == visible(name)
    assert not any(ord(character) < 0x20 and character not in "\n\t" for character in text)
    assert "49" not in message


def test_invisible_characters_become_visible():
    assert visible("a\x00\x1b\x7f\u202e\ud800b\tc\n") == "a\u2400\u241b\u2421\ufffd\ufffdb\tc\n"


def test_prose_finds_code_without_backticks():
    assert prose("mbarrier.try_wait acquires at .cta. A CCTL.IVALL, %r4 and shared::cluster.") == (
        "<code>mbarrier.try_wait</code> acquires at <code>.cta</code>. A <code>CCTL.IVALL</code>, "
        "<code>%r4</code> and <code>shared::cluster</code>."
    )
    tensor = "cp.async.bulk.tensor.2d.shared::cluster"
    assert prose(f"a {tensor} (line 3)") == f"a <code>{tensor}</code> (line 3)"
    for word in ("tcgen05.ld.sync.aligned.32x32b.x16.b32", "tcgen05.mma.cta_group::1.kind::f16", "::after"):
        assert prose(f"a {word} (line 3)") == f"a <code>{word}</code> (line 3)"
    for word in ("HGMMA.64x64x16.F32.BF16", "BAR.SYNC.DEFER_BLOCKING"):
        assert prose(f"a {word} (0x40)") == f"a <code>{word}</code> (0x40)"
    plain = "It is e.g. on sm_90, section 9.7.13, version 8.8. Then and/or build/a.ptx"
    assert prose(plain) == plain


def test_prose_sets_code_and_escapes_it():
    assert prose("a `b<c` d") == "a <code>b&lt;c</code> d"
    assert prose("an odd ` stays") == "an odd ` stays"
    assert prose("`x` and ` more") == "<code>x</code> and ` more"


def test_fingerprints_that_collide_keep_their_own_anchor():
    page = Page(render(replace(sample_report(), findings=(SCOPE, SCOPE)), PATTERNS))
    cards = [page.elements[index][1]["id"] for index in page.all("details", "card")]
    assert cards == ["f-9c41f0a27be3d518", "f-9c41f0a27be3d518--2"]


def test_no_finding_is_not_called_clean_while_something_is_undecided():
    page = Page(render(replace(sample_report(), findings=()), PATTERNS))
    assert page.text(page.by_id("summary-title")) == (
        "No finding in 5 functions. 4 verdicts unknown, in 3 functions."
    )
    assert "That is not the same as no fault" in page.text(page.by_id("findings"))


def test_an_empty_report_says_that_nothing_was_audited():
    page = Page(render(AuditReport("0", (), (), ()), {}))
    assert page.text(page.by_id("summary-title")) == "Nothing was audited."


def test_an_unknown_verdict_without_a_reason_is_still_listed():
    function = FunctionReport("k", "k", SPLITK, "sm_90", "ptx", {SCOPE.rule: Verdict.UNKNOWN})
    page = Page(render(AuditReport("0", (), (function,), ()), PATTERNS))
    assert "No reason was given." in page.text(page.by_id("undecided"))


def test_a_rest_that_a_finding_leaves_undecided_is_listed():
    function = FunctionReport(
        "k", "k", SPLITK, "sm_90", "ptx", {SCOPE.rule: Verdict.FINDING}, {SCOPE.rule: "why"}
    )
    page = Page(render(AuditReport("0", (), (function,), ()), PATTERNS))
    assert "1 function why" in page.text(page.by_id("undecided"))
    row = next(index for index in page.all("tr") if SCOPE.rule in page.text(index))
    assert page.text(row).split() == [SCOPE.rule, "\u00b7", "+", "1", "rest", "\u00b7"]
    assert "0 verdicts are unknown, and 1 verdict with findings leaves a rest open" in page.text(
        page.by_id("undecided")
    )


def test_every_format_counts_alike(page: Page):
    report = sample_report()
    line = next(line for line in render_text(report).splitlines() if " unknown verdicts" in line)
    clean, unknown = re.search(r"(\d+) clean and (\d+) unknown verdicts", line).groups()
    assert f"{clean} clean and {unknown} unknown verdicts" in page.text(page.by_id("summary"))
    table = page.text(page.by_id("summary")).split("Clean wherever")[0]
    rows = re.findall(r"[a-z-]{12,} (\d+|\u00b7) (\d+|\u00b7) (?:\d+|\u00b7)", table)
    assert sum(int(cell) for _, cell in rows if cell != "\u00b7") == int(unknown)
    assert render_markdown(report).splitlines()[2].strip() == line.strip()


def test_rules_that_apply_nowhere_are_not_called_clean():
    absent = replace(
        sample_report(),
        functions=(FunctionReport("k", "k", SPLITK, "sm_90", "ptx", {SCOPE.rule: Verdict.NOT_APPLICABLE}),),
        findings=(),
    )
    words = Page(render(absent, PATTERNS))
    (names,) = (words.text(index) for index in words.all("details", "rule-names"))
    assert names == f"Apply to no function here: 1 rule{SCOPE.rule}"


def test_a_source_that_could_not_be_read_is_said_to_be(page: Page):
    source = Location(LocationKind.SOURCE, "lost/kernel.py", 292)
    twin = CodePlace("related", source, "")
    finding = replace(SCOPE, primary=replace(SCOPE.primary, twins=(twin,)))
    shown = Page(render(replace(sample_report(), findings=(finding,)), PATTERNS))
    (text,) = (shown.text(index) for index in shown.all("div", "twin"))
    assert "kernel.py:292" in text
    assert "The file could not be read where the report was made." in text
    assert "292" not in [shown.text(index) for index in shown.all("span", "no")]


def _priced(low: float, high: float, number: int = 1, operation: str = "fence.sc.gpu", loop: int | None = 3):
    """The budget of a function with some places of one operation."""
    place = PlaceCost(
        0,
        (0,),
        Location(LocationKind.PTX, "k.ptx", 1),
        operation,
        operation,
        Part.FLUSH,
        Executions.ONCE if loop is None else Executions.ITERATION,
        loop=loop,
        cycles=Cycles((low + high) / 2, low, high),
        rank=1,
    )
    return Budget((place,) * number, (), 128, "sm_90a", "H200")


def test_measured_synchronisation_in_loops_is_summed_up():
    base = sample_report()
    one, two, three, *rest = base.functions
    functions = (
        replace(one, budget=_priced(284, 394, 2)),
        replace(two, budget=_priced(631, 806)),
        replace(three, budget=_priced(0, 6, operation="l1.invalidate")),
        *(replace(other, budget=_priced(900, 990, loop=None)) for other in rest),
    )
    page = Page(render(replace(base, functions=functions), PATTERNS))
    summary = page.text(page.by_id("summary"))
    assert (
        "284\u2013806 cycles (measured on sm_90a) every iteration: fence.sc.gpu at 3 places in 2" in summary
    )
    assert "every iteration: l1.invalidate" not in summary
    assert "once: fence" not in summary


def test_notices_and_images_that_were_left_out_are_shown():
    report = replace(
        sample_report(),
        notices=("a suppression met no finding",),
        skipped=(SkippedInput("lib.so!fatbin 3 sm_70", "cubin", "0", "SASS of sm_70 is not known"),),
    )
    page = Page(render(report, PATTERNS))
    assert "a suppression met no finding" in page.text(page.by_id("summary"))
    assert "lib.so!fatbin 3 sm_70 SASS of sm_70 is not known" in page.text(page.by_id("inputs"))


def test_a_related_line_near_the_primary_one_is_not_shown_in_context_twice(page: Page):
    card = page.by_id("f-9c41f0a27be3d518")
    figures = [page.text(index) for index in page.all("figure", "related")][:2]
    assert "$L__publish:" in figures[0]
    assert "ld.shared.v4.f32" in figures[1]
    assert "bra.uni" not in figures[1]
    assert page.text(card).count("mov.u32 %r70, mailbox_full;") == 1


def test_code_over_the_budget_is_left_out_with_a_notice():
    report = sample_report()
    # What has errors comes first.
    first = [(one.input, one.function) for one in report.findings if one.severity is Severity.ERROR]
    size = sum(len(base64.b64encode(report.code[key])) for key in first)
    page = Page(render(report, PATTERNS, code_budget=size))
    data = page.data()
    assert isinstance(data, dict)
    kept = [item["input"] for item in data["functions"] if item["code"]]
    assert sorted(kept) == sorted(name for name, _ in first)
    assert "the code of 3 functions is left out" in page.text(page.by_id("inputs"))


def test_the_code_of_the_worst_findings_comes_first():
    report = sample_report()
    ranks: dict[tuple[str, str], int] = {}
    for finding in report.findings:
        rank = 0 if finding.suppressed is not None else finding.severity.rank
        key = finding.input, finding.function
        ranks[key] = max(ranks.get(key, 0), rank)
    worst_last = sorted(report.code, key=lambda key: ranks.get(key, -1))
    assert len({ranks.get(key, -1) for key in worst_last}) > 1
    report = replace(report, code={key: report.code[key] for key in worst_last})
    size = len(base64.b64encode(report.code[worst_last[-1]]))
    data = Page(render(report, PATTERNS, code_budget=size)).data()
    assert isinstance(data, dict)
    assert [(item["input"], item["name"]) for item in data["functions"] if item["code"]] == worst_last[-1:]


def test_a_place_outside_every_listing_says_so():
    place = CodePlace("fence", MEMBAR.primary.location, MEMBAR.primary.text)
    page = Page(render(replace(sample_report(), findings=(replace(MEMBAR, primary=place),)), PATTERNS))
    assert "No listing shows this place" in page.text(page.all("details", "card")[0])


def test_a_large_report_is_lazy_and_of_bounded_size():
    report = large_report(functions=500, findings=400)
    text = render(report, PATTERNS)
    page = Page(text)
    opened = [index for index in page.all("details", "card") if "open" in page.elements[index][1]]
    assert len(page.all("details", "card")) == 400
    assert len(opened) == OPEN_CARDS
    assert len(page.all("template")) == 400 - OPEN_CARDS
    code = sum(len(packed) for packed in report.code.values())
    assert len(text) < 2 * code + 400 * 14_000, "a card costs little, code is compressed"
    shown = [index for index in page.all("span", "line")]
    assert len(shown) < 400 * 40, "only excerpts are put in the page"


def _luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_colours_have_enough_contrast_in_both_themes():
    style = (templates_root() / "report.css").read_text(encoding="utf-8")
    pairs = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", style)
    colours = {name: (light, dark) for name, light, dark in pairs}
    inks = ("ink", "muted", "accent", "error", "warning", "note", "unknown", "clean")
    grounds = ("bg", "panel", "sunk")
    combinations = [(ink, ground) for ink in inks for ground in grounds]
    combinations += [(name, f"{name}-bg") for name in ("error", "warning", "note", "unknown")]
    combinations += [("ink", ground) for ground in ("error-bg", "warning-bg", "note-bg", "mark")]
    for ink, ground in combinations:
        for one, two in zip(colours[ink], colours[ground], strict=True):
            high, low = sorted((_luminance(one), _luminance(two)), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, one, ground, two)


def test_headings_do_not_skip_the_first_level(page: Page):
    levels = [int(name[1]) for name, _ in page.elements if re.fullmatch(r"h[1-6]", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 2 for before, after in pairwise(levels))


def test_what_is_said_of_one_place_twice_is_said_together():
    first = INVALIDATE.related[0]
    twice = replace(INVALIDATE, related=(first, replace(first, note="And waits."), first))
    (card,) = build_page(replace(sample_report(), findings=(twice,)), {}).cards
    assert [view.place.note for view in card.related] == [f"{first.note}; And waits."]


def test_copies_stand_in_one_excerpt_and_all_are_marked_in_the_code():
    place = MEMBAR.primary
    offsets = (0x0A20, 0x0A40)
    copies = tuple(
        CodePlace("related", replace(place.location, offset=offset), "BAR.SYNC ;", "another copy of it")
        for offset in offsets
    )
    found = replace(MEMBAR, primary=replace(place, twins=copies))
    report = replace(sample_report(), findings=(found,))
    (card,) = build_page(report, {}).cards
    (twin,) = card.primary.twins
    assert twin.place.note == "2 more copies of it"
    assert [line.label for line in twin.excerpt.lines] == ["0a20", "0a40"]
    index: Any = Page(render(report, PATTERNS)).data()
    assert [name for name, *_ in index["findings"][0]["places"]] == ["s9990", "sa20", "sa40"]


def test_the_folder_that_all_inputs_share_is_left_out_of_what_is_read():
    page = build_page(sample_report(), {})
    assert SPLITK[page.folder :] == SPLITK.removeprefix("build/")
    (one, *_) = sample_report().inputs
    assert build_page(replace(sample_report(), inputs=(one,)), {}).folder == 0


def test_a_line_that_nobody_reads_to_its_end_is_cut():
    long = SPLITK_PTX.replace("mbarrier.try_wait", "/*" + "x" * 5_000_000 + "*/ mbarrier.try_wait", 1)
    report = sample_report()
    assert len(render(replace(report, listings={**report.listings, SPLITK: long}), PATTERNS)) < 2_000_000


def test_short_names_keep_what_differs():
    names = [f"void ns::kernel_attention<{kind}, 64>(float*)" for kind in ("half", "bf16")]
    dots = "\N{HORIZONTAL ELLIPSIS}"
    assert list(index_names(names).values()) == [f"{dots}half, 64>", f"{dots}bf16, 64>"]
    assert index_names(["f0_name", "f1_name"]) == {"f0_name": "f0_name", "f1_name": "f1_name"}
    assert index_names(["void k(int)"]) == {"void k(int)": "k"}
    assert len(index_names(["k" * 400])["k" * 400]) < 70


def test_the_lines_of_a_source_with_an_invisible_name_are_found():
    code = sample_code()[SPLITK, SPLITK_NAME]
    name = "a\u202e\x07.cu"
    sources = tuple(replace(one, file=name) for one in code.sources)
    packed = pack_code(replace(code, sources=sources, source_texts={name: {117: "// waits"}}))
    shown: Any = json.loads(gzip.decompress(packed))
    assert {file for file, *_ in shown["sources"]} == set(shown["sourceTexts"])


def test_rules_that_are_only_undecided_do_not_bury_what_was_found():
    rules = [f"rule-{number}" for number in range(30)]
    verdicts = {SCOPE.rule: Verdict.FINDING} | dict.fromkeys(rules, Verdict.UNKNOWN)
    function = replace(sample_report().functions[0], verdicts=verdicts, unknown_reasons={})
    page = Page(render(replace(sample_report(), functions=(function,), findings=(SCOPE,)), PATTERNS))
    (block,) = page.all("div", "by-rule")
    words = page.text(block)
    assert "Nothing found, but not decided everywhere: 30 rules" in words
    assert words.index(SCOPE.rule) < words.index("Nothing found") < words.index("rule-0")


def test_one_name_in_several_inputs_is_told_apart_in_the_list():
    other = replace(SCOPE, input="build/another.ptx", fingerprint="other")
    (first, *_) = sample_report().functions
    functions = (first, replace(first, input=other.input))
    (group,) = build_page(replace(sample_report(), functions=functions, findings=(SCOPE, other)), {}).groups
    assert group.files == {SPLITK: "gemm_splitk_64x32.sm_100a.ptx", "build/another.ptx": "another.ptx"}
    (group,) = build_page(replace(sample_report(), findings=(SCOPE,)), {}).groups
    assert group.files == {}
