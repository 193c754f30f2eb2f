"""What mbarrier operations, and the copies that complete on mbarriers, do to the state of an execution."""

from typing import TYPE_CHECKING

import numpy as np

from ptxaudit.analysis.order import footprints
from ptxaudit.analysis.order.barriers import Mbarrier
from ptxaudit.analysis.order.executing import Executing, Progress, assume
from ptxaudit.analysis.order.reserved import initial_barrier, is_reserved
from ptxaudit.analysis.order.trace import BarrierKey, Delivery, PhaseComplete
from ptxaudit.ir import events as ev
from ptxaudit.ir.operands import Operand, Register
from ptxaudit.ir.values import Affine
from ptxaudit.isa.sass import encodings

if TYPE_CHECKING:
    from ptxaudit.analysis.order.machine import Machine

_ADDRESS = "the address of the mbarrier"


def _mbarrier(machine: "Machine", key: BarrierKey) -> Mbarrier:
    state = machine.mbarriers.get(key)
    if state is None and is_reserved(machine.function, key[2]):
        state = machine.mbarriers[key] = initial_barrier()
        machine.execution.barrier_counts[key] = state.expected
    if state is None:
        state = machine.mbarriers[key] = Mbarrier(None)
        assume(machine, f"the mbarrier at {key[2]:#x} is used before any initialisation that was found")
    return state


def initialise(here: Executing, event: ev.MbarrierInit) -> None:
    """``mbarrier.init``: a fresh object in its first phase."""
    machine = here.machine
    count = here.common(event.count)
    if machine.in_sass:
        count = encodings.arrival_count(count)
    keys = here.keys(event.address)
    if keys is None:
        here.step(event).unresolved = _ADDRESS
        return
    for key, _ in keys:
        known = count if isinstance(count, int) else None
        step = here.step(event)
        step.key, step.count = key, known or 0
        machine.mbarriers[key] = Mbarrier(known, known or 0)
        machine.execution.barrier_counts[key] = known


def invalidate(here: Executing, event: ev.MbarrierInvalidate) -> None:
    """``mbarrier.inval``: there is no such object any more."""
    for key, lanes in here.keys(event.address) or ():
        step = here.step(event)
        step.key, step.count = key, lanes
        here.machine.mbarriers.pop(key, None)


def arrive(here: Executing, event: ev.MbarrierArrive) -> None:
    """An arrival in the current phase, with the bytes that it expects."""
    keys = here.keys(event.address)
    if keys is None:
        here.step(event).unresolved = _ADDRESS
        return
    arrive_at(here, event, here.in_every_cta(event, keys) if event.multicast else keys)


def arrive_at(here: Executing, event: ev.MbarrierArrive, keys: list[tuple[BarrierKey, int]]) -> None:
    """An arrival at given barriers, with the number of lanes for each."""
    count = 1 if event.count is None else here.common(event.count)
    for key, lanes in keys:
        state = _mbarrier(here.machine, key)
        step = here.step(event)
        step.key, step.phase = key, state.phase
        step.count = lanes * count if isinstance(count, int) else lanes
        if here.may or not isinstance(count, int):
            state.expected = None
        if event.expect_bytes is not None:
            step.bytes = _add_bytes(here, state, event.expect_bytes, lanes)
        if event.state is not None:
            here.write(event.state, state.phase)
        if event.drop and state.expected is not None:
            state.expected -= step.count
        counted = event.source is not ev.ArriveSource.CP_ASYNC or event.no_increment
        state.arrive(step.count if counted else 0)
        _advance_if_complete(here.machine, key)


def expect(here: Executing, event: ev.MbarrierExpect) -> None:
    """``mbarrier.expect_tx``: bytes that the current phase waits for."""
    for key, lanes in here.keys(event.address) or ():
        state = _mbarrier(here.machine, key)
        step = here.step(event)
        step.key, step.phase = key, state.phase
        step.bytes = _add_bytes(here, state, event.bytes, lanes)


