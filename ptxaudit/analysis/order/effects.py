"""What each event does to the state of an execution: barriers, copies, memory contents, exits."""

from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING

import numpy as np

from ptxaudit.analysis.order import footprints
from ptxaudit.analysis.order.address import (
    OFFSET_MASK,
    RANK_SHIFT,
    SHARED_START,
    in_cta,
    is_shared_generic,
    split,
)
from ptxaudit.analysis.order.barriers import CtaBarrierState, Mbarrier
from ptxaudit.analysis.order.fragment import Fragment, blend
from ptxaudit.analysis.order.program import LARGEST_WORD, Operation, stored_elements
from ptxaudit.analysis.order.trace import AsyncOperation, BarrierKey, Delivery, Step
from ptxaudit.ir import events as ev
from ptxaudit.ir.operands import Memory, Operand, Register, Symbol
from ptxaudit.ir.values import LANES, Affine, Flags, Truth, Value, as_lanes
from ptxaudit.isa.evaluation import SHARED_WINDOW
from ptxaudit.isa.sass import encodings
from ptxaudit.isa.sass.registers import is_predicate

if TYPE_CHECKING:
    from ptxaudit.analysis.order.machine import Machine

# Events that change nothing in the machine; ``clocks`` reads their steps.
_RECORDED = (
    ev.WarpBarrier,
    ev.Fence,
    ev.GroupCommit,
    ev.GroupWait,
    ev.WgmmaFence,
    ev.WgmmaIssue,
    ev.GridDependency,
    ev.TensormapReplace,
    ev.RegisterReconfigure,
)


# The first architecture that reserves the shared memory below SHARED_START.
_FIRST_RESERVED = 90

# A warp that loads one word this often in one place is taken to wait for another thread to change it.
_LOADS_OF_ONE_VALUE = 64


class Progress(Enum):
    """Whether the fragment goes on after an event."""

    CONTINUE = auto()
    WAIT = auto()
    ENDED = auto()


def apply(
    machine: "Machine", fragment: Fragment, operation: Operation, event: ev.Event, active: Flags, may: bool
) -> Progress:
    """Execute one event of an operation in the active lanes."""
    match event:
        case ev.Access():
            _access(machine, fragment, operation, event, active, may)
        case ev.MbarrierWait():
            return _wait(machine, fragment, operation, event, active, may)
        case ev.MbarrierArrive():
            _arrive(machine, fragment, operation, event, active, may)
        case ev.MbarrierInit():
            _initialise(machine, fragment, operation, event, active, may)
        case ev.MbarrierInvalidate():
            for key, lane_count in _keys(machine, fragment, event.address, active) or ():
                step = machine.step(fragment, operation, event, active, may)
                step.key, step.count = key, lane_count
                machine.mbarriers.pop(key, None)
        case ev.MbarrierExpect():
            _expect(machine, fragment, operation, event, active, may)
        case ev.MbarrierCompleteTx():
            _complete_later(machine, fragment, operation, event, active)
        case ev.CtaBarrier():
            return _cta_barrier(machine, fragment, operation, event, active, may)
        case ev.ClusterBarrier():
            return _cluster_barrier(machine, fragment, operation, event, active, may)
        case ev.Transfer():
            if event.kind is not ev.TransferKind.CALL:
                machine.retire(fragment, active.copy())
                return Progress.ENDED
            note = f"the call of {event.target or 'an unknown function'} is taken to synchronise nothing"
            _assume(machine, note)
        case ev.GroupWait(kind=ev.GroupKind.WGMMA):
            return _warpgroup_wait(machine, fragment, operation, event, active, may)
        case ev.TensorOperation():
            _tensor(machine, fragment, operation, event, active, may)
        case ev.UnknownEffect():
            machine.step(fragment, operation, event, active, may)
            _assume(machine, f"{event.opcode} is not known and taken to have no effect")
        case _:
            if isinstance(event, ev.GroupCommit) and event.kind is ev.GroupKind.WGMMA:
                machine.wgmma_commits[fragment.warp] += 1
            if isinstance(event, _RECORDED):
                machine.step(fragment, operation, event, active, may)
    return Progress.CONTINUE


