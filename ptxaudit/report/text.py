"""The report for a terminal: findings with their places and reasons, what is unknown, a summary."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from ptxaudit.printable import log_line
from ptxaudit.report.colors import BOLD, SEVERITY, paint
from ptxaudit.report.counts import count, undecided
from ptxaudit.rules.model import AuditReport, CodePlace, Cost, Finding, InputReport, Severity
from ptxaudit.source import Location
from ptxaudit.words import brief, counted

_SHOWN_FUNCTIONS = 3
_LONGEST_NAME = 72
_KEPT_END = 31
# A function by its input and name.
_Key = tuple[str, str]


def render(report: AuditReport, color: bool = False) -> str:
    """The whole report as text, what is missing from it on the first line; ``color`` adds ANSI colours."""
    names = _names(report)
    short = report.shortcomings
    parts = [paint(f"incomplete: {', '.join(short)}", BOLD, color)] if short else []
    for finding in report.findings:
        if finding.suppressed is None:
            name = names.get((finding.input, finding.function)) or abridged(finding.function)
            parts.append("\n".join([_head(finding, color), _lines(_finding(finding, name))]))
    suppressed = list(_suppressed(report, names))
    if suppressed:
        parts.append("\n".join(["suppressed:", *suppressed]))
    for one in report.inputs:
        if one.error is not None or one.notes:
            parts.append(_lines(_input(one)))
    skipped = list(_skipped(report))
    if skipped:
        parts.append(_lines(["not audited:", *skipped]))
    names = _told_apart(report, names)
    unknown = list(_unknown(report, names))
    if unknown:
        parts.append(_lines(["not decided:", *unknown]))
    assumed = list(_assumed(report, names))
    if assumed:
        parts.append(_lines(["assumed:", *assumed]))
    joined = list(_joined(report, names))
    if joined:
        parts.append(_lines(["PTX and SASS together:", *joined]))
    if report.notices:
        parts.append(_lines(["notices:", *(f"  {notice}" for notice in report.notices)]))
    parts.append(summary(report))
    return "\n\n".join(parts) + "\n"


def _lines(lines: Iterable[str]) -> str:
    """Lines with text of inputs in them: no such text ends a line, steers a terminal or a CI job."""
    return "\n".join(map(log_line, lines))


def _head(finding: Finding, color: bool) -> str:
    head = paint(f"{finding.severity}[{finding.rule}]", SEVERITY[finding.severity], color)
    return f"{head}: {paint(log_line(finding.message), BOLD, color)}"


def _finding(finding: Finding, function: str) -> Iterator[str]:
    yield f"  in {function} ({finding.input}), confidence {finding.confidence}"
    for place in (finding.primary, *finding.related):
        yield f"  {'-->' if place.role == 'primary' else '   '} {place.location}"
        yield f"      | {brief(place.text)}"
        if place.note:
            yield f"      = {place.note}"
        yield from _twins(place)
    if finding.path:
        yield f"  path: {' -> '.join(finding.path)}"
    yield from _labelled("why", finding.evidence)
    yield from _labelled("assumes", finding.assumptions)
    if finding.witness is not None:
        numbered = enumerate(finding.witness.steps, 1)
        steps = [f"{number}. {step.role}: {step.text}{_at(step.location)}" for number, step in numbered]
        yield from _labelled("schedule", steps)
        yield from _labelled("missing", [edge.label for edge in finding.witness.edges if edge.missing])
    if finding.cost is not None:
        yield f"  cost: {cost(finding.cost)}"
    if finding.fix is not None:
        yield f"  fix: {' '.join(finding.fix.summary.split())}"


def _at(location: Location | None) -> str:
    """Where a step of a schedule stands, its file left out: that is the finding's."""
    if location is None:
        return ""
    return f" (line {location.line})" if location.offset is None else f" (+{location.offset:#06x})"


