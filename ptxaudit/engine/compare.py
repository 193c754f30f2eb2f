"""Compares two audits, kernel by kernel: what changed in the synchronisation, in findings, in verdicts.

Kernels are paired by mangled name and architecture, then by demangled name, then by the likeness of their
names; what is left is new or gone. Findings are paired as a baseline pairs them.
"""

import difflib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ptxaudit.engine.baseline import BaselineEntry, entry_of, match
from ptxaudit.engine.changes import SynchronisationChange, changes
from ptxaudit.engine.function_report import LOCAL_LOADS, LOCAL_STORES, REGISTERS
from ptxaudit.rules.budget import Budget, Part, summed
from ptxaudit.rules.model import AuditReport, Finding, FunctionReport, Verdict

# Differences below are within what measurements of one operation differ by.
LEAST_CYCLES, LEAST_SHARE = 10.0, 0.05
LEAST_LIKENESS = 0.8
MOST_LIKENESSES = 10_000
_NUMBERS = (REGISTERS, LOCAL_LOADS, LOCAL_STORES)


@dataclass(frozen=True, slots=True)
class CountChange:
    """Numbers of one kind that are not the same; ``looped`` are those in loops, old and new."""

    kind: str
    old: int
    new: int
    looped: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class VerdictChange:
    """A rule that says something else of the kernel now."""

    rule: str
    old: Verdict | None
    new: Verdict | None


@dataclass(frozen=True, slots=True)
class CostChange:
    """What synchronisation costs: ``looped`` in one iteration of each loop, summed, else outside of loops.

    ``old`` and ``new`` are estimated cycles of a warp's way by measurements on ``measured``, ``parts`` what
    they go to where that is not the same.
    """

    looped: bool
    old: float
    new: float
    parts: Mapping[Part, tuple[float, float]]
    measured: str


@dataclass(frozen=True, slots=True)
class KernelChange:
    """One kernel of both sides (or of one: the other is ``None``) and what is not the same.

    ``counts`` are the numbers of each kind of synchronisation, ``changes`` the synchronisations themselves.
    ``new_findings`` and ``gone_findings`` have no partner, ``worse_findings`` are old and new ones of which
    the new is more severe; ``unchanged`` counts the other pairs. ``costs`` is what synchronisation costs,
    where both sides were measured alike and differ.
    """

    old: FunctionReport | None
    new: FunctionReport | None
    counts: tuple[CountChange, ...]
    changes: tuple[SynchronisationChange, ...]
    verdicts: tuple[VerdictChange, ...]
    new_findings: tuple[Finding, ...]
    gone_findings: tuple[Finding, ...]
    unchanged: int
    costs: tuple[CostChange, ...] = ()
    worse_findings: tuple[tuple[Finding, Finding], ...] = ()

    @property
    def name(self) -> str:
        """The demangled name, of the new side where there is one."""
        side = self.new or self.old
        assert side is not None
        return side.demangled

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to say."""
        sides = self.old is None or self.new is None
        findings = self.new_findings or self.gone_findings or self.worse_findings
        return bool(sides or self.counts or self.changes or self.verdicts or self.costs or findings)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every kernel of two audits, in the order of the new one, those that are gone last.

    ``unread`` are the inputs of the old and of the new side that could not be read: the kernels in them are
    missing there. ``shortcomings`` are phrases on what keeps each side from being the whole answer.
    """

    kernels: tuple[KernelChange, ...]
    unread: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    shortcomings: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    @property
    def new_findings(self) -> tuple[Finding, ...]:
        """All findings that the old side did not have, or not as severe, and that are not suppressed."""
        found = (
            finding
            for kernel in self.kernels
            for finding in (*kernel.new_findings, *(worse for _, worse in kernel.worse_findings))
        )
        return tuple(finding for finding in found if finding.suppressed is None)


def compare(old: AuditReport, new: AuditReport) -> Comparison:
    """Compare two audits of the same rules; both need counted synchronisation."""
    old_findings, new_findings = _by_function(old), _by_function(new)
    return Comparison(
        tuple(
            _change(before, after, old_findings.get(_key(before), ()), new_findings.get(_key(after), ()))
            for before, after in pair(old.functions, new.functions)
        ),
        (_unread(old), _unread(new)),
        (old.shortcomings, new.shortcomings),
    )


def _unread(report: AuditReport) -> tuple[str, ...]:
    return tuple(one.path for one in report.inputs if one.error is not None)


_Key = tuple[str, str] | None


def _key(function: FunctionReport | None) -> _Key:
    return None if function is None else (function.input, function.name)


def _by_function(report: AuditReport) -> dict[_Key, tuple[Finding, ...]]:
    grouped: dict[_Key, tuple[Finding, ...]] = {}
    for finding in report.findings:
        key = (finding.input, finding.function)
        grouped[key] = (*grouped.get(key, ()), finding)
    return grouped


_Pair = tuple[FunctionReport | None, FunctionReport | None]
_Identity = Callable[[FunctionReport], tuple[str, ...]]
_IDENTITIES: tuple[_Identity, ...] = (
    lambda one: (one.name, one.arch, _language(one)),
    lambda one: (one.name, _language(one)),
    lambda one: (one.demangled, _language(one)),
)


def _language(function: FunctionReport) -> str:
    """The language that a function was given in: in the other one it may only be at hand on one side."""
    if function.join is None:
        return function.evidence
    return "ptx" if function.join.ptx == function.input else "sass"