def _assume(machine: "Machine", text: str) -> None:
    if text not in machine.execution.assumptions:
        machine.execution.assumptions.append(text)


# Addresses ---------------------------------------------------------------------------------------------


def map_address(machine: "Machine", fragment: Fragment, operation: Operation) -> Value:
    """``mapa``: the same offset in the shared memory of another CTA; an unknown rank is taken as a peer."""
    mapping = operation.mapping
    assert mapping is not None
    source = machine.value(fragment, mapping.source)
    rank = machine.value(fragment, mapping.rank)
    if isinstance(rank, Affine):
        own = machine.execution.warps[fragment.warp].cta
        rank = (own + 1) % machine.shape.ctas
        _assume(machine, "an unknown CTA rank in mapa is taken to be the next CTA of the cluster")
    if isinstance(source, Affine):
        return machine.domain.opaque("mapa", source, rank)
    window = SHARED_WINDOW if isinstance(source, int) and is_shared_generic(source) else 0
    local = machine.domain.bitwise("and", source, OFFSET_MASK, 64)
    placed = machine.domain.bitwise("or", local, machine.domain.shift_left(rank, RANK_SHIFT, 64), 64)
    return machine.domain.bitwise("or", placed, window, 64) if window else placed


def among(value: Value, active: Flags) -> Value:
    """A value as one number where it is the same in all lanes that take part."""
    if isinstance(value, np.ndarray):
        first = value[active][0]
        return int(first) if bool((value[active] == first).all()) else value
    return value


def _keys(
    machine: "Machine", fragment: Fragment, operand: Operand, active: Flags
) -> list[tuple[BarrierKey, int]] | None:
    """The mbarriers an operand names in the active lanes, with the number of lanes for each."""
    value = machine.value(fragment, operand)
    if isinstance(value, Affine):
        return None
    if isinstance(value, int):
        return _own([(("mbarrier", *split(value)), int(np.count_nonzero(active)))], machine)
    addresses, counts = np.unique(as_lanes(value)[active], return_counts=True)
    keys: list[tuple[BarrierKey, int]] = [
        (("mbarrier", *split(int(address))), int(count))
        for address, count in zip(addresses, counts, strict=True)
    ]
    return _own(keys, machine)


def _own(keys: list[tuple[BarrierKey, int]], machine: "Machine") -> list[tuple[BarrierKey, int]]:
    """Without barriers in the reserved part of shared memory (SASS), by which allocations of tensor
    memory by a pair of CTAs are agreed upon: the system sets them up, and no order rests on them."""
    if not machine.in_sass or machine.function.architecture.number < _FIRST_RESERVED:
        return keys
    return [(key, lanes) for key, lanes in keys if key[2] >= SHARED_START]


def _in_every_cta(machine: "Machine", keys: list[tuple[BarrierKey, int]]) -> list[tuple[BarrierKey, int]]:
    """A multicast signals the barrier at the same offset in every CTA of the cluster."""
    ranks = range(machine.shape.ctas)
    return [((kind, rank, offset), count) for (kind, _, offset), count in keys for rank in ranks]


def _mbarrier(machine: "Machine", key: BarrierKey) -> Mbarrier:
    state = machine.mbarriers.get(key)
    if state is None:
        state = machine.mbarriers[key] = Mbarrier(None)
        _assume(machine, f"the mbarrier at {key[2]:#x} is used before any initialisation that was found")
    return state


# Mbarriers ---------------------------------------------------------------------------------------------


def _initialise(
    machine: "Machine",
    fragment: Fragment,
    operation: Operation,
    event: ev.MbarrierInit,
    active: Flags,
    may: bool,
) -> None:
    count = among(machine.value(fragment, event.count), active)
    if machine.in_sass:
        count = encodings.arrival_count(count)
    keys = _keys(machine, fragment, event.address, active)
    if keys is None:
        machine.step(fragment, operation, event, active, may).unresolved = "the address of the mbarrier"
        return
    for key, _ in keys:
        step = machine.step(fragment, operation, event, active, may)
        step.key = key
        known = count if isinstance(count, int) else None
        machine.mbarriers[key] = Mbarrier(known, known or 0)
        machine.execution.barrier_counts[key] = known


