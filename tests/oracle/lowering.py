"""From a program to the events of its candidate executions, and the choices that make the candidates.

Our reading of the PTX ISA 9.0, on top of the axioms of `model`:

* CTA barriers (9.7.13): every arrival of a generation synchronizes with every `barrier.sync` of it.
* Cluster barriers (9.7.13) and mbarriers (9.7.13.15): a wait observes the arrivals of its phase; they
  synchronize where both make a release and an acquire pattern whose scopes include the other's thread.  The
  ISA promises this for "the completed phase": arrivals of earlier phases give no order (unless
  `Reading.cumulative_phases`).
* Asynchronous operations (8.9.1.1): accesses come after what the issuer did before, in program order; what
  completes them comes after the accesses, and nothing else is ordered through them.
* `cp.async.bulk` (9.7.9.25) reads and writes by the async proxy and is followed by an implicit proxy fence
  at completion; complete-tx has release semantics at cluster scope.  A bulk group's wait orders its
  completed operations (of `.read`: their reads) before what follows in the waiting thread.
* `cp.async` (9.7.9.25) and `st.async` (9.7.9) use the generic proxy; the former completes by groups or by
  an arrival that covers the thread's prior copies, the latter like a bulk copy on an mbarrier.
* `wgmma` (9.7.15) reads shared memory by the async proxy; its group's wait orders the reads.
* `fence` with `sync_restrict` (9.7.13) orders operations on objects of the named window only.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from . import program as op
from . import relations as rel
from .events import Event, Kind, Place, ProxyFence, Scope
from .phases import Operation
from .program import EventId, Program

ASYNC = "async"


@dataclass(frozen=True, slots=True)
class Reading:
    """How the ISA is read where its words leave room.

    `cumulative_phases`: a wait also observes the arrivals of phases before the one that it waits for.
    `read_before_write_needs_proxy_fence`: a generic read before an asynchronous write of the location (or
    the reverse) counts as ordered only with a proxy fence, not by base causality alone.
    `copies_complete_at_target`: the write and the complete-tx of a `cp.async.bulk` are operations of the CTA
    of its mbarrier, not of the one that issued the copy, so a wait at CTA scope there synchronizes with them.
    `asynchronous_carries`: who observes the completion of an asynchronous operation comes after all that
    came before its issue, not only after its accesses.
    """

    cumulative_phases: bool = False
    read_before_write_needs_proxy_fence: bool = False
    copies_complete_at_target: bool = False
    asynchronous_carries: bool = False


@dataclass(slots=True)
class Skeleton:
    """The events of a program and the material for its choices.

    `owner` names the instruction behind each event.  `fixed` are edges of the order that hold in every
    candidate (asynchronous operations), `issue` the instruction behind an
    asynchronous signal (it comes later, but is not ordered by that), `blocking` the events that later
    instructions wait for, `awaited` the value that ends a read's loop,
    `mbarrier_operations` per object the sequences of its agents, `barrier_operations` the same for CTA
    barriers as (arrival, count, wait event or None), `cluster` per thread its (arrival, wait) events.
    """

    events: list[Event] = field(default_factory=list)
    owner: list[EventId | None] = field(default_factory=list)
    order: list[list[int]] = field(default_factory=list)
    fixed: list[tuple[int, int]] = field(default_factory=list)
    issue: dict[int, int] = field(default_factory=dict)
    exits: dict[int, int] = field(default_factory=dict)
    rmw: dict[int, int] = field(default_factory=dict)
    awaited: dict[int, int] = field(default_factory=dict)
    added: dict[int, int] = field(default_factory=dict)
    blocking: set[int] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    mbarrier_operations: dict[str, list[list[Operation]]] = field(default_factory=dict)
    after: dict[int, set[int]] = field(default_factory=dict)
    barrier_operations: dict[tuple[int, int], list[list[tuple[int, int, int | None]]]] = field(
        default_factory=dict
    )
    cluster: list[tuple[list[int], list[int]]] = field(default_factory=list)

    def program_order(self) -> rel.Relation:
        """Program order, transitive; asynchronous accesses are in no thread's."""
        rows = rel.empty(len(self.events))
        for sequence in self.order:
            later = 0
            for event in reversed(sequence):
                rows[event] = later
                later |= 1 << event
        return rows


