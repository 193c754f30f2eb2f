"""The axioms of the PTX memory consistency model, on one candidate execution.

PTX ISA 9.0, chapter 8.  A candidate execution is a set of events with program order, reads-from (`rf`), an
order of the morally strong `fence.sc` pairs, and the synchronisation that barriers give.  Coherence order
is not part of the candidate: `coherence_orders` enumerates the ones that the axioms allow.

Causality does not depend on coherence, so it is computed once per candidate:

* morally strong (8.7), release and acquire patterns (8.8), observation order (8.9.2), Fence-SC order
  (8.9.3), synchronizes-with (8.9.4), base causality, proxy-preserved base causality and causality order
  (8.9.5), coherence order (8.9.6), and the axioms of 8.10.

Two generalisations serve the extensions and do nothing for plain programs.  `exits` gives an event a second
node from which paths leave it: an asynchronous access is ordered after what its issuer did, and its
completion is ordered after the access, yet nothing is ordered through it (8.9.1.1).  A `restriction` limits
a fence to some locations (`fence...sync_restrict`, 9.7.13).

Known limits: accesses to one location overlap completely; proxies are opaque names.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from . import relations as rel
from .events import GENERIC, Event, Kind, scopes_agree
from .relations import Relation, has


@dataclass(slots=True)
class Execution:
    """A candidate execution; all relations are over indices into `events`.

    `po` is transitive.  `rmw` maps the read of an atomic operation to its write.  `dependency` holds what
    the no-thin-air axiom must not contradict.  `sync` is synchronisation given from outside (CTA barriers),
    `observed` the pairs of a signal and an await that observes it.
    """

    events: list[Event]
    po: Relation
    rf: dict[int, int]
    rmw: dict[int, int] = field(default_factory=dict)
    fence_sc: list[tuple[int, int]] = field(default_factory=list)
    sync: list[tuple[int, int]] = field(default_factory=list)
    observed: list[tuple[int, int]] = field(default_factory=list)
    dependency: Relation = field(default_factory=list)
    exits: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Causality:
    """The orders of one candidate execution up to causality order.

    `base` is base causality without restricted fences, `restricted` the synchronisation that holds for some
    locations only, `cause` causality order, `strong` moral strength.
    """

    base: Relation
    strong: Relation
    restricted: list[tuple[int, int, frozenset[str]]]
    cause: Relation = field(default_factory=list)
    _cache: dict[frozenset[tuple[int, int]], Relation] = field(default_factory=dict)

    def base_at(self, location: str) -> Relation:
        """Base causality as it holds for accesses to one location."""
        extra = frozenset((a, b) for a, b, locations in self.restricted if location in locations)
        if not extra:
            return self.base
        if extra not in self._cache:
            edges = rel.from_pairs(len(self.base), extra)
            self._cache[extra] = rel.closure(rel.union(self.base, edges))
        return self._cache[extra]


def morally_strong(execution: Execution) -> Relation:
    """The morally strong pairs (8.7), symmetric."""
    events, po = execution.events, execution.po
    rows = rel.empty(len(events))
    for i, one in enumerate(events):
        if one.thread < 0 or one.kind is Kind.NODE:
            continue
        for j in range(i + 1, len(events)):
            other = events[j]
            if other.thread < 0 or other.kind is Kind.NODE or one.proxy != other.proxy:
                continue
            if one.memory and other.memory and one.address != other.address:
                continue
            if has(po, i, j) or has(po, j, i) or scopes_agree(one, other):
                rows[i] |= 1 << j
                rows[j] |= 1 << i
    return rows


def observation(execution: Execution, strong: Relation) -> Relation:
    """Observation order (8.9.2): a morally strong read-from, extended through atomic operations."""
    events = execution.events
    step = rel.from_pairs(len(events), ((w, r) for r, w in execution.rf.items() if has(strong, w, r)))
    through = rel.compose(rel.from_pairs(len(events), execution.rmw.items()), step)
    rows = list(step)
    while True:
        longer = rel.union(rows, rel.compose(rows, through))
        if longer == rows:
            break
        rows = longer
    for signal, wait in execution.observed:
        if has(strong, signal, wait):
            rows[signal] |= 1 << wait
    return rows


def release_patterns(execution: Execution) -> Iterator[tuple[int, int]]:
    """Pairs (first event, observed strong write or signal) of the release patterns (8.8)."""
    events = execution.events
    for i, event in enumerate(events):
        if not event.release:
            continue
        if event.kind in (Kind.WRITE, Kind.SIGNAL):
            yield i, i
        for j in rel.bits(execution.po[i]):
            later = events[j]
            if later.strong and _ordered_by(event, later, Kind.WRITE, Kind.SIGNAL):
                yield i, j


def acquire_patterns(execution: Execution) -> Iterator[tuple[int, int]]:
    """Pairs (observing strong read or await, last event) of the acquire patterns (8.8)."""
    events = execution.events
    for i, event in enumerate(events):
        if event.kind not in (Kind.READ, Kind.AWAIT) or not event.strong:
            continue
        if event.acquire:
            yield i, i
        for j in rel.bits(execution.po[i]):
            later = events[j]
            if later.acquire and _ordered_by(later, event, Kind.READ, Kind.AWAIT):
                yield i, j


def _ordered_by(event: Event, access: Event, memory: Kind, synchronisation: Kind) -> bool:
    """Whether a fence, or an access to the same address, makes a pattern with a strong access."""
    if event.kind is Kind.FENCE:
        within = event.through is None or access.location in event.through
        return within and access.kind in (memory, synchronisation)
    return event.kind is memory and access.kind is memory and event.address == access.address


def synchronizes(
    execution: Execution, strong: Relation, observed: Relation
) -> tuple[Relation, list[tuple[int, int, frozenset[str]]]]:
    """Synchronizes-with from release and acquire patterns (8.9.4): everywhere, and for some locations."""
    events = execution.events
    acquires = list(acquire_patterns(execution))
    rows = rel.empty(len(events))
    restricted = []
    for first, write in release_patterns(execution):
        for read, last in acquires:
            if not (has(observed, write, read) and has(strong, first, last)):
                continue
            limits = [e.restriction for e in (events[first], events[last]) if e.restriction is not None]
            if limits:
                restricted.append((first, last, frozenset.intersection(*limits)))
            else:
                rows[first] |= 1 << last
    return rows, restricted


def _proxy_points(execution: Execution, base: Relation, index: int, leaving: bool) -> list[int]:
    """The events at which an access joins the generic proxy's order (itself, or its proxy fences)."""
    event = execution.events[index]
    if event.proxy == GENERIC:
        return [index]
    points = []
    for i, other in enumerate(execution.events):
        fence = other.proxy_fence
        if fence is None or fence.proxy != event.proxy or other.place != event.place:
            continue
        if not fence.covers(event.location) or not (fence.inward if leaving else fence.outward):
            continue
        if has(base, execution.exits.get(index, index), i) if leaving else has(base, i, index):
            points.append(i)
    return points


