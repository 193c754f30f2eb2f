"""Whether a ring stays ordered when a stage is released one iteration later and a group is kept in flight.

A loop that waits for its wgmma group and then releases the stage of this very group keeps nothing in flight.
Its cheaper form waits for all groups but the newest and releases the stage of the group before; behind the
loop it does both for the last one. That is another program, with other schedules: it is executed anew.

Property: the changed kernel is *ordered* when each explored run of the kernel, made again with the change,
comes to its end and shows no race, phase alias, gap or missing fence that the kernel itself does not show.
Direction and join are those of ``clocks``. Known limits: those of the engine; a run whose undecided
conditions come up in another order than before takes them otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.effects_mbarrier import arrive_at
from ptxaudit.analysis.order.executing import Executing, Progress
from ptxaudit.analysis.order.explore import OrderReport, Run
from ptxaudit.analysis.order.fragment import Fragment, lane_bits
from ptxaudit.analysis.order.machine import Machine
from ptxaudit.analysis.order.program import Program, compile_program
from ptxaudit.analysis.order.trace import BarrierKey
from ptxaudit.analysis.order.whatif import shows_nothing_new
from ptxaudit.ir import events as ev
from ptxaudit.ir.cfg import Loop

# Operations of all runs together; more are not executed again for one question.
MOST_OPERATIONS = 150_000


@dataclass(frozen=True, slots=True, eq=False)
class Lag:
    """The change: ``depths`` of the waits of ``loop`` by instruction index, the arrivals that come later."""

    loop: Loop
    depths: Mapping[int, int]
    arrivals: frozenset[int]


def can_afford(report: OrderReport) -> bool:
    """Whether the explored runs are short enough to be made again."""
    return sum(execution.operations for execution in report.executions) <= MOST_OPERATIONS


def is_ordered(analysis: FunctionAnalysis, report: OrderReport, lags: Sequence[Lag]) -> bool:
    """Whether the changed kernel is ordered in every explored run; the shortest ones are made first."""
    program = compile_program(analysis)
    lengths = [execution.operations for execution in report.executions]
    for _, run in sorted(zip(lengths, report.runs, strict=True), key=lambda pair: pair[0]):
        execution = LaggedMachine(program, run, lags).run()
        if not execution.complete or not shows_nothing_new(report, execution):
            return False
    return True


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """An arrival that is held back until the wait for the group after its own."""

    here: Executing
    event: ev.MbarrierArrive
    keys: list[tuple[BarrierKey, int]]
    lag: Lag


class LaggedMachine(Machine):
    """Executes a kernel in which the arrivals of a loop come one iteration later."""

    def __init__(self, program: Program, run: Run, lags: Sequence[Lag]) -> None:
        super().__init__(program, run.shape, run.bounds, run.forced, run.last_first, run.sample)
        self._lags = lags
        self._held: list[_Held] = []
        self._waited: dict[tuple[int, int], tuple[Executing, ev.GroupWait]] = {}

    def apply(self, here: Executing, event: ev.Event) -> Progress:
        """As ever, but for the waits and arrivals that are changed."""
        index = here.operation.instruction.index
        lag = next((lag for lag in self._lags if index in lag.depths or index in lag.arrivals), None)
        if lag is None:
            return super().apply(here, event)
        if isinstance(event, ev.GroupWait):
            progress = super().apply(here, replace(event, depth=lag.depths[index]))
            if progress is Progress.CONTINUE:
                self._waited[here.fragment.warp, index] = (here, event)
                self._release(here.fragment, lag)
            return progress
        keys = here.keys(event.address) if isinstance(event, ev.MbarrierArrive) else None
        if keys is None:
            return super().apply(here, event)
        assert isinstance(event, ev.MbarrierArrive)
        reached = here.in_every_cta(event, keys) if event.multicast else keys
        self._held.append(_Held(here, event, reached, lag))
        return Progress.CONTINUE

    def _release(self, fragment: Fragment, lag: Lag) -> None:
        """The arrivals that the fragment's lanes have held back since the wait before."""
        others = ~lane_bits(fragment.mask)
        held = [
            one
            for one in self._held
            if one.lag is lag
            and one.here.fragment.warp == fragment.warp
            and not lane_bits(one.here.active) & others
        ]
        for one in held:
            self._held.remove(one)
            arrive_at(replace(one.here, fragment=fragment), one.event, one.keys)

    def _enter(self, fragment: Fragment, block: int) -> bool:
        for lag in self._lags:
            if fragment.block in lag.loop.blocks and block not in lag.loop.blocks:
                self._drain(fragment, lag)
        return super()._enter(fragment, block)

    def _drain(self, fragment: Fragment, lag: Lag) -> None:
        """Behind the loop: wait for all groups, then release the last stage."""
        for place in [one for one in self._waited if one[0] == fragment.warp and one[1] in lag.depths]:
            here, wait = self._waited.pop(place)
            replace(here, fragment=fragment, active=fragment.mask).step(replace(wait, depth=0))
        self._release(fragment, lag)
