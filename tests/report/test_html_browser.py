"""The page at work in headless Chromium. Skipped where playwright or Debian's chromium is missing."""

import gzip
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path
from random import Random
from typing import Any

import pytest
from html_sample import PATTERNS, SCOPE, SPLITK, SPLITK_NAME, large_report, sample_code, sample_report

from ptxaudit.engine.compare import Comparison, CountChange, KernelChange, VerdictChange
from ptxaudit.report import compare_html
from ptxaudit.report.codepage import code_anchor, pack_code
from ptxaudit.report.html import render
from ptxaudit.rules.code import FunctionCode
from ptxaudit.rules.model import Verdict

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass
class Opened:
    """A page in the browser with all it logged and asked for."""

    page: Any
    log: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


def _open(browser: Any, folder: Path, text: str, fragment: str = "") -> Opened:
    file = folder / "page.html"
    file.write_text(text, encoding="utf-8")
    opened = Opened(browser.new_page(viewport={"width": 1400, "height": 1000}))
    opened.page.on("console", lambda message: opened.log.append(message.text))
    opened.page.on("pageerror", lambda error: opened.log.append(str(error)))
    opened.page.on("request", lambda request: opened.requests.append(request.url))
    opened.page.goto(file.as_uri() + fragment)
    return opened


@pytest.fixture
def sample(browser: Any, tmp_path: Path) -> Iterator[Opened]:
    opened = _open(browser, tmp_path, render(sample_report(), PATTERNS))
    yield opened
    assert opened.log == []
    assert len(opened.requests) == 1
    opened.page.close()


def test_keys_walk_the_findings_and_set_permalinks(sample: Opened):
    page = sample.page
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.evaluate("location.hash") == "#f-41be77d0c2a9e603"
    page.keyboard.press("k")
    assert page.locator(".card.current").get_attribute("id") == "f-9c41f0a27be3d518"
    page.keyboard.press("o")
    assert page.locator(".card.current").get_attribute("open") is None


def test_the_filter_narrows_findings_and_functions(sample: Opened):
    page = sample.page
    page.keyboard.press("/")
    page.keyboard.type("attention wgmma")
    page.locator("#shown", has_text="1 of 4").wait_for()
    assert page.locator("details.card:visible").count() == 1
    assert page.locator("tr.row").count() == 2
    page.keyboard.press("Escape")
    assert page.locator("tr.row").count() == 5
    page.locator('.toggle[data-severity="error"]').click()
    assert page.locator("details.card.error:visible").count() == 0
    page.locator('.by-rule [data-rule="mbarrier-wait-scope-too-narrow"]').click()
    assert page.locator("details.card:visible").count() == 1


def test_a_filter_shows_what_is_left_wherever_the_reader_was(sample: Opened):
    page = sample.page
    page.set_viewport_size({"width": 1400, "height": 500})
    page.locator("#rules").evaluate("element => element.scrollIntoView()")
    page.locator("#filter").fill("attention wgmma")
    page.locator("#shown", has_text="1 of 4").wait_for()
    page.wait_for_function("document.querySelector('#findings').getBoundingClientRect().top < innerHeight")
    bottom = page.evaluate("document.querySelector('#functions').getBoundingClientRect().bottom")
    assert bottom > 0


def test_functions_sort_and_open(sample: Opened):
    page = sample.page
    page.locator('[data-sort="name"]').click()
    names = page.locator("tr.row .fname").all_inner_texts()
    assert names == sorted(names, key=str.lower)
    page.locator("tr.row").first.click()
    assert "wgmma-stage-released-early" in page.locator("tr.detail").inner_text()
    page.locator("#verdict").select_option("u")
    assert page.locator("tr.row").count() == 3


def _at(page: Any, language: str) -> str:
    return str(page.locator(f"#pane-{language} .code-row.at .text").inner_text())


def _paired(page: Any, language: str) -> list[str]:
    return [
        str(text).strip() for text in page.locator(f"#pane-{language} .code-row.pair .text").all_inner_texts()
    ]


@pytest.fixture
def code(sample: Opened) -> Any:
    """The split-K kernel's code, opened from its finding."""
    sample.page.locator("#f-9c41f0a27be3d518 .open-code").click()
    sample.page.locator("#pane-ptx .code-row.at").wait_for()
    return sample.page