@dataclass(slots=True)
class _Copy:
    """An asynchronous operation under way: its issue, and the nodes after its reads and after all of it."""

    issue: int
    read: int
    done: int


@dataclass(slots=True)
class _Groups:
    """Operations not committed yet, and the committed groups, oldest first."""

    open: list[_Copy] = field(default_factory=list)
    closed: list[list[_Copy]] = field(default_factory=list)

    def commit(self) -> None:
        self.closed.append(self.open)
        self.open = []

    def finished(self, pending: int) -> list[_Copy]:
        """The operations that a wait leaving `pending` groups in flight has waited for."""
        groups = self.closed[: len(self.closed) - pending] if pending else self.closed
        return [copy for group in groups for copy in group]


class _Lowering:
    """Builds the skeleton, one instruction after the other."""

    def __init__(self, program: Program, reading: Reading) -> None:
        self.program = program
        self.reading = reading
        self.skeleton = Skeleton()
        self.homes = {place.name: place.cta for place in (*program.locations, *program.mbarriers)}
        self.mbarriers = frozenset(place.name for place in program.mbarriers)
        self.agents: dict[str, list[list[Operation]]] = defaultdict(list)
        for place in program.locations:
            self._event(Event(Kind.WRITE, -1, Place(), place.name, place.name), None)

    def run(self) -> Skeleton:
        skeleton = self.skeleton
        for number, thread in enumerate(self.program.threads):
            self.number, self.place = number, Place(0, 0, thread.cta)
            self.sequence: list[int] = []
            self.bulk, self.copies, self.wgmma = _Groups(), _Groups(), _Groups()
            self.own: dict[str, list[Operation]] = defaultdict(list)
            self.barriers: dict[int, list[tuple[int, int, int | None]]] = defaultdict(list)
            self.arrivals: list[int] = []
            self.waits: list[int] = []
            for position, instruction in enumerate(thread.instructions):
                self.id = (number, position)
                self._lower(instruction)
            skeleton.order.append(self.sequence)
            skeleton.cluster.append((self.arrivals, self.waits))
            for name, operations in self.own.items():
                self.agents[name].append(operations)
            for identifier, members in self.barriers.items():
                skeleton.barrier_operations.setdefault((thread.cta, identifier), []).append(members)
        skeleton.mbarrier_operations = dict(self.agents)
        return skeleton

    def _event(self, event: Event, owner: EventId | None) -> int:
        self.skeleton.events.append(event)
        self.skeleton.owner.append(owner)
        return len(self.skeleton.events) - 1

    def _in_order(self, event: Event) -> int:
        index = self._event(event, self.id)
        self.sequence.append(index)
        return index

    def _strong(self, semantics: str, scope: Scope, kind: Kind, location: str, value: int = 0) -> Event:
        weak = semantics == "weak"
        return Event(
            kind,
            self.number,
            self.place,
            location,
            location,
            strong=not weak,
            acquire=kind in (Kind.READ, Kind.AWAIT) and semantics in ("acquire", "acq_rel"),
            release=kind in (Kind.WRITE, Kind.SIGNAL) and semantics in ("release", "acq_rel"),
            scope=scope,
            value=value,
        )

    def _lower(self, instruction: op.Instruction) -> None:
        match instruction:
            case op.Load(location, semantics, scope):
                self._in_order(self._strong(semantics, scope, Kind.READ, location))
            case op.Store(location, semantics, scope, value):
                self._in_order(self._strong(semantics, scope, Kind.WRITE, location, value))
            case op.Atomic(location, semantics, scope, add):
                read = self._in_order(self._strong(semantics, scope, Kind.READ, location))
                write = self._in_order(self._strong(semantics, scope, Kind.WRITE, location))
                self.skeleton.rmw[read] = write
                self.skeleton.added[write] = add
            case op.AwaitFlag(location, value, semantics, scope):
                read = self._in_order(self._strong(semantics, scope, Kind.READ, location))
                self.skeleton.awaited[read] = value
                self.skeleton.blocking.add(read)
            case op.Fence() | op.MbarrierInitFence() | op.ProxyFence():
                self._in_order(self._fence(instruction))
            case op.BarrierSync(identifier, count):
                arrival = self._in_order(Event(Kind.NODE, self.number, self.place))
                self.barriers[identifier].append((arrival, count, self._wait_node()))
            case op.BarrierArrive(identifier, count):
                arrival = self._in_order(Event(Kind.NODE, self.number, self.place))
                self.barriers[identifier].append((arrival, count, None))
            case op.ClusterArrive(semantics):
                self.arrivals.append(self._in_order(self._strong(semantics, Scope.CLUSTER, Kind.SIGNAL, "")))
            case op.ClusterWait():
                wait = self._in_order(self._strong("acquire", Scope.CLUSTER, Kind.AWAIT, ""))
                self.waits.append(wait)
                self.skeleton.blocking.add(wait)
            case op.BulkCommit():
                self.bulk.commit()
            case op.CpAsyncCommit():
                self.copies.commit()
            case op.WgmmaCommit():
                self.wgmma.commit()
            case op.BulkWait(pending, read):
                self._group_wait(self.bulk.finished(pending), read)
            case op.CpAsyncWait(pending):
                self._group_wait(self.copies.finished(pending), False)
            case op.WgmmaWait(pending):
                self._group_wait(self.wgmma.finished(pending), False)
            case _:
                self._lower_mbarrier(instruction)

    def _lower_mbarrier(self, instruction: op.Instruction) -> None:
        match instruction:
            case op.MbarrierInit(name, count):
                self._in_order(self._strong("weak", Scope.CTA, Kind.WRITE, name))
                if name in self.skeleton.counts:
                    raise op.ProgramError(f"{name!r} is initialised twice")
                self.skeleton.counts[name] = count
            case op.MbarrierArrive(name, count, expect, semantics, scope):
                event = self._in_order(self._strong(semantics, scope, Kind.SIGNAL, name))
                self.own[name].append(Operation(event, arrive=count, expect=expect))
            case op.MbarrierExpectTx(name, transactions):
                event = self._in_order(self._strong("relaxed", Scope.CTA, Kind.SIGNAL, name))
                self.own[name].append(Operation(event, expect=transactions))
            case op.MbarrierWait(name, parity, semantics, scope):
                event = self._in_order(self._strong(semantics, scope, Kind.AWAIT, name))
                self.own[name].append(Operation(event, parity=parity))
                self.skeleton.blocking.add(event)
            case op.BulkCopy(source, target, mbarrier):
                copy = self._async(source, target, ASYNC)
                if mbarrier is None:
                    self.bulk.open.append(copy)
                else:
                    self._complete(copy, mbarrier, op.BYTES, bulk=True)
            case op.CpAsync(source, target):
                self.copies.open.append(self._async(source, target, "generic"))
            case op.CpAsyncMbarrierArrive(name):
                copies = [*self.copies.open, *(c for group in self.copies.closed for c in group)]
                issue = self._in_order(Event(Kind.NODE, self.number, self.place))
                event = self._signal(name, Scope.CTA)
                self.skeleton.fixed.extend((copy.done, event) for copy in copies)
                if self.reading.asynchronous_carries:
                    self.skeleton.fixed.append((issue, event))
                self._agent(name, Operation(event, arrive=1), issue)
            case op.StoreAsync(target, mbarrier):
                self._complete(self._async(None, target, "generic"), mbarrier, op.BYTES, bulk=False)
            case op.Wgmma(sources):
                self.wgmma.open.extend(self._async(source, None, ASYNC) for source in sources)

    def _fence(self, instruction: op.Fence | op.MbarrierInitFence | op.ProxyFence) -> Event:
        fence = Event(Kind.FENCE, self.number, self.place)
        match instruction:
            case op.Fence(semantics, scope, restrict):
                return replace(
                    fence,
                    strong=True,
                    scope=scope,
                    sc=semantics == "sc",
                    acquire=semantics != "release",
                    release=semantics != "acquire",
                    restriction=None if restrict is None else self._window(restrict),
                    through=None if restrict is None else self._window("shared::cluster"),
                )
            case op.MbarrierInitFence():
                return replace(
                    fence, strong=True, scope=Scope.CLUSTER, release=True, restriction=self.mbarriers
                )
            case op.ProxyFence(space, release):
                limit = "shared::cta" if release else space
                return replace(
                    fence,
                    proxy_fence=ProxyFence(
                        ASYNC, inward=not release, locations=None if limit is None else self._window(limit)
                    ),
                )

    def _window(self, space: str) -> frozenset[str]:
        """The locations of a state space as this thread sees it."""
        if space == "global":
            return frozenset(name for name, home in self.homes.items() if home is None)
        shared = {name: home for name, home in self.homes.items() if home is not None}
        own = space == "shared::cta"
        return frozenset(name for name, home in shared.items() if not own or home == self.place.cta)

    def _wait_node(self) -> int:
        wait = self._in_order(Event(Kind.NODE, self.number, self.place))
        self.skeleton.blocking.add(wait)
        return wait

    def _group_wait(self, copies: list[_Copy], read: bool) -> None:
        wait = self._wait_node()
        self.skeleton.fixed.extend((copy.read if read else copy.done, wait) for copy in copies)

    def _async(self, source: str | None, target: str | None, proxy: str) -> _Copy:
        """An asynchronous operation: its issue in program order, its accesses outside of it."""
        skeleton = self.skeleton
        issue = self._in_order(Event(Kind.NODE, self.number, self.place))
        nodes: list[int] = []
        for kind, name in ((Kind.READ, source), (Kind.WRITE, target)):
            if name is None:
                continue
            place = self.place
            if self.reading.copies_complete_at_target and kind is Kind.WRITE and proxy == ASYNC:
                place = Place(0, 0, self.homes[name] or place.cta)
            access = self._event(Event(kind, self.number, place, name, name, proxy), self.id)
            leave = self._event(Event(Kind.NODE, self.number, self.place), self.id)
            skeleton.exits[access] = leave
            skeleton.fixed.append((issue, access))
            if nodes:
                skeleton.fixed.append((nodes[-1], access))
            if proxy == ASYNC:
                fence = Event(Kind.FENCE, self.number, place, proxy_fence=ProxyFence(ASYNC, outward=False))
                implicit = self._event(fence, self.id)
                skeleton.fixed.append((leave, implicit))
                leave = implicit
            if self.reading.asynchronous_carries:
                skeleton.fixed.append((issue, leave))
            nodes.append(leave)
        done = nodes[-1]
        if len(nodes) > 1:
            done = self._event(Event(Kind.NODE, self.number, self.place), self.id)
            skeleton.fixed.extend((node, done) for node in nodes)
        return _Copy(issue, nodes[0], done)

    def _signal(self, name: str, scope: Scope) -> int:
        return self._event(self._strong("release", scope, Kind.SIGNAL, name), self.id)

    def _complete(self, copy: _Copy, name: str, complete: int, bulk: bool) -> None:
        event = self._signal(name, Scope.CLUSTER)
        if bulk and self.reading.copies_complete_at_target:
            place = Place(0, 0, self.homes[name] or 0)
            self.skeleton.events[event] = replace(self.skeleton.events[event], place=place)
        self.skeleton.fixed.append((copy.done, event))
        self._agent(name, Operation(event, complete=complete), copy.issue)

    def _agent(self, name: str, operation: Operation, issue: int) -> None:
        """An asynchronous operation on an mbarrier: an agent of its own, after what its issuer did."""
        self.skeleton.issue[operation.event] = issue
        self.agents[name].append([operation])
        self.skeleton.after[operation.event] = {o.event for o in self.own[name]}


def lower(program: Program, reading: Reading | None = None) -> Skeleton:
    """The events and choices of a program that `program.validate` accepts."""
    return _Lowering(program, reading or Reading()).run()


def conflicts(skeleton: Skeleton) -> Iterator[tuple[int, int]]:
    """Pairs of memory accesses of two instructions to one location, at least one of them a write."""
    events = skeleton.events
    for x, one in enumerate(events):
        if not one.memory or one.thread < 0:
            continue
        for y in range(x + 1, len(events)):
            other = events[y]
            if not other.memory or one.location != other.location or skeleton.owner[x] == skeleton.owner[y]:
                continue
            if Kind.WRITE in (one.kind, other.kind):
                yield x, y
