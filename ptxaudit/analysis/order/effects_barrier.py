"""What CTA barriers, cluster barriers and waits of a warpgroup do to the state of an execution."""

from typing import TYPE_CHECKING

from ptxaudit.analysis.order.barriers import NOT_ARRIVED, CtaBarrierState
from ptxaudit.analysis.order.executing import Executing, Progress
from ptxaudit.analysis.order.trace import BarrierKey
from ptxaudit.ir import events as ev
from ptxaudit.ir.values import Value

if TYPE_CHECKING:
    from ptxaudit.analysis.order.machine import Machine


def warpgroup_wait(here: Executing, event: ev.GroupWait) -> Progress:
    """``wgmma.wait_group``: an operation is the whole warpgroup's, so all its warps have committed it."""
    machine, warp = here.machine, here.fragment.warp
    key: BarrierKey = ("wgmma", here.cta, warp)
    needed = machine.wgmma_commits[warp] - (event.depth or 0)
    if needed > 0 and machine.completed_phases(key) < needed:
        machine.wait_for(here.fragment, key, needed - 1)
        return Progress.WAIT
    here.step(event)
    return Progress.CONTINUE


def cta_barrier(here: Executing, event: ev.CtaBarrier) -> Progress:
    """``barrier.cta``: an arrival, after which a ``sync`` waits for the others."""
    machine = here.machine
    number = here.common(event.barrier)
    threads: Value | None = None if event.threads is None else here.common(event.threads)
    if not isinstance(number, int) or not (threads is None or isinstance(threads, int)):
        here.step(event).unresolved = "the barrier's id or thread count"
        return Progress.CONTINUE
    key = ("bar", here.cta, number)
    state = machine.cta_barriers.setdefault(key, CtaBarrierState())
    step = here.step(event)
    step.key, step.phase, step.count = key, state.generation, here.lane_count
    if here.may:
        step.unresolved = "which lanes execute the barrier"
    step.threads = state.expected = threads
    state.arrived += step.count
    generation = state.generation
    _finish_cta_barrier(machine, key)
    if event.action is ev.BarrierAction.ARRIVE:
        return Progress.CONTINUE
    here.fragment.position += 1
    machine.wait_for(here.fragment, key, generation)
    return Progress.WAIT


def _finish_cta_barrier(machine: "Machine", key: BarrierKey) -> None:
    state = machine.cta_barriers[key]
    expected = state.expected
    if expected is None:
        expected = machine.shape.threads - machine.exited[key[1]]
    if state.arrived and state.arrived >= expected:
        machine.phase_completed(key, state.generation)
        state.generation += 1
        state.arrived -= expected


def cluster_barrier(here: Executing, event: ev.ClusterBarrier) -> Progress:
    """``barrier.cluster``: an arrival, or the wait for the generation that the lanes arrived in.

    A wait without an arrival since the last one waits for a generation that lacks its own arrival.
    """
    machine = here.machine
    arrivals = machine.cluster_arrivals[here.fragment.warp]
    key: BarrierKey = ("cluster", 0, 0)
    state = machine.cluster_barrier
    if event.action is ev.BarrierAction.ARRIVE:
        step = here.step(event)
        step.key, step.phase, step.count = key, state.generation, here.lane_count
        arrivals[here.active] = state.generation
        state.arrived += step.count
        _finish_cluster_barrier(machine)
        return Progress.CONTINUE
    arrived = arrivals[here.active]
    generation = state.generation if (arrived == NOT_ARRIVED).any() else int(arrived.max())
    if state.generation <= generation:
        machine.wait_for(here.fragment, key, generation)
        return Progress.WAIT
    arrivals[here.active] = NOT_ARRIVED
    step = here.step(event)
    step.key, step.phase = key, generation
    return Progress.CONTINUE


def _finish_cluster_barrier(machine: "Machine") -> None:
    state = machine.cluster_barrier
    total = machine.shape.threads * machine.shape.ctas - sum(machine.exited.values())
    if state.arrived and state.arrived >= total:
        machine.phase_completed(("cluster", 0, 0), state.generation)
        state.generation += 1
        state.arrived = 0


def threads_exited(machine: "Machine", cta: int) -> None:
    """Barriers that wait for every thread no longer wait for those that have left."""
    _finish_cluster_barrier(machine)
    for key in list(machine.cta_barriers):
        if key[1] == cta and machine.cta_barriers[key].expected is None:
            _finish_cta_barrier(machine, key)
