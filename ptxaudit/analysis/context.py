"""Everything that checks ask about one function, computed once and when first asked for."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

from ptxaudit.ir.cfg import ControlFlowGraph
from ptxaudit.ir.events import Event, UnknownEffect
from ptxaudit.ir.function import Function, Language, Module
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.launch import Launch
from ptxaudit.ir.traits import Trait, all_traits
from ptxaudit.stopwatch import STOPWATCH, Stage

E = TypeVar("E")


class FunctionAnalysis:
    """A function with its control flow and events, shared by all checks; ``launch`` is what is known of
    its launch beyond the code, if anything."""

    def __init__(self, function: Function, module: Module, launch: Launch | None = None) -> None:
        self.function = function
        self.module = module
        self.launch = launch
        self.used: set[str] = set()
        self._memo: dict[str, Any] = {}

    def memo(self, name: str, compute: Callable[[], E]) -> E:
        """The result of a further analysis, computed the first time it is asked for; ``used`` keeps its
        name."""
        self.used.add(name)
        if name not in self._memo:
            self._memo[name] = compute()
        result: E = self._memo[name]
        return result

    @contextmanager
    def asked_beside(self) -> Iterator[None]:
        """What is asked for meanwhile is not what a verdict rests on: ``used`` does not keep its names."""
        before = set(self.used)
        try:
            yield
        finally:
            self.used &= before

    def known(self, name: str) -> Any:
        """The result of a further analysis if it was asked for, else ``None``."""
        return self._memo.get(name)

    def with_events(self, changed: "Mapping[int, tuple[Event, ...]]") -> "FunctionAnalysis":
        """An analysis of the same function in which some instructions, by index, have other events."""
        other = FunctionAnalysis(self.function, self.module, self.launch)
        other.events = tuple(changed.get(index, events) for index, events in enumerate(self.events))
        return other

    @cached_property
    def graph(self) -> ControlFlowGraph:
        """Control-flow relations."""
        return ControlFlowGraph(self.function)

    @cached_property
    @STOPWATCH.stage(Stage.EVENTS)
    def events(self) -> tuple[tuple[Event, ...], ...]:
        """The events of each instruction, by instruction index."""
        # The tables of the language that is at hand, and not of the other.
        if self.function.language is Language.SASS:
            from ptxaudit.isa.sass.events import function_events as sass_events

            return sass_events(self.function)
        from ptxaudit.isa.ptx.events import events as ptx_events

        architecture = self.function.architecture
        return tuple(ptx_events(instruction, architecture) for instruction in self.function.instructions)

    @cached_property
    def traits(self) -> frozenset[Trait]:
        """What kinds of events the function has."""
        return all_traits(self.events)

    def has(self, *traits: Trait) -> bool:
        """Whether any instruction has an event with one of the traits."""
        return not self.traits.isdisjoint(traits)

    @cached_property
    def first_unknown(self) -> Instruction | None:
        """The first instruction of which nothing at all is known: it may be what any rule is about."""
        pairs = zip(self.function.instructions, self.events, strict=True)
        only_unknown = (one for one, events in pairs if events and all(map(_is_unknown, events)))
        return next(only_unknown, None)

    def may_have(self, *traits: Trait) -> bool:
        """:meth:`has`, or an instruction that the tables do not know and that may be anything."""
        return self.has(*traits) or not all(instruction.known for instruction in self.function.instructions)

    def occurrences(self, kind: type[E]) -> tuple[tuple[Instruction, E], ...]:
        """Every event of a kind with its instruction, in program order."""
        return tuple(
            (instruction, event)
            for instruction, events in zip(self.function.instructions, self.events, strict=True)
            for event in events
            if isinstance(event, kind)
        )


def _is_unknown(event: Event) -> bool:
    return isinstance(event, UnknownEffect)
