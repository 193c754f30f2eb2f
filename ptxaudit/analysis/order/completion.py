"""Asynchronous operations: which components of the clocks stand for them, and how far a wait finds them done.

Property: operations that complete in order share a component, the *n*-th of them (or those of its *n*-th
commit group, or of its *n*-th mbarrier phase) having index *n*. Direction: forward, beside the walk of
``clocks``. Join: none. Known limit: operations whose completion nothing can observe (``red.async`` without an
mbarrier) are never done.
"""

from collections.abc import Hashable, Iterable, Sequence

from ptxaudit.analysis.order.knowledge import Agent
from ptxaudit.analysis.order.trace import Step, WarpIdentity
from ptxaudit.ir import events as ev

# A component and an index in it.
Place = tuple[int, int]
_AWAITED = {
    ev.TensorAction.WAIT_LOAD: ev.AccessKind.READ,
    ev.TensorAction.WAIT_STORE: ev.AccessKind.WRITE,
}


class Completions:
    """The components of one walk, with the asynchronous operations that were issued so far."""

    def __init__(self, warps: Sequence[WarpIdentity]) -> None:
        self._warps = warps
        self._components: dict[Hashable, int] = {}
        # Operations issued, by component: those that are counted one by one.
        self._issued: dict[int, int] = {}
        self._open_groups: dict[tuple[int, ev.GroupKind], int] = {}
        # How many cp.async had been issued at each commit, by component.
        self._copy_groups: dict[int, list[int]] = {}
        self._tensor_accesses: dict[tuple[int, ev.AccessKind], set[int]] = {}

    def __len__(self) -> int:
        return len(self._components)

    def component(self, key: Hashable) -> int:
        """The entry of a component in every clock."""
        return self._components.setdefault(key, len(self._components))

    def known(self, key: Hashable) -> int | None:
        """The entry of a component, if anything has come up that it stands for."""
        return self._components.get(key)

    def place(self, step: Step, agent: Agent, event: ev.Access) -> Place:
        """What stands for the completion of an asynchronous access that is issued now."""
        operation = step.operation
        match event.completion:
            case ev.Completion.MBARRIER if operation is not None and operation.key is not None:
                assert operation.phase is not None
                return self.component(("copy", agent.component, operation.key)), operation.phase + 1
            case ev.Completion.BULK_GROUP:
                kind = "bulk read" if event.reads else "bulk"
                return self.component((kind, agent.component)), self.open_group(agent, ev.GroupKind.BULK)
            case ev.Completion.ASYNC_GROUP:
                return self._issue(("cp.async", agent.component))
            case ev.Completion.WGMMA_GROUP:
                component = self.component(("wgmma", self._warpgroup(agent)))
                return component, self.open_group(agent, ev.GroupKind.WGMMA)
            case ev.Completion.TCGEN05_COMMIT:
                return self._issue(("tcgen05", agent.component))
            case ev.Completion.TCGEN05_WAIT:
                place = self._issue(("tmem", agent.warp, step.instruction.index))
                self._tensor_accesses.setdefault((agent.warp, event.kind), set()).add(place[0])
                return place
            case _:
                return self.component(("never", agent.component)), 1

    def _issue(self, key: Hashable) -> Place:
        component = self.component(key)
        self._issued[component] = self._issued.get(component, 0) + 1
        return component, self._issued[component]

    def _last(self, key: Hashable) -> Place:
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
        match wait.kind:
            case ev.GroupKind.CP_ASYNC:
                return [self._awaited_copies(agent, wait.depth)]
            case ev.GroupKind.WGMMA:
                return [(self.component(("wgmma", self._warpgroup(agent))), done)]
            case ev.GroupKind.BULK:
                names = ("bulk read",) if wait.read_only else ("bulk read", "bulk")
                return [(self.component((name, agent.component)), done) for name in names]

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
        return [(component, self._issued[component]) for component in components if component is not None]
