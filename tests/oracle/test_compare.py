"""The engine against the oracle on the first random programs, and what the comparison must tell apart."""

from dataclasses import replace

import pytest

from .compare import Outcome, ask_engine, compare, left_out, table
from .events import Scope
from .generate import generate
from .program import BarrierSync, BulkCopy, Load, Location, MbarrierInit, Program, Store, Thread
from .questions import races
from .render import render


@pytest.mark.parametrize("start", range(0, 200, 25))
def test_engine_agrees_with_the_oracle(start: int) -> None:
    outcomes = [compare(seed) for seed in range(start, start + 25)]
    assert [(o.seed, o.pairs) for o in outcomes if any("deadlocks" not in what for what, _ in o.pairs)] == []
    assert sum(outcome.counts["programs compared"] for outcome in outcomes) >= 15
    assert sum(outcome.counts["races: race in both"] for outcome in outcomes) > 0
    assert sum(outcome.counts["races: order in both"] for outcome in outcomes) > 0


def program(*threads: Thread) -> Program:
    return Program(threads, (Location("x"), Location("s", 0)), (Location("m", 0),))


def test_a_race_is_named_by_the_instructions_of_the_program() -> None:
    both = program(Thread(0, (Store("s"),)), Thread(0, (Load("s"),)))
    assert ask_engine(render(both)).races == races(both) == {((0, 0), (1, 0))}
    sync = BarrierSync(0, 2)
    ordered = program(Thread(0, (Store("s"), sync)), Thread(0, (sync, Load("s"))))
    assert ask_engine(render(ordered)).races == races(ordered) == set()


def test_left_out_pairs_say_why() -> None:
    init = program(Thread(0, (MbarrierInit("m", 1), Store("x"))), Thread(0, (Load("x"),)))
    rendering = render(init)
    engine = ask_engine(rendering)
    assert left_out(init, rendering, ((0, 0), (1, 0)), True, engine) == "initialisation"
    assert left_out(init, rendering, ((0, 1), (1, 0)), True, engine) == "global"
    shared = program(Thread(0, (Store("s"),)), Thread(0, (Load("s"),)))
    rendering = render(shared)
    assert left_out(shared, rendering, ((0, 0), (1, 0)), True, ask_engine(rendering)) is None


def test_a_silent_engine_would_be_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = next(s for s in range(100) if compare(s).counts["races: race in both"])
    answer = ask_engine(render(generate(seed)))
    mute = replace(answer, races=frozenset(), unknown=None, alias=False, deadlock=False)
    monkeypatch.setattr("oracle.compare.ask_engine", lambda rendering: mute)
    assert compare(seed).counts["races: MISS"] > 0


def test_the_table_names_the_seeds_of_misses() -> None:
    outcome = Outcome(17)
    outcome.add("races: MISS", ((0, 0), (1, 0)))
    assert "races: MISS: 1 programs, seeds 17" in table([outcome])


def test_generated_programs_use_what_is_compared() -> None:
    used = [i for seed in range(200) for thread in generate(seed).threads for i in thread.instructions]
    assert {BulkCopy, BarrierSync, MbarrierInit} <= {type(instruction) for instruction in used}
    assert {Scope.CTA, Scope.CLUSTER} <= {getattr(instruction, "scope", None) for instruction in used}
