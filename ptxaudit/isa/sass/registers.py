"""Which registers a SASS instruction reads and writes, as far as its spelling decides it.

Property: ``writes`` names every register that the instruction may write, ``reads`` every one that it may
read, the guard excepted. Registers that hold wide values are named one by one (``LDG.E.128 R8`` writes
R8 to R11). Limits: an unknown opcode is taken to write its first operand and to read everything; the
reads of matrix and tensor-map operands are widened rather than missed; ``R2P`` and ``P2R``, and their
uniform relatives, are taken to touch every predicate register.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ptxaudit.ir.operands import Memory, Negated, Operand, Register, Vector, registers_in
from ptxaudit.isa.sass.opcodes import DESTINATIONS, Destinations

_ZERO = frozenset({"RZ", "URZ", "PT", "UPT", "SRZ", "PR", "UPR"})
_PREDICATES = frozenset(f"{bank}{number}" for bank in ("P", "UP") for number in (*range(8), "T", "R"))
_NUMBERED = re.compile(r"(U?R)(\d+)$")
_PAIRED = re.compile(r"\b(U?R)(\d+)\.(?:64|F32x2)")
_TILE = re.compile(r"(\d+)x(\d+)x(\d+)$")
_MULTIPLE = re.compile(r"x(\d+)$")
_PREDICATE_FILES = {
    # root: whether it writes the predicate registers, and which they are
    "R2P": (True, "P"),
    "P2R": (False, "P"),
    "UR2UP": (True, "UP"),
    "UP2UR": (False, "UP"),
}
_PREDICATE_COUNT = 7
_WARPGROUP_MMA = frozenset({"HGMMA", "QGMMA", "IGMMA", "BGMMA", "DGMMA"})
_WARP_MMA_REGISTERS = 4
_TENSOR_LOAD_REGISTERS = {"16dp256bit": 4, "16dp128bit": 2}
_FOUR = frozenset({"128", "256", "F32x4", "F16x8", "BF16x8"})
_TWO = frozenset({"64", "WIDE", "F32x2", "F16x4", "BF16x4"})
_PAIRS = frozenset({"DADD", "DMUL", "DFMA", "FADD2", "FMUL2", "FFMA2", "CLMAD"})
_LAST_REGISTER = {"R": 254, "UR": 254}
_DESCRIPTOR_REGISTERS = {"gdesc": 4, "desc": 2, "tmem": 2, "idesc": 2}
_UNIFORM_BLOCKS = {
    # root: how many uniform registers behind each address operand the instruction takes as well
    "UTMALDG": 7,
    "UTMASTG": 6,
    "UTMAREDG": 6,
    "UTMAPF": 6,
    "UBLKCP": 1,
    "UBLKRED": 1,
    "UBLKPF": 1,
    "UTMACCTL": 1,
    "CCTL": 1,
    "USTGR": 1,
    "UREDGR": 1,
}


@lru_cache(maxsize=4096)
def _register(name: str) -> Register:
    return Register(name)


@lru_cache(maxsize=4096)
def register_range(first: Register, count: int) -> tuple[Register, ...]:
    """``count`` consecutive registers from ``first``; a register without a number stays alone."""
    match = _NUMBERED.match(first.name)
    if match is None or count <= 1:
        return (first,)
    bank, start = match.group(1), int(match.group(2))
    last = min(start + count - 1, _LAST_REGISTER[bank])
    return tuple(_register(f"{bank}{number}") for number in range(start, last + 1))


def is_predicate(operand: Operand) -> bool:
    """Whether an operand is a predicate register, not negated."""
    return isinstance(operand, Register) and operand.name in _PREDICATES


def is_uniform(register: Register) -> bool:
    """Whether a warp has one of it, for all of its lanes."""
    return register.name.startswith(("UR", "UP"))


def _destination_count(destinations: Destinations, operands: Sequence[Operand]) -> int:
    match destinations:
        case Destinations.NONE:
            return 0
        case Destinations.FIRST:
            return min(1, len(operands))
        case Destinations.TWO:
            return min(2, len(operands))
        case Destinations.SOURCE:
            return max(len(operands) - 1, 0)
        case Destinations.MEMORY:
            return _first_address(operands)
        case Destinations.LEAD:
            return _leading(operands)


def _first_address(operands: Sequence[Operand]) -> int:
    for index, operand in enumerate(operands):
        if isinstance(operand, Memory):
            return index
    return min(1, len(operands))


def _leading(operands: Sequence[Operand]) -> int:
    count = 0
    while count < len(operands) and is_predicate(operands[count]):
        count += 1
    if count < len(operands) and isinstance(operands[count], Register):
        count += 1
    while count < len(operands) and is_predicate(operands[count]):
        count += 1
    return count


def value_registers(root: str, parts: Sequence[str]) -> int:
    """How many 32-bit registers one data operand of the instruction spans."""
    if root in ("LDTM", "STTM"):
        return _tensor_registers(parts)
    if root in ("LDSM", "STSM"):
        return int(parts[-1]) if parts[-1] in ("2", "4") else 1
    if root in _WARPGROUP_MMA:
        return _accumulator_registers(parts)
    if root in ("HMMA", "IMMA", "QMMA", "OMMA", "BMMA", "DMMA"):
        return _WARP_MMA_REGISTERS
    if not _FOUR.isdisjoint(parts):
        return 4
    if root == "CS2R":
        return 1 if "32" in parts else 2
    if root in _PAIRS or not _TWO.isdisjoint(parts):
        return 2
    if root in ("F2F", "F2I", "I2F", "FRND", "I2I"):
        return 2 if any(part in ("F64", "S64", "U64") for part in parts) else 1
    return 1


def _tensor_registers(parts: Sequence[str]) -> int:
    repetitions, per_repetition = 1, 1
    for part in parts[1:]:
        multiple = _MULTIPLE.match(part)
        if multiple is not None:
            repetitions = int(multiple.group(1))
        per_repetition = _TENSOR_LOAD_REGISTERS.get(part, per_repetition)
    return repetitions * per_repetition


def _accumulator_registers(parts: Sequence[str]) -> int:
    """32-bit registers of the accumulator tile that one thread of the warpgroup holds (PTX ISA 9.7.15.5)."""
    tile = next((match for part in parts if (match := _TILE.match(part))), None)
    if tile is None:
        return 1
    elements = int(tile.group(1)) * int(tile.group(2)) // 128
    accumulator = parts[parts.index(tile.group(0)) + 1] if tile.group(0) != parts[-1] else ""
    return elements // 2 if accumulator == "F16" else elements


@dataclass(frozen=True, slots=True)
class _Shape:
    """What the opcode alone decides: see :func:`accesses`."""

    destinations: Destinations
    width: int
    block: int
    fragment_first: bool
    predicate_file: tuple[bool, str] | None


@lru_cache(maxsize=4096)
def _shape(opcode: str) -> _Shape:
    parts = opcode.split(".")
    root = parts[0]
    return _Shape(
        DESTINATIONS.get(root, Destinations.FIRST),
        value_registers(root, parts),
        _UNIFORM_BLOCKS.get(root, 0),
        root in _WARPGROUP_MMA,
        _PREDICATE_FILES.get(root),
    )


def accesses(
    opcode: str, operands: Sequence[Operand], text: str
) -> tuple[tuple[Register, ...], tuple[Register, ...]]:
    """Registers that the instruction writes and reads; ``text`` is the operands' spelling."""
    shape = _shape(opcode)
    count = _destination_count(shape.destinations, operands)
    written: dict[str, Register] = {}
    for operand in operands[:count]:
        _add(written, operand, shape)
    read: dict[str, Register] = {}
    first = count
    fragment = operands[count] if shape.fragment_first and count < len(operands) else None
    if isinstance(fragment, Register):
        _add_all(read, register_range(fragment, _WARP_MMA_REGISTERS))
        first += 1
    for operand in operands[first:]:
        _add(read, operand, shape)
    if ".64" in text or ".F32x2" in text:
        _add_all(read, [_register(f"{bank}{int(number) + 1}") for bank, number in _PAIRED.findall(text)])
    if shape.predicate_file is not None:
        writes, bank = shape.predicate_file
        names = [f"{bank}{number}" for number in range(_PREDICATE_COUNT)]
        _add_all(written if writes else read, [_register(name) for name in names])
    return tuple(written.values()), tuple(read.values())


def _add(found: dict[str, Register], operand: Operand, shape: _Shape) -> None:
    """Add the registers of an operand, each as wide as the instruction's values are."""
    inner = operand.operand if isinstance(operand, Negated) else operand
    if isinstance(inner, Register):
        if shape.width == 1 or inner.name in _PREDICATES:
            if inner.name not in _ZERO:
                found[inner.name] = inner
        else:
            _add_all(found, register_range(inner, shape.width))
    elif isinstance(inner, Memory):
        _add_all(found, _address_registers(inner, shape.block))
    elif isinstance(inner, Vector):
        _add_all(found, registers_in(inner))


def _add_all(found: dict[str, Register], registers: Iterable[Register]) -> None:
    for register in registers:
        if register.name not in _ZERO:
            found[register.name] = register


def _address_registers(operand: Memory, block: int) -> list[Register]:
    registers = list(registers_in(operand))
    if operand.descriptor is not None:
        registers.extend(register_range(operand.descriptor, 2))
    block = max(block, _DESCRIPTOR_REGISTERS.get(operand.space or "", 1) - 1)
    for term in operand.terms:
        if isinstance(term, Register) and block:
            registers.extend(register_range(term, 1 + block))
    return registers
