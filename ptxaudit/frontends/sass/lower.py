"""From raw instructions and symbols to :class:`ptxaudit.ir.function.Function` with its CFG.

Control flow (offsets are bytes in the section, one function's code stays contiguous):

- ``BRA`` and ``JMP`` go to their target, and on to the next instruction when guarded or when they take a
  predicate operand (``BRA.U UP0, ...``); ``.DIV``/``.CONV``/``.ANY`` forms may always fall through.
- ``BRX``, ``JMX`` and ``BRXU`` go to the targets that ``.nv.info`` lists; where it lists none, to every
  block start of the function, with a note.
- ``CALL`` falls through; the callee is a function of its own. A ``CALL`` to an offset inside the same
  function, or of the function itself, is a jump that may come back.
- ``EXIT``, ``RET``, ``KILL`` and ``BPT.TRAP`` end the thread or the function, unless guarded.
- ``BSYNC`` and ``WARPSYNC`` only reconverge: they fall through, as do ``BREAK`` and ``BSSY``.
- The padding behind a function (a jump to itself that nothing reaches, then ``NOP``) is left out, as
  nvdisasm's graphs leave it out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ptxaudit.arch import Architecture
from ptxaudit.frontends.sass.disassemble import INSTRUCTION_BYTES
from ptxaudit.frontends.sass.operands import label, parse_operands, register, with_commas
from ptxaudit.ir.cfg import build_blocks
from ptxaudit.ir.function import BasicBlock, Function, Language, LaunchFacts, Note, Scoreboard
from ptxaudit.ir.instruction import Guard, Instruction
from ptxaudit.ir.operands import Immediate, LabelReference, Operand, Register, Symbol
from ptxaudit.isa.sass.opcodes import DESTINATIONS, INDIRECT_BRANCHES
from ptxaudit.isa.sass.registers import accesses
from ptxaudit.source import Location, LocationKind

_GUARD = re.compile(r"@(!?)(U?P(?:T|\d+))$")
_JUMPS = frozenset({"BRA", "JMP"})
_ENDS = frozenset({"EXIT", "RET", "KILL"})
_LABELLED = frozenset({"BRA", "JMP", "CALL", "BSSY", "WARPSYNC", "RET"})
_MAYBE = frozenset({"DIV", "CONV", "ANY"})
_NO_SCOREBOARD = 7


@dataclass(frozen=True, slots=True)
class Body:
    """One function's code: where it starts in the section, its instructions, and its indirect targets."""

    name: str
    demangled: str
    is_entry: bool
    start: int
    raw: Sequence[Mapping[str, Any]]
    indirect_targets: Mapping[int, tuple[int, ...]]
    facts: LaunchFacts
    code: bytes | memoryview = b""
    constants: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Decoded:
    operands: tuple[Operand, ...]
    writes: tuple[Register, ...]
    reads: tuple[Register, ...]
    known: bool
    text: str


