"""Quick construction of the three node types that a large kernel has by the ten thousand.

A frozen dataclass sets each field through ``object.__setattr__``, which costs most of the front end's time.
Here the fields are set on an open twin with the same slots, which then takes on the frozen class; Python
checks that the layouts agree. The result is an ordinary instance of the frozen class.
"""

from ptxaudit.frontends.ptx import syntax
from ptxaudit.ir.instruction import Guard, Instruction
from ptxaudit.ir.operands import Operand, Register
from ptxaudit.source import Location, LocationKind


class _OpenStatement:
    __slots__ = ("guard", "opcode", "operands", "offset", "end")  # noqa: RUF023 (the order is the layout)
    guard: syntax.Guard | None
    opcode: str
    operands: tuple[syntax.Operand, ...]
    offset: int
    end: int


class _OpenLocation:
    __slots__ = ("kind", "file", "line", "column", "offset")  # noqa: RUF023
    kind: LocationKind
    file: str
    line: int | None
    column: int | None
    offset: int | None


class _OpenInstruction:
    __slots__ = (  # noqa: RUF023
        "index",
        "opcode",
        "guard",
        "operands",
        "writes",
        "reads",
        "location",
        "text",
        "known",
    )
    index: int
    opcode: str
    guard: Guard | None
    operands: tuple[Operand, ...]
    writes: tuple[Register, ...]
    reads: tuple[Register, ...]
    location: Location
    text: str
    known: bool


def make_statement(
    guard: syntax.Guard | None, opcode: str, operands: tuple[syntax.Operand, ...], offset: int, end: int
) -> syntax.Instruction:
    """A :class:`syntax.Instruction`."""
    made = _OpenStatement()
    made.guard = guard
    made.opcode = opcode
    made.operands = operands
    made.offset = offset
    made.end = end
    made.__class__ = syntax.Instruction  # type: ignore[assignment]
    return made  # type: ignore[return-value]


def make_location(file: str, line: int, column: int) -> Location:
    """A PTX :class:`Location`."""
    made = _OpenLocation()
    made.kind = LocationKind.PTX
    made.file = file
    made.line = line
    made.column = column
    made.offset = None
    made.__class__ = Location  # type: ignore[assignment]
    return made  # type: ignore[return-value]


def make_instruction(
    index: int,
    opcode: str,
    guard: Guard | None,
    operands: tuple[Operand, ...],
    writes: tuple[Register, ...],
    reads: tuple[Register, ...],
    location: Location,
    text: str,
    known: bool,
) -> Instruction:
    """An IR :class:`Instruction`."""
    made = _OpenInstruction()
    made.index = index
    made.opcode = opcode
    made.guard = guard
    made.operands = operands
    made.writes = writes
    made.reads = reads
    made.location = location
    made.text = text
    made.known = known
    made.__class__ = Instruction  # type: ignore[assignment]
    return made  # type: ignore[return-value]