def _arrive(
    machine: "Machine",
    fragment: Fragment,
    operation: Operation,
    event: ev.MbarrierArrive,
    active: Flags,
    may: bool,
) -> None:
    keys = _keys(machine, fragment, event.address, active)
    if keys is None:
        machine.step(fragment, operation, event, active, may).unresolved = "the address of the mbarrier"
        return
    if event.multicast:
        keys = _in_every_cta(machine, keys)
    count = 1 if event.count is None else among(machine.value(fragment, event.count), active)
    for key, lanes in keys:
        state = _mbarrier(machine, key)
        step = machine.step(fragment, operation, event, active, may)
        step.key, step.phase = key, state.phase
        step.count = lanes * count if isinstance(count, int) else lanes
        if may or not isinstance(count, int):
            state.expected = None
        if event.expect_bytes is not None:
            _add_bytes(machine, fragment, state, event.expect_bytes, active, lanes)
        if event.state is not None:
            _write_active(machine, fragment, event.state, state.phase, active)
        if event.drop and state.expected is not None:
            state.expected -= step.count
        counted = event.source is not ev.ArriveSource.CP_ASYNC or event.no_increment
        state.arrive(step.count if counted else 0)
        _advance_if_complete(machine, key)


def _expect(
    machine: "Machine",
    fragment: Fragment,
    operation: Operation,
    event: ev.MbarrierExpect,
    active: Flags,
    may: bool,
) -> None:
    for key, lanes in _keys(machine, fragment, event.address, active) or ():
        state = _mbarrier(machine, key)
        step = machine.step(fragment, operation, event, active, may)
        step.key, step.phase = key, state.phase
        _add_bytes(machine, fragment, state, event.bytes, active, lanes)


def _add_bytes(
    machine: "Machine", fragment: Fragment, state: Mbarrier, operand: Operand, active: Flags, lanes: int
) -> None:
    amount = among(machine.value(fragment, operand), active)
    if isinstance(amount, int):
        state.transactions += amount * lanes
    elif isinstance(amount, Affine):
        state.unknown_bytes = True
    else:
        state.transactions += int(amount[active].sum())


def _advance_if_complete(machine: "Machine", key: BarrierKey, at_rest: bool = False) -> bool:
    state = machine.mbarriers[key]
    if not state.is_complete(at_rest):
        return False
    footprints.share_bytes(state)
    machine.phase_completed(key, state.phase)
    state.advance()
    return True


def _wait(
    machine: "Machine",
    fragment: Fragment,
    operation: Operation,
    event: ev.MbarrierWait,
    active: Flags,
    may: bool,
) -> Progress:
    keys = _keys(machine, fragment, event.address, active)
    if keys == []:
        _set_result(machine, fragment, event, True, active)
        return Progress.CONTINUE
    token = machine.value(fragment, event.phase)
    if isinstance(token, np.ndarray):
        token = int(token[active][0])
    if machine.in_sass:
        token = encodings.parity(token)
    if keys is None or isinstance(token, Affine):
        step = machine.step(fragment, operation, event, active, may)
        what = "the address of the mbarrier" if keys is None else "the phase parity"
        step.unresolved = what
        _set_result(machine, fragment, event, True, active)
        return Progress.CONTINUE
    blocked = None
    for key, _ in keys:
        state = _mbarrier(machine, key)
        passes = (state.phase & 1) != (token & 1) if event.by_parity else state.phase > token
        if not passes:
            blocked = (key, state.phase)
    if blocked is None:
        for key, _ in keys:
            step = machine.step(fragment, operation, event, active, may)
            step.key, step.phase = key, machine.mbarriers[key].phase - 1
        fragment.failed_waits.pop(operation.instruction.index, None)
        _set_result(machine, fragment, event, True, active)
        return Progress.CONTINUE
    key, phase = blocked
    index = operation.instruction.index
    seen = fragment.failed_waits.get(index)
    if event.result is None or seen == (key, phase, fragment.progress):
        machine.wait_for(fragment, key, phase)
        return Progress.WAIT
    fragment.failed_waits[index] = (key, phase, fragment.progress)
    _set_result(machine, fragment, event, False, active)
    return Progress.CONTINUE


