"""What was made faster gives the same as the plain way of doing it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.address import RANK_SHIFT, split
from ptxaudit.analysis.order.byte_counts import _UNBOUNDED, _Latest
from ptxaudit.analysis.order.explore import Limits, explore
from ptxaudit.analysis.order.knowledge import KINDS, Agent, Moment
from ptxaudit.analysis.order.memory import SharedContents
from ptxaudit.analysis.order.races import RaceFinder, _Log, missing_link
from ptxaudit.analysis.order.trace import Execution, Footprint, Step, WarpIdentity
from ptxaudit.frontends.ptx import load_ptx
from ptxaudit.ir import events as ev
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Symbol
from ptxaudit.source import Location, LocationKind, SourceText

_PLACES = st.builds(
    lambda rank, offset: rank << RANK_SHIFT | offset,
    st.integers(0, 1),
    st.one_of(st.integers(0, 40), st.integers(1016, 1040), st.integers(100_000, 100_016)),
)
_WIDTHS = st.sampled_from([1, 2, 4, 8])
_OPERATIONS = st.one_of(
    st.tuples(st.just("lanes"), st.lists(_PLACES, min_size=2, max_size=5), _WIDTHS, st.integers(0, 255)),
    st.tuples(st.just("store"), _PLACES, _WIDTHS, st.integers(0, 255)),
    st.tuples(st.just("forget"), _PLACES, st.integers(1, 64)),
    st.tuples(st.just("load"), _PLACES, _WIDTHS),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(_OPERATIONS, max_size=25))
def test_stores_that_wait_are_seen_as_if_they_had_not_waited(operations: list[tuple[Any, ...]]) -> None:
    waiting, plain = SharedContents(), SharedContents()
    for kind, place, *rest in operations:
        if kind == "lanes":
            width, first = rest
            words = np.arange(first, first + len(place), dtype=np.uint64)
            waiting.store_lanes(np.array(place, dtype=np.uint64), width, words)
            for one, word in zip(place, words.tolist(), strict=True):
                plain.store(*split(one), width, word)
        else:
            results = [getattr(one, kind)(*split(place), *rest) for one in (waiting, plain)]
            assert results[0] == results[1]
    for rank in (0, 1):
        for offset in (*range(48), *range(1010, 1048), *range(99_996, 100_024)):
            for width in (1, 4, 8):
                assert waiting.load(rank, offset, width) == plain.load(rank, offset, width)


def step(number: int, event: ev.Event, may: bool = False) -> Step:
    location = Location(LocationKind.PTX, "k.ptx", number + 1)
    instruction = Instruction(number, "op", None, (), (), (), location, "op", True)
    return Step(number, 0, 1, instruction, 0, event, may)


_COPIES = st.tuples(
    st.integers(0, 3),  # component
    st.integers(1, 6),  # index
    st.integers(0, 3),  # instruction
    st.sampled_from([0, 16, 64, 256]),
    st.booleans(),
    st.lists(st.integers(0, 6), min_size=4, max_size=4),  # what the agent knows
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_COPIES, max_size=20))
def test_rooms_of_copies_under_way_are_those_of_all_pairs(copies: list[tuple[Any, ...]]) -> None:
    latest, rooms = _Latest(), dict[tuple[int, int], int]()
    known: dict[tuple[int, int, int], tuple[int, int, int, int, bool]] = {}
    expected: dict[tuple[int, int], int] = {}

    def bound(number: int, start: int, room: int) -> None:
        expected[number, start] = min(room, expected.get((number, start), room))

    def found(bounds: list[tuple[int, int, int]]) -> None:
        for number, start, room in bounds:
            rooms[number, start] = min(room, rooms.get((number, start), room))

    for number, (component, index, instruction, start, may, time) in enumerate(copies):
        event = ev.Access(ev.AccessKind.WRITE, ev.StateSpace.SHARED, Symbol("x"), 16)
        agent = Agent(0, 1, 0, component, np.zeros((KINDS, 4), dtype=np.int32))
        moment = Moment(step(instruction, event, may), component, index, agent, index, True, None)  # type: ignore[arg-type]
        for other, other_start, other_component, other_index, other_may in known.values():
            if time[other_component] >= other_index or other_start == start or may or other_may:
                continue
            lower = (number, start) if start < other_start else (other, other_start)
            bound(*lower, abs(start - other_start))
        known[component, instruction, start] = number, start, component, index, may
        room = _UNBOUNDED if may else latest.room_beside(start, np.array(time, dtype=np.int32))
        found(latest.add(moment, number, start, room))
    found(latest.bounds())
    assert rooms == expected


_ACCESSES = st.tuples(
    st.sampled_from([ev.Proxy.GENERIC, ev.Proxy.ASYNC]),
    st.sampled_from([ev.AccessKind.READ, ev.AccessKind.WRITE]),
    st.integers(0, 3),
    st.integers(1, 4),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(_ACCESSES, max_size=12),
    st.lists(st.lists(st.integers(0, 4), min_size=4, max_size=4), min_size=KINDS, max_size=KINDS),
    st.sampled_from([("shared", 0), ("global 1*7", 0)]),
)
def test_what_is_passed_over_has_nothing_to_show(
    accesses: list[tuple[Any, ...]], clocks: list[list[int]], memory: tuple[str, int]
) -> None:
    log = _Log(16)
    footprint = Footprint(memory, np.array([0], dtype=np.int64), 16)
    agent = Agent(0, 1, 0, 0, np.array(clocks, dtype=np.int32))

    def moment(number: int, proxy: ev.Proxy, kind: ev.AccessKind, component: int, index: int) -> Moment:
        event = ev.Access(kind, ev.StateSpace.SHARED, Symbol("x"), 16, proxy=proxy)
        return Moment(step(number, event), component, index, agent, index, False, footprint)

    for number, (proxy, kind, component, index) in enumerate(accesses):
        log.add(number, moment(number, proxy, kind, component, index), 0, 16)
    later = moment(99, ev.Proxy.ASYNC, ev.AccessKind.WRITE, 0, 9)
    outside = memory[0] != "shared"
    slots = log.overlapping(0, 16, True)
    left = set(log.not_passed(agent.clocks, outside, not outside, slots).tolist())
    finder = RaceFinder(Execution((WarpIdentity(0, 0, 32),)))
    for slot in slots.tolist():
        earlier = log.moments[slot]
        finder._compare_read(slot, earlier, later, footprint)
        silent = missing_link(earlier, later) is None and slot not in finder.unfenced
        assert slot in left or silent
    agent.clocks[:] = 9
    assert not len(log.not_passed(agent.clocks, outside, not outside, slots))


FIXTURES = Path(__file__).parents[3] / "fixtures"
# Copies that come back to their buffers, with generic accesses that a proxy fence is missing behind.
FOLDERS = (
    "shared-memory-race",
    "async-read-of-generic-write",
    "async-write-over-generic-read",
    "wgmma-stage-released-early",
    "mbarrier-phase-alias",
)
KERNELS = [path for folder in FOLDERS for path in sorted((FIXTURES / "correctness" / folder).glob("*.ptx"))]


def executions(path: Path) -> list[Execution]:
    module = load_ptx(SourceText(path.name, path.read_text()))
    reports = [explore(FunctionAnalysis(one, module), Limits()) for one in module.functions]
    return [execution for report in reports for execution in report.executions]


def shown(finder: RaceFinder) -> list[dict[Any, Any]]:
    """All that a walk shows, the two steps of a race by their numbers."""
    races = [
        {
            key: (race.first.step.number, race.second.step.number, race.link, race.certain, race.release)
            for key, race in kind.items()
        }
        for kind in (finder.races, finder.unfenced)
    ]
    aliases = {key: (alias.step.number, alias.missing) for key, alias in finder.aliases.items()}
    return [*races, aliases, dict.fromkeys(finder.gaps.gaps)]


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_is_forgotten_makes_no_difference(path: Path) -> None:
    found = executions(path)
    assert found
    for execution in found:
        assert shown(RaceFinder(execution, room=1).run()) == shown(RaceFinder(execution, room=1 << 12).run())


def test_accesses_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    forget = _Log.forget

    def counted(log: _Log, slots: Any) -> None:
        kept.append(len(log.moments) - len(slots))
        forget(log, slots)

    monkeypatch.setattr(_Log, "forget", counted)
    for path in KERNELS:
        for execution in executions(path):
            RaceFinder(execution, room=1).run()
    assert sum(kept) > 100


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_rows_that_nothing_asks_for_make_no_difference(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = [shown(RaceFinder(execution).run()) for execution in executions(path)]
    monkeypatch.setattr("ptxaudit.analysis.order.clocks._is_through_async_proxy", lambda entry: True)
    assert [shown(RaceFinder(execution).run()) for execution in executions(path)] == fewer
