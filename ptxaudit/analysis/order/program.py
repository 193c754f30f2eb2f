"""An executable form of a function's synchronisation slice.

Each block becomes a list of :class:`Operation` with everything looked up beforehand, and a way to leave
the block. A branch outside the slice is replaced by a jump to its immediate post-dominator: nothing on
either side matters.
"""

from collections.abc import Callable, Container, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.slicing import Slice, synchronisation_slice
from ptxaudit.ir import events as ev
from ptxaudit.ir.function import BasicBlock, Language
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import (
    LabelReference,
    Memory,
    Negated,
    Operand,
    Register,
    Vector,
    registers_in,
)
from ptxaudit.isa.evaluation import Evaluation, Result
from ptxaudit.isa.floating import is_floating_point
from ptxaudit.isa.ptx import evaluate as ptx_evaluate
from ptxaudit.isa.sass import evaluate as sass_evaluate
from ptxaudit.isa.sass.registers import register_range

# Events that say nothing about order by themselves.
_NEUTRAL = (
    ev.Backoff,
    ev.L1Invalidate,
    ev.MemoryFlush,
    ev.Election,
    ev.AddressMapping,
)
_OUTER_SPACES = (
    ev.StateSpace.GLOBAL,
    ev.StateSpace.LOCAL,
    ev.StateSpace.PARAM,
    ev.StateSpace.CONST,
    ev.StateSpace.TENSOR,
)
# Stores of more bytes move data, not addresses or flags.
LARGEST_WORD = 16
_WORD_BYTES = 4
_IRRELEVANT_SPACES = (ev.StateSpace.LOCAL, ev.StateSpace.PARAM, ev.StateSpace.CONST)


@dataclass(slots=True)
class Operation:
    """One instruction of the slice, ready to be executed.

    ``loads`` are the registers that a read of memory fills, ``value_needed`` tells whether anything in
    the slice may read them. ``parameter`` marks a load from kernel parameters or constants,
    ``floating`` an instruction whose results are numbers that nothing is known of. ``settles`` is the
    instruction that follows in the block with an event under the same guard.
    ``consumes`` are the tensor-memory loads whose registers the instruction reads. ``results`` are those of
    the evaluation for plain numbers: they are the same in every warp, round and execution.
    """

    instruction: Instruction
    evaluation: Evaluation | None
    events: tuple[ev.Event, ...]
    loads: tuple[Register, ...]
    value_needed: bool
    parameter: bool
    mapping: ev.AddressMapping | None
    floating: bool = False
    settles: int | None = None
    consumes: tuple[int, ...] = ()
    results: dict[Hashable, Sequence[Result]] = field(default_factory=dict, compare=False, repr=False)


@dataclass(slots=True)
class Exit:
    """How control leaves a block.

    ``kind`` is ``end`` (the thread exits), ``jump`` (to ``targets[0]``), ``branch`` (to ``targets[1]``
    when ``condition`` holds, else to ``targets[0]``) or ``indirect`` (to one of the targets).
    """

    kind: str
    targets: tuple[int, ...] = ()
    condition: tuple[Operand, ...] = ()
    instruction: Instruction | None = None


@dataclass(slots=True)
class BlockProgram:
    """The slice of one block."""

    operations: list[Operation]
    exit: Exit


@dataclass(slots=True)
class Program:
    """The slice of a function; ``join[b]`` is the block where paths that part at ``b`` meet again."""

    analysis: FunctionAnalysis
    blocks: list[BlockProgram]
    join: dict[int, int]
    kept: frozenset[int]
    weight: list[int] = field(default_factory=list)


def compile_program(analysis: FunctionAnalysis, with_global: bool = False) -> Program:
    """The executable slice of a function; ``with_global`` takes in every access to global memory."""
    function = analysis.function
    graph = analysis.graph
    outer = with_global or hands_over_to_other_ctas(analysis)
    cut = _sourceless(analysis)
    floating = frozenset(cut)
    followed: frozenset[ev.StateSpace] = frozenset()
    while True:
        seeds = _seeds(analysis, outer, followed)
        found = synchronisation_slice(graph, seeds, cut)
        kept = found.kept
        read = _spaces_of_values_read(analysis, found)
        if read <= followed:
            break
        followed |= read
    uses = _tensor_load_uses(analysis)
    relevant, kept = kept, kept | uses.keys()
    in_ptx = function.language is Language.PTX
    compile_evaluation = (
        partial(ptx_evaluate.compile_evaluation, register_types=function.register_types)
        if in_ptx
        else sass_evaluate.compile_evaluation
    )
    joins = graph.immediate_post_dominators
    looped = frozenset(block for loop in graph.loops for block in loop.blocks)
    blocks: list[BlockProgram] = []
    for block in function.blocks:
        leaving = _exit_of(block, analysis, relevant, joins)
        branch = block.end - 1 if len(block.successors) > 1 else None
        operations = [
            _operation(
                function.instructions[index],
                () if index == branch else analysis.events[index],
                found.live.get(index, frozenset()),
                compile_evaluation,
                uses.get(index, ()),
                index in floating,
            )
            for index in range(block.start, block.end)
            if index in kept and (index != branch or index in uses)
        ]
        if block.id not in looped:
            _mark_settling(operations, seeds)
        blocks.append(BlockProgram(operations, leaving))
    return Program(analysis, blocks, joins, kept, _weights(blocks))


