"""Events of candidate executions, and the places and scopes of threads (PTX ISA 9.0, 8.2 to 8.7)."""

from dataclasses import dataclass
from enum import Enum, IntEnum

GENERIC = "generic"


class Scope(IntEnum):
    """The scopes of PTX ISA 8.5, each including the ones before it."""

    CTA = 0
    CLUSTER = 1
    GPU = 2
    SYS = 3


@dataclass(frozen=True, slots=True)
class Place:
    """Where a thread runs; `cluster` and `cta` number within the level above."""

    gpu: int = 0
    cluster: int = 0
    cta: int = 0


def includes(scope: Scope, one: Place, other: Place) -> bool:
    """Whether `scope`, specified by a thread at `one`, includes a thread at `other`."""
    if scope is Scope.SYS:
        return True
    if one.gpu != other.gpu:
        return False
    if scope is Scope.GPU:
        return True
    if one.cluster != other.cluster:
        return False
    return scope is Scope.CLUSTER or one.cta == other.cta


class Kind(Enum):
    """What an event does.

    A `SIGNAL` and an `AWAIT` operate on a synchronisation object (an mbarrier, the cluster's barrier): they
    take the part of a strong write and of a strong read in release and acquire patterns, and which await
    observes which signal is given.  A `NODE` is a point in the order and nothing else.
    """

    READ = "read"
    WRITE = "write"
    FENCE = "fence"
    SIGNAL = "signal"
    AWAIT = "await"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class ProxyFence:
    """A fence between the generic proxy and another one.

    `outward` orders generic accesses before those of the proxy, `inward` the other way round.
    `locations` limits the fence to a state space (None: no limit).
    """

    proxy: str
    outward: bool = True
    inward: bool = True
    locations: frozenset[str] | None = None

    def covers(self, location: str) -> bool:
        """Whether accesses to the location are ordered by this fence."""
        return self.locations is None or location in self.locations


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a candidate execution.

    `thread` is -1 for the initial writes.  `location` is the physical one, `address` the generic virtual
    address (two aliases share the location, not the address).  `strong` events carry a scope.
    `restriction` holds the locations whose accesses a fence orders, `through` those by whose strong accesses
    it synchronizes (None: no limit).
    """

    kind: Kind
    thread: int
    place: Place = Place()
    location: str = ""
    address: str = ""
    proxy: str = GENERIC
    strong: bool = False
    acquire: bool = False
    release: bool = False
    sc: bool = False
    scope: Scope = Scope.SYS
    proxy_fence: ProxyFence | None = None
    alias_fence: bool = False
    restriction: frozenset[str] | None = None
    through: frozenset[str] | None = None
    value: int = 0

    @property
    def memory(self) -> bool:
        """Whether the event accesses memory."""
        return self.kind in (Kind.READ, Kind.WRITE)


def scopes_agree(one: Event, other: Event) -> bool:
    """Whether both are strong and each one's scope includes the other's thread (8.7, first clause)."""
    return (
        one.strong
        and other.strong
        and includes(one.scope, one.place, other.place)
        and includes(other.scope, other.place, one.place)
    )
