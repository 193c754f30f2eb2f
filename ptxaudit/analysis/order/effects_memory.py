"""What accesses do to shared memory, and what loads give: from memory, parameters and constants."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ptxaudit.analysis.order import footprints, local, reserved
from ptxaudit.analysis.order.address import OFFSET_MASK, RANK_SHIFT, is_shared_generic, split
from ptxaudit.analysis.order.executing import Executing
from ptxaudit.analysis.order.flags import is_strong
from ptxaudit.analysis.order.fragment import Fragment
from ptxaudit.analysis.order.program import LARGEST_WORD, Operation, stored_elements
from ptxaudit.analysis.order.reserved import is_reserved
from ptxaudit.analysis.order.trace import Step
from ptxaudit.ir import events as ev
from ptxaudit.ir.lanes import Lanes
from ptxaudit.ir.operands import Memory, Operand, Symbol
from ptxaudit.ir.values import LANES, Affine, Truth, Value, as_lanes

if TYPE_CHECKING:
    from ptxaudit.analysis.order.machine import Machine

# A warp that loads one word this often in one place is taken to wait for another thread to change it.
_LOADS_OF_ONE_VALUE = 64
# Suffixes of SASS loads of less than a word; all others load words.
_WORD = 4
_PARTIAL_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2}


def access(here: Executing, event: ev.Access) -> None:
    """An access: its footprint, what it leaves in shared memory, and what it loads."""
    if event.space is ev.StateSpace.LOCAL:
        local.access(here, event)
        return
    if event.operation == "try_cancel":
        here.machine.requests += 1
    if event.multicast:
        for destination in here.destinations(event):
            _access(here, event, destination)
    else:
        _access(here, event, None)


def _access(here: Executing, event: ev.Access, destination: int | None) -> None:
    step = here.step(event)
    if event.completion is not ev.Completion.SYNCHRONOUS:
        step.operation = here.machine.current_operation(here.fragment, event.completion.value, destination)
    value = here.value(event.address)
    if event.addressing is ev.Addressing.TENSOR_MAP and step.operation is not None:
        step.operation.tensor_map = f"{here.operation.instruction.opcode} {here.machine.domain.key(value)}"
    footprints.attach(here.machine, here.fragment, step, event, value, here.active)
    if destination is not None and step.footprint is not None:
        step.footprint = replace(step.footprint, memory=(step.footprint.memory[0], destination))
    if event.completion is ev.Completion.SYNCHRONOUS:
        if event.kind is ev.AccessKind.UPDATE and event.operation != "exch":
            _update(here, event, value)
        elif event.writes and event.value is not None:
            _store(here, event, value)
        if here.operation.loads:
            _load(here, event, value)
    elif event.writes and step.footprint is not None:
        _overwrite(here.machine, step)
        if event.operation == "try_cancel":
            _answer(here, event, value, destination)
        elif event.value is not None and event.kind is ev.AccessKind.WRITE:
            _store(here, event, value)  # whoever waits for it finds this


def _overwrite(machine: "Machine", step: Step) -> None:
    """An asynchronous write: what was known of the memory is known no longer."""
    assert step.footprint is not None
    cta = step.footprint.memory[1]
    for start in step.footprint.starts:
        machine.epochs[cta, int(start) >> 4] += 1
        machine.memory.forget(cta, int(start), min(step.footprint.size, 64))


def _answer(here: Executing, event: ev.Access, address: Value, destination: int | None) -> None:
    """The answer to a request for more work: words that nothing is known of, the same in every CTA."""
    machine = here.machine
    places = _shared_places(event, address)
    if places is None:
        return
    own, offset = split(int(places[here.active][0]))
    cta = own if destination is None else destination
    for position in range(0, event.size or 0, _WORD):
        key = ("answer", machine.requests, position)
        word: Value = machine.domain.atom(key, f"answer@{machine.requests}")
        told = None if machine.sample is None else machine.sample.answer(machine.requests, position)
        word = word if told is None else told
        machine.memory.store(cta, offset + position, _WORD, word)


def _update(here: Executing, event: ev.Access, address: Value) -> None:
    """An atomic operation: what it leaves is worked out for the system's own words only."""
    places = _shared_places(event, address)
    for place in () if places is None else np.unique(places[here.active]):
        cta, offset = split(int(place))
        width = event.size or LARGEST_WORD
        left = _updated(here, event, cta, offset, width)
        here.machine.epochs[cta, offset >> 4] += 1
        here.machine.memory.forget(cta, offset, width)
        if left is not None:
            here.machine.memory.store(cta, offset, width, left)


def _updated(here: Executing, event: ev.Access, cta: int, offset: int, width: int) -> int | None:
    if not is_reserved(here.machine.function, offset) or event.value is None:
        return None
    combine = reserved.UPDATES.get(event.operation or "")
    old, new = here.machine.memory.load(cta, offset, width), here.common(event.value)
    old = reserved.initial_word(cta, offset) if old is None else old
    if combine is None or not isinstance(old, int) or not isinstance(new, int) or here.lane_count != 1:
        return None
    return combine(old, new)


