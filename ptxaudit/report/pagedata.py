"""The page's JSON blocks: what its script shows on demand (function list, whole listings)."""

from collections.abc import Mapping
from dataclasses import dataclass

from ptxaudit.report.view import Card, Page
from ptxaudit.rules.model import FunctionReport, Verdict

LISTING_BUDGET = 8_000_000

_CODES = {Verdict.FINDING: "f", Verdict.UNKNOWN: "u", Verdict.CLEAN: "c", Verdict.NOT_APPLICABLE: "n"}


@dataclass(frozen=True, slots=True)
class ListingBlock:
    """A listing that travels in the page, as one JSON string in a block of its own."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class PageData:
    """The index that the script reads at once, the listings that it reads when one is opened, and the
    inputs whose listings were left out."""

    index: Mapping[str, object]
    listings: tuple[ListingBlock, ...]
    omitted: tuple[str, ...]


def build_data(page: Page, budget: int = LISTING_BUDGET) -> PageData:
    """Collect the data. Listings are put in until ``budget`` characters are spent, those with findings
    first, then those with something undecided."""
    kept = _choose(page, budget)
    texts = page.report.listings
    numbers = {name: number for number, name in enumerate(texts)}
    rules = [row.rule for row in page.rules]
    position = {rule: index for index, rule in enumerate(rules)}
    cards = (*page.cards, *page.suppressed)
    anchors: dict[tuple[str, str], list[int]] = {}
    for number, card in enumerate(cards):
        anchors.setdefault((card.finding.input, card.finding.function), []).append(number)
    index = {
        "rules": rules,
        "findings": [_finding(card, numbers) for card in cards],
        "functions": [
            _function(item, page, position, numbers, anchors.get((item.input, item.name), []))
            for item in page.report.functions
        ],
        "listings": [
            {"name": name, "kept": name in kept, "sass": bool(page.listings[name].offsets)} for name in texts
        ],
    }
    blocks = tuple(ListingBlock(numbers[name], texts[name]) for name in texts if name in kept)
    return PageData(index, blocks, tuple(name for name in texts if name not in kept))


def _choose(page: Page, budget: int) -> set[str]:
    found = {card.finding.input for card in page.cards} | {
        card.primary.excerpt.listing for card in page.cards if card.primary.excerpt.listing
    }
    unknown = {item.input for group in page.undecided for item, _ in group.functions}
    names = sorted(page.report.listings, key=lambda name: (name not in found, name not in unknown))
    kept: set[str] = set()
    for name in names:
        size = len(page.report.listings[name])
        if size <= budget:
            kept.add(name)
            budget -= size
    return kept


def _finding(card: Card, numbers: Mapping[str, int]) -> dict[str, object]:
    finding = card.finding
    places = [
        [numbers[view.excerpt.listing], view.line, view.place.note or finding.message]
        for view in (card.primary, *card.related)
        if view.excerpt.listing is not None
    ]
    words = (finding.rule, card.title, card.function, finding.function, finding.input, finding.message)
    return {
        "id": card.anchor,
        "severity": finding.severity.value,
        "rule": finding.rule,
        "search": " ".join((*words, finding.primary.text, finding.fingerprint)).lower(),
        "places": places,
        "suppressed": finding.suppressed is not None,
    }


def _function(
    item: FunctionReport,
    page: Page,
    position: Mapping[str, int],
    numbers: Mapping[str, int],
    findings: list[int],
) -> dict[str, object]:
    listing = page.listings.get(item.input)
    return {
        "name": item.name,
        "shown": item.demangled or item.name,
        "input": item.input,
        "arch": item.arch,
        "evidence": item.evidence,
        "verdicts": {
            position[rule]: _CODES[verdict] for rule, verdict in item.verdicts.items() if rule in position
        },
        "reasons": {position[rule]: why for rule, why in item.unknown_reasons.items() if rule in position},
        "facts": [*item.facts.items(), *(("assumed", text) for text in item.assumptions)],
        "findings": findings,
        "listing": numbers.get(item.input, -1),
        "line": listing.starts.get(item.name, 1) if listing is not None else 0,
    }