def _seeds(
    analysis: FunctionAnalysis, outer: bool, followed: frozenset[ev.StateSpace]
) -> dict[int, tuple[Register, ...]]:
    """The instructions whose events matter, with the registers that those events depend on.

    ``followed`` are the spaces, shared and local, whose stored values matter.
    """
    seeds: dict[int, tuple[Register, ...]] = {}
    for instruction, events in zip(analysis.function.instructions, analysis.events, strict=True):
        relevant = [event for event in events if _is_seed(event, outer, followed)]
        if not relevant and not _is_guarded_exit(instruction, events):
            continue
        registers = [register for event in relevant for register in _event_registers(event, followed)]
        if instruction.guard is not None:
            registers.append(instruction.guard.register)
        seeds[instruction.index] = tuple(dict.fromkeys(registers))
    return seeds


def _sourceless(analysis: FunctionAnalysis) -> dict[int, tuple[Register, ...]]:
    """Floating-point instructions: their results are unknown numbers whatever they are computed from."""
    divisions = _divisions(analysis)
    return {
        instruction.index: () if instruction.guard is None else (instruction.guard.register,)
        for instruction in analysis.function.instructions
        if is_floating_point(instruction) and instruction.index not in divisions
    }


def _divisions(analysis: FunctionAnalysis) -> frozenset[int]:
    """The products (SASS) that are truncated to an integer in their block: divisions by a reciprocal."""
    found: set[int] = set()
    for block in analysis.function.blocks:
        truncated: set[str] = set()
        for instruction in reversed(analysis.function.instructions[block.start : block.end]):
            written = {register.name for register in instruction.writes}
            if instruction.opcode.startswith("FMUL") and written & truncated:
                found.add(instruction.index)
            truncated -= written
            if instruction.opcode.startswith("F2I.") and ".TRUNC" in instruction.opcode:
                truncated |= {register.name for register in instruction.reads}
    return frozenset(found)


def _event_registers(event: ev.Event, followed: frozenset[ev.StateSpace]) -> list[Register]:
    """Registers in an event's operands; of stored values only those that shared memory may hand on."""
    registers: list[Register] = []
    for name in event.__slots__:
        operand = getattr(event, name)
        if isinstance(operand, ev.MatrixOperand):
            operand = operand.shape
        if not isinstance(operand, Register | Negated | Vector | Memory):
            continue
        if name == "value":
            assert isinstance(event, ev.Access)
            if _memory_of(event) not in followed or (event.size or 99) > LARGEST_WORD:
                continue
            for element in stored_elements(event):
                registers.extend(registers_in(element))
            continue
        if name not in ("result", "state"):
            registers.extend(registers_in(operand))
            registers.extend(_upper_words(operand, event))
    return registers