@dataclass(slots=True)
class Lowering:
    """Lowers the functions of one cubin; collects the listing and the notes on the way."""

    file: str
    architecture: Architecture
    lines: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    _decoded: dict[tuple[str, str], _Decoded] = field(default_factory=dict)
    _guards: dict[str, Guard | None] = field(default_factory=dict)
    _noted: set[str] = field(default_factory=set)
    _lines_before: int = 0

    def pass_over(self, name: str, count: int) -> None:
        """Leave room for the lines of a function of so many instructions that is not lowered."""
        self.lines.append(f"// {name}: not read, it has nothing that the selected rules are about")
        self.lines.extend([""] * count)

    def next_part(self) -> None:
        """Begin a listing and notes that go on where those so far end."""
        self._lines_before += len(self.lines)
        self.lines, self.notes = [], []
        # A library has millions of instructions that are spelled differently.
        self._decoded.clear()

    def function(self, body: Body) -> Function:
        """Lower one function and append it to the listing."""
        self.lines.append(f"// {body.name}")
        length = _length_without_padding(body)
        instructions = self._instructions(body, body.raw[:length])
        # A line for each instruction of the file: how long a function is need not be known to count them.
        self.lines.extend(
            f"{body.start + INSTRUCTION_BYTES * (length + number):#06x}  {raw['opcode']}"
            for number, raw in enumerate(body.raw[length:])
        )
        blocks = self._blocks(body, instructions)
        return Function(
            name=body.name,
            demangled=body.demangled,
            language=Language.SASS,
            architecture=self.architecture,
            is_entry=body.is_entry,
            instructions=instructions,
            blocks=blocks,
            facts=body.facts,
            jump_tables=_jump_tables(body, instructions, blocks),
            scoreboards=_scoreboards(body.code, len(instructions)),
            constants=body.constants,
        )

    def _instructions(self, body: Body, code: Sequence[Mapping[str, Any]]) -> tuple[Instruction, ...]:
        instructions: list[Instruction] = []
        offset = body.start
        lines, decoded, guards = self.lines, self._decoded, self._guards
        for index, raw in enumerate(code):
            opcode, written, condition = raw["opcode"], raw.get("operands", ""), raw.get("predicate", "")
            parts = decoded.get((opcode, written))
            if parts is None:
                parts = decoded[opcode, written] = _decode(opcode, written)
            if condition not in guards:
                guards[condition] = _guard(condition)
            guard = guards[condition]
            text = f"{condition} {parts.text}" if condition else parts.text
            lines.append(f"{offset:#06x}  {text}")
            line = self._lines_before + len(lines)
            location = Location(LocationKind.SASS, self.file, line, None, offset)
            reads = parts.reads if guard is None else (*parts.reads, guard.register)
            operands, writes, known = parts.operands, parts.writes, parts.known
            instructions.append(
                Instruction(index, opcode, guard, operands, writes, reads, location, text, known)
            )
            if not known:
                self._note(opcode, location)
            offset += INSTRUCTION_BYTES
        return tuple(instructions)

    def _note(self, opcode: str, location: Location) -> None:
        if opcode not in self._noted:
            self._noted.add(opcode)
            message = f"SASS opcode {opcode} is unknown and taken to touch any memory"
            self.notes.append(Note(message, str(location)))

    def _blocks(self, body: Body, instructions: tuple[Instruction, ...]) -> tuple[BasicBlock, ...]:
        flow = _ControlFlow(body.name, body.start, len(instructions))
        for instruction in instructions:
            if instruction.opcode.partition(".")[0] in _CONTROL:
                flow.add(instruction, body.indirect_targets)
        for index in flow.unresolved:
            place = str(instructions[index].location)
            self.notes.append(Note("indirect branch without listed targets, taken to go anywhere", place))
        end = body.start + INSTRUCTION_BYTES * len(instructions)
        positions = list(range(body.start, end, INSTRUCTION_BYTES))
        targets = flow.resolved_targets()
        starts = {t for several in targets.values() for t in several}
        labels = {index: f".{positions[index]:#x}" for index in starts}
        return build_blocks(len(instructions), (), targets, flow.falls_through, positions, end, labels)


def _jump_tables(
    body: Body, instructions: tuple[Instruction, ...], blocks: tuple[BasicBlock, ...]
) -> dict[int, tuple[int, ...]]:
    """The blocks that ``.nv.info`` lists for each indirect branch; no entry where it lists none."""
    starts = {block.start_position: block.id for block in blocks}
    tables: dict[int, tuple[int, ...]] = {}
    for instruction in instructions:
        if instruction.opcode.partition(".")[0] in INDIRECT_BRANCHES:
            listed = body.indirect_targets.get(instruction.location.offset or 0, ())
            targets = tuple(starts[offset] for offset in dict.fromkeys(listed) if offset in starts)
            if targets:
                tables[instruction.index] = targets
    return tables