def test_the_code_opens_at_the_finding_with_both_languages_and_the_source(code: Any):
    assert _at(code, "ptx").strip().startswith("mbarrier.try_wait")
    assert [text.split()[0] for text in _paired(code, "sass")] == [
        "SYNCS.PHASECHK.TRANS64.TRYWAIT",
        "@!P2",
    ]
    facts = code.locator("#code-facts").inner_text()
    assert "mbarrier-wait-scope-too-narrow" in facts
    assert "warp 0" in facts
    assert "warps 1-5" not in facts
    source = code.locator("#code-source").inner_text()
    assert "while (!barrier.try_wait(phase)) {}" in source
    assert "inlined at kernel.py:7" in source
    assert "4 of 393 SASS instructions paired by the line table" in code.locator("#code-join").inner_text()


def test_hovering_and_clicking_one_side_shows_the_other(code: Any):
    code.locator("#pane-sass .code-row", has_text="LDS.128").hover()
    assert "ld.shared.v4.f32" in code.locator("#pane-ptx .code-row.over").inner_text()
    assert "The file could not be read" in code.locator("#code-source").inner_text()
    code.locator("#pane-sass .code-row", has_text="LDS.128").click()
    assert "LDS.128" in _at(code, "sass")
    assert _paired(code, "ptx")[0].startswith("ld.shared.v4.f32")
    assert code.evaluate("location.hash").endswith(f":sa60:f-{SCOPE.fingerprint}")


def test_keys_walk_the_code(code: Any):
    code.keyboard.press("ArrowRight")
    assert "TRYWAIT" in _at(code, "sass")
    code.keyboard.press("ArrowLeft")
    assert "mbarrier.try_wait" in _at(code, "ptx")
    code.keyboard.press("ArrowDown")
    assert "@%p7 bra" in _at(code, "ptx")
    code.keyboard.press("p")
    assert "mbarrier.try_wait" in _at(code, "ptx")
    code.keyboard.press("f")
    assert "ld.shared" in _at(code, "ptx")
    code.keyboard.press("End")
    assert _at(code, "ptx") == "}"
    code.keyboard.press("/")
    code.keyboard.type("mailbox_full")
    code.keyboard.press("Enter")
    assert "mov.u32" in _at(code, "ptx")
    code.keyboard.press("Escape")
    code.keyboard.press("Escape")
    assert not code.locator("#code").is_visible()
    assert code.evaluate("location.hash") == ""


def test_lines_that_say_nothing_are_shown_on_demand(code: Any):
    first = "#pane-ptx .code-row .no"
    numbers = [int(text) for text in code.locator(first).all_inner_texts()]
    assert 17 not in numbers, "a blank line"
    assert 23 in numbers, "a comment of the author"
    code.keyboard.press("l")
    shown = [int(text) for text in code.locator(first).all_inner_texts()]
    assert shown == list(range(shown[0], shown[-1] + 1))
    assert "mbarrier.try_wait" in _at(code, "ptx")


def test_the_margin_shows_findings_roles_loops_and_costs(code: Any):
    row = code.locator("#pane-ptx .code-row.at")
    assert row.locator(".sign").inner_text() == "3", "a step of the schedule"
    assert "gradient" in row.locator(".lanes").evaluate("one => one.style.backgroundImage")
    assert "polls" in row.locator(".bar").get_attribute("class")
    cost = code.locator("#pane-sass .code-row", has_text="CCTL.IVALL").locator(".cost-cell")
    assert cost.inner_text() == "270"
    assert "235\u2013305 cycles every poll attempt" in cost.get_attribute("title")


def test_the_budget_says_what_an_iteration_of_a_loop_spends(code: Any):
    budget = code.locator("#code-budget")
    budget.locator("summary").click()
    assert "measured on an H200 (sm_90a)" in budget.inner_text()
    row = budget.locator("dd").first.inner_text()
    assert "300 cycles" in row
    assert "invalidates 90 %, barriers 10 %" in row
    assert "Rests on: a poll succeeds at once." in budget.inner_text()
    budget.locator("dt button").first.click()
    assert "TRYWAIT" in _at(code, "sass")


def test_the_graph_shows_loops_and_the_path_and_leads_to_the_code(code: Any):
    marked = code.locator("#graph .block.error")
    assert marked.count() == 1
    assert "polls" in marked.get_attribute("class")
    assert "at" in marked.get_attribute("class").split()
    assert code.locator("#graph .block.path").count() >= 2
    assert "polling loop" in code.locator("#graph-legend").inner_text()
    code.locator("#graph .block", has_text="st.async").or_(code.locator("#graph .block").last).first.click()
    assert code.locator("#pane-ptx .code-row.at .text").inner_text().strip() == "ret;"
    code.locator('#graph [data-language="sass"]').click()
    assert code.locator("#graph .block").count() == 3


