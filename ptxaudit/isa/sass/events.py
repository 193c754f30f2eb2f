"""Events of SASS instructions: what each does to memory and to order.

:func:`events` is a pure function of the instruction and the target architecture; the tables of the
families (``events_memory``, ``events_sync``, ``events_async``, ``events_tensor``) map root mnemonics to
lowerings. A root that is in the opcode table but in no event table is silent: arithmetic, moves, loads
of constants, hints. An unknown root, or operands that do not fit, give :class:`UnknownEffect`.

Some spellings are ambiguous without the instructions around them (``DEPBAR`` waits for bulk groups and
for ``cp.async`` groups alike): :func:`function_events` looks at these and is the one to use for a whole
function. What SASS cannot show at all is ``None`` in the events.

An instruction under the constant false guard has no events.
"""

from collections.abc import Sequence

from ptxaudit.arch import Architecture
from ptxaudit.ir.events import (
    Backoff,
    Election,
    GridAction,
    GridDependency,
    GroupKind,
    RegisterReconfigure,
    Transfer,
    TransferKind,
    UnknownEffect,
)
from ptxaudit.ir.function import Function
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import LabelReference, Symbol
from ptxaudit.isa.sass import events_async, events_memory, events_sync, events_tensor
from ptxaudit.isa.sass.events_common import (
    ALONE,
    Events,
    Lowering,
    Surroundings,
    UnexpectedOperands,
    integer,
    never_executes,
    operand,
)
from ptxaudit.isa.sass.opcodes import DESTINATIONS


def _always(result: Events) -> Lowering:
    return lambda parts, instruction, surroundings: result


def _call(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    # An indirect call names a register, and the function that its offset is relative to.
    operands = instruction.operands
    callee = operands[0] if len(operands) == 1 else None
    target = callee.name if isinstance(callee, Symbol | LabelReference) else None
    return (Transfer(TransferKind.CALL, target),)


def _breakpoint(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    return (Transfer(TransferKind.TRAP),) if "TRAP" in parts else ()


def _reconfigure(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    return (RegisterReconfigure("DEALLOC" not in parts, integer(operand(instruction, -1))),)


def _elect(parts: Sequence[str], instruction: Instruction, surroundings: Surroundings) -> Events:
    return (Election(operand(instruction, 0), None),)


_LOWERINGS: dict[str, Lowering] = {
    **events_memory.LOWERINGS,
    **events_sync.LOWERINGS,
    **events_async.LOWERINGS,
    **events_tensor.LOWERINGS,
    "EXIT": _always((Transfer(TransferKind.EXIT),)),
    "KILL": _always((Transfer(TransferKind.EXIT),)),
    "RET": _always((Transfer(TransferKind.RETURN),)),
    "CALL": _call,
    "BPT": _breakpoint,
    "NANOSLEEP": _always((Backoff(),)),
    "ACQBULK": _always((GridDependency(GridAction.WAIT),)),
    "PREEXIT": _always((GridDependency(GridAction.LAUNCH_DEPENDENTS),)),
    "USETMAXREG": _reconfigure,
    "ELECT": _elect,
}

# Roots of the opcode table whose accesses the event tables do not describe.
_OPAQUE = frozenset({"TEX", "TLD", "TLD4", "TMML", "TXD", "SULD", "SUST", "SURED", "SUATOM", "LDT", "STT"})

MODELLED = frozenset(DESTINATIONS) - _OPAQUE
"""Root mnemonics whose effect is known, silent ones included."""

_COMMITS = {"UTMACMDFLUSH": GroupKind.BULK, "LDGDEPBAR": GroupKind.CP_ASYNC}
_AMBIGUOUS = frozenset({"DEPBAR", "UTMACMDFLUSH"})


def events(
    instruction: Instruction, architecture: Architecture, surroundings: Surroundings = ALONE
) -> Events:
    """What ``instruction`` does to memory and to order on ``architecture``, in program order.

    Empty for arithmetic and for loads of constants. ``surroundings`` resolves ambiguous spellings; on
    its own, a scoreboard wait is one for every kind of group. Pure.
    """
    root = instruction.opcode.split(".", 1)[0]
    lowering = _LOWERINGS.get(root)
    if lowering is None:
        return () if root in MODELLED else (UnknownEffect(instruction.opcode),)
    if instruction.guard is not None and never_executes(instruction):
        return ()
    try:
        return lowering(instruction.opcode.split("."), instruction, surroundings)
    except UnexpectedOperands:
        return (UnknownEffect(instruction.opcode),)


def function_events(function: Function) -> tuple[Events, ...]:
    """The events of every instruction of a function, by index, ambiguous spellings resolved."""
    instructions = function.instructions
    roots = [instruction.opcode.split(".", 1)[0] for instruction in instructions]
    groups = frozenset(
        _COMMITS[root]
        for index, root in enumerate(roots)
        if root in _COMMITS and not (root == "UTMACMDFLUSH" and _ends_tensormap_acquire(instructions, index))
    )
    return tuple(
        events(instruction, function.architecture, _surroundings(instructions, index, groups))
        if roots[index] in _AMBIGUOUS
        else events(instruction, function.architecture)
        for index, instruction in enumerate(instructions)
    )


def _surroundings(
    instructions: Sequence[Instruction], index: int, groups: frozenset[GroupKind]
) -> Surroundings:
    following = next((i for i in instructions[index + 1 :] if i.opcode != "NOP"), None)
    invalidates = (
        following is not None
        and following.opcode.startswith("CCTL.IVALL")
        and following.guard == instructions[index].guard
    )
    return Surroundings(groups, invalidates, _ends_tensormap_acquire(instructions, index))


def _ends_tensormap_acquire(instructions: Sequence[Instruction], index: int) -> bool:
    return index > 0 and instructions[index - 1].opcode == "UTMACCTL.IV"