def _suppressed(report: AuditReport, names: Mapping[_Key, str]) -> Iterator[str]:
    """A line for each rule and reason: the first place, and how many more there are."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in report.findings:
        if finding.suppressed is not None:
            groups.setdefault((finding.severity, finding.rule, finding.suppressed), []).append(finding)
    for (severity, rule, reason), (first, *more) in groups.items():
        name = names.get((first.input, first.function)) or abridged(first.function)
        rest = f" and {len(more)} more" if more else ""
        yield f"  {severity}[{rule}] {first.primary.location} in {name}{rest}: {reason}"


def _twins(place: CodePlace) -> Iterator[str]:
    """The same instruction in the other language and in the source, a line for each of these."""
    for kind, run in groupby(place.twins, key=lambda twin: twin.location.kind):
        first, *others = run
        where = str(first.location) if first.location.offset is None else f"+{first.location.offset:#06x}"
        notes = dict.fromkeys(twin.note for twin in (first, *others) if twin.note)
        more = f", also {', '.join(f'+{one.location.offset or 0:#06x}' for one in others)}" if others else ""
        said = f" ({'; '.join(notes)})" if notes else ""
        yield f"      {kind} {where}{f': {brief(first.text)}' if first.text else ''}{more}{said}"


def _labelled(label: str, sentences: Iterable[str]) -> Iterator[str]:
    for sentence in sentences:
        yield f"  {label}: {sentence}"


def cost(one: Cost) -> str:
    """What a synchronisation costs, how often, in words."""
    text = f"{one.summary} ({one.frequency})"
    if one.cycles is None:
        return text
    where = f" on {one.architecture}" if one.architecture else ""
    return f"{text}, {one.cycles[0]} to {one.cycles[1]} cycles each{where}"


def _input(one: InputReport) -> Iterator[str]:
    if one.error is not None:
        yield f"could not read {one.error}"
    for note in one.notes:
        prefix = "    " if one.error is not None else "  "
        yield from (f"{prefix}{line}" for line in note.splitlines())


def _skipped(report: AuditReport) -> Iterator[str]:
    """Each reason once, with the number of members of containers that it holds for."""
    for reason, number in Counter(one.reason for one in report.skipped).items():
        yield f"  {reason} [{counted(number, 'image')}]"


def _unknown(report: AuditReport, names: Mapping[_Key, str]) -> Iterator[str]:
    """Each reason once, with the rules that it leaves open and the functions it holds for."""
    groups: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for function in report.functions:
        for rule, reason in undecided(function).items():
            rules, functions = groups.setdefault(reason, ({}, {}))
            rules[rule] = functions[names[function.input, function.name]] = None
    for reason, (rules, functions) in groups.items():
        yield f"  {reason}"
        yield f"    leaves open: {', '.join(rules)}"
        yield f"    in {_functions(list(functions))}"


def _assumed(report: AuditReport, names: Mapping[_Key, str]) -> Iterator[str]:
    """Each assumption once, with the functions whose verdicts rest on it."""
    groups: dict[str, dict[str, None]] = {}
    for function in report.functions:
        for assumption in function.assumptions:
            groups.setdefault(assumption, {})[names[function.input, function.name]] = None
    for assumption, functions in groups.items():
        yield f"  {assumption} [{_functions(list(functions))}]"


def _joined(report: AuditReport, names: Mapping[_Key, str]) -> Iterator[str]:
    """How functions were joined, and the rules that one language decided where the other could not."""
    groups: dict[str, dict[str, None]] = {}
    for function in report.functions:
        if function.join is None:
            continue
        join = function.join
        how = f"joined by the {join.method} (confidence {join.confidence}), the other one {join.origin}"
        groups.setdefault(how, {})[names[function.input, function.name]] = None
        by_language: dict[str, list[str]] = {}
        for rule in function.settled:
            by_language.setdefault(function.decided_by[rule].upper(), []).append(rule)
        for language, rules in by_language.items():
            settled = f"settled by the {language}: {', '.join(rules)}"
            groups.setdefault(settled, {})[names[function.input, function.name]] = None
    for text, functions in groups.items():
        yield f"  {text} [{_functions(list(functions))}]"


def _functions(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN_FUNCTIONS])
    rest = len(names) - _SHOWN_FUNCTIONS
    return f"{shown}{f' and {rest} more' if rest > 0 else ''}"


def _names(report: AuditReport) -> dict[_Key, str]:
    """What functions are called: abridged, unless that would be the same for others."""
    demangled = {(one.input, one.name): one.demangled for one in report.functions}
    abridged_alike = Counter(abridged(name) for name in set(demangled.values()))
    return {
        key: name if abridged_alike[abridged(name)] > 1 else abridged(name) for key, name in demangled.items()
    }


def _told_apart(report: AuditReport, names: Mapping[_Key, str]) -> dict[_Key, str]:
    """The names with their inputs, where several functions have the same."""
    alike = Counter(names[one.input, one.name] for one in report.functions)
    return {key: f"{name} ({key[0]})" if alike[name] > 1 else name for key, name in names.items()}


def abridged(name: str) -> str:
    """A long name's beginning and end, which tells instances of one template apart."""
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 1 - _KEPT_END]}\N{HORIZONTAL ELLIPSIS}{name[-_KEPT_END:]}"


def summary(report: AuditReport) -> str:
    """One line of counts."""
    counts = count(report)
    found = ", ".join(counted(counts.severities[severity], severity.value) for severity in Severity)
    parts = [
        f"{counted(len(report.functions), 'function')} of {counted(len(report.inputs), 'input')}: {found}",
        f"{counts.clean} clean and {counts.unknown} unknown verdicts",
    ]
    copies = sum(one.same_as is not None for one in report.inputs)
    parts += [f"{counts.suppressed} suppressed"] if counts.suppressed else []
    parts += [f"{counted(copies, 'input')} the same as another"] if copies else []
    return "; ".join([*parts, *report.shortcomings])