def _preserved(execution: Execution, base: Relation, x: int, y: int) -> bool:
    """Whether x precedes y in proxy-preserved base causality order (8.9.5), both accessing one location."""
    events, exits = execution.events, execution.exits
    one, other = events[x], events[y]
    same = one.address == other.address
    near = one.proxy == GENERIC or one.place == other.place
    if same and near and one.proxy == other.proxy and has(base, exits.get(x, x), y):
        return True
    leaving = _proxy_points(execution, base, x, True)
    entering = _proxy_points(execution, base, y, False)
    for i in leaving:
        reached = base[exits.get(i, i)]
        for j in entering:
            if same and reached >> j & 1:
                return True
            for k in rel.bits(reached):
                if events[k].alias_fence and has(base, k, j):
                    return True
    return False


def causality(execution: Execution, strong: Relation | None = None) -> Causality:
    """Compute the orders of a candidate execution up to causality order (8.9.5).

    `strong` is its `morally_strong`, where the caller has it already (it depends on no choice).
    """
    events = execution.events
    size = len(events)
    if strong is None:
        strong = morally_strong(execution)
    observed = observation(execution, strong)
    patterns, restricted = synchronizes(execution, strong, observed)
    given = rel.from_pairs(size, (*execution.fence_sc, *execution.sync))
    order = Causality(rel.closure(rel.union(execution.po, patterns, given)), strong, restricted)
    preserved = rel.empty(size)
    for x, one in enumerate(events):
        if not one.memory or one.thread < 0:
            continue
        base = order.base_at(one.location)
        for y, other in enumerate(events):
            if x == y or not other.memory or other.thread < 0 or one.location != other.location:
                continue
            if _preserved(execution, base, x, y):
                preserved[x] |= 1 << y
    order.cause = rel.union(preserved, rel.compose(observed, preserved))
    return order


