"""One instruction of either language."""

from dataclasses import dataclass

from ptxaudit.ir.operands import Operand, Register
from ptxaudit.source import Location


@dataclass(frozen=True, slots=True)
class Guard:
    """The predicate that an instruction executes under: ``@%p1``, ``@!P0``."""

    register: Register
    negated: bool = False

    def __str__(self) -> str:
        return f"@{'!' if self.negated else ''}{self.register.name}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction with uniform reads and writes.

    ``index`` is its position in ``Function.instructions``. ``opcode`` is the dotted mnemonic as
    spelled (``mbarrier.try_wait.parity.shared::cta.b64``, ``SYNCS.PHASECHK.TRANS64.TRYWAIT``).
    ``writes`` and ``reads`` name registers; the guard counts as a read, and a guarded write leaves the
    old value when the guard is false. ``known`` is false for an opcode or modifier that the instruction
    tables do not have: it may then touch any memory.
    """

    index: int
    opcode: str
    guard: Guard | None
    operands: tuple[Operand, ...]
    writes: tuple[Register, ...]
    reads: tuple[Register, ...]
    location: Location
    text: str
    known: bool = True

    @property
    def parts(self) -> tuple[str, ...]:
        """The opcode's dotted components."""
        return tuple(self.opcode.split("."))