def _set_result(
    machine: "Machine", fragment: Fragment, event: ev.MbarrierWait, result: bool, active: Flags
) -> None:
    if isinstance(event.result, Register):
        _write_active(machine, fragment, event.result, result, active)


def _write_active(
    machine: "Machine", fragment: Fragment, register: Register, new: "Value | Truth", active: Flags
) -> None:
    old = fragment.registers.get(register.name)
    if old is None or bool(active[fragment.mask].all()):
        fragment.registers[register.name] = new
    else:
        fragment.registers[register.name] = blend(machine.domain, active, new, old)


# Copies ------------------------------------------------------------------------------------------------


def _complete_later(
    machine: "Machine", fragment: Fragment, operation: Operation, event: ev.MbarrierCompleteTx, active: Flags
) -> None:
    keys = _keys(machine, fragment, event.address, active)
    if keys is None:
        _assume(machine, "a copy completes on an mbarrier whose address is not known")
        return
    if event.multicast:
        keys = _in_every_cta(machine, keys)
    size = None if event.bytes is None else among(machine.value(fragment, event.bytes), active)
    for key, lanes in keys:
        number = int(size) * lanes if isinstance(size, int) else None
        async_operation = machine.current_operation(fragment, "copy")
        async_operation.generic_proxy = event.proxy is ev.Proxy.GENERIC
        machine.in_flight.append((async_operation, key, number))


def deliver(machine: "Machine") -> None:
    """Let the copies that were issued complete on their mbarriers."""
    arriving, machine.in_flight = machine.in_flight, []
    for async_operation, key, size in arriving:
        state = _mbarrier(machine, key)
        async_operation.key, async_operation.phase = key, state.phase
        state.copies.append(async_operation)
        if size is None:
            state.unsized += 1
        else:
            state.transactions -= size
            async_operation.bytes = size
        machine.execution.entries.append(Delivery(async_operation, key, state.phase))
        _advance_if_complete(machine, key)


def complete_at_rest(machine: "Machine") -> bool:
    """When nothing can go on: complete phases that lack only bytes of copies of unknown size."""
    done = False
    for key in list(machine.mbarriers):
        done |= _advance_if_complete(machine, key, at_rest=True)
    return done


def _warpgroup_wait(
    machine: "Machine",
    fragment: Fragment,
    operation: Operation,
    event: ev.GroupWait,
    active: Flags,
    may: bool,
) -> Progress:
    """``wgmma.wait_group``: an operation is the whole warpgroup's, so all its warps have committed it."""
    key: BarrierKey = ("wgmma", machine.execution.warps[fragment.warp].cta, fragment.warp)
    needed = machine.wgmma_commits[fragment.warp] - (event.depth or 0)
    if needed > 0 and machine.completed_phases(key) < needed:
        machine.wait_for(fragment, key, needed - 1)
        return Progress.WAIT
    machine.step(fragment, operation, event, active, may)
    return Progress.CONTINUE


# CTA and cluster barriers --------------------------------------------------------------------------------


