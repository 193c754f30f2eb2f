"""Seeded random programs: a few hand-overs between threads, then damaged.

Programs of independent random instructions are nearly always racy or stuck.  These start from hand-overs
that are right more often than not (a payload, a signal, an access on the other side; flags, CTA and cluster
barriers, mbarriers, asynchronous copies) and then lose or swap instructions and get other scopes.
"""

import random
from dataclasses import replace

from .events import Scope
from .program import (
    BYTES,
    Atomic,
    AwaitFlag,
    BarrierArrive,
    BarrierSync,
    BulkCommit,
    BulkCopy,
    BulkWait,
    ClusterArrive,
    ClusterWait,
    CpAsync,
    CpAsyncCommit,
    CpAsyncMbarrierArrive,
    CpAsyncWait,
    Fence,
    Instruction,
    Load,
    Location,
    MbarrierArrive,
    MbarrierExpectTx,
    MbarrierInit,
    MbarrierInitFence,
    MbarrierWait,
    Program,
    ProgramError,
    ProxyFence,
    Store,
    StoreAsync,
    Thread,
    validate,
)

LONGEST = 18  # instructions of all threads; the oracle enumerates all executions


def generate(seed: int) -> Program:
    """The random program of a seed; the same for the same seed and version."""
    rng = random.Random(seed)
    while True:
        program = _Generator(rng).run()
        if sum(len(thread.instructions) for thread in program.threads) > LONGEST:
            continue
        try:
            validate(program)
        except ProgramError:
            continue
        return program