def _add_bytes(here: Executing, state: Mbarrier, operand: Operand, lanes: int) -> int | None:
    """Expect bytes in the current phase; how many, where that is known."""
    amount = here.common(operand)
    if isinstance(amount, Affine):
        state.transfer(amount, lanes)
        return None
    total = amount * lanes if isinstance(amount, int) else int(amount[here.active].sum())
    state.transfer(total, 1)
    return total


def _advance_if_complete(machine: "Machine", key: BarrierKey, at_rest: bool = False) -> bool:
    state = machine.mbarriers[key]
    if not state.is_complete(at_rest):
        return False
    if state.is_open:
        machine.execution.taken_to_fit.append(PhaseComplete(key, state.phase))
    footprints.share_bytes(state)
    machine.phase_completed(key, state.phase)
    state.advance()
    return True


def wait(here: Executing, event: ev.MbarrierWait) -> Progress:
    """A test or try of a phase: it succeeds, fails once, or parks the fragment."""
    machine, fragment = here.machine, here.fragment
    keys = here.keys(event.address)
    token = here.value(event.phase)
    if isinstance(token, np.ndarray):
        token = int(token[here.active][0])
    if machine.in_sass:
        token = encodings.parity(token)
    if keys is None or isinstance(token, Affine):
        here.step(event).unresolved = _ADDRESS if keys is None else "the phase parity"
        _set_result(here, event, True)
        return Progress.CONTINUE
    blocked = None
    for key, _ in keys:
        state = _mbarrier(machine, key)
        passes = (state.phase & 1) != (token & 1) if event.by_parity else state.phase > token
        if not passes:
            blocked = (key, state.phase)
    index = here.operation.instruction.index
    if blocked is None:
        for key, _ in keys:
            step = here.step(event)
            step.key, step.phase = key, machine.mbarriers[key].phase - 1
        fragment.failed_waits.pop(index, None)
        _set_result(here, event, True)
        return Progress.CONTINUE
    key, phase = blocked
    seen = fragment.failed_waits.get(index)
    if event.result is None or seen == (key, phase, fragment.progress):
        machine.wait_for(fragment, key, phase)
        return Progress.WAIT
    fragment.failed_waits[index] = (key, phase, fragment.progress)
    _set_result(here, event, False)
    return Progress.CONTINUE


def _set_result(here: Executing, event: ev.MbarrierWait, result: bool) -> None:
    if isinstance(event.result, Register):
        here.write(event.result, result)


# Copies ------------------------------------------------------------------------------------------------


def complete_later(here: Executing, event: ev.MbarrierCompleteTx) -> None:
    """A copy was issued that completes on mbarriers."""
    keys = here.keys(event.address)
    if keys is None:
        assume(here.machine, "a copy completes on an mbarrier whose address is not known")
        return
    size = None if event.bytes is None else here.common(event.bytes)
    for destination, key, lanes in here.signals(event, keys):
        async_operation = here.machine.current_operation(here.fragment, "copy", destination)
        async_operation.generic_proxy = event.proxy is ev.Proxy.GENERIC
        here.machine.in_flight.append((async_operation, key, size, lanes))


def deliver(machine: "Machine") -> None:
    """Let the copies that were issued complete on their mbarriers."""
    arriving, machine.in_flight = machine.in_flight, []
    for async_operation, key, size, lanes in arriving:
        state = _mbarrier(machine, key)
        async_operation.key, async_operation.phase = key, state.phase
        state.copies.append(async_operation)
        if size is None:
            state.unsized += 1
        else:
            state.transfer(size, -lanes)
            async_operation.bytes = size * lanes if isinstance(size, int) else None
        machine.execution.entries.append(Delivery(async_operation, key, state.phase))
        _advance_if_complete(machine, key)


def complete_at_rest(machine: "Machine") -> bool:
    """When nothing can go on: complete phases that lack only bytes of copies of unknown size."""
    done = False
    for key in list(machine.mbarriers):
        done |= _advance_if_complete(machine, key, at_rest=True)
    return done
