"""Asynchronous operations: which components of the clocks stand for them, and how far a wait finds them done.

Property: operations that complete in order share a component, the *n*-th of them (or those of its *n*-th
commit group, or of its *n*-th mbarrier phase) having index *n*. Direction: forward, beside the walk of
``clocks``. Join: none. Known limit: operations whose completion nothing can observe (``red.async`` without an
mbarrier) are never done.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence

from ptxaudit.analysis.order.knowledge import Agent
from ptxaudit.analysis.order.trace import Step, WarpIdentity
from ptxaudit.ir import events as ev

# A component and an index in it.
Place = tuple[int, int]
# What a component stands for: the kind of operation, whose, and what else they have in common.
Key = tuple[Hashable, ...]
_AWAITED = {
    ev.TensorAction.WAIT_LOAD: ev.AccessKind.READ,
    ev.TensorAction.WAIT_STORE: ev.AccessKind.WRITE,
}


class Completions:
    """The components of one walk, with the asynchronous operations that were issued so far."""

    def __init__(self, warps: Sequence[WarpIdentity]) -> None:
        self._warps = warps
        self._components: dict[Key, int] = {}
        # Operations issued, by component: those that are counted one by one.
        self._issued: dict[int, int] = {}
        self._open_groups: dict[tuple[int, ev.GroupKind], int] = {}
        # How many cp.async had been issued at each commit, by component.
        self._copy_groups: dict[int, list[int]] = {}
        self._tensor_accesses: dict[tuple[int, ev.AccessKind], set[int]] = {}

    def __len__(self) -> int:
        return len(self._components)

    def foresee(self, keys: Iterable[Key]) -> None:
        """Give components their entries; each has to have one before it is asked for."""
        for key in keys:
            self._components.setdefault(key, len(self._components))

    def component(self, key: Key) -> int:
        """The entry of a component in every clock."""
        return self._components[key]

    def known(self, key: Key) -> int | None:
        """The entry of a component, ``None`` where nothing in the execution needs it."""
        return self._components.get(key)

    def place(self, step: Step, agent: Agent) -> Place:
        """What stands for the completion of an asynchronous access that is issued now."""
        key = self._key(step, agent)
        match key[0]:
            case "copy":
                assert step.operation is not None and step.operation.phase is not None
                return self.component(key), step.operation.phase + 1
            case "bulk read" | "bulk":
                return self.component(key), self.open_group(agent, ev.GroupKind.BULK)
            case "wgmma":
                return self.component(key), self.open_group(agent, ev.GroupKind.WGMMA)
            case "tmem":
                assert isinstance(step.event, ev.Access)
                place = self._issue(key)
                self._tensor_accesses.setdefault((agent.warp, step.event.kind), set()).add(place[0])
                return place
            case "never":
                return self.component(key), 1
            case _:
                return self._issue(key)

    def keys(self, step: Step, agent: Agent) -> Iterable[Key]:
        """The components that a step of an agent may ask for, but for the agent's own."""
        event = step.event
        match event:
            case ev.Access():
                return self._keys_of_access(step, event, agent)
            case ev.TensorOperation():
                return (("collective", agent.warp),)
            case ev.MbarrierArrive(source=ev.ArriveSource.CP_ASYNC):
                return ("cp.async", agent.component), ("arrival", agent.component, step.key)
            case ev.MbarrierArrive(source=ev.ArriveSource.TCGEN05_COMMIT):
                return ("tcgen05", agent.component), ("arrival", agent.component, step.key)
            case ev.GroupCommit() | ev.GroupWait():
                return self._keys_of_groups(event.kind, agent)
            case _:
                return ()

    def _keys_of_access(self, step: Step, event: ev.Access, agent: Agent) -> Iterator[Key]:
        if is_collective(step):
            yield "collective", agent.warp
        if event.completion is ev.Completion.BULK_GROUP:
            yield from self._keys_of_groups(ev.GroupKind.BULK, agent)  # it may be asked what was read, too
        elif event.completion is not ev.Completion.SYNCHRONOUS:
            yield self._key(step, agent)

    def _key(self, step: Step, agent: Agent) -> Key:
        event = step.event
        assert isinstance(event, ev.Access)
        match event.completion:
            case ev.Completion.MBARRIER if step.operation is not None and step.operation.key is not None:
                return "copy", agent.component, step.operation.key
            case ev.Completion.BULK_GROUP:
                return "bulk read" if event.reads else "bulk", agent.component
            case ev.Completion.ASYNC_GROUP:
                return "cp.async", agent.component
            case ev.Completion.WGMMA_GROUP:
                return "wgmma", self._warpgroup(agent)
            case ev.Completion.TCGEN05_COMMIT:
                return "tcgen05", agent.component
            case ev.Completion.TCGEN05_WAIT:
                return "tmem", agent.warp, step.instruction.index
            case _:
                return "never", agent.component

    def _keys_of_groups(self, kind: ev.GroupKind, agent: Agent) -> tuple[Key, ...]:
        match kind:
            case ev.GroupKind.CP_ASYNC:
                return (("cp.async", agent.component),)
            case ev.GroupKind.WGMMA:
                return (("wgmma", self._warpgroup(agent)),)
            case ev.GroupKind.BULK:
                return ("bulk read", agent.component), ("bulk", agent.component)

    def _issue(self, key: Key) -> Place:
        component = self.component(key)
        self._issued[component] = self._issued.get(component, 0) + 1
        return component, self._issued[component]

    def _last(self, key: Key) -> Place:
        component = self.component(key)
        return component, self._issued.get(component, 0)

    # Commit groups -----------------------------------------------------------------------------------

    def open_group(self, agent: Agent, kind: ev.GroupKind) -> int:
        """The number of the commit group that the agent's next operation of this kind belongs to."""
        return self._open_groups.get((agent.component, kind), 1)

    def commit(self, agent: Agent, kind: ev.GroupKind) -> None:
        """Close the open group of a kind."""
        if kind is ev.GroupKind.CP_ASYNC:
            component, issued = self.copies(agent)
            self._copy_groups.setdefault(component, []).append(issued)
        self._open_groups[agent.component, kind] = self.open_group(agent, kind) + 1

    def awaited_groups(self, wait: ev.GroupWait, agent: Agent) -> list[Place]:
        """What a wait for commit groups has seen done."""
        committed = self.open_group(agent, wait.kind) - 1
        done = committed + 1 if wait.depth is None else committed - wait.depth
        if wait.kind is ev.GroupKind.CP_ASYNC:
            return [self._awaited_copies(agent, wait.depth)]
        keys = self._keys_of_groups(wait.kind, agent)
        return [(self.component(key), done) for key in (keys[:1] if wait.read_only else keys)]

    def copies(self, agent: Agent) -> Place:
        """The last cp.async that an agent has issued."""
        return self._last(("cp.async", agent.component))

    def _awaited_copies(self, agent: Agent, depth: int | None) -> Place:
        """The cp.async that a wait has seen done: the committed ones, or (``wait_all``) all."""
        component, issued = self.copies(agent)
        if depth is None:
            return component, issued
        groups = self._copy_groups.get(component, [])
        return component, groups[-1 - depth] if len(groups) > depth else 0

    def _warpgroup(self, agent: Agent) -> int:
        """The first warp of a warp's warpgroup, which stands for it."""
        return agent.warp - self._warps[agent.warp].warp % 4

    # Tensor memory -----------------------------------------------------------------------------------

    def tensor_operations(self, agent: Agent) -> Place:
        """The last tcgen05 operation that an agent has issued, of those that ``tcgen05.commit`` tracks."""
        return self._last(("tcgen05", agent.component))

    def awaited_accesses(self, action: ev.TensorAction, agent: Agent) -> list[Place]:
        """What ``tcgen05.wait::ld`` or ``::st`` has seen done; nothing for other operations."""
        kind = _AWAITED.get(action)
        if kind is None:
            return []
        components = self._tensor_accesses.get((agent.warp, kind), ())
        return [(component, self._issued[component]) for component in components]

    def loads(self, warp: int, instructions: Iterable[int]) -> list[Place]:
        """A warp's last tensor-memory loads by some instructions, of those that it has executed."""
        components = (self.known(("tmem", warp, instruction)) for instruction in instructions)
        return [(known, self._issued.get(known, 0)) for known in components if known is not None]


# SASS instructions that the lanes of a warp execute as one; PTX says so by ``.aligned``.
_COLLECTIVE_OPCODES = ("LDSM", "STSM", "LDTM", "STTM", "UTCATOMSWS")


def is_collective(step: Step) -> bool:
    """Whether the lanes of a warp make an access together."""
    opcode = step.instruction.opcode
    return ".aligned" in opcode or opcode.startswith(_COLLECTIVE_OPCODES)