def pair(old: Iterable[FunctionReport], new: Iterable[FunctionReport]) -> list[_Pair]:
    """Each function once: pairs and new ones in the order of ``new``, then those that are gone."""
    left, fresh = list(old), list(new)
    partners: dict[int, FunctionReport] = {}
    for identity in _IDENTITIES:
        left = _pair_same(identity, left, fresh, partners)
    for index, candidate in _alike(fresh, left, partners):
        if index not in partners and candidate in left:
            partners[index] = candidate
            left.remove(candidate)
    pairs: list[_Pair] = [(partners.get(index), function) for index, function in enumerate(fresh)]
    return pairs + [(function, None) for function in left]


def _pair_same(
    identity: _Identity,
    left: list[FunctionReport],
    fresh: list[FunctionReport],
    partners: dict[int, FunctionReport],
) -> list[FunctionReport]:
    """Pair those of one identity, in order; the old ones that are left."""
    waiting: dict[tuple[str, ...], deque[FunctionReport]] = defaultdict(deque)
    for function in left:
        waiting[identity(function)].append(function)
    for index, function in enumerate(fresh):
        if index not in partners and waiting[identity(function)]:
            partners[index] = waiting[identity(function)].popleft()
    return [function for several in waiting.values() for function in several]


def _alike(
    fresh: list[FunctionReport], left: list[FunctionReport], partners: Mapping[int, FunctionReport]
) -> list[tuple[int, FunctionReport]]:
    """New and old ones whose names are alike enough, the most alike first; none where there are too many."""
    alone = [(index, function) for index, function in enumerate(fresh) if index not in partners]
    if len(alone) * len(left) > MOST_LIKENESSES:
        return []
    found = [
        (difflib.SequenceMatcher(None, candidate.name, function.name).ratio(), index, candidate)
        for index, function in alone
        for candidate in left
        if _language(candidate) == _language(function)
    ]
    found.sort(key=lambda one: (-one[0], one[1]))
    return [(index, candidate) for likeness, index, candidate in found if likeness >= LEAST_LIKENESS]


def _change(
    before: FunctionReport | None,
    after: FunctionReport | None,
    old_findings: tuple[Finding, ...],
    new_findings: tuple[Finding, ...],
) -> KernelChange:
    name = after.name if after is not None else ""
    # The kernel may have another name now; its findings are compared as if it had not.
    renamed = [replace(entry_of(finding), function=name) for finding in old_findings]
    matched = match(new_findings, renamed)
    waiting: dict[BaselineEntry, deque[Finding]] = defaultdict(deque)
    for finding, entry in zip(old_findings, renamed, strict=True):
        waiting[entry].append(finding)
    worse_findings = [(waiting[entry].popleft(), new_findings[at]) for at, entry in matched.worse.items()]
    gone_findings = [waiting[entry].popleft() for entry in matched.gone]
    return KernelChange(
        before,
        after,
        tuple(_counts(before, after)),
        () if before is None or after is None else changes(before.synchronisation, after.synchronisation),
        tuple(_verdicts(before, after)),
        tuple(one for index, one in enumerate(new_findings) if index not in {*matched.known, *matched.worse}),
        tuple(gone_findings),
        len(matched.known),
        tuple(_costs(before, after)),
        tuple(worse_findings),
    )


def _costs(before: FunctionReport | None, after: FunctionReport | None) -> Iterator[CostChange]:
    old, new = (None if side is None else side.budget for side in (before, after))
    if old is None or new is None or old.measured is None or old.measured != new.measured:
        return
    for looped in (True, False):
        first, second = (_spent(budget, looped) for budget in (old, new))
        sums = sum(first.values()), sum(second.values())
        if abs(sums[0] - sums[1]) > max(LEAST_CYCLES, LEAST_SHARE * max(sums)):
            parts = {part: (first.get(part, 0.0), second.get(part, 0.0)) for part in Part}
            told = {part: pair for part, pair in parts.items() if abs(pair[0] - pair[1]) > LEAST_CYCLES}
            yield CostChange(looped, *sums, told, old.measured)


def _spent(budget: Budget, looped: bool) -> Mapping[Part, float]:
    return summed(loop.parts for loop in budget.loops) if looped else budget.once_parts


def _counts(before: FunctionReport | None, after: FunctionReport | None) -> Iterator[CountChange]:
    if before is None or after is None:
        return
    old, new = _numbers(before, after), _numbers(after, before)
    in_loops = [Counter(one.kind for one in side.synchronisation if one.looped) for side in (before, after)]
    for kind in sorted({*old, *new}):
        change = CountChange(kind, old[kind], new[kind], (in_loops[0][kind], in_loops[1][kind]))
        if change.old != change.new or change.looped[0] != change.looped[1]:
            yield change


def _numbers(function: FunctionReport, other: FunctionReport) -> Counter[str]:
    """What is counted of a function: what its code alone says where both sides say it."""
    counted = Counter(one.kind for one in function.synchronisation)
    for name in _NUMBERS:
        if name in function.facts and name in other.facts:
            counted[name] = int(function.facts[name])
    return counted


def _verdicts(before: FunctionReport | None, after: FunctionReport | None) -> Iterator[VerdictChange]:
    if before is None or after is None:
        return
    for rule in after.verdicts:
        old, new = before.verdicts.get(rule), after.verdicts[rule]
        if old is not new:
            yield VerdictChange(rule, old, new)
