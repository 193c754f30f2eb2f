"""Which registers a SASS instruction reads and writes, as far as its spelling decides it.

Property: ``writes`` names every register that the instruction may write, ``reads`` every one that it may
read, the guard excepted. Registers that hold wide values are named one by one (``LDG.E.128 R8`` writes
R8 to R11). Limits: an unknown opcode is taken to write its first operand and to read everything; the
reads of matrix and tensor-map operands are widened rather than missed; ``R2P`` and ``P2R``, and their
uniform relatives, are taken to touch every predicate register.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from ptxaudit.ir.operands import Memory, Negated, Operand, Register, registers_in
from ptxaudit.isa.sass.opcodes import DESTINATIONS, Destinations

_ZERO = frozenset({"RZ", "URZ", "PT", "UPT", "SRZ", "PR", "UPR"})
_PREDICATE = re.compile(r"U?P(?:T|R|\d)$")
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
    return isinstance(operand, Register) and _PREDICATE.match(operand.name) is not None


def split_operands(root: str, operands: Sequence[Operand]) -> tuple[Sequence[Operand], Sequence[Operand]]:
    """Destinations and sources of an instruction."""
    count = _destination_count(DESTINATIONS.get(root, Destinations.FIRST), operands)
    return operands[:count], operands[count:]


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


def accesses(
    root: str, parts: Sequence[str], operands: Sequence[Operand], text: str
) -> tuple[tuple[Register, ...], tuple[Register, ...]]:
    """Registers that the instruction writes and reads; ``text`` is the operands' spelling."""
    destinations, sources = split_operands(root, operands)
    width = value_registers(root, parts)
    writes = [r for operand in destinations for r in _spanned(operand, 1 if is_predicate(operand) else width)]
    reads = _source_registers(root, sources, width)
    if ".64" in text or ".F32x2" in text:
        reads.extend(_register(f"{bank}{int(number) + 1}") for bank, number in _PAIRED.findall(text))
    if root in _PREDICATE_FILES:
        written, bank = _PREDICATE_FILES[root]
        target = writes if written else reads
        target.extend(_register(f"{bank}{number}") for number in range(_PREDICATE_COUNT))
    return _distinct(writes), _distinct(reads)


def _source_registers(root: str, sources: Sequence[Operand], width: int) -> list[Register]:
    block = _UNIFORM_BLOCKS.get(root, 0)
    reads: list[Register] = []
    for position, operand in enumerate(sources):
        if root in _WARPGROUP_MMA and position == 0 and isinstance(operand, Register):
            reads.extend(register_range(operand, _WARP_MMA_REGISTERS))  # the fragment of A
        elif isinstance(operand, Memory):
            reads.extend(_address_registers(operand, block))
        elif width > 1 and not isinstance(operand, Negated):
            reads.extend(_spanned(operand, width))
        elif width > 1 and isinstance(operand, Negated):
            reads.extend(_spanned(operand.operand, 1 if is_predicate(operand.operand) else width))
        else:
            reads.extend(registers_in(operand))
    return reads


def _address_registers(operand: Memory, block: int) -> list[Register]:
    registers = list(registers_in(operand))
    if operand.descriptor is not None:
        registers.extend(register_range(operand.descriptor, 2))
    block = max(block, _DESCRIPTOR_REGISTERS.get(operand.space or "", 1) - 1)
    for term in operand.terms:
        if isinstance(term, Register) and block:
            registers.extend(register_range(term, 1 + block))
    return registers


def _spanned(operand: Operand, width: int) -> tuple[Register, ...]:
    if isinstance(operand, Register):
        return (operand,) if width == 1 else register_range(operand, width)
    return registers_in(operand)


def _distinct(registers: Iterable[Register]) -> tuple[Register, ...]:
    return tuple(dict.fromkeys([r for r in registers if r.name not in _ZERO]))
