"""Executes a kernel's synchronisation slice, all warps of a cluster, in one order that could happen.

The order is chosen so that every warp runs until it has to wait. Which phases, bytes and values that
gives is used; the order of unrelated events is not: ``clocks`` works out what is ordered in every
schedule. Lanes that part at a branch become fragments that go on independently and meet at the
branch's immediate post-dominator. A failed ``try_wait`` returns false; a fragment that comes back to it
with nothing done in between waits for the phase.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxaudit.analysis.order import effects, effects_barrier, effects_mbarrier, effects_memory
from ptxaudit.analysis.order.address import in_cta, shared_layout
from ptxaudit.analysis.order.barriers import NOT_ARRIVED, ClusterBarrierState, CtaBarrierState, Mbarrier
from ptxaudit.analysis.order.decisions import Decisions
from ptxaudit.analysis.order.executing import Executing, Progress, among
from ptxaudit.analysis.order.flags import StrongWrites, flag_loops
from ptxaudit.analysis.order.fragment import Fragment, JoinPoint, Waiting, blend, is_truth, lane_bits, merge
from ptxaudit.analysis.order.memory import SharedContents
from ptxaudit.analysis.order.program import Exit, Operation, Program, leaves
from ptxaudit.analysis.order.samples import Sample
from ptxaudit.analysis.order.special import launch_constant, special_value
from ptxaudit.analysis.order.trace import (
    AsyncOperation,
    BarrierKey,
    Consumption,
    Convergence,
    Execution,
    PhaseComplete,
    Step,
    Stuck,
    WarpIdentity,
)
from ptxaudit.ir import events as ev
from ptxaudit.ir.function import Language
from ptxaudit.ir.launch import Launch
from ptxaudit.ir.operands import (
    Immediate,
    LabelReference,
    Memory,
    Negated,
    Opaque,
    Operand,
    Register,
    Symbol,
    Vector,
)
from ptxaudit.ir.values import (
    LANE_INDEX,
    LANES,
    Affine,
    Comparison,
    Domain,
    Flags,
    Truth,
    Value,
    identical,
)
from ptxaudit.isa.evaluation import Evaluation, LaneState
from ptxaudit.isa.sass.encodings import INSTRUCTION_BYTES, is_issued_once
from ptxaudit.isa.sass.registers import is_uniform, register_range
from ptxaudit.stopwatch import STOPWATCH, Stage

_WORD = (1 << 64) - 1
# What a fragment waits for that polls a flag: that the others have come as far as they can.
_POLL = "poll"
_MOST_IDLE_ROUNDS = 4
# Results of one operation that are kept to be used again, and what they and its sources may be.
_MOST_RESULTS = 4096
_PLAIN = frozenset({int, bool})


def _of_first(value: "Value | Truth", lanes: Flags) -> "Value | Truth":
    """The value that the first of some lanes holds."""
    if isinstance(value, np.ndarray):
        return value[int(lanes.argmax())].item()  # type: ignore[no-any-return]
    return value


def _polls(fragment: Fragment) -> bool:
    return fragment.waiting is not None and fragment.waiting.key[0] == _POLL


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """The launch that is executed: threads per CTA (x, y, z), CTAs per cluster (x, y, z)."""

    block: tuple[int, int, int]
    cluster: tuple[int, int, int]

    @property
    def threads(self) -> int:
        """Threads per CTA."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def ctas(self) -> int:
        """CTAs per cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far an execution goes: operations in all, and times round each loop by its header block."""

    operations: int = 2_000_000
    default_iterations: int = 3
    iterations: Mapping[int, int] | None = None

    def limit(self, header: int) -> int:
        """Times round the loop before it is left, if it can be."""
        return (self.iterations or {}).get(header, self.default_iterations)


@dataclass(frozen=True, slots=True)
class _Choice:
    """The value of a register after a write under a guard that is not known: ``new`` or ``old``."""

    guard: Truth
    new: Value
    old: Value
    offset: object