def _cta_barrier(
    machine: "Machine",
    fragment: Fragment,
    operation: Operation,
    event: ev.CtaBarrier,
    active: Flags,
    may: bool,
) -> Progress:
    number = among(machine.value(fragment, event.barrier), active)
    threads: Value | None = None
    if event.threads is not None:
        threads = among(machine.value(fragment, event.threads), active)
    if not isinstance(number, int) or not (threads is None or isinstance(threads, int)):
        step = machine.step(fragment, operation, event, active, may)
        step.unresolved = "the barrier's id or thread count"
        return Progress.CONTINUE
    cta = machine.execution.warps[fragment.warp].cta
    key = ("bar", cta, number)
    state = machine.cta_barriers.setdefault(key, CtaBarrierState())
    step = machine.step(fragment, operation, event, active, may)
    step.key, step.phase, step.count = key, state.generation, int(np.count_nonzero(active))
    if may:
        step.unresolved = "which lanes execute the barrier"
    step.threads = state.expected = threads
    state.arrived += step.count
    generation = state.generation
    _finish_cta_barrier(machine, key)
    if event.action is ev.BarrierAction.ARRIVE:
        return Progress.CONTINUE
    fragment.position += 1
    machine.wait_for(fragment, key, generation)
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


def _cluster_barrier(
    machine: "Machine",
    fragment: Fragment,
    operation: Operation,
    event: ev.ClusterBarrier,
    active: Flags,
    may: bool,
) -> Progress:
    key: BarrierKey = ("cluster", 0, 0)
    state = machine.cluster_barrier
    if event.action is ev.BarrierAction.ARRIVE:
        step = machine.step(fragment, operation, event, active, may)
        step.key, step.phase, step.count = key, state.generation, int(np.count_nonzero(active))
        machine.cluster_arrivals[fragment.warp] = state.generation
        state.arrived += step.count
        _finish_cluster_barrier(machine)
        return Progress.CONTINUE
    generation = machine.cluster_arrivals.get(fragment.warp, state.generation)
    if state.generation <= generation:
        machine.wait_for(fragment, key, generation)
        return Progress.WAIT
    step = machine.step(fragment, operation, event, active, may)
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


# Memory --------------------------------------------------------------------------------------------------


def _access(
    machine: "Machine", fragment: Fragment, operation: Operation, event: ev.Access, active: Flags, may: bool
) -> None:
    step = machine.step(fragment, operation, event, active, may)
    if event.completion is not ev.Completion.SYNCHRONOUS:
        step.operation = machine.current_operation(fragment, event.completion.value)
    value = machine.value(fragment, event.address)
    if event.barrier is None or _keys(machine, fragment, event.barrier, active) != []:
        footprints.attach(machine, fragment, step, event, value, active)
    if event.completion is ev.Completion.SYNCHRONOUS:
        if event.kind is ev.AccessKind.UPDATE and event.operation != "exch":
            _forget(machine, event, value, active)
        elif event.writes and event.value is not None:
            _store(machine, fragment, event, value, active)
        if operation.loads:
            _load(machine, fragment, operation, event, value, active)
    elif event.writes and step.footprint is not None:
        _overwrite(machine, step)


def _overwrite(machine: "Machine", step: Step) -> None:
    """An asynchronous write: what was known of the memory is known no longer."""
    assert step.footprint is not None
    cta = step.footprint.memory[1]
    for start in step.footprint.starts:
        machine.epochs[cta, int(start) >> 4] += 1
        machine.memory.forget(cta, int(start), min(step.footprint.size, 64))


def _forget(machine: "Machine", event: ev.Access, address: Value, active: Flags) -> None:
    """An atomic operation: what it leaves is not worked out."""
    places = _shared_places(event, address)
    for place in () if places is None else np.unique(places[active]):
        cta, offset = split(int(place))
        machine.epochs[cta, offset >> 4] += 1
        machine.memory.forget(cta, offset, event.size or LARGEST_WORD)


def _shared_places(event: ev.Access, value: Value) -> "np.ndarray | None":
    if isinstance(value, Affine):
        return None
    if event.space is ev.StateSpace.GENERIC:
        if not is_shared_generic(int(as_lanes(value)[0])):
            return None
    elif event.space not in (ev.StateSpace.SHARED, ev.StateSpace.CLUSTER):
        return None
    return as_lanes(value) & np.uint64(0xFFFFFFFF)