def test_a_role_can_be_singled_out(code: Any):
    code.locator("#code-roles button", has_text="warps 1-5").click()
    assert code.locator("#pane-ptx .code-row.faint").count() > 10
    assert code.locator("#graph .block.faint").count() > 0
    code.locator("#code-roles button", has_text="warps 1-5").click()
    assert code.locator(".faint").count() == 0


def test_links_to_a_place_in_the_code_open_it(browser: Any, tmp_path: Path):
    anchor = code_anchor(SPLITK, SPLITK_NAME)
    opened = _open(
        browser, tmp_path, render(sample_report(), PATTERNS), f"#{anchor}:sa60:f-{SCOPE.fingerprint}"
    )
    opened.page.locator("#pane-sass .code-row.at").wait_for()
    assert "LDS.128" in _at(opened.page, "sass")
    assert opened.page.locator("#code-finding").input_value() == f"f-{SCOPE.fingerprint}"
    assert opened.page.locator("#graph .block.path").count() > 0
    assert opened.log == []
    opened.page.close()


def test_the_margin_takes_no_more_than_stands_in_it(code: Any):
    costs = code.locator("#pane-sass .cost-cell")
    assert 0 < costs.first.bounding_box()["width"] < 40
    assert code.locator("#pane-sass .code-row .no").first.bounding_box()["width"] < 52


def test_a_narrow_page_shows_one_side_of_the_code_at_a_time(code: Any):
    code.keyboard.press("Escape")
    code.set_viewport_size({"width": 420, "height": 900})
    code.locator("#f-9c41f0a27be3d518 .open-code").click()
    code.locator("#pane-ptx .code-row.at").wait_for()
    assert not code.locator("#pane-sass").is_visible()
    box, button = (
        code.locator(one).bounding_box() for one in ("#code-roles", "#code-roles button >> nth=-1")
    )
    assert button["y"] + button["height"] <= box["y"] + box["height"]
    code.locator("#tab-sass").click()
    assert code.locator("#pane-sass .code-row.pair").first.is_visible(), "the other side has not come along"
    shown, pair = (
        code.locator(one).first.bounding_box() for one in ("#pane-sass", "#pane-sass .code-row.pair")
    )
    assert shown["y"] < pair["y"] < shown["y"] + shown["height"]
    assert not code.locator("#pane-ptx").is_visible()
    code.locator('[data-tab-name="graph"]').click()
    assert code.locator("#graph .block").first.is_visible()
    assert code.evaluate("document.documentElement.scrollWidth") <= 420


def test_a_function_whose_code_is_left_out_says_so(browser: Any, tmp_path: Path):
    told = {}
    for budget in (0, 2_000, 10_000_000):
        opened = _open(browser, tmp_path, render(sample_report(), PATTERNS, code_budget=budget))
        rows = opened.page.locator("tr.row")
        told[budget] = [rows.get_by_text(one).count() for one in ("Open the code", "code left out")]
        opened.page.close()
    assert told == {0: [0, 0], 2_000: [1, 4], 10_000_000: [5, 0]}


def test_the_theme_can_be_switched(sample: Opened):
    ground = "getComputedStyle(document.body).backgroundColor"
    before = sample.page.evaluate(ground)
    sample.page.keyboard.press("t")
    assert sample.page.evaluate(ground) != before


def test_rule_links_open_the_rule(sample: Opened):
    sample.page.locator(".facts a").first.click()
    assert "An acquire takes effect only" in sample.page.locator(f"#rule-{SCOPE.rule}").inner_text()


def test_a_narrow_page_does_not_scroll_sideways(sample: Opened):
    sample.page.set_viewport_size({"width": 420, "height": 900})
    assert sample.page.evaluate("document.documentElement.scrollWidth") <= 420


def test_a_narrow_comparison_does_not_scroll_sideways(browser: Any, tmp_path: Path):
    function = sample_report().functions[0]
    counts = (
        CountChange("asynchronous access (cp.async.bulk group) of a long kind", 1200, 20480, (12, 14)),
        CountChange("fence.proxy.async::shared::cta.and.no.place.to.break.it.at", 2, 0, (2, 0)),
    )
    verdicts = (VerdictChange(f"{SCOPE.rule}-{SCOPE.rule}", Verdict.NOT_APPLICABLE, Verdict.UNKNOWN),)
    change = KernelChange(function, function, counts, (), verdicts, (SCOPE,), (SCOPE,), 1)
    opened = _open(browser, tmp_path, compare_html.render(Comparison((change,)), "/old" * 30, "/new" * 30))
    opened.page.set_viewport_size({"width": 420, "height": 900})
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 420
    lines = """cell => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        return range.getClientRects().length;
    }"""
    assert opened.page.locator("td.number", has_text="20480").evaluate(lines) == 1, "a number is broken"
    opened.page.close()