def _scoreboards(code: bytes | memoryview, count: int) -> tuple[Scoreboard, ...]:
    """The scoreboards of each instruction, which the listing does not show.

    They stand in the upper bits of its 16 bytes: the one that tells when its results are there in bits
    110-112 (7 for none), those that it waits for, a bit each, in bits 116-121.
    """
    found: list[Scoreboard] = []
    for place in range(0, min(len(code) // INSTRUCTION_BYTES, count) * INSTRUCTION_BYTES, INSTRUCTION_BYTES):
        upper = int.from_bytes(code[place + 8 : place + INSTRUCTION_BYTES], "little")
        found.append(_scoreboard(upper >> 46 & 7, upper >> 52 & 0x3F))
    return tuple(found)


@lru_cache(maxsize=512)
def _scoreboard(written: int, waits: int) -> Scoreboard:
    return Scoreboard(None if written == _NO_SCOREBOARD else written, waits)


def parse_instruction(text: str, file: str = "sass", index: int = 0, offset: int = 0) -> Instruction:
    """One instruction as a listing spells it, guard first: ``@!P0 BRA 0x40``."""
    condition, _, rest = text.partition(" ") if text.startswith("@") else ("", "", text)
    opcode, _, written = rest.strip().partition(" ")
    decoded = _decode(opcode, written.replace(", ", ","))
    guard = _guard(condition)
    reads = decoded.reads if guard is None else (*decoded.reads, guard.register)
    location = Location(LocationKind.SASS, file, None, None, offset)
    return Instruction(
        index, opcode, guard, decoded.operands, decoded.writes, reads, location, text, decoded.known
    )


def _length_without_padding(body: Body) -> int:
    """How many instructions the function has before the padding; all of them where there is none."""
    last = len(body.raw) - 1
    while last >= 0 and body.raw[last]["opcode"] == "NOP":
        last -= 1
    if last < 1 or body.raw[last]["opcode"] != "BRA" or "predicate" in body.raw[last]:
        return len(body.raw)
    itself = f"{body.start + INSTRUCTION_BYTES * last:#x}"
    before = body.raw[last - 1]
    root = before["opcode"].split(".", 1)[0]
    conditional = "predicate" in before or (root in _JUMPS and "," in before.get("operands", ""))
    reached = conditional or root not in _NEVER_FALL_THROUGH
    targeted = any(raw.get("operands", "").rpartition(",")[2] == itself for raw in body.raw[:last])
    is_self_loop = body.raw[last].get("operands") == itself
    return last if is_self_loop and not reached and not targeted else len(body.raw)


_NEVER_FALL_THROUGH = _ENDS | _JUMPS | INDIRECT_BRANCHES | {"BPT"}
_CONTROL = _JUMPS | INDIRECT_BRANCHES | _ENDS | {"CALL", "BPT"}


class _ControlFlow:
    """Targets and fall-throughs by instruction index, gathered over a function."""

    def __init__(self, name: str, start: int, count: int) -> None:
        self._itself = Symbol(name)
        self._start = start
        self._count = count
        self._targets: dict[int, tuple[int, ...]] = {}
        self.falls_through: set[int] = set()
        self.unresolved: list[int] = []

    def add(self, instruction: Instruction, indirect_targets: Mapping[int, tuple[int, ...]]) -> None:
        parts = instruction.opcode.split(".")
        root, index = parts[0], instruction.index
        conditional = instruction.guard is not None and not _always(instruction.guard)
        if root in _JUMPS:
            self._targets[index] = self._inside(_label_offsets(instruction))
            takes_predicate = len(instruction.operands) > 1
            conditional = conditional or takes_predicate or not _MAYBE.isdisjoint(parts)
        elif root in INDIRECT_BRANCHES:
            listed = indirect_targets.get(self._start + INSTRUCTION_BYTES * index, ())
            self._targets[index] = self._inside(listed)
            if not listed:
                self.unresolved.append(index)
        elif root == "CALL":
            # An indirect call names a register, and the function that its offset is relative to.
            recursion = [self._start] if instruction.operands == (self._itself,) else []
            inside = self._inside([*_label_offsets(instruction), *recursion])
            if not inside:
                return
            self._targets[index], conditional = inside, True
        elif root == "BPT" and "TRAP" not in parts:
            return
        else:
            self._targets[index] = ()
        if conditional:
            self.falls_through.add(index)

    def _inside(self, offsets: Sequence[int]) -> tuple[int, ...]:
        indices = ((offset - self._start) // INSTRUCTION_BYTES for offset in offsets)
        return tuple(dict.fromkeys(index for index in indices if 0 <= index < self._count))

    def resolved_targets(self) -> dict[int, tuple[int, ...]]:
        """Targets by index, those of an indirect branch without a list being every block start."""
        if self.unresolved:
            starts = {0} | {t for several in self._targets.values() for t in several}
            starts |= {index + 1 for index in self._targets if index + 1 < self._count}
            for index in self.unresolved:
                self._targets[index] = tuple(sorted(starts))
        return self._targets


def _always(guard: Guard) -> bool:
    return guard.register.name in ("PT", "UPT") and not guard.negated


def _label_offsets(instruction: Instruction) -> list[int]:
    return [int(o.name[1:], 16) for o in instruction.operands if isinstance(o, LabelReference)]


def _guard(condition: str) -> Guard | None:
    match = _GUARD.match(condition)
    return Guard(register(match.group(2)), bool(match.group(1))) if match else None


def _decode(opcode: str, written: str) -> _Decoded:
    root = opcode.partition(".")[0]
    written = with_commas(written)
    operands = parse_operands(written)
    writes, reads = accesses(opcode, operands, written)
    if root in _LABELLED and operands and isinstance(operands[-1], Immediate):
        operands = (*operands[:-1], label(int(operands[-1].value)))
    text = f"{opcode} {written.replace(',', ', ')}" if written else opcode
    return _Decoded(operands, writes, reads, root in DESTINATIONS, text)