def _store(
    machine: "Machine", fragment: Fragment, event: ev.Access, address: Value, active: Flags
) -> None:
    """Remember what a store of a few words puts into shared memory."""
    places = _shared_places(event, address)
    if places is None or event.value is None or event.size is None or event.size > LARGEST_WORD:
        return
    elements = stored_elements(event)
    width = event.size // len(elements)
    lanes = np.flatnonzero(active)
    if isinstance(address, int):
        lanes = lanes[-1:]
    starts = [int(place) for place in places[lanes]]
    for position, operand in enumerate(elements):
        stored = machine.value(fragment, operand)
        in_lanes = stored[lanes].tolist() if isinstance(stored, np.ndarray) else [stored] * len(starts)
        for start, element in zip(starts, in_lanes, strict=True):
            place = start + position * width
            machine.memory.store(place >> RANK_SHIFT, place & OFFSET_MASK, width, element)


def _load(
    machine: "Machine",
    fragment: Fragment,
    operation: Operation,
    event: ev.Access,
    address: Value,
    active: Flags,
) -> None:
    if not operation.value_needed:
        for register in operation.loads:
            fragment.registers.pop(register.name, None)
        return
    count = len(operation.loads)
    width = (event.size or 4 * count) // count
    places = _shared_places(event, address)
    for position, register in enumerate(operation.loads):
        loaded = _loaded(machine, fragment, operation, event, address, places, position * width, active)
        _write_active(machine, fragment, register, loaded, active)


def _loaded(
    machine: "Machine",
    fragment: Fragment,
    operation: Operation,
    event: ev.Access,
    address: Value,
    places: "np.ndarray | None",
    offset: int,
    active: Flags,
) -> Value:
    domain = machine.domain
    varying = not isinstance(address, int) and not (isinstance(address, Affine) and not address.varying)
    if places is not None:
        width = (event.size or 4) // len(operation.loads)
        found = [
            machine.memory.load(int(p) + offset >> RANK_SHIFT, int(p) + offset & OFFSET_MASK, width)
            for p in (places[active] if varying else places[active][:1])
        ]
        values = [value for value in found if value is not None]
        if len(values) == len(found):
            if not varying:
                return values[0]
            if all(isinstance(value, int) for value in values):
                lanes = np.zeros(LANES, dtype=np.uint64)
                lanes[active] = np.array(values, dtype=np.uint64)
                return lanes
        place = int(places[active][0]) + offset
        epoch = machine.epochs[place >> RANK_SHIFT, (place & OFFSET_MASK) >> 4]
        key = ("shared", domain.key(address), offset, epoch)
        return domain.atom(key, f"shared[{place & OFFSET_MASK:#x}]", varying)
    name = f"load@{operation.instruction.index}"
    strong = event.semantics is not ev.Semantics.WEAK or event.kind is ev.AccessKind.UPDATE
    if strong or event.space is ev.StateSpace.TENSOR:
        visit = machine.visits[fragment.warp, operation.instruction.index]
        unique = (operation.instruction.index, fragment.warp, visit, offset)
        return domain.atom(("load", unique), name, varying or event.kind is ev.AccessKind.UPDATE)
    # The same word wherever it is loaded, unless a loop waits for it to change.
    rounds = machine.visits[fragment.warp, operation.instruction.index] // _LOADS_OF_ONE_VALUE
    return domain.atom(("weak", domain.key(address), offset, event.size, rounds), name, varying)


def load_parameter(machine: "Machine", fragment: Fragment, operation: Operation, guard: Truth) -> None:
    """A load from parameters or constants: the same unknown value wherever it is loaded."""
    source = operation.instruction.operands[-1]
    if isinstance(source, Memory):
        address, bank = machine.address(fragment, source), source.bank
    else:
        address, bank = machine.value(fragment, source), None
    width = _element_width(operation.instruction.opcode)
    for position, register in enumerate(operation.loads):
        at = machine.domain.add(address, position * width, 64)
        argument = _argument(machine, source) if position == 0 else None
        word = _constant(machine, fragment, bank, at, width) if argument is None else argument
        machine.write(fragment, register, word, guard)