def coherence_orders(execution: Execution, order: Causality) -> Iterator[Relation]:
    """The coherence orders (8.9.6) with which the candidate satisfies every axiom of 8.10.

    Coherence is total only between morally strong writes; each order yielded is the smallest one for its
    choice of directions, as a larger one only forbids more.
    """
    events = execution.events
    size = len(events)
    if not (_no_thin_air(execution) and _fence_sc(execution, order)):
        return
    writes = [i for i, e in enumerate(events) if e.kind is Kind.WRITE]
    forced = rel.empty(size)
    undecided = []
    for i in writes:
        for j in writes:
            if i == j or events[i].location != events[j].location:
                continue
            if events[i].thread < 0 or has(order.cause, i, j):
                forced[i] |= 1 << j
            elif i < j and has(order.strong, i, j) and not has(order.cause, j, i):
                undecided.append((i, j))
    for co in _extensions(rel.closure(forced), undecided):
        if _coherent(execution, order, co):
            yield co


def consistent(execution: Execution, strong: Relation | None = None) -> Causality | None:
    """The orders of the candidate if it satisfies all axioms with some coherence order, else None."""
    order = causality(execution, strong)
    return order if next(coherence_orders(execution, order), None) is not None else None


def _extensions(co: Relation, undecided: list[tuple[int, int]]) -> Iterator[Relation]:
    if any(row >> i & 1 for i, row in enumerate(co)):
        return
    for position, (i, j) in enumerate(undecided):
        if has(co, i, j) or has(co, j, i):
            continue
        rest = undecided[position + 1 :]
        size = len(co)
        yield from _extensions(rel.closure(rel.union(co, rel.from_pairs(size, [(i, j)]))), rest)
        yield from _extensions(rel.closure(rel.union(co, rel.from_pairs(size, [(j, i)]))), rest)
        return
    yield co


def _no_thin_air(execution: Execution) -> bool:
    """No-Thin-Air (8.10.4): values do not depend on themselves."""
    reads = rel.from_pairs(len(execution.events), ((w, r) for r, w in execution.rf.items()))
    return rel.acyclic(rel.union(reads, execution.dependency) if execution.dependency else reads)


def _fence_sc(execution: Execution, order: Causality) -> bool:
    """Fence-SC (8.10.2): the order of fences does not contradict causality."""
    return not any(has(order.base, later, earlier) for earlier, later in execution.fence_sc)


def _coherent(execution: Execution, order: Causality, co: Relation) -> bool:
    """Atomicity (8.10.3), SC-per-Location (8.10.5) and Causality (8.10.6)."""
    events, po, strong, cause = execution.events, execution.po, order.strong, order.cause
    size = len(events)
    from_read = rel.empty(size)
    for read, write in execution.rf.items():
        own = execution.rmw.get(read)
        from_read[read] = co[write] & ~(1 << own) if own is not None else co[write]
        if has(cause, read, write):
            return False
        if any(has(cause, later, read) for later in rel.bits(from_read[read])):
            return False
    for read, write in execution.rmw.items():
        between = from_read[read] & strong[read] & strong[write]
        if any(has(co, other, write) for other in rel.bits(between)):
            return False
    communication = rel.union(rel.from_pairs(size, ((w, r) for r, w in execution.rf.items())), co, from_read)
    local = rel.empty(size)
    for i, event in enumerate(events):
        local[i] = communication[i] & strong[i]
        if event.memory:
            for j in rel.bits(po[i] & strong[i]):
                if events[j].memory:
                    local[i] |= 1 << j
    return rel.acyclic(local)
