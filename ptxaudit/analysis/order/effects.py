"""What each event does to the state of an execution.

The effects on barrier objects and on memory are in modules of their own; this one chooses among them, and
has those on tensor memory.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ptxaudit.analysis.order import effects_barrier, effects_mbarrier, effects_memory, footprints
from ptxaudit.analysis.order.address import OFFSET_MASK, RANK_SHIFT, is_shared_generic, split
from ptxaudit.analysis.order.executing import Executing, Progress, assume
from ptxaudit.analysis.order.fragment import Fragment
from ptxaudit.analysis.order.program import Operation
from ptxaudit.analysis.order.trace import Step
from ptxaudit.ir import events as ev
from ptxaudit.ir.values import Affine, Truth, Value
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


def apply(here: Executing, event: ev.Event) -> Progress:
    """Execute one event of an operation in the active lanes."""
    machine, fragment = here.machine, here.fragment
    match event:
        case ev.Access():
            effects_memory.access(here, event)
        case ev.MbarrierWait():
            return effects_mbarrier.wait(here, event)
        case ev.MbarrierArrive():
            effects_mbarrier.arrive(here, event)
        case ev.MbarrierInit():
            effects_mbarrier.initialise(here, event)
        case ev.MbarrierInvalidate():
            effects_mbarrier.invalidate(here, event)
        case ev.MbarrierExpect():
            effects_mbarrier.expect(here, event)
        case ev.MbarrierCompleteTx():
            effects_mbarrier.complete_later(here, event)
        case ev.CtaBarrier():
            return effects_barrier.cta_barrier(here, event)
        case ev.ClusterBarrier():
            return effects_barrier.cluster_barrier(here, event)
        case ev.Transfer():
            if event.kind is not ev.TransferKind.CALL:
                machine.retire(fragment, here.active.copy())
                return Progress.ENDED
            called = event.target or "an unknown function"
            assume(machine, f"the call of {called} is taken to synchronise nothing")
        case ev.GroupWait(kind=ev.GroupKind.WGMMA):
            return effects_barrier.warpgroup_wait(here, event)
        case ev.TensorOperation():
            _tensor(here, event)
        case ev.UnknownEffect():
            here.step(event)
            assume(machine, f"{event.opcode} is not known and taken to have no effect")
        case _:
            if isinstance(event, ev.GroupCommit) and event.kind is ev.GroupKind.WGMMA:
                machine.wgmma_commits[fragment.warp] += 1
            if isinstance(event, _RECORDED):
                here.step(event)
    return Progress.CONTINUE


def map_address(machine: "Machine", fragment: Fragment, operation: Operation) -> Value:
    """``mapa``: the same offset in the shared memory of another CTA; an unknown rank is taken as a peer."""
    mapping = operation.mapping
    assert mapping is not None
    source = machine.value(fragment, mapping.source)
    rank = machine.value(fragment, mapping.rank)
    if isinstance(rank, Affine):
        own = machine.execution.warps[fragment.warp].cta
        rank = (own + 1) % machine.shape.ctas
        assume(machine, "an unknown CTA rank in mapa is taken to be the next CTA of the cluster")
    if isinstance(source, Affine):
        return machine.domain.opaque("mapa", source, rank)
    window = SHARED_WINDOW if isinstance(source, int) and is_shared_generic(source) else 0
    local = machine.domain.bitwise("and", source, OFFSET_MASK, 64)
    placed = machine.domain.bitwise("or", local, machine.domain.shift_left(rank, RANK_SHIFT, 64), 64)
    return machine.domain.bitwise("or", placed, window, 64) if window else placed


def _tensor(here: Executing, event: ev.TensorOperation) -> None:
    machine, cta = here.machine, here.cta
    step = here.step(event)
    if event.action is ev.TensorAction.ALLOCATE and machine.in_sass:
        _allocate_units(here, event)
    elif event.action is ev.TensorAction.ALLOCATE and event.address is not None:
        columns = here.value(event.columns) if event.columns is not None else 0
        place = here.value(event.address)
        base = machine.allocated_columns[cta]
        if isinstance(columns, int):
            machine.allocated_columns[cta] += columns
            footprints.attach_allocation(step, event, cta, base, columns)
        if isinstance(place, int):
            rank, offset = split(place)
            machine.memory.store(rank, offset, 4, base)
    if event.action is ev.TensorAction.DEALLOCATE:
        footprints.attach_deallocation(machine, here.fragment, step, event)
        if event.pair:
            _reach_pair(here, step, here.step(event))


def _reach_pair(here: Executing, step: Step, other: Step) -> None:
    """A deallocation by a CTA pair (ranks that differ in the last bit) frees the columns of both."""
    peer = here.cta ^ 1
    if step.footprint is not None and peer < here.machine.shape.ctas:
        other.footprint = replace(step.footprint, memory=("tmem", peer))


def _allocate_units(here: Executing, event: ev.TensorOperation) -> None:
    """An attempt at an allocation in SASS: it succeeds at once, as when no other CTA is on the processor."""
    machine = here.machine
    base = machine.allocated_columns[here.cta]
    units = None if event.columns is None else here.value(event.columns)
    if isinstance(units, int):
        machine.allocated_columns[here.cta] += units * encodings.TENSOR_COLUMN_UNIT
    for register in event.registers:
        found: Value | Truth = base // encodings.TENSOR_COLUMN_UNIT
        machine.write(here.fragment, register, True if is_predicate(register) else found, True)