def _argument(machine: "Machine", source: Operand) -> int | None:
    """The value that a launch description gives a parameter, where exactly that is loaded (PTX)."""
    arguments = machine.launch.arguments
    if not arguments or not isinstance(source, Memory) or source.offset or len(source.terms) != 1:
        return None
    names = [parameter.name for parameter in machine.function.parameters]
    term = source.terms[0]
    if not isinstance(term, Symbol) or term.name not in names:
        return None
    value = arguments.get(names.index(term.name))
    return None if value is None else value & ((1 << 64) - 1)


def constant_word(machine: "Machine", fragment: Fragment, source: Memory) -> Value:
    """The 32-bit word of an operand in a constant bank (SASS)."""
    return _constant(machine, fragment, source.bank, machine.address(fragment, source), 4)


def _constant(machine: "Machine", fragment: Fragment, bank: int | None, at: Value, width: int) -> Value:
    known = machine.known_constant(fragment, bank, at, width)
    if known is None and width == 4 and machine.sample is not None:
        known = machine.sample
    if known is not None:
        return known
    name = f"param@{at:#x}" if isinstance(at, int) else f"[{at!r}]"
    return machine.domain.source(("parameter", bank, machine.domain.key(at), width), name)


# Suffixes of SASS loads of less than a word; all others load words.
_PARTIAL_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2}


def _element_width(opcode: str) -> int:
    """Bytes of one element of a load, by its type suffix."""
    last = opcode.rsplit(".", 1)[-1]
    if opcode[:1].isupper():
        return _PARTIAL_WIDTHS.get(last, 4)
    digits = "".join(character for character in last if character.isdigit())
    return int(digits) // 8 if digits and last[0] in "bufs" else 4


# Tensor memory -------------------------------------------------------------------------------------------


def _tensor(
    machine: "Machine",
    fragment: Fragment,
    operation: Operation,
    event: ev.TensorOperation,
    active: Flags,
    may: bool,
) -> None:
    step = machine.step(fragment, operation, event, active, may)
    cta = machine.execution.warps[fragment.warp].cta
    if event.action is ev.TensorAction.ALLOCATE and machine.in_sass:
        _allocate_units(machine, fragment, event, cta)
    elif event.action is ev.TensorAction.ALLOCATE and event.address is not None:
        columns = machine.value(fragment, event.columns) if event.columns is not None else 0
        place = machine.value(fragment, event.address)
        base = machine.allocated_columns[cta]
        if isinstance(columns, int):
            machine.allocated_columns[cta] += columns
            footprints.attach_allocation(step, event, cta, base, columns)
        if isinstance(place, int):
            rank, offset = split(place)
            machine.memory.store(rank, offset, 4, base)
    if event.action is ev.TensorAction.DEALLOCATE:
        footprints.attach_deallocation(machine, fragment, step, event)
        if event.pair:
            _reach_pair(machine, step, cta, machine.step(fragment, operation, event, active, may))


def _reach_pair(machine: "Machine", step: Step, cta: int, other: Step) -> None:
    """A deallocation by a CTA pair (ranks that differ in the last bit) frees the columns of both."""
    if step.footprint is not None and cta ^ 1 < machine.shape.ctas:
        other.footprint = replace(step.footprint, memory=("tmem", cta ^ 1))


def _allocate_units(machine: "Machine", fragment: Fragment, event: ev.TensorOperation, cta: int) -> None:
    """An attempt at an allocation in SASS: it succeeds at once, as when no other CTA is on the processor."""
    base = machine.allocated_columns[cta]
    units = None if event.columns is None else machine.value(fragment, event.columns)
    if isinstance(units, int):
        machine.allocated_columns[cta] += units * encodings.TENSOR_COLUMN_UNIT
    for register in event.registers:
        found: Value | Truth = base // encodings.TENSOR_COLUMN_UNIT
        machine.write(fragment, register, True if is_predicate(register) else found, True)


__all__ = [
    "AsyncOperation",
    "Progress",
    "apply",
    "complete_at_rest",
    "deliver",
    "in_cta",
    "load_parameter",
    "map_address",
    "threads_exited",
]