class _Generator:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        number = rng.choice((2, 2, 2, 3))
        self.homes = [0] * number
        if rng.random() < 0.4:
            self.homes = [0, *(rng.choice((0, 1)) for _ in range(number - 2)), 1]
        self.clustered = 1 in self.homes
        self.code: list[list[Instruction]] = [[] for _ in self.homes]
        self.locations = [Location("x"), Location("y"), Location("s", 0), Location("t", 0)]
        if self.clustered:
            self.locations.append(Location("u", 1))
        self.flags: list[Location] = []
        self.phases: dict[int, int] = {}
        self.identifier = 1

    def run(self) -> Program:
        rng = self.rng
        for _ in range(rng.choice((1, 1, 2, 2, 3))):
            source, target = rng.sample(range(len(self.homes)), 2)
            self._episode(source, target)
        self._prologue()
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            self._damage()
        if rng.random() < 0.3:
            code = rng.choice(self.code)
            access = rng.choice((Load, Store))(rng.choice(self.locations).name)
            code.insert(rng.randint(0, len(code)), access)
        threads = tuple(Thread(home, tuple(code)) for home, code in zip(self.homes, self.code, strict=True))
        mbarriers = tuple(Location(f"m{home}", home) for home in sorted(self.phases))
        return Program(threads, (*self.locations, *self.flags), mbarriers)

    def _scope(self, source: int, target: int) -> Scope:
        """A scope that is wide enough more often than not."""
        near = self.homes[source] == self.homes[target]
        right = Scope.CTA if near else Scope.CLUSTER
        return self.rng.choice((right, right, right, Scope.GPU, Scope.CTA))

    def _episode(self, source: int, target: int) -> None:
        """One hand-over from a thread to another."""
        home = self.homes[target]
        own = [place.name for place in self.locations if place.cta == home]
        near = self.homes[source] == home
        kind = self.rng.choice(("generic", "generic", "generic", "out", "in", "in", "cp.async", "st.async"))
        if kind == "in":
            self._copy_in(source, target, self.rng.choice(own))
        elif kind == "cp.async" and near:
            self._cp_async(source, target, self.rng.choice(own))
        elif kind == "st.async" and not near:
            self._store_async(source, target, self.rng.choice(own))
        elif kind == "out" and near:
            self._copy_out(source, target, self.rng.choice(own))
        else:
            name = self.rng.choice(self.locations).name
            first, then = self.rng.choice(((Store, Load), (Store, Store), (Load, Store), (Store, Load)))
            self.code[source].append(first(name))
            self._signal(source, target)
            self.code[target].append(then(name))

    def _signal(self, source: int, target: int) -> None:
        near = self.homes[source] == self.homes[target]
        kinds = ["flag", "flag", "fences", "atomic", "mbarrier", "mbarrier"]
        kinds += ["sync", "arrive", "cta"] if near else ["cluster", "cluster"]
        kind = self.rng.choice(kinds)
        scope = self._scope(source, target)
        sends, receives = self.code[source], self.code[target]
        if kind in ("flag", "fences", "atomic"):
            self._flag(kind, scope, source, target)
        elif kind == "mbarrier":
            name, parity = self._phase(self.homes[target])
            scope = min(scope, Scope.CLUSTER)
            relaxed = self.rng.random() < 0.3
            sends.append(MbarrierArrive(name, scope=scope))
            receives.append(MbarrierWait(name, parity, "relaxed" if relaxed else "acquire", scope))
            if relaxed:
                limit = self.rng.choice((None, "shared::cluster"))
                receives.append(Fence("acquire", Scope.CLUSTER, limit))
        elif kind == "cluster":
            self._cluster_barrier()
        elif kind == "cta":
            self._cta_barrier(self.homes[source])
        else:
            aligned = self.rng.random() < 0.5
            send = BarrierSync if kind == "sync" else BarrierArrive
            sends.append(send(self.identifier, 2, aligned))
            receives.append(BarrierSync(self.identifier, 2, aligned))
            self.identifier += self.rng.choice((0, 1, 1))

    def _flag(self, kind: str, scope: Scope, source: int, target: int) -> None:
        home = self.rng.choice((None, None, self.homes[target]))
        flag = Location(f"f{len(self.flags)}", home)
        self.flags.append(flag)
        sends, receives = self.code[source], self.code[target]
        if kind == "flag":
            sends.append(Store(flag.name, "release", scope))
            receives.append(AwaitFlag(flag.name, 1, "acquire", self._scope(target, source)))
        elif kind == "atomic":
            sends.append(Atomic(flag.name, self.rng.choice(("release", "acq_rel", "relaxed")), scope))
            receives.append(AwaitFlag(flag.name, 1, "acquire", scope))
        else:
            fences = [Fence(self.rng.choice(("acq_rel", "acq_rel", "sc")), self._scope(source, target))] * 2
            sends.extend((fences[0], Store(flag.name, "relaxed", scope)))
            receives.extend((AwaitFlag(flag.name, 1, "relaxed", scope), fences[1]))

    def _phase(self, home: int) -> tuple[str, int]:
        """The CTA's mbarrier and the parity of its next phase."""
        phase = self.phases.get(home, 0)
        self.phases[home] = phase + 1
        return f"m{home}", phase % 2

    def _cluster_barrier(self) -> None:
        semantics = self.rng.choice(("release", "release", "relaxed"))
        for code in self.code:
            code.extend((ClusterArrive(semantics), ClusterWait()))

    def _cta_barrier(self, home: int) -> None:
        for thread, code in enumerate(self.code):
            if self.homes[thread] == home:
                code.append(BarrierSync(0, self.homes.count(home)))

    def _copy_in(self, source: int, target: int, name: str) -> None:
        mbarrier, parity = self._phase(self.homes[target])
        sends = self.code[source]
        near = self.homes[source] == self.homes[target]
        sent = self.code[source if near else target]
        if near and self.rng.random() < 0.3:
            sent.extend((MbarrierExpectTx(mbarrier), MbarrierArrive(mbarrier)))
        else:
            sent.append(MbarrierArrive(mbarrier, expect_tx=BYTES))
        sends.append(BulkCopy(self.rng.choice(("x", "y")), name, mbarrier))
        self.code[target].extend((MbarrierWait(mbarrier, parity), self.rng.choice((Load, Store))(name)))

    def _store_async(self, source: int, target: int, name: str) -> None:
        mbarrier, parity = self._phase(self.homes[target])
        self.code[target].append(MbarrierArrive(mbarrier, expect_tx=BYTES))
        self.code[source].append(StoreAsync(name, mbarrier))
        scope = self.rng.choice((Scope.CLUSTER, Scope.CLUSTER, Scope.CTA))
        self.code[target].extend((MbarrierWait(mbarrier, parity, scope=scope), Load(name)))

    def _cp_async(self, source: int, target: int, name: str) -> None:
        sends = self.code[source]
        sends.append(CpAsync(self.rng.choice(("x", "y")), name))
        if self.rng.random() < 0.5:
            mbarrier, parity = self._phase(self.homes[target])
            sends.append(CpAsyncMbarrierArrive(mbarrier))
            self.code[target].append(MbarrierWait(mbarrier, parity))
        else:
            sends.extend((CpAsyncCommit(), CpAsyncWait(self.rng.choice((0, 0, 1)))))
            self._signal(source, target)
        self.code[target].append(Load(name))

    def _copy_out(self, source: int, target: int, name: str) -> None:
        fence = self.rng.choice((ProxyFence(), ProxyFence("shared::cta"), ProxyFence(release=True)))
        self.code[source].extend((Store(name), fence))
        self._signal(source, target)
        wait = BulkWait(self.rng.choice((0, 0, 1)), self.rng.random() < 0.5)
        self.code[target].extend((BulkCopy(name, self.rng.choice(("x", "y"))), BulkCommit(), wait))
        if self.rng.random() < 0.5:
            self._signal(target, source)
            self.code[source].append(Store(name))

    def _prologue(self) -> None:
        """Initialise the mbarriers and publish that, sometimes not quite."""
        if not self.phases:
            return
        rng = self.rng
        bodies, self.code = self.code, [[] for _ in self.homes]
        for home in self.phases:
            own = [thread for thread, place in enumerate(self.homes) if place == home]
            self.code[own[0]].append(MbarrierInit(f"m{home}", 1))
        if self.clustered:
            relaxed = rng.random() < 0.5
            for code in self.code:
                if relaxed and code and rng.random() < 0.8:
                    code.append(MbarrierInitFence())
                code.extend((ClusterArrive("relaxed" if relaxed else "release"), ClusterWait()))
        else:
            self._cta_barrier(0)
        self.code = [start + body for start, body in zip(self.code, bodies, strict=True)]

    def _damage(self) -> None:
        """Take one instruction away, swap it with the next, or change its scope or parity."""
        rng = self.rng
        code = rng.choice(self.code)
        if not code:
            return
        position = rng.randrange(len(code))
        instruction = code[position]
        match rng.choice(("drop", "swap", "scope", "parity")):
            case "drop":
                del code[position]
            case "swap" if position + 1 < len(code):
                code[position], code[position + 1] = code[position + 1], code[position]
            case "scope" if isinstance(instruction, Store | AwaitFlag | Atomic | Fence):
                code[position] = replace(instruction, scope=rng.choice(list(Scope)))
            case "scope" if isinstance(instruction, MbarrierArrive | MbarrierWait):
                code[position] = replace(instruction, scope=rng.choice((Scope.CTA, Scope.CLUSTER)))
            case "parity" if isinstance(instruction, MbarrierWait):
                code[position] = replace(instruction, parity=1 - instruction.parity)
