"""Executions walked again with less synchronisation: what stays ordered, and which runs are long enough."""

from pathlib import Path

import pytest

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order import lagged
from ptxaudit.analysis.order.explore import OrderReport, order_of
from ptxaudit.analysis.order.rounds import Found, find_dispensable, lacking, repeated
from ptxaudit.analysis.order.trace import PhaseComplete, Step
from ptxaudit.analysis.order.whatif import deeper, dispensable, met_together, shows_nothing_new, without
from ptxaudit.frontends.ptx import load_ptx
from ptxaudit.ir import events as ev
from ptxaudit.source import SourceText

FIXTURES = Path(__file__).parents[3] / "fixtures" / "performance"
REDUNDANT, DEPTH = FIXTURES / "redundant-synchronization", FIXTURES / "wait-depth-too-conservative"


def explored(path: Path) -> tuple[FunctionAnalysis, OrderReport]:
    module = load_ptx(SourceText(str(path), path.read_text()))
    analysis = FunctionAnalysis(module.functions[0], module)
    return analysis, order_of(analysis)


def barriers(analysis: FunctionAnalysis) -> list[int]:
    return [instruction.index for instruction, _ in analysis.occurrences(ev.CtaBarrier)]


def barrier_phases(report: OrderReport, removed: frozenset[int]) -> list[int]:
    weakened = without(removed)(report.executions[0])
    return [entry.phase for entry in weakened.entries if isinstance(entry, PhaseComplete)]


def test_phases_that_are_left_are_numbered_anew() -> None:
    analysis, report = explored(REDUNDANT / "needed_twice_in_loop.ptx")
    first, second = barriers(analysis)
    whole = barrier_phases(report, frozenset())
    half = barrier_phases(report, frozenset((second,)))
    assert len(whole) >= 6
    assert whole == list(range(len(whole)))
    assert half == list(range(len(whole) // 2))
    left = without(frozenset((second,)))(report.executions[0]).entries
    phases = {entry.phase for entry in left if isinstance(entry, Step) and entry.instruction.index == first}
    assert phases == set(half)


def test_what_goes_is_found_together() -> None:
    analysis, report = explored(REDUNDANT / "twice_in_loop.ptx")
    units = [frozenset((index,)) for index in barriers(analysis)]
    answer = dispensable(report, units, lambda some: without(frozenset[int]().union(*some)))
    assert answer.untried == 0
    assert len(answer.units) == 1  # either of the two at the end of the loop, not both, and not the first
    assert answer.units[0] in units[1:]
    assert shows_nothing_new(report, without(units[2])(report.executions[0]))
    assert not shows_nothing_new(report, without(units[1] | units[2])(report.executions[0]))
    assert not shows_nothing_new(report, without(units[0])(report.executions[0]))


def test_barriers_of_two_roles_go_together() -> None:
    analysis, report = explored(REDUNDANT / "roles_meet.ptx")
    indices = barriers(analysis)
    units = met_together(report, frozenset(indices))
    assert sorted(map(sorted, units)) == [[indices[n], indices[n + 3]] for n in range(3)]


def without_first_barrier(source: str) -> tuple[bool, Found[frozenset[int]]]:
    """Whether accesses of a ring do not come round, and whether its barrier can be done without."""
    module = load_ptx(SourceText("ring.ptx", source))
    analysis = FunctionAnalysis(module.functions[0], module)
    report = order_of(analysis)
    unit = frozenset(barriers(analysis)[:1])
    (loop,) = analysis.graph.loops
    events = analysis.occurrences(ev.Access)
    accesses = [instruction.index for instruction, event in events if event.space is ev.StateSpace.SHARED]
    guarded = repeated(analysis, accesses, [loop])
    found = find_dispensable(report, [unit], lambda some: without(some[0]), lambda _: guarded)
    return lacking(report, guarded), found


def test_a_ring_that_comes_round_tells_what_it_needs() -> None:
    ring = (REDUNDANT / "ring_of_eight_read_late.ptx").read_text()
    assert without_first_barrier(ring) == (False, Found(()))


def test_a_run_too_short_for_a_ring_does_not_tell() -> None:
    ring = (REDUNDANT / "ring_of_eight_read_late.ptx").read_text()
    longer = ring.replace(", 8;", ", 64;").replace("tile[8192]", "tile[32768]")
    assert without_first_barrier(longer) == (True, Found((), unclear=1))


@pytest.mark.parametrize(
    ("name", "ordered"), [("ring_current_stage", True), ("dsl_ring", True), ("ring_single_stage", False)]
)
def test_a_stage_released_one_group_later(name: str, ordered: bool) -> None:
    analysis, report = explored(DEPTH / f"{name}.ptx")
    wait = next(i for i, event in analysis.occurrences(ev.GroupWait) if event.kind is ev.GroupKind.WGMMA)
    block = analysis.function.block_of(wait.index).id
    loop = analysis.graph.innermost_loop(block)
    assert loop is not None
    releases = frozenset(
        instruction.index
        for instruction, event in analysis.occurrences(ev.MbarrierArrive)
        if event.expect_bytes is None and analysis.function.block_of(instruction.index).id in loop.blocks
    )
    assert len(releases) == 1
    assert not shows_nothing_new(report, deeper({wait.index: 1}, loop)(report.executions[0]))
    assert lagged.is_ordered(analysis, report, [lagged.Lag(loop, {wait.index: 1}, releases)]) is ordered