def test_a_permalink_opens_a_lazy_card(browser: Any, tmp_path: Path):
    opened = _open(browser, tmp_path, render(large_report(), PATTERNS), f"#f-{397:016x}")
    card = opened.page.locator(".card.current")
    assert card.get_attribute("id") == f"f-{397:016x}"
    assert "How it was decided" in card.inner_text()
    assert opened.page.locator("tr.row").count() == 100
    opened.page.locator("#more-functions").click()
    assert opened.page.locator("tr.row").count() == 500
    assert opened.log == []
    opened.page.close()


def test_a_page_of_20_megabytes_paints_at_once(browser: Any, tmp_path: Path):
    base = large_report()
    random = Random(0)
    # Code that does not compress stands for the code of a whole library.
    keys = [(item.input, item.name) for item in base.functions]
    code = {key: gzip.compress(random.randbytes(32_000)) for key in keys}
    text = render(changed(base, code=code), PATTERNS)
    assert len(text) > 20_000_000
    opened = _open(browser, tmp_path, text)
    painted = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    opened.page.wait_for_function(painted)
    assert opened.page.evaluate(painted) < 2000
    assert opened.page.locator("tr.row").count() == 100
    assert opened.log == []
    opened.page.close()


def _hostile(code: FunctionCode, name: str) -> FunctionCode:
    """The code with every text that an input can give replaced by one name."""
    texts = tuple(
        changed(
            text,
            listing=name,
            lines=tuple(line + name for line in text.lines),
            blocks=tuple(changed(block, name=name) for block in text.blocks),
        )
        for text in code.texts
    )
    roles = tuple(changed(role, name=f"{role.name} {name}", activities=((name, 1),)) for role in code.roles)
    sources = tuple(changed(one, file=name) for one in code.sources)
    texts_of = {name: {line: name for lines in code.source_texts.values() for line in lines}}
    return changed(
        code, name=name, demangled=name, texts=texts, roles=roles, sources=sources, source_texts=texts_of
    )


def test_a_kernel_of_18000_lines_opens_without_freezing(browser: Any, tmp_path: Path):
    report = large_report()
    anchor = code_anchor(SPLITK, "kernel_0")
    opened = _open(browser, tmp_path, render(report, PATTERNS))
    page = opened.page
    page.evaluate(
        """anchor => {
            window.longest = 0;
            const note = ({ duration }) => { window.longest = Math.max(window.longest, duration); };
            new PerformanceObserver((list) => list.getEntries().forEach(note)).observe({ type: "longtask" });
            location.hash = anchor;
        }""",
        anchor,
    )
    page.locator("#pane-ptx .code-row.at").wait_for()
    page.keyboard.press("End")
    assert _at(page, "ptx") == "}"
    assert int(page.locator("#pane-ptx .code-row.at .no").inner_text()) > 18_000
    assert page.locator("#pane-ptx .code-row").count() < 200
    page.wait_for_timeout(100)
    assert page.evaluate("window.longest") < 1500
    assert opened.log == []
    page.close()


def test_hostile_text_stays_text_when_the_script_shows_it(browser: Any, tmp_path: Path):
    name = "</script><img src=x onerror=window.hit=1><script>window.hit=2</script>{{7*7}}"
    base = sample_report()
    report = changed(
        base,
        functions=tuple(changed(item, demangled=name) for item in base.functions),
        code={key: pack_code(_hostile(one, name)) for key, one in sample_code().items()},
    )
    opened = _open(browser, tmp_path, render(report, PATTERNS))
    page = opened.page
    assert page.locator("tr.row .fname").first.inner_text().startswith("</script><img")
    page.locator("tr.row .open-code").first.click()
    page.locator("#pane-ptx .code-row", has_text="onerror").first.wait_for()
    for place in ("#code-name", "#code-roles", "#graph .block >> nth=0", "#code-facts", "#code-source"):
        assert "onerror" in page.locator(place).inner_html(), place
    assert page.evaluate("window.hit") is None
    assert page.locator("img").count() == 0
    assert opened.log == []
    assert len(opened.requests) == 1
    page.close()
