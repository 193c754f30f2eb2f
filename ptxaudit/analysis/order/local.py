"""Local memory, where compilers spill registers: words that a thread keeps for itself.

Property: a load gives what the same lanes stored last at the same address, where both addresses are the same
sum (the stack pointer and a number, as a rule). Each word is kept among the registers of its fragment, so
that it parts and joins with them. Direction: forward. Join: as for registers. Known limits: a store through
another sum, or one that differs by lane, may go anywhere, and so makes all words unknown; so does one that
overlaps a word in part.
"""

from collections.abc import Collection, Hashable

from ptxaudit.analysis.order.executing import Executing
from ptxaudit.analysis.order.program import stored_elements
from ptxaudit.ir import events as ev
from ptxaudit.ir.operands import Register
from ptxaudit.ir.values import Affine, Value

_PREFIX = "local "


def access(here: Executing, event: ev.Access) -> None:
    """A load or store of local memory."""
    place = _place(here, here.value(event.address))
    if event.writes:
        _store(here, event, place)
    if here.operation.loads:
        _load(here, event, place)


def _place(here: Executing, address: Value) -> tuple[Hashable, int] | None:
    """An address as an unknown base and a number of bytes; ``None`` when it differs by lane."""
    if isinstance(address, int):
        return "", address
    if not isinstance(address, Affine) or address.varying or not isinstance(address.offset, int):
        return None
    return here.machine.domain.key(Affine(address.terms, 0)), address.offset


def _name(base: Hashable, offset: int, width: int) -> str:
    return f"{_PREFIX}{offset} {width} {base}"


def _split(name: str) -> tuple[int, int, str]:
    offset, width, base = name.removeprefix(_PREFIX).split(" ", 2)
    return int(offset), int(width), base


def _store(here: Executing, event: ev.Access, place: tuple[Hashable, int] | None) -> None:
    if place is None or event.size is None or event.kind is ev.AccessKind.UPDATE:
        _forget(here, None, 0, 0)
        return
    base, start = place
    elements = stored_elements(event)
    if not elements:
        _forget(here, base, start, event.size)
        return
    width = event.size // len(elements)
    kept = {_name(base, start + position * width, width) for position in range(len(elements))}
    _forget(here, base, start, event.size, kept)
    for position, operand in enumerate(elements):
        here.write(Register(_name(base, start + position * width, width)), here.value(operand))


def _forget(here: Executing, base: Hashable, start: int, size: int, kept: Collection[str] = ()) -> None:
    """Words that a store touches, or may touch, other than ``kept``, are not known any more."""
    registers = here.fragment.registers
    for name in [name for name in registers if name.startswith(_PREFIX) and name not in kept]:
        offset, width, own = _split(name)
        if own == str(base) and (offset + width <= start or start + size <= offset):
            continue
        registers[name] = _unknown(here, name)


def _unknown(here: Executing, name: str) -> Value:
    return here.machine.domain.atom(("local", here.machine.operation_count, name), "local", varying=True)


def _load(here: Executing, event: ev.Access, place: tuple[Hashable, int] | None) -> None:
    loads = here.operation.loads
    width = (event.size or 4 * len(loads)) // len(loads)
    for position, register in enumerate(loads):
        held = None
        if place is not None:
            held = here.fragment.registers.get(_name(place[0], place[1] + position * width, width))
        here.write(register, _unknown(here, register.name) if held is None else held)