def _shared_places(event: ev.Access, value: Value) -> Lanes | None:
    if isinstance(value, Affine):
        return None
    if event.space is ev.StateSpace.GENERIC:
        if not is_shared_generic(int(as_lanes(value)[0])):
            return None
    elif event.space not in (ev.StateSpace.SHARED, ev.StateSpace.CLUSTER):
        return None
    return as_lanes(value) & np.uint64(0xFFFFFFFF)


def _store(here: Executing, event: ev.Access, address: Value) -> None:
    """Remember what a store of a few words puts into shared memory."""
    places = _shared_places(event, address)
    if places is None or event.value is None or event.size is None or event.size > LARGEST_WORD:
        return
    elements = stored_elements(event)
    width = event.size // len(elements)
    lanes = np.flatnonzero(here.active)
    if isinstance(address, int):
        lanes = lanes[-1:]
    starts = places[lanes]
    memory = here.machine.memory
    for position, operand in enumerate(elements):
        stored = here.value(operand)
        if len(starts) == 1:
            word: Value = int(stored[lanes[0]]) if isinstance(stored, np.ndarray) else stored
            cta, offset = split(int(starts[0]) + position * width)
            memory.store(cta, offset, width, word)
        else:
            word = stored[lanes] if isinstance(stored, np.ndarray) else stored
            memory.store_lanes(starts + np.uint64(position * width), width, word)


def _load(here: Executing, event: ev.Access, address: Value) -> None:
    operation = here.operation
    if not operation.value_needed:
        for register in operation.loads:
            here.fragment.registers.pop(register.name, None)
        return
    count = len(operation.loads)
    width = (event.size or 4 * count) // count
    for position, register in enumerate(operation.loads):
        here.write(register, _loaded(here, event, address, position * width))


def _loaded(here: Executing, event: ev.Access, address: Value, offset: int) -> Value:
    """What a load finds ``offset`` bytes behind its address."""
    machine, index = here.machine, here.operation.instruction.index
    domain = machine.domain
    varying = not isinstance(address, int) and not (isinstance(address, Affine) and not address.varying)
    places = _shared_places(event, address)
    if places is not None:
        return _loaded_from_shared(here, event, address, places[here.active], offset, varying)
    name = f"load@{index}"
    if is_strong(event) or event.space is ev.StateSpace.TENSOR:
        unique = (index, here.fragment.warp, machine.visits[here.fragment.warp, index], offset)
        return domain.atom(("load", unique), name, varying or event.kind is ev.AccessKind.UPDATE)
    if machine.sample is not None and isinstance(address, int):
        width = (event.size or _WORD) // len(here.operation.loads)
        entry = machine.sample.entry(address + offset, width)
        if entry is not None:
            return entry
    # The same word wherever it is loaded, unless a loop waits for it to change.
    rounds = machine.visits[here.fragment.warp, index] // _LOADS_OF_ONE_VALUE
    return domain.atom(("weak", domain.key(address), offset, event.size, rounds), name, varying)


def _loaded_from_shared(
    here: Executing, event: ev.Access, address: Value, places: Lanes, offset: int, varying: bool
) -> Value:
    """What the active lanes, which access ``places``, find ``offset`` bytes further on."""
    domain = here.machine.domain
    width = (event.size or 4) // len(here.operation.loads)
    values: list[Value] = []
    for one in places.tolist() if varying else places[:1].tolist():
        value = _word_at(here.machine, one + offset, width)
        if value is None:
            break
        values.append(value)
    else:
        if not varying:
            return values[0]
        if all(isinstance(value, int) for value in values):
            lanes = np.zeros(LANES, dtype=np.uint64)
            lanes[here.active] = np.array(values, dtype=np.uint64)
            return lanes
    place = int(places[0]) + offset
    epoch = here.machine.epochs[place >> RANK_SHIFT, (place & OFFSET_MASK) >> 4]
    key = ("shared", domain.key(address), offset, epoch)
    return domain.atom(key, f"shared[{place & OFFSET_MASK:#x}]", varying)


def _word_at(machine: "Machine", place: int, width: int) -> Value | None:
    cta, offset = place >> RANK_SHIFT, place & OFFSET_MASK
    known = machine.memory.load(cta, offset, width)
    if known is None and is_reserved(machine.function, offset) and not machine.epochs[cta, offset >> 4]:
        return reserved.initial_word(cta, offset)
    return known


# Parameters and constants ------------------------------------------------------------------------------


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
        known = machine.sample.parameter(at if isinstance(at, int) else 0)
    if known is not None:
        return known
    name = f"param@{at:#x}" if isinstance(at, int) else f"[{at!r}]"
    return machine.domain.source(("parameter", bank, machine.domain.key(at), width), name)


def _element_width(opcode: str) -> int:
    """Bytes of one element of a load, by its type suffix."""
    last = opcode.rsplit(".", 1)[-1]
    if opcode[:1].isupper():
        return _PARTIAL_WIDTHS.get(last, 4)
    digits = "".join(character for character in last if character.isdigit())
    return int(digits) // 8 if digits and last[0] in "bufs" else 4