class Machine:
    """One execution. ``run`` gives its trace; a machine is used once.

    ``last_first`` runs the warps in descending order, another schedule of the same launch. ``sample`` are
    values of what the launch decides. ``against_data`` turns every decision that the kernel's data make.
    """

    def __init__(
        self,
        program: Program,
        shape: LaunchShape,
        bounds: Bounds,
        forced: Mapping[int, bool] | None = None,
        last_first: bool = False,
        sample: Sample | None = None,
        against_data: bool = False,
    ) -> None:
        self.program = program
        self.shape = shape
        self.sample = sample
        self.launch = program.analysis.launch or Launch()
        self.bounds = bounds
        self.domain = Domain()
        self.decisions = Decisions(self.domain, forced, against_data)
        self.function = program.analysis.function
        self.in_sass = self.function.language is Language.SASS
        self.layout = shared_layout(self.function.variables)
        self.mbarriers: dict[BarrierKey, Mbarrier] = {}
        self.cta_barriers: dict[BarrierKey, CtaBarrierState] = {}
        self.cluster_barrier = ClusterBarrierState()
        self.memory = SharedContents()
        self.epochs: Counter[tuple[int, int]] = Counter()
        self.visits: Counter[tuple[int, int]] = Counter()
        self.in_flight: list[tuple[AsyncOperation, BarrierKey, Value | None, int]] = []
        self.exited: Counter[int] = Counter()
        self.operations_left = bounds.operations
        self.operation_count = 0
        self.allocated_columns: Counter[int] = Counter()
        self.cluster_arrivals: defaultdict[int, NDArray[np.int64]] = defaultdict(
            lambda: np.full(LANES, NOT_ARRIVED, dtype=np.int64)
        )
        self.wgmma_commits: Counter[int] = Counter()
        self._current: dict[int | None, AsyncOperation] = {}
        self.requests = 0  # for more work, answered in the order of the requests
        self._choices: dict[Hashable, _Choice] = {}
        self._assumed: Hashable | None = None
        self._operation_numbers = 0
        warps = [
            WarpIdentity(cta, warp, min(LANES, shape.threads - warp * LANES))
            for cta in range(shape.ctas)
            for warp in range((shape.threads + LANES - 1) // LANES)
        ]
        # ptxas keeps no instruction for a warp barrier of lanes that it knows to be together already.
        self.execution = Execution(tuple(warps), lanes_in_order=self.in_sass)
        self.execution.invented = sample is not None and sample.tables is not None
        self.fragments: list[Fragment] = []
        self._parts: deque[Fragment] = deque()
        for number, warp in enumerate(warps):
            mask: Flags = np.arange(LANES) < warp.threads
            self.fragments.append(Fragment(number, mask, {}))
        if last_first:
            self.fragments.reverse()
        self._loops = {loop.header: loop for loop in program.analysis.graph.loops}
        self._flags = flag_loops(program)
        self.execution.polls = self._flags.reads
        self._strong_writes = StrongWrites(self.execution)
        self._last_polls: dict[int, Step] = {}
        self._unseen_flags: list[Step] = []
        self._poll_rounds = 0
        self._idle_rounds = 0
        self._holding: dict[int, list[int]] = {}
        for loop in program.analysis.graph.loops:
            for block in loop.blocks:
                self._holding.setdefault(block, []).append(loop.header)

    # Scheduling --------------------------------------------------------------------------------------

    @STOPWATCH.stage(Stage.EXECUTION)
    def run(self) -> Execution:
        """Execute until every warp has ended, nothing can go on, or a bound is reached."""
        pending = list(self.fragments)
        while pending and self.operations_left > 0:
            progressed = False
            for fragment in list(self.fragments):
                polled = _polls(fragment)
                if fragment not in self.fragments or not self._ready(fragment):
                    continue
                progressed = True
                self._advance(fragment)
                if not (polled and _polls(fragment)):
                    self._idle_rounds = 0
                self._advance_parts()
                effects_mbarrier.deliver(self)
                if self.operations_left <= 0:
                    break
            if not (progressed or effects_mbarrier.complete_at_rest(self) or self._poll_again()):
                break
            pending = self.fragments
        if self.operations_left <= 0:
            told = f"executing the kernel was stopped after {self.bounds.operations} operations"
            self.execution.limits.append(told)
        else:
            self._report_stuck()
        early = [poll for poll in self._unseen_flags if self._strong_writes.by_others(poll)]
        if early:
            place = early[0].instruction.location
            self.execution.limits.append(f"the flag polled at {place} is written only after the loop ends")
        self.execution.decisions = self.decisions.taken
        self.execution.operations = self.bounds.operations - self.operations_left
        return self.execution

    def _advance_parts(self) -> None:
        """Let the parts that a warp has come into go on in its turn, as it would have done in one piece."""
        while self._parts and self.operations_left > 0:
            part = self._parts.popleft()
            if part in self.fragments and self._ready(part):
                self._advance(part)

    def _ready(self, fragment: Fragment) -> bool:
        if fragment.joins and fragment in fragment.joins[-1].arrived:
            return False
        waiting = fragment.waiting
        if waiting is None:
            return True
        if self.completed_phases(waiting.key) > waiting.phase:
            fragment.waiting = None
            return True
        return False

    def _poll_again(self) -> bool:
        """When nothing else can go on: let the fragments that poll a flag read it once more."""
        self._idle_rounds += 1
        self._poll_rounds += 1
        return self._idle_rounds <= _MOST_IDLE_ROUNDS and any(map(_polls, self.fragments))

    def completed_phases(self, key: BarrierKey) -> int:
        """How many phases of a barrier have completed."""
        if key[0] == _POLL:
            return self._poll_rounds
        if key[0] == "mbarrier":
            state = self.mbarriers.get(key)
            return 0 if state is None else state.phase
        if key[0] == "bar":
            return self.cta_barriers[key].generation
        if key[0] == "wgmma":
            return min(self.wgmma_commits[warp] for warp in self.warpgroup(key[2]))
        return self.cluster_barrier.generation

    def warpgroup(self, warp: int) -> list[int]:
        """The warps of a warp's warpgroup that the CTA has."""
        identity = self.execution.warps[warp]
        first = warp - identity.warp % 4
        together = range(first, min(first + 4, len(self.execution.warps)))
        return [other for other in together if self.execution.warps[other].cta == identity.cta]

    def _report_stuck(self) -> None:
        for fragment in self.fragments:
            if fragment.joins and fragment in fragment.joins[-1].arrived:
                continue
            block = self.program.blocks[fragment.block]
            waits_behind = fragment.waiting is not None and fragment.waiting.key[0] == "bar"
            at = min(fragment.position - waits_behind, len(block.operations) - 1)
            if block.operations:
                instruction = block.operations[at].instruction
            else:
                instruction = self.function.instructions[self.function.blocks[fragment.block].start]
            waiting = fragment.waiting
            nameless = waiting is None or _polls(fragment)
            key, phase = (None, 0) if waiting is None or nameless else (waiting.key, waiting.phase)
            self.execution.stuck.append(Stuck(fragment.warp, fragment.lanes, instruction, key, phase))

    # Control flow ------------------------------------------------------------------------------------

    def _advance(self, fragment: Fragment) -> None:
        """Run a fragment until it waits, parts, joins or ends."""
        while fragment.waiting is None and self.operations_left > 0:
            block = self.program.blocks[fragment.block]
            self.operations_left -= 1
            while fragment.position < len(block.operations):
                self.operations_left -= 1
                operation = block.operations[fragment.position]
                if not self._execute(fragment, operation):
                    return
                fragment.position += 1
            if not self._leave(fragment, block.exit):
                return

    def _leave(self, fragment: Fragment, leaving: Exit) -> bool:
        if leaving.kind == "end":
            self.retire(fragment, fragment.mask)
            return False
        if leaving.kind == "jump":
            return self._enter(fragment, leaving.targets[0])
        if leaving.kind == "indirect":
            return self._enter(fragment, self._indirect_target(fragment, leaving))
        truth: Truth = True
        for operand in leaving.condition:
            truth = self.domain.combine("and", truth, self.truth(fragment, operand))
        assert leaving.instruction is not None
        site = leaving.instruction.index
        outcome = self._by_lanes(fragment, truth, lambda: self._preferred(fragment, leaving), site)
        if isinstance(outcome, np.ndarray):
            self._part(fragment, leaving, outcome)
            return False
        return self._enter(fragment, leaving.targets[1 if outcome else 0])

    def _by_lanes(
        self, fragment: Fragment, truth: Truth, preferred: Callable[[], bool], site: int
    ) -> bool | Flags:
        """A branch condition: one outcome for all lanes of the fragment, or which of them take the branch."""
        known = self.decisions.resolve(truth, preferred, site)
        outcome = self.decisions.decide(truth if known is None else known, preferred, site)
        if outcome is not None:
            return outcome
        if known is None:  # known lanes joined with what is unknown and differs by lane
            known = self.decisions.resolve(truth, preferred, site, alike=True)
        if not isinstance(known, np.ndarray):
            return bool(known)
        within = known[fragment.mask]
        return bool(within.all()) if within.all() or not within.any() else known

    def _goes_to(self, fragment: Fragment, leaving: Exit, target: int) -> Truth:
        """Whether a SASS indirect branch goes to a block: registers relative to the next instruction."""
        assert leaving.instruction is not None
        total: Value = (leaving.instruction.location.offset or 0) + INSTRUCTION_BYTES
        for operand in leaving.condition:
            total = self.domain.add(total, among(self.value(fragment, operand), fragment.mask), 32)
        return self.domain.compare("eq", total, self.function.blocks[target].start_position or 0, 32, False)

    def _indirect_target(self, fragment: Fragment, leaving: Exit) -> int:
        """A jump table's target: the first whose (consistent) decision holds, else the last."""
        index: Value = 0
        for operand in leaving.condition:
            if isinstance(operand, Register):
                index = self.value(fragment, operand)
                break
        assert leaving.instruction is not None
        if leaving.instruction.index not in self.function.jump_tables:
            limit = f"the targets of the indirect branch at {leaving.instruction.location} are not known"
            if limit not in self.execution.limits:
                self.execution.limits.append(limit)
        for number, target in enumerate(leaving.targets[:-1]):
            if self.in_sass:
                chosen = self._goes_to(fragment, leaving, target)
            else:
                chosen = self.domain.compare("eq", index, number, 64, False)
            if self.decisions.decide(chosen, lambda: True, leaving.instruction.index):
                return target
        return leaving.targets[-1]

    def _preferred(self, fragment: Fragment, leaving: Exit) -> bool:
        """Stay in a loop until its bound, else go where more of the slice lies."""
        fall, taken = leaving.targets
        for header in reversed(self._holding.get(fragment.block, ())):
            body = self._loops[header].blocks
            if (fall in body) != (taken in body):
                if header in self._flags.headers:
                    return (taken in body) == self._keeps_polling(fragment)
                rounds = fragment.iterations.get(header, 1) - (fragment.block == header)
                return (taken in body) == self._is_within_bound(header, rounds)
        weights = [self._region_weight(fragment.block, target) for target in leaving.targets]
        return weights[1] > weights[0]

    def _keeps_polling(self, fragment: Fragment) -> bool:
        """Until some other thread has written the flag, or nothing else can go on."""
        poll = self._last_polls.get(fragment.warp)
        if poll is None or self._strong_writes.by_others(poll):
            return False
        if self._idle_rounds < 2:
            return True
        self._unseen_flags.append(poll)
        return False

    def _region_weight(self, branch: int, start: int) -> int:
        stop = self.program.join.get(branch)
        seen = {start} if start != stop else set()
        pending = list(seen)
        total = 0
        while pending:
            block = pending.pop()
            total += self.program.weight[block]
            for successor in self.program.blocks[block].exit.targets:
                if successor not in seen and successor not in (stop, branch):
                    seen.add(successor)
                    pending.append(successor)
        return total

    def _enter(self, fragment: Fragment, block: int) -> bool:
        """Move to the start of a block; false when the fragment has to wait for others to join it."""
        if block in self._loops:
            inside = fragment.block in self._loops[block].blocks
            count = fragment.iterations.get(block, 0) + 1 if inside else 1
            fragment.iterations[block] = count
            seen = self.execution.loop_visits
            seen[block, fragment.warp] = max(seen.get((block, fragment.warp), 0), count)
            if inside and block in self._flags.headers:
                self.wait_for(fragment, (_POLL, 0, fragment.warp), self._poll_rounds)
        fragment.block, fragment.position = block, 0
        if fragment.joins and fragment.joins[-1].block == block:
            self._join(fragment)
            return False
        return True

    def _part(self, fragment: Fragment, leaving: Exit, truth: Flags) -> None:
        join = self.program.join.get(fragment.block, len(self.program.blocks))
        joins = fragment.joins
        if join < len(self.program.blocks):
            joins = (*joins, JoinPoint(join, fragment.mask.copy()))
        self.fragments.remove(fragment)
        for target, lanes in ((leaving.targets[0], ~truth), (leaving.targets[1], truth)):
            child = Fragment(
                fragment.warp,
                fragment.mask & lanes,
                dict(fragment.registers),
                fragment.block,
                0,
                joins,
                None,
                fragment.progress,
                {},
                dict(fragment.iterations),
            )
            self.fragments.append(child)
            self._parts.append(child)
            self._enter(child, target)

    def _join(self, fragment: Fragment) -> None:
        point = fragment.joins[-1]
        point.arrived.append(fragment)
        point.remaining = point.remaining & ~fragment.mask
        self._try_merge(point)

    def _try_merge(self, point: JoinPoint) -> None:
        if point.remaining.any() or not point.arrived:
            return
        parts = point.arrived
        point.arrived = []
        for part in parts:
            self.fragments.remove(part)
        merged = merge(self.domain, parts, parts[0].joins[:-1])
        self.fragments.append(merged)
        self._parts.append(merged)
        self.execution.entries.append(Convergence(merged.warp, merged.lanes))
        if merged.joins and merged.joins[-1].block == merged.block:
            self._join(merged)

    def retire(self, fragment: Fragment, lanes: Flags) -> None:
        """Lanes of a fragment leave the kernel."""
        cta = self.execution.warps[fragment.warp].cta
        leaving = int(np.count_nonzero(lanes))
        self.exited[cta] += leaving
        arrived = self.cluster_arrivals[fragment.warp] == self.cluster_barrier.generation
        self.cluster_barrier.arrived -= int(np.count_nonzero(arrived & lanes))  # they count as exited now
        fragment.mask = fragment.mask & ~lanes
        alive = bool(fragment.mask.any())
        if not alive:
            self.fragments.remove(fragment)
        for point in reversed(fragment.joins):
            point.remaining = point.remaining & ~lanes
            self._try_merge(point)
        effects_barrier.threads_exited(self, cta)

    # Operations --------------------------------------------------------------------------------------

    def _execute(self, fragment: Fragment, operation: Operation) -> bool:
        """Execute one operation; false when the fragment must stop here (it waits, or has ended)."""
        active = fragment.mask
        may = False
        guard: Truth = True
        instruction = operation.instruction
        if operation.consumes and self.in_sass:  # the scoreboard is waited for whatever the guard says
            self._consume(fragment, active, operation)
        if instruction.guard is not None:
            guard = self.register(fragment, instruction.guard.register, truth=True)  # type: ignore[assignment]
            if instruction.guard.negated:
                guard = self.domain.negate(guard)
            if operation.events and not isinstance(guard, bool | np.ndarray):
                guard, may = self._settle_guard(fragment, guard, operation)
            elif operation.settles is not None and isinstance(guard, Comparison):
                known = self.decisions.resolve(guard, lambda: self._goes_on(fragment), operation.settles)
                guard = guard if known is None else known
            if isinstance(guard, bool):
                if not guard:
                    return True
            elif isinstance(guard, np.ndarray):
                active = active & guard
                if not active.any():
                    return True
        if self.in_sass and is_issued_once(instruction.opcode):
            active = active & (int(active.argmax()) == LANE_INDEX)
        self.operation_count += 1
        self._current = {}
        if operation.consumes and not self.in_sass:
            self._consume(fragment, active, operation)
        if operation.mapping is not None:
            mapped = effects.map_address(self, fragment, operation)
            self.write(fragment, operation.mapping.result, mapped, guard)
        elif operation.parameter:
            effects_memory.load_parameter(self, fragment, operation, guard)
        elif operation.floating:
            self._write_unknown(fragment, operation, guard)
        elif operation.evaluation is not None:
            self._evaluate(fragment, operation, active, guard)
        if not operation.events:
            return True
        self.visits[fragment.warp, instruction.index] += 1
        here = Executing(self, fragment, operation, active, may)
        for event in operation.events:
            outcome = self.apply(here, event)
            if outcome is Progress.WAIT:
                return False
            if outcome is Progress.ENDED:
                return bool(fragment.mask.any())
        return True

    def apply(self, here: Executing, event: ev.Event) -> Progress:
        """What an event does when it is executed."""
        return effects.apply(here, event)

    def _consume(self, fragment: Fragment, active: Flags, operation: Operation) -> None:
        self.execution.entries.append(Consumption(fragment.warp, lane_bits(active), operation.consumes))

    def _settle_guard(self, fragment: Fragment, guard: Truth, operation: Operation) -> tuple[Truth, bool]:
        """An unknown guard of an instruction with effects: decided where lanes agree, else *may*.

        It is taken to hold while the loop around it is to go on: guards of software-pipelined loops say
        whether there is another iteration. Whether lanes leave the kernel is decided as a branch would be,
        and they stay as long: what follows is what matters.
        """
        site = operation.instruction.index
        if any(map(leaves, operation.events)):
            return self._by_lanes(fragment, guard, lambda: not self._goes_on(fragment), site), False
        known = self.decisions.resolve(guard, lambda: self._goes_on(fragment), site)
        return (True, True) if known is None else (known, False)

    def _goes_on(self, fragment: Fragment) -> bool:
        holding = self._holding.get(fragment.block)
        if not holding:
            return True
        header = holding[-1]
        return self._is_within_bound(header, fragment.iterations.get(header, 1))

    def _is_within_bound(self, header: int, rounds: int) -> bool:
        """Whether a loop may be gone round once more; that its bound forbids it is noted."""
        if rounds < self.bounds.limit(header):
            return True
        self.execution.bounded.add(header)
        return False

    def _evaluate(self, fragment: Fragment, operation: Operation, active: Flags, guard: Truth) -> None:
        evaluation = operation.evaluation
        assert evaluation is not None
        self._assumed = None if isinstance(guard, bool | np.ndarray) else self.domain.key(guard)
        sources = [self.operand(fragment, source) for source in evaluation.sources]
        self._assumed = None
        results = self._results(operation, evaluation, active, sources)
        for destination, result in zip(evaluation.destinations, results, strict=True):
            if destination is not None:
                self.write(fragment, destination, result, guard)

    def _results(
        self, operation: Operation, evaluation: Evaluation, active: Flags, sources: "list[Value | Truth]"
    ) -> "Sequence[Value | Truth]":
        """What an evaluation gives; for plain numbers and truths it is worked out once."""
        kinds = tuple(map(type, sources))
        if not _PLAIN.issuperset(kinds):
            return evaluation.compute(self.domain, LaneState(active), sources)
        key = (kinds, tuple(sources), active.tobytes())
        known = operation.results.get(key)
        if known is None:
            known = evaluation.compute(self.domain, LaneState(active), sources)
            if all(type(result) in _PLAIN for result in known) and len(operation.results) < _MOST_RESULTS:
                operation.results[key] = known
        return known

    def _write_unknown(self, fragment: Fragment, operation: Operation, guard: Truth) -> None:
        """Results of floating-point arithmetic: fresh numbers that may differ by lane."""
        instruction = operation.instruction
        for register in instruction.writes:
            key = ("floating", self.operation_count, register.name)
            number = self.domain.atom(key, f"float@{instruction.index}", varying=True)
            number.terms[0][0].data = True
            fresh: Value | Truth = number
            if instruction.opcode.startswith(("setp", "testp", "FSETP", "DSETP", "HSETP2", "FCHK")):
                fresh = self.domain.truth_of(number)
            self.write(fragment, register, fresh, guard)

    # Operands ----------------------------------------------------------------------------------------

    def register(self, fragment: Fragment, register: Register, truth: bool = False) -> "Value | Truth":
        """What a register holds."""
        held = fragment.registers.get(register.name)
        if isinstance(held, Affine):
            if self._choices:
                held = self._chosen(held)
                if not isinstance(held, Affine):
                    return held
            pinned = self.decisions.pinned(held)
            return held if pinned is None else pinned & _WORD
        if held is not None:
            return held
        special = special_value(self, fragment, register.name)
        if special is not None:
            return special
        unknown = self.domain.opaque("undefined", self.domain.atom(register.name, register.name))
        return self.domain.truth_of(unknown) if truth else unknown

    def _chosen(self, value: Value) -> Value:
        """What a guarded write left, now that its guard is decided or the reader has the same guard.

        Compilers guard the instructions that prepare an operation instead of branching round them.
        """
        while isinstance(value, Affine) and len(value.terms) == 1:
            choice = self._choices.get(value.terms[0][0].identity)
            if choice is None or value.terms[0][1] != 1 or value.offset is not choice.offset:
                return value
            same = self._assumed is not None and self._assumed == self.domain.key(choice.guard)
            outcome = True if same else self.decisions.settled(choice.guard)
            if outcome is None:
                return value
            value = choice.new if outcome else choice.old
        return value

    def operand(self, fragment: Fragment, operand: Operand) -> "Value | Truth":
        """What an operand stands for."""
        if isinstance(operand, Register):  # most are; matching against every class takes its time
            return self.register(fragment, operand)
        match operand:
            case Immediate(value):
                if isinstance(value, int):
                    return value & _WORD if value >= 0 else value
                return self.domain.atom(("float", value), str(value))
            case Symbol(name):
                return self.symbol(fragment, name)
            case Negated(inner):
                plain = self.operand(fragment, inner)
                if is_truth(plain):
                    return self.domain.negate(plain)  # type: ignore[arg-type]
                return self.domain.subtract(0, plain, 32)  # type: ignore[arg-type]
            case Memory(space="const"):
                return effects_memory.constant_word(self, fragment, operand)
            case Memory(space="gdesc"):
                return self.descriptor(fragment, operand)
            case Memory():
                return self.address(fragment, operand)
            case LabelReference(name) | Opaque(name):
                return self.domain.atom(("label", name), name)
            case Vector():
                return self.operand(fragment, operand.elements[0])

    def value(self, fragment: Fragment, operand: Operand) -> Value:
        """An operand as a number."""
        value = self.operand(fragment, operand)
        if is_truth(value):
            return self.domain.number_of(value)  # type: ignore[arg-type]
        return value  # type: ignore[return-value]

    def truth(self, fragment: Fragment, operand: Operand) -> Truth:
        """An operand as a truth."""
        if isinstance(operand, Register):
            value = self.register(fragment, operand, truth=True)
        elif isinstance(operand, Negated):
            return self.domain.negate(self.truth(fragment, operand.operand))
        else:
            value = self.operand(fragment, operand)
        return value if is_truth(value) else self.domain.truth_of(value)  # type: ignore[arg-type,return-value]

    def symbol(self, fragment: Fragment, name: str) -> Value:
        """The address of a variable."""
        offset = self.layout.get(name)
        if offset is None:
            return self.domain.atom(("symbol", name), name)
        return in_cta(self.execution.warps[fragment.warp].cta, offset)

    def address(self, fragment: Fragment, memory: Memory) -> Value:
        """The sum of a bracketed operand's terms."""
        total: Value = memory.offset & _WORD if memory.offset >= 0 else 0
        for term in memory.terms:
            total = self.domain.add(total, self.value(fragment, term), 64)
        if memory.offset < 0:
            total = self.domain.subtract(total, -memory.offset, 64)
        return total

    def write(self, fragment: Fragment, register: Register, new: "Value | Truth", guard: Truth) -> None:
        """Give a register its new value in the lanes where the guard holds."""
        name = register.name
        if isinstance(guard, np.ndarray) and self.in_sass and is_uniform(register):
            # One register for the warp: an elected lane's ``@P0 R2UR`` gives it that lane's value.
            lanes = guard & fragment.mask
            if not lanes.any():
                return
            new, guard = _of_first(new, lanes), True
        if guard is not True and not isinstance(guard, bool):
            old = fragment.registers.get(name)
            if old is not None:
                new = self._guarded(guard, new, old)
        fragment.registers[name] = new

    def _guarded(self, guard: Truth, new: "Value | Truth", old: "Value | Truth") -> "Value | Truth":
        if isinstance(guard, np.ndarray):
            return blend(self.domain, guard, new, old)
        if is_truth(new) and is_truth(old):
            chosen = self.domain.combine("and", guard, new)  # type: ignore[arg-type]
            kept = self.domain.combine("and", self.domain.negate(guard), old)  # type: ignore[arg-type]
            return self.domain.combine("or", chosen, kept)
        if identical(new, old):  # type: ignore[arg-type]
            return new  # no choice: its atom would stand for itself
        value = self.domain.select(guard, new, old)  # type: ignore[arg-type]
        if isinstance(value, Affine) and len(value.terms) == 1:
            choice = _Choice(guard, new, old, value.offset)  # type: ignore[arg-type]
            self._choices.setdefault(value.terms[0][0].identity, choice)
        return value

    def descriptor(self, fragment: Fragment, memory: Memory) -> Value:
        """The matrix descriptor in a pair of uniform registers (SASS)."""
        (base,) = memory.terms
        assert isinstance(base, Register)
        low, high = (self.value(fragment, register) for register in register_range(base, 2))
        if isinstance(low, Affine):
            return self.domain.opaque("descriptor", low, high)
        if isinstance(high, Affine):
            return low  # the start address alone
        upper = self.domain.shift_left(high, 32, 64)
        return self.domain.add(self.domain.bitwise("and", low, 0xFFFFFFFF, 64), upper, 64)

    def known_constant(
        self, fragment: Fragment, bank: int | None, address: Value, width: int
    ) -> Value | None:
        """What the launch itself puts into a constant bank (SASS), or ``None``."""
        held = self.function.constants.get(bank or 0)
        if held is not None and isinstance(address, int) and address + width <= len(held):
            return int.from_bytes(held[address : address + width], "little")
        if bank != 0 or not isinstance(address, int) or width != 4:
            return None
        return launch_constant(self, fragment, address)

    def current_operation(
        self, fragment: Fragment, kind: str, destination: int | None = None
    ) -> AsyncOperation:
        """The asynchronous operation of the instruction that is being executed, one for all its events.

        A multicast copy is one for each CTA that it goes to, its ``destination``: each completes by itself.
        What it reads goes with the first.
        """
        known = self._current.get(destination)
        if known is None:
            first = self._current.get(None) if len(self._current) == 1 else None
            self._operation_numbers += first is None
            known = first or AsyncOperation(self._operation_numbers, kind, fragment.warp)
            if None in self._current:
                known.tensor_map = self._current[None].tensor_map
            self._current[destination] = known
        return known

    # Trace -------------------------------------------------------------------------------------------

    def step(
        self, fragment: Fragment, operation: Operation, event: ev.Event, active: Flags, may: bool
    ) -> Step:
        """Record that a fragment executed an event."""
        fragment.progress += 1
        instruction = operation.instruction
        visit = self.visits[fragment.warp, instruction.index] - 1
        entry = Step(
            len(self.execution.entries),
            fragment.warp,
            lane_bits(active),
            instruction,
            visit,
            event,
            may,
            fragment.block,
        )
        self.execution.entries.append(entry)
        if instruction.index in self._flags.reads:
            self._last_polls[fragment.warp] = entry
        return entry

    def wait_for(self, fragment: Fragment, key: BarrierKey, phase: int) -> None:
        """Park a fragment until a phase has completed."""
        fragment.waiting = Waiting(key, phase)

    def phase_completed(self, key: BarrierKey, phase: int) -> None:
        """Record that a phase completed."""
        self.execution.entries.append(PhaseComplete(key, phase))
