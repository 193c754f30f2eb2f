"""The page's JSON: what its script shows on demand (the function list), and the blocks of functions' code."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass

from ptxaudit.report.codepage import code_anchor
from ptxaudit.report.view import Card, Page, PlaceView, place_name
from ptxaudit.rules.model import FunctionReport, Verdict

CODE_BUDGET = 24_000_000

_CODES = {Verdict.FINDING: "f", Verdict.UNKNOWN: "u", Verdict.CLEAN: "c", Verdict.NOT_APPLICABLE: "n"}


@dataclass(frozen=True, slots=True)
class CodeData:
    """The code of a function as it travels in the page: compressed, in base64."""

    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class PageData:
    """The index that the script reads at once, the code that it reads when it is opened, and the names of
    functions whose code was left out."""

    index: Mapping[str, object]
    code: tuple[CodeData, ...]
    omitted: tuple[str, ...]


def build_data(page: Page, budget: int = CODE_BUDGET) -> PageData:
    """Collect the data. Code is put in until ``budget`` characters are spent, that with the worst findings
    first, then that with something undecided."""
    blocks = {
        key: CodeData(code_anchor(*key), base64.b64encode(page.report.code[key]).decode())
        for key in _choose(page, budget)
    }
    rules = [row.rule for row in page.rules]
    position = {rule: index for index, rule in enumerate(rules)}
    cards = (*page.cards, *page.suppressed)
    anchors: dict[tuple[str, str], list[int]] = {}
    for number, card in enumerate(cards):
        anchors.setdefault((card.finding.input, card.finding.function), []).append(number)
    index = {
        "rules": rules,
        "folder": page.folder,
        "findings": [_finding(card) for card in cards],
        "functions": [
            _function(item, position, anchors.get((item.input, item.name), []), blocks)
            for item in page.report.functions
        ],
    }
    omitted = (
        item.demangled or item.name for item in page.report.functions if (item.input, item.name) not in blocks
    )
    return PageData(index, tuple(blocks.values()), tuple(omitted) if page.report.code else ())


def _choose(page: Page, budget: int) -> list[tuple[str, str]]:
    worst: dict[tuple[str, str], int] = {}
    for card in (*page.cards, *page.suppressed):
        key = card.finding.input, card.finding.function
        rank = 0 if card.finding.suppressed is not None else card.finding.severity.rank
        worst[key] = max(worst.get(key, 0), rank)
    unknown = {(item.input, item.name) for group in page.undecided for item, _ in group.functions}
    chosen: list[tuple[str, str]] = []
    for key in sorted(page.report.code, key=lambda key: (-worst.get(key, -1), key not in unknown)):
        size = -(-len(page.report.code[key]) // 3) * 4
        if size <= budget:
            chosen.append(key)
            budget -= size
    return chosen


def _finding(card: Card) -> dict[str, object]:
    finding = card.finding
    words = (finding.rule, card.title, card.function, finding.function, finding.input, finding.message)
    steps = () if finding.witness is None else finding.witness.steps
    return {
        "id": card.anchor,
        "severity": finding.severity.value,
        "rule": finding.rule,
        "search": " ".join((*words, finding.primary.text, finding.fingerprint)).lower(),
        "places": [*_places(card.primary, finding.message, True), *_related_places(card)],
        "path": finding.path,
        "steps": [[place_name(step.location), step.role] for step in steps],
        "suppressed": finding.suppressed is not None,
    }


def _related_places(card: Card) -> list[list[object]]:
    return [place for view in card.related for place in _places(view, card.finding.message, False)]


def _places(view: PlaceView, message: str, primary: bool) -> list[list[object]]:
    """A place and its twins: what the code calls it, what is said of it, whether it is the finding's own."""
    note = view.place.note or message
    shown = (location for one in (view, *view.twins) for location in (one.place.location, *one.also))
    named = map(place_name, shown)
    return [[name, note, primary] for name in dict.fromkeys(named) if name]


def _function(
    item: FunctionReport,
    position: Mapping[str, int],
    findings: list[int],
    blocks: Mapping[tuple[str, str], CodeData],
) -> dict[str, object]:
    block = blocks.get((item.input, item.name))
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
        "code": "" if block is None else block.anchor,
    }