def stored_elements(event: ev.Access) -> tuple[Operand, ...]:
    """The words of a stored value: those of a PTX vector, or the consecutive registers of a wide SASS one."""
    value = event.value
    if isinstance(value, Vector):
        return value.elements
    if value is None:
        return ()
    if isinstance(value, Register) and not value.name.startswith("%") and (event.size or 0) > _WORD_BYTES:
        words = register_range(value, event.size // _WORD_BYTES)  # type: ignore[operator]
        return words if len(words) > 1 else (value,) * (event.size // _WORD_BYTES)  # type: ignore[operator]
    return (value,)


def _upper_words(operand: Operand, event: ev.Event) -> tuple[Register, ...]:
    """The second registers of the pairs that hold a SASS matrix descriptor or a generic address."""
    if not isinstance(operand, Memory) or not operand.terms or not isinstance(operand.terms[0], Register):
        return ()
    base = operand.terms[0]
    generic = isinstance(event, ev.Access) and event.space is ev.StateSpace.GENERIC
    paired = operand.space == "gdesc" or (generic and not base.name.startswith("%"))
    return register_range(base, 2)[1:] if paired else ()


def _tensor_load_uses(analysis: FunctionAnalysis) -> dict[int, tuple[int, ...]]:
    """For each instruction that is the first in its block to use a tensor-memory load: those loads.

    A load is complete once a thread has used a register that it filled (PTX ISA 9.7.16.8: the executing
    thread's own use needs no wait). Registers are told apart by name; one that is filled again belongs
    to the load that comes last before the use in the block, or to every load of that name.
    """
    instructions = analysis.function.instructions
    filled: dict[str, set[int]] = {}
    for instruction, events in zip(instructions, analysis.events, strict=True):
        if any(isinstance(e, ev.TensorOperation) and e.action is ev.TensorAction.LOAD for e in events):
            for register in instruction.writes:
                filled.setdefault(register.name, set()).add(instruction.index)
    if analysis.function.scoreboards:
        return _scoreboard_waits(analysis, set().union(*filled.values()))
    uses: dict[int, tuple[int, ...]] = {}
    if not filled:
        return uses
    for block in analysis.function.blocks:
        seen: set[int] = set()
        latest: dict[str, int] = {}
        for instruction in instructions[block.start : block.end]:
            used: set[int] = set()
            for register in instruction.reads:
                if register.name in latest:
                    used.add(latest[register.name])
                else:
                    used |= filled.get(register.name, set())
            fresh = used - seen - {-1}
            if fresh:
                uses[instruction.index] = tuple(sorted(fresh))
                seen |= fresh
            for register in instruction.writes:
                if register.name in filled:
                    loads = instruction.index in filled[register.name]
                    latest[register.name] = instruction.index if loads else -1
                    seen.discard(instruction.index)
    return uses


def _scoreboard_waits(analysis: FunctionAnalysis, loads: set[int]) -> dict[int, tuple[int, ...]]:
    """For each SASS instruction that is the first to wait for tensor-memory loads since: those loads.

    ``tcgen05.wait::ld`` leaves no instruction, only a wait for the loads' scoreboard at some later one.
    """
    boards = analysis.function.scoreboards
    uses: dict[int, tuple[int, ...]] = {}
    for block in analysis.function.blocks if loads else ():
        before, own = set(loads), list[int]()
        for index in range(block.start, block.end):
            waits = boards[index].waits
            awaited = [place for place, load in enumerate(own) if waits & 1 << (boards[load].written or 0)]
            done = {load for load in before if waits & 1 << (boards[load].written or 0)}
            if awaited:  # loads are performed in order: those before it are done, too
                done |= {*before, *own[: awaited[-1] + 1]}
                own = own[awaited[-1] + 1 :]
            if done:
                uses[index] = tuple(sorted(done))
                before -= done
            if index in loads:
                before.discard(index)
                own.append(index)
    return uses


def _spaces_of_values_read(analysis: FunctionAnalysis, found: Slice) -> frozenset[ev.StateSpace]:
    """Shared and local memory, where the slice uses values that are loaded from there."""
    return frozenset(
        space
        for index in found.kept
        if found.live[index]
        for event in analysis.events[index]
        if isinstance(event, ev.Access) and event.reads and (space := _memory_of(event)) is not None
    )


def _memory_of(event: ev.Access) -> ev.StateSpace | None:
    """The memory whose contents are followed: shared memory, under whatever name, or local memory."""
    if event.space is ev.StateSpace.LOCAL:
        return ev.StateSpace.LOCAL
    return None if event.space in _OUTER_SPACES else ev.StateSpace.SHARED


def hands_over_to_other_ctas(analysis: FunctionAnalysis) -> bool:
    """Whether anything in the function could make global memory matter to the order of CTAs.

    Weak accesses to global memory are left out of the slice otherwise: CTAs that do not synchronise
    cannot hand it over, and within a CTA the same barriers order it as shared memory.
    """
    for instruction, events in zip(analysis.function.instructions, analysis.events, strict=True):
        for event in events:
            if isinstance(event, ev.AddressMapping) or instruction.opcode.startswith("STAS"):
                return True
            if isinstance(event, ev.Fence) and event.sync_restrict is not None:
                return True
            if isinstance(event, ev.MbarrierWait) and event.semantics is ev.Semantics.RELAXED:
                return True
    return False


def _is_seed(event: ev.Event, outer: bool, followed: frozenset[ev.StateSpace]) -> bool:
    if isinstance(event, (*_NEUTRAL, ev.Transfer)):
        return False
    if not isinstance(event, ev.Access):
        return True
    if event.space is ev.StateSpace.LOCAL:
        return event.writes and event.space in followed
    if event.space is ev.StateSpace.GLOBAL and event.semantics is ev.Semantics.WEAK:
        return outer or event.completion is not ev.Completion.SYNCHRONOUS
    return event.space not in _IRRELEVANT_SPACES


def _is_guarded_exit(instruction: Instruction, events: Sequence[ev.Event]) -> bool:
    leaves = (ev.TransferKind.EXIT, ev.TransferKind.RETURN, ev.TransferKind.TRAP)
    if instruction.guard is None:
        return False
    return any(isinstance(event, ev.Transfer) and event.kind in leaves for event in events)


def _operation(
    instruction: Instruction,
    events: tuple[ev.Event, ...],
    live: frozenset[str],
    compile_evaluation: Callable[[Instruction], Evaluation | None],
    consumes: tuple[int, ...],
    floating: bool,
) -> Operation:
    mapping = next((event for event in events if isinstance(event, ev.AddressMapping)), None)
    fetches = any(
        isinstance(event, ev.Access) and event.reads and event.completion is ev.Completion.SYNCHRONOUS
        for event in events
    ) or any(isinstance(e, ev.TensorOperation) and e.action is ev.TensorAction.LOAD for e in events)
    parameter = _is_parameter_load(instruction)
    loads = instruction.writes if (fetches or parameter) and mapping is None else ()
    evaluation = None
    floating = bool(live) and floating
    if not loads and mapping is None and live and not floating:
        evaluation = compile_evaluation(instruction)
        evaluation = None if evaluation is None else evaluation.writing(live)
    value_needed = bool(loads) and bool(live)
    return Operation(
        instruction,
        evaluation,
        events,
        loads,
        value_needed,
        parameter,
        mapping,
        floating,
        consumes=consumes,
    )


def _mark_settling(operations: Sequence[Operation], seeds: Container[int]) -> None:
    """Mark what has the guard of an event that matters and follows in its block, as it stands then.

    So it is settled before anything rests on it. What a register holds under an undecided guard is one of two
    values; what is computed from it then stays unknown, also once the guard of the event has been decided.
    Only for blocks outside of loops: of the decisions about one condition the first alone is turned, and what
    is unknown must not become known where the others matter.
    """
    following: dict[tuple[str, bool], int] = {}
    for operation in reversed(operations):
        instruction = operation.instruction
        written = {register.name for register in instruction.writes}
        following = {guard: event for guard, event in following.items() if guard[0] not in written}
        if instruction.guard is None:
            continue
        guard = instruction.guard.register.name, instruction.guard.negated
        if instruction.index in seeds and not any(map(leaves, operation.events)):
            following[guard] = instruction.index
        if not operation.events:
            operation.settles = following.get(guard)


def leaves(event: ev.Event) -> bool:
    """Whether lanes that execute an event leave the kernel."""
    return isinstance(event, ev.Transfer) and event.kind is not ev.TransferKind.CALL


def _is_parameter_load(instruction: Instruction) -> bool:
    parts = instruction.opcode.split(".", 2)
    if parts[0] == "ld" and len(parts) > 1 and parts[1].startswith(("param", "const")):
        return True
    return parts[0] in ("LDC", "LDCU", "ULDC")


def _exit_of(
    block: BasicBlock, analysis: FunctionAnalysis, kept: frozenset[int], joins: dict[int, int]
) -> Exit:
    count = len(analysis.function.blocks)
    if not block.successors:
        return Exit("end")
    if len(block.successors) == 1:
        return Exit("jump", block.successors)
    last = block.end - 1
    if last not in kept:
        join = joins.get(block.id, count)
        return Exit("end") if join >= count else Exit("jump", (join,))
    instruction = analysis.function.instructions[last]
    if "DIV" in instruction.opcode.split(".")[1:]:
        # SASS: goes to code that does the same as what follows, for lanes that are not together here.
        return Exit("jump", block.successors[:1])
    conditions = _branch_conditions(instruction)
    if len(block.successors) > 2 or not conditions:
        table = analysis.function.jump_tables.get(last, block.successors)
        return Exit("indirect", table, instruction.operands, instruction)
    return Exit("branch", block.successors, conditions, instruction)


def _branch_conditions(instruction: Instruction) -> tuple[Operand, ...]:
    """The guard and, for SASS branches on a uniform predicate, the operand: all must hold to jump."""
    conditions: list[Operand] = []
    if instruction.guard is not None:
        guard: Operand = instruction.guard.register
        conditions.append(Negated(guard) if instruction.guard.negated else guard)
    for operand in instruction.operands:
        inner = operand.operand if isinstance(operand, Negated) else operand
        if isinstance(inner, LabelReference):
            break
        if isinstance(inner, Register) and inner.name.lstrip("U").startswith("P"):
            conditions.append(operand)
    return tuple(conditions)


def _weights(blocks: Sequence[BlockProgram]) -> list[int]:
    return [sum(bool(operation.events) for operation in block.operations) for block in blocks]
