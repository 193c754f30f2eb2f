"""Every wgmma of a function is waited for before the next is issued, and some of the waits nothing asks for.

ptxas serialises all wgmma of a function or none (its messages C7509 to C7516 say why): each becomes a group
of its own with a wait for it behind it. A source that waits after each product is assembled to the same code,
so this is a warning only where what forces ptxas shows (calls, registers spilled between two products) and a
note otherwise. A wait that something asks for, a use of the accumulators or another synchronisation before
the next product, is nobody's loss; a function in which every wait is of that kind is clean.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.ir import events as ev
from ptxaudit.ir.function import Language
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Register
from ptxaudit.rules.model import Cost, Outcome, Related, Severity, Violation
from ptxaudit.rules.thresholds import Thresholds

NEEDS = (ev.WgmmaIssue,)
THRESHOLDS = ("least-waits",)

_SHOWN = 4
# What is no use of a product: copies between registers, also to and from uniform ones.
_COPIES = ("MOV", "UMOV", "R2UR", "CS2R")
# Events that no product need be done for; a warp barrier orders the lanes of a warp only.
_BETWEEN = (ev.WgmmaFence, ev.GroupWait, ev.GroupCommit, ev.WarpBarrier, ev.Backoff, ev.Election)


@dataclass(frozen=True, slots=True)
class _Product:
    """A wgmma that is a group of its own, its wait, and what follows up to the next one in its block."""

    instruction: Instruction
    issue: ev.WgmmaIssue
    wait: Instruction
    between: tuple[Instruction, ...]
    following: ev.WgmmaIssue | None


def check(analysis: FunctionAnalysis, thresholds: Thresholds) -> Outcome:
    """One finding for a function whose wgmma all run one at a time (SASS)."""
    issues = analysis.occurrences(ev.WgmmaIssue)
    if analysis.function.language is not Language.SASS or not issues:
        return Outcome.not_applicable()
    products = [_product(analysis, instruction, issue) for instruction, issue in issues]
    serial = [product for product in products if product is not None]
    if len(serial) < len(products):
        return Outcome.of([])
    needless = [product for product in serial if _is_needless(analysis, product)]
    enough = len(needless) >= thresholds["least-waits"]
    return Outcome.of([_violation(analysis, serial, needless)] if enough else [])


def _product(analysis: FunctionAnalysis, instruction: Instruction, issue: ev.WgmmaIssue) -> _Product | None:
    """The wgmma with its wait; ``None`` where another is issued, or the block ends, before a wait for it."""
    wait: Instruction | None = None
    between: list[Instruction] = []
    committed = _commits(analysis, instruction)
    for index in range(instruction.index + 1, analysis.function.block_of(instruction.index).end):
        later = analysis.function.instructions[index]
        following = next((e for e in analysis.events[index] if isinstance(e, ev.WgmmaIssue)), None)
        if following is not None:
            return None if wait is None else _Product(instruction, issue, wait, tuple(between), following)
        between.append(later)
        committed = committed or _commits(analysis, later)
        if wait is None and committed and _waits_for_all(analysis, later):
            wait = later
    return None if wait is None else _Product(instruction, issue, wait, tuple(between), None)


def _commits(analysis: FunctionAnalysis, instruction: Instruction) -> bool:
    return any(
        isinstance(event, ev.GroupCommit) and event.kind is ev.GroupKind.WGMMA
        for event in analysis.events[instruction.index]
    )


def _waits_for_all(analysis: FunctionAnalysis, instruction: Instruction) -> bool:
    return any(
        isinstance(event, ev.GroupWait) and event.kind is ev.GroupKind.WGMMA and event.depth == 0
        for event in analysis.events[instruction.index]
    )


def _is_needless(analysis: FunctionAnalysis, product: _Product) -> bool:
    """Whether the next wgmma could be issued with no wait: nothing before it needs this one to be done."""
    if product.following is None:
        return False
    registers = {*product.issue.accumulators, *product.issue.a_registers}
    if registers & set(product.following.a_registers) & set(product.issue.accumulators):
        return False
    return not any(_needs(analysis, one, registers) for one in product.between)


def _needs(analysis: FunctionAnalysis, instruction: Instruction, registers: set[Register]) -> bool:
    events = analysis.events[instruction.index]
    if _is_spill(events):
        return False
    if any(not isinstance(event, _BETWEEN) for event in events):
        return True
    touched = {*instruction.reads, *instruction.writes}
    return not _is_copy(instruction) and not registers.isdisjoint(touched)


def _is_spill(events: tuple[ev.Event, ...]) -> bool:
    """Whether all that an instruction does to memory is to save or restore a register."""
    return bool(events) and all(
        isinstance(event, ev.Access) and event.space is ev.StateSpace.LOCAL for event in events
    )


def _is_copy(instruction: Instruction) -> bool:
    return instruction.parts[0] in _COPIES or "MOV" in instruction.parts[1:]


def _violation(analysis: FunctionAnalysis, serial: list[_Product], needless: list[_Product]) -> Violation:
    first = needless[0]
    reason = _what_forces_ptxas(analysis, needless)
    several = f"Each of the {len(serial)} wgmma of the function is a group of its own and waited for at once."
    asked = f"Behind {len(needless)} of the waits nothing needs the product before the next is issued."
    why = reason or "A source with wait_group 0 after each product is assembled alike: ptxas -v tells which."
    more = [Related(one.wait, "likewise") for one in needless[1:_SHOWN]]
    return Violation(
        first.wait,
        {"wgmma": first.instruction.opcode, "count": str(len(serial)), "by": _author(reason)},
        (Related(first.instruction, "the only wgmma of its group"), *more),
        (several, asked, why),
        severity=Severity.WARNING if reason is not None else Severity.NOTE,
        cost=Cost(_frequency(analysis, needless), _SUMMARY),
        cheaper={one.wait.index: _without_wait(analysis, one.wait.index) for one in needless},
    )


def _without_wait(analysis: FunctionAnalysis, index: int) -> tuple[ev.Event, ...]:
    return tuple(event for event in analysis.events[index] if not isinstance(event, ev.GroupWait))


_SUMMARY = (
    "Local estimate, not measured: the tensor cores drain before each issue, so the latency of a wgmma is "
    "exposed once each."
)


def _author(reason: str | None) -> str:
    return "by ptxas" if reason is not None else "by ptxas, or by waits in the source"


def _what_forces_ptxas(analysis: FunctionAnalysis, needless: list[_Product]) -> str | None:
    """What in the code explains that ptxas serialised, in words."""
    calls = [i for i, event in analysis.occurrences(ev.Transfer) if event.kind is ev.TransferKind.CALL]
    if calls:
        return f"The function calls others ({calls[0].text.strip()}); ptxas keeps no wgmma in flight then."
    spilled = list(_spills(analysis, needless))
    if spilled:
        return f"Registers are spilled between two products ({spilled[0].text.strip()}): they do not suffice."
    return None


def _spills(analysis: FunctionAnalysis, products: list[_Product]) -> Iterator[Instruction]:
    for product in products:
        for instruction in product.between:
            if _is_spill(analysis.events[instruction.index]):
                yield instruction


def _frequency(analysis: FunctionAnalysis, needless: list[_Product]) -> str:
    looped = any(
        analysis.function.block_of(one.wait.index).id in loop.blocks
        for one in needless
        for loop in analysis.graph.loops
    )
    return "every wgmma, in a loop" if looped else "every wgmma, once"
