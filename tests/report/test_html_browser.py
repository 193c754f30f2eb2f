"""The page at work in headless Chromium. Skipped where playwright or Debian's chromium is missing."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import pytest
from html_sample import PATTERNS, SCOPE, large_report, sample_report

from ptxaudit.report.html import render

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


def test_functions_sort_and_open(sample: Opened):
    page = sample.page
    page.locator('[data-sort="name"]').click()
    names = page.locator("tr.row .fname").all_inner_texts()
    assert names == sorted(names, key=str.lower)
    page.locator("tr.row").first.click()
    assert "wgmma-stage-released-early" in page.locator("tr.detail").inner_text()
    page.locator("#verdict").select_option("u")
    assert page.locator("tr.row").count() == 3


def test_a_listing_opens_at_its_line_and_finds_text(sample: Opened):
    page = sample.page
    page.locator("#f-d07a55318ce0b6f2 button.link").first.click()
    assert "CCTL.IVALL" in page.locator("#viewer-lines .at").inner_text()
    page.locator("#viewer-find").fill("EXIT")
    page.keyboard.press("Enter")
    assert "EXIT" in page.locator("#viewer-lines .at").inner_text()
    page.keyboard.press("Escape")
    assert not page.locator("#viewer").is_visible()


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


def test_a_permalink_opens_a_lazy_card(browser: Any, tmp_path: Path):
    opened = _open(browser, tmp_path, render(large_report(), PATTERNS), f"#f-{397:016x}")
    card = opened.page.locator(".card.current")
    assert card.get_attribute("id") == f"f-{397:016x}"
    assert "How it was decided" in card.inner_text()
    assert opened.page.locator("tr.row").count() == 100
    opened.page.locator("#more-functions").click()
    assert opened.page.locator("tr.row").count() == 500
    opened.page.locator("#f-0000000000000000 button.link").first.click()
    assert opened.page.locator("#viewer-lines .line").count() < 200
    assert opened.log == []
    opened.page.close()


def test_hostile_text_stays_text_when_the_script_shows_it(browser: Any, tmp_path: Path):
    name = "</script><img src=x onerror=window.hit=1><script>window.hit=2</script>{{7*7}}"
    base = sample_report()
    report = changed(
        base,
        functions=tuple(changed(item, demangled=name) for item in base.functions),
        listings={key: name + "\n" + text for key, text in base.listings.items()},
    )
    opened = _open(browser, tmp_path, render(report, PATTERNS))
    page = opened.page
    assert page.locator("tr.row .fname").first.inner_text().startswith("</script><img")
    page.locator("tr.row").first.click()
    page.get_by_text("Open its listing").click()
    page.locator("#viewer-scroll").evaluate("element => { element.scrollTop = 0 }")
    page.locator("#viewer-lines", has_text="onerror").wait_for()
    assert page.evaluate("window.hit") is None
    assert page.locator("img").count() == 0
    assert opened.log == []
    assert len(opened.requests) == 1
    page.close()
