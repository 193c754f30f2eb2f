"""The HTML page's content: an ``AuditReport`` arranged for a reader, with no markup in it."""

import itertools
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from ptxaudit.report.codepage import code_anchor
from ptxaudit.report.counts import Counts, count, rests, undecided
from ptxaudit.report.excerpt import (
    CONTEXT_LINES,
    Excerpt,
    Listing,
    excerpt,
    index_listing,
    locate,
    place_label,
)
from ptxaudit.report.index_names import index_names
from ptxaudit.report.sequence import Diagram, lay_out
from ptxaudit.rules.budget import Cycles
from ptxaudit.rules.model import (
    AuditReport,
    Category,
    CodePlace,
    Cost,
    Finding,
    FunctionReport,
    Severity,
    Verdict,
)
from ptxaudit.source import Location, LocationKind
from ptxaudit.words import counted

TWIN_CONTEXT_LINES = 2
NOTABLE_CYCLES = 10
MOST_MEASURED = 6
_PLACE_LETTERS = {LocationKind.PTX: "p", LocationKind.SASS: "s"}
_UNSAFE_ID = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class PlaceView:
    """A place with its excerpt; ``twins`` are the same instruction in the other language and the source.

    ``also`` are further places whose lines the excerpt shows.
    """

    place: CodePlace
    excerpt: Excerpt
    label: str
    twins: "tuple[PlaceView, ...]" = ()
    also: tuple[Location, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is no code to show: a line of a source that could not be read."""
        return not any(line.text.strip() for line in self.excerpt.lines)


@dataclass(frozen=True, slots=True)
class Card:
    """A finding, ready to show; ``code`` is the anchor of its function's code, empty where none was kept."""

    anchor: str
    finding: Finding
    function: str
    title: str
    primary: PlaceView
    related: tuple[PlaceView, ...]
    diagram: Diagram | None
    code: str

    @property
    def stacked(self) -> bool:
        """Whether the related places fit in one column beside the primary one: few are longer than a line."""
        return len(self.related) > 1 and sum(len(view.excerpt.lines) > 1 for view in self.related) <= 1


@dataclass(frozen=True, slots=True)
class RuleRow:
    """What a rule says over all functions; ``severity`` is the worst of its findings, if it has any.

    ``undecided`` and ``clean`` count verdicts, ``rests`` those with findings where something else could not
    be decided."""

    rule: str
    title: str
    severity: Severity | None
    findings: int
    undecided: int
    rests: int
    clean: int

    @property
    def active(self) -> bool:
        """Whether there is something to look at: a finding, or something not decided."""
        return bool(self.findings or self.undecided or self.rests)

    @property
    def applies(self) -> bool:
        """Whether any function has the rule's operations."""
        return self.active or self.clean > 0


@dataclass(frozen=True, slots=True)
class CardGroup:
    """The findings of one rule that stand together."""

    rule: str
    cards: tuple[Card, ...]

    @property
    def names(self) -> Mapping[str, str]:
        """Short names of their functions."""
        return index_names({card.function for card in self.cards})

    @property
    def files(self) -> Mapping[str, str]:
        """Short names of the inputs in which one function's name stands for several."""
        inputs: dict[str, set[str]] = {}
        for card in self.cards:
            inputs.setdefault(card.function, set()).add(card.finding.input)
        several = {one for names in inputs.values() if len(names) > 1 for one in names}
        last = {one: one.rpartition("/")[2] for one in several}
        short = index_names(set(last.values()))
        return {one: short[name] for one, name in last.items()}


@dataclass(frozen=True, slots=True)
class UndecidedGroup:
    """What could not be decided for one reason. ``functions`` pairs each function with its rules, ``rests``
    are those among the rules that have findings there and leave only the rest open."""

    reason: str
    rules: tuple[str, ...]
    functions: tuple[tuple[FunctionReport, tuple[str, ...]], ...]
    rests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CostRow:
    """What one rule's findings cost: how often, and the widest measured range of cycles."""

    rule: str
    frequency: str
    findings: int
    cycles: tuple[int, int] | None
    architectures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """Synchronisation that was measured, faulted or not, over all functions."""

    opcode: str
    frequency: str
    places: int
    functions: int
    cycles: tuple[int, int]
    architectures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """Everything the templates show; ``folder`` counts the characters of the folder that all inputs share."""

    report: AuditReport
    cards: tuple[Card, ...]
    suppressed: tuple[Card, ...]
    counts: Counts
    rules: tuple[RuleRow, ...]
    undecided: tuple[UndecidedGroup, ...]
    costs: tuple[CostRow, ...]
    measured: tuple[MeasuredRow, ...]
    folder: int

    @property
    def groups(self) -> tuple[CardGroup, ...]:
        """The findings in their order, by rule."""
        runs = groupby(self.cards, key=lambda card: card.finding.rule)
        return tuple(CardGroup(rule, tuple(cards)) for rule, cards in runs)


def build_page(report: AuditReport, titles: Mapping[str, str]) -> Page:
    """Arrange a report. ``titles`` are the rules' titles by id."""
    listings = _listings(report)
    names = {(item.input, item.name): item.demangled or item.name for item in report.functions}
    anchors: Counter[str] = Counter()
    cards = [
        _card(finding, names, titles, listings, anchors, report.code)
        for finding in sorted(report.findings, key=_order)
    ]
    active = tuple(card for card in cards if card.finding.suppressed is None)
    return Page(
        report=report,
        cards=active,
        suppressed=tuple(card for card in cards if card.finding.suppressed is not None),
        counts=count(report),
        rules=_rule_rows(report, active, titles),
        undecided=_undecided(report.functions),
        costs=_costs(active),
        measured=_measured(report.functions),
        folder=_shared_folder({one.path for one in report.inputs}),
    )


def _shared_folder(paths: Collection[str]) -> int:
    """The length of the folder's name with which several paths begin; 0 where there is none."""
    if len(paths) < 2:
        return 0
    first, last = min(paths), max(paths)
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(one for one, _ in same).rfind("/") + 1


def _order(finding: Finding) -> tuple[int, bool, str, str, str, int]:
    location = finding.primary.location
    position = location.offset if location.offset is not None else location.line
    performance = finding.category is Category.PERFORMANCE
    return (-finding.severity.rank, performance, finding.rule, finding.input, finding.function, position or 0)


def _listings(report: AuditReport) -> dict[str, Listing]:
    functions: dict[str, set[str]] = {}
    for item in report.functions:
        functions.setdefault(item.input, set()).add(item.name)
    return {
        name: index_listing(name, text, functions.get(name, set())) for name, text in report.listings.items()
    }


def _card(
    finding: Finding,
    names: Mapping[tuple[str, str], str],
    titles: Mapping[str, str],
    listings: Mapping[str, Listing],
    anchors: Counter[str],
    kept: Collection[tuple[str, str]],
) -> Card:
    base = "f-" + _UNSAFE_ID.sub(lambda match: f"_{ord(match[0]):x}_", finding.fingerprint)
    anchors[base] += 1
    anchor = base if anchors[base] == 1 else f"{base}--{anchors[base]}"
    spots = [_spot(place, finding, listings) for place in (finding.primary, *_merged(finding.related))]
    views = [
        replace(_place(index, spots), twins=_twins(spot[0], finding, listings))
        for index, spot in enumerate(spots)
    ]
    return Card(
        anchor=anchor,
        finding=finding,
        function=names.get((finding.input, finding.function), finding.function),
        title=titles.get(finding.rule, finding.rule),
        primary=views[0],
        related=tuple(views[1:]),
        diagram=lay_out(finding.witness) if finding.witness else None,
        code=code_anchor(*key) if (key := (finding.input, finding.function)) in kept else "",
    )


def _merged(places: tuple[CodePlace, ...]) -> list[CodePlace]:
    """The places, each once: what is said of one several times is said together."""
    grouped: dict[Location, list[CodePlace]] = {}
    for place in places:
        grouped.setdefault(place.location, []).append(place)
    return [
        replace(first, note="; ".join(dict.fromkeys(one.note for one in (first, *more) if one.note)) or None)
        for first, *more in grouped.values()
    ]


def place_name(location: Location | None) -> str:
    """What a function's code calls a place: ``p12`` a line of PTX, ``s2a0`` an offset of SASS; empty for
    others."""
    if location is None or location.kind not in _PLACE_LETTERS:
        return ""
    letter = _PLACE_LETTERS[location.kind]
    if location.offset is not None:
        return f"{letter}{location.offset:x}"
    return "" if location.line is None else f"{letter}{location.line}"


def _spot(
    place: CodePlace, finding: Finding, listings: Mapping[str, Listing]
) -> tuple[CodePlace, Listing | None, int]:
    """A place with the listing and line that show it. A location may name its file or its input."""
    for name in (place.location.file, finding.input):
        listing = listings.get(name)
        number = locate(place, finding.function, listing) if listing is not None else None
        if number is not None:
            return place, listing, number
    return place, None, 0


def _twins(place: CodePlace, finding: Finding, listings: Mapping[str, Listing]) -> tuple[PlaceView, ...]:
    """The twins of a place, those of one language that stand near each other in one excerpt."""
    views: list[PlaceView] = []
    shown: set[tuple[str, int]] = set()
    copies = [twin for twin in place.twins if twin.location.kind is place.location.kind]
    if copies:
        views.append(_copies(copies, finding, listings))
    for twin in (one for one in place.twins if one not in copies):
        _, listing, line = _spot(twin, finding, listings)
        if listing is not None and (listing.name, line) in shown:
            continue
        marks = _marks_of(place.twins, finding, listings, listing)
        block = excerpt(twin, listing, line, marks, "related", TWIN_CONTEXT_LINES)
        shown |= {(block.listing, one.number) for one in block.lines if block.listing is not None}
        views.append(PlaceView(twin, block, place_label(twin)))
    return tuple(views)


def _copies(copies: list[CodePlace], finding: Finding, listings: Mapping[str, Listing]) -> PlaceView:
    """The lines of an instruction's copies, without what stands around them."""
    spots = [_spot(copy, finding, listings) for copy in copies]
    blocks = [excerpt(copy, listing, line, {}, "related", 0) for copy, listing, line in spots]
    lines = tuple(line for block in blocks for line in block.lines)
    said = f"{counted(len(copies), 'more copy', 'more copies')} of it"
    return PlaceView(
        replace(copies[0], note=said),
        Excerpt(lines, blocks[0].listing),
        place_label(copies[0]),
        also=tuple(copy.location for copy in copies[1:]),
    )


def _marks_of(
    places: tuple[CodePlace, ...],
    finding: Finding,
    listings: Mapping[str, Listing],
    listing: Listing | None,
) -> dict[int, str]:
    spots = (_spot(place, finding, listings) for place in places)
    return {line: "related" for _, where, line in spots if where is listing and listing is not None}


def _place(index: int, spots: list[tuple[CodePlace, Listing | None, int]]) -> PlaceView:
    place, listing, line = spots[index]
    marks = {
        number: "primary" if other == 0 else "also" if index else "related"
        for other, (_, where, number) in reversed(list(enumerate(spots)))
        if where is listing and listing is not None
    }
    near_primary = listing is not None and spots[0][1] is listing and abs(line - spots[0][2]) <= CONTEXT_LINES
    # A related line that the primary excerpt shows in its context is not surrounded by it once more.
    context = 0 if index and near_primary else CONTEXT_LINES
    block = excerpt(place, listing, line, marks, "related" if index else "primary", context)
    return PlaceView(place, block, place_label(place))


def _rule_rows(
    report: AuditReport, cards: tuple[Card, ...], titles: Mapping[str, str]
) -> tuple[RuleRow, ...]:
    worst: dict[str, Severity] = {}
    counts: Counter[str] = Counter()
    for card in cards:
        rule = card.finding.rule
        counts[rule] += 1
        worst[rule] = max(worst.get(rule, card.finding.severity), card.finding.severity, key=_rank)
    clean: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    partly: Counter[str] = Counter()
    names = dict.fromkeys(counts)
    for item in report.functions:
        names.update(dict.fromkeys(item.verdicts))
        clean.update(rule for rule, verdict in item.verdicts.items() if verdict is Verdict.CLEAN)
        unknown.update(undecided(item).keys())
        partly.update(rests(item).keys())
    rows = [
        RuleRow(
            rule,
            titles.get(rule, rule),
            worst.get(rule),
            counts[rule],
            unknown[rule],
            partly[rule],
            clean[rule],
        )
        for rule in names
    ]
    rows.sort(key=_rule_order)
    return tuple(rows)


def _rank(severity: Severity) -> int:
    return severity.rank


def _rule_order(row: RuleRow) -> tuple[int, int, int, str]:
    rank = row.severity.rank if row.severity is not None else 0
    return (-rank, -row.findings, -row.undecided, row.rule)


def _undecided(functions: tuple[FunctionReport, ...]) -> tuple[UndecidedGroup, ...]:
    grouped: dict[str, list[tuple[FunctionReport, tuple[str, ...]]]] = {}
    partly: dict[str, set[str]] = {}
    for item in functions:
        by_reason: dict[str, list[str]] = {}
        for rule, reason in (undecided(item) | rests(item)).items():
            by_reason.setdefault(reason, []).append(rule)
        for reason, rules in by_reason.items():
            grouped.setdefault(reason, []).append((item, tuple(sorted(rules))))
            partly.setdefault(reason, set()).update(rests(item).keys() & set(rules))
    groups = [
        UndecidedGroup(
            reason,
            tuple(sorted({rule for _, rules in members for rule in rules})),
            tuple(members),
            tuple(sorted(partly[reason])),
        )
        for reason, members in grouped.items()
    ]
    groups.sort(key=lambda group: (-len(group.functions), group.reason))
    return tuple(groups)


def _costs(cards: tuple[Card, ...]) -> tuple[CostRow, ...]:
    grouped: dict[tuple[str, str], list[Cost]] = {}
    for card in cards:
        cost = card.finding.cost
        if cost is not None:
            grouped.setdefault((card.finding.rule, cost.frequency), []).append(cost)
    rows = []
    for (rule, frequency), costs in grouped.items():
        ranges = [cost.cycles for cost in costs if cost.cycles is not None]
        cycles = (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None
        measured = tuple(sorted({cost.architecture for cost in costs if cost.architecture is not None}))
        rows.append(CostRow(rule, frequency, len(costs), cycles, measured))
    rows.sort(key=lambda row: (-(row.cycles[1] if row.cycles else 0), row.rule, row.frequency))
    return tuple(rows)


def _measured(functions: tuple[FunctionReport, ...]) -> tuple[MeasuredRow, ...]:
    """The measured synchronisation in loops by operation and frequency, the dearest first; what costs next to
    nothing is left to the margin of the code."""
    grouped: dict[tuple[str, str], list[tuple[int, str, Cycles]]] = {}
    for number, item in enumerate(functions):
        if item.budget is None or item.budget.measured is None:
            continue
        for one in item.budget.places:
            if one.loop is not None and one.cycles is not None:
                key = (one.operation, one.executions.value)
                grouped.setdefault(key, []).append((number, item.budget.measured, one.cycles))
    rows = [
        MeasuredRow(
            operation,
            frequency,
            len(found),
            len({number for number, _, _ in found}),
            (
                round(min(cycles.low for _, _, cycles in found)),
                round(max(cycles.high for _, _, cycles in found)),
            ),
            tuple(sorted({architecture for _, architecture, _ in found})),
        )
        for (operation, frequency), found in grouped.items()
        if max(cycles.estimate for _, _, cycles in found) >= NOTABLE_CYCLES
    ]
    rows.sort(key=lambda row: (-row.cycles[1], -row.places, row.opcode, row.frequency))
    return tuple(rows[:MOST_MEASURED])
