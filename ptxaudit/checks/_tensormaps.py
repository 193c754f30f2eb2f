"""Which tensor map an instruction names: its address followed back to where it is formed.

Property: the definition an address derives from by copies, conversions between address windows and additions
of constants, with the sum of the constants. Direction: backward along single definitions. Known limit: two
ways to compute one address are two maps.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.definitions import Definitions
from ptxaudit.analysis.pollloops import poll_loops
from ptxaudit.ir.events import Access, Addressing, Fence, Proxy, StateSpace, TensormapReplace
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Immediate, Memory, Operand, Register, Symbol

_COPIES = ("mov", "cvta")
_MAP_BYTES = 128


@dataclass(frozen=True, slots=True)
class MapName:
    """A base (a symbol, or a register with its definition) and an offset in bytes."""

    base: str
    offset: int


@dataclass(frozen=True, slots=True)
class MapUse:
    """An instruction that goes by a tensor map; ``stores`` tells its direction."""

    instruction: Instruction
    name: MapName | None
    stores: bool


def name_of(analysis: FunctionAnalysis, operand: Operand, index: int) -> MapName | None:
    """The map that an operand of instruction ``index`` names, ``None`` where several may be meant."""
    if isinstance(operand, Memory):
        if len(operand.terms) != 1:
            return None
        inner = name_of(analysis, operand.terms[0], index)
        return None if inner is None else MapName(inner.base, inner.offset + operand.offset)
    if isinstance(operand, Symbol):
        return MapName(operand.name, 0)
    if isinstance(operand, Register):
        return _register(analysis, poll_loops(analysis).definitions, operand.name, index)
    return None


def _register(analysis: FunctionAnalysis, definitions: Definitions, name: str, index: int) -> MapName | None:
    offset = 0
    for _ in range(64):
        reaching = definitions.reaching(name, index, definitions.everywhere)
        if reaching.open or len(reaching.definitions) != 1:
            return None
        index = min(reaching.definitions)
        instruction = analysis.function.instructions[index]
        root, operands = instruction.parts[0], instruction.operands
        if root in _COPIES and isinstance(operands[1], Register):
            name = operands[1].name
        elif root in _COPIES and isinstance(operands[1], Symbol):
            return MapName(operands[1].name, offset)
        elif root == "add" and isinstance(operands[1], Register) and isinstance(operands[2], Immediate):
            name, offset = operands[1].name, offset + int(operands[2].value)
        elif root == "ld" and "param" in instruction.parts and isinstance(operands[1], Memory):
            return _parameter(operands[1], offset)
        else:
            return MapName(f"{name}@{index}", offset)
    return None


def _parameter(place: Memory, offset: int) -> MapName | None:
    (term, *more) = place.terms or (None,)
    return MapName(f"{term.name}[{place.offset}]", offset) if isinstance(term, Symbol) and not more else None


def modifications(analysis: FunctionAnalysis) -> Iterator[tuple[Instruction, MapName | None]]:
    """Changes of tensor maps in global memory: by their own instructions, or by stores to a used one."""
    used = {use.name for use in uses(analysis) if use.name is not None}
    for instruction in analysis.function.instructions:
        for event in analysis.events[instruction.index]:
            if isinstance(event, TensormapReplace) and event.space is not StateSpace.SHARED:
                yield instruction, name_of(analysis, event.address, instruction.index)
                break
            if isinstance(event, Access) and event.writes and event.space is StateSpace.GLOBAL:
                name = name_of(analysis, event.address, instruction.index)
                inside = name is not None and MapName(name.base, name.offset & -_MAP_BYTES) in used
                if inside and name is not None and event.proxy is Proxy.GENERIC:
                    yield instruction, MapName(name.base, name.offset & -_MAP_BYTES)
                    break


def uses(analysis: FunctionAnalysis) -> list[MapUse]:
    """Tensor copies with the map that they go by."""
    found: dict[int, MapUse] = {}
    for instruction, event in analysis.occurrences(Access):
        if event.addressing is Addressing.TENSOR_MAP:
            name = name_of(analysis, Memory(getattr(event.address, "terms", ())), instruction.index)
            found[instruction.index] = MapUse(instruction, name, event.writes)
    return list(found.values())


def acquires(analysis: FunctionAnalysis, name: MapName, index: int) -> bool:
    """Whether an instruction is a tensor map acquire of this map, or of one that is not known."""
    for event in analysis.events[index]:
        if not isinstance(event, Fence) or event.proxy is not Proxy.TENSORMAP or event.semantics is None:
            continue
        own = None if event.address is None else name_of(analysis, event.address, index)
        if event.semantics.acquires and (own is None or own == name):
            return True
    return False
