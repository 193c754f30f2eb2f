"""``setmaxnreg`` asks for more registers than the CTA's pool has, or leaves some that nobody can use.

The registers that a CTA gets at launch are its pool. A decrease gives registers back, an increase waits until
there are enough. The check does this sum over the warps in an order in which they could have executed their
``setmaxnreg`` and CTA barriers: an increase that is never satisfied hangs, also when the registers come back
only behind a barrier that the waiting warp has not come to. Registers that are left over although a role
could have taken them mean that the increases do not belong to this launch.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import OrderReport, order_of
from ptxaudit.analysis.order.trace import BarrierKey, Execution, Step
from ptxaudit.arch import REGISTERS_PER_MULTIPROCESSOR, WARP_SIZE
from ptxaudit.checks._executions import by_instruction, steps_of
from ptxaudit.checks._order import incomplete
from ptxaudit.ir import events as ev
from ptxaudit.ir.instruction import Instruction
from ptxaudit.rules.model import Outcome, Related, Severity, Violation

NEEDS = (ev.RegisterReconfigure,)

_UNIT = 8  # registers per thread are allocated in multiples of this
_MOST = 256  # the greatest operand of setmaxnreg (PTX ISA 9.7.19.5)
_WAITS = (ev.MbarrierWait, ev.CtaBarrier, ev.ClusterBarrier)


@dataclass(slots=True)
class _Pool:
    """Registers per thread by warp, what nobody has, and the steps that wait for them or at barriers.

    ``missing`` are the numbers of the steps that still have to arrive, by phase of a CTA barrier.
    """

    held: dict[int, int]
    missing: dict[tuple[BarrierKey | None, int], set[int]]
    free: int = 0
    waiting: dict[int, deque[Step]] = field(default_factory=dict)
    least_free: int | None = None

    def execute(self, step: Step) -> bool:
        """Do one step of one warp; false when the pool has too few registers or the barrier stays closed."""
        if isinstance(step.event, ev.CtaBarrier):
            missing = self.missing[step.key, step.phase]
            missing.discard(step.number)
            return not missing or step.event.action is ev.BarrierAction.ARRIVE
        wanted = _registers(step) - self.held[step.warp]
        if wanted > self.free:
            return False
        self.free -= wanted
        self.held[step.warp] += wanted
        if _increases(step):
            self.least_free = self.free if self.least_free is None else min(self.free, self.least_free)
        return True

    def submit(self, step: Step) -> None:
        """Let a warp execute the instruction as soon as it and its earlier ones can be."""
        queue = self.waiting.setdefault(step.warp, deque())
        queue.append(step)
        progressed = True
        while progressed:
            progressed = False
            for pending in self.waiting.values():
                while pending and self.execute(pending[0]):
                    pending.popleft()
                    progressed = True

    def blocked(self) -> list[Step]:
        """The increases that nothing satisfies."""
        fronts = [queue[0] for queue in self.waiting.values() if queue]
        return [step for step in fronts if isinstance(step.event, ev.RegisterReconfigure)]


def check(analysis: FunctionAnalysis) -> Outcome:
    """The sums of every explored execution."""
    if not analysis.has(*NEEDS) or not analysis.function.is_entry:
        return Outcome.not_applicable()
    launch = _at_launch(analysis)
    if isinstance(launch, str):
        return Outcome.of([], launch)
    report = order_of(analysis)
    # A warp that stays somewhere in the execution might give registers back later.
    complete = (execution for execution in report.executions if execution.complete)
    found = (violation for execution in complete for violation in _violations(report, execution, launch))
    return Outcome.of(by_instruction(found), incomplete(report))


def _at_launch(analysis: FunctionAnalysis) -> int | str:
    """Registers per thread at launch, rounded as they are allocated, or why they are not known."""
    facts = analysis.function.facts
    if facts.threads is None:
        return "the block size is not stated (.reqntid), so the register pool is not known"
    registers = facts.registers or facts.maximum_registers
    if registers is None and facts.minimum_ctas is not None:
        registers = REGISTERS_PER_MULTIPROCESSOR // (facts.threads * facts.minimum_ctas) // _UNIT * _UNIT
        registers = min(registers, _MOST)
    if registers is None:
        return "the registers per thread at launch are not stated (.maxnreg); the cubin has them"
    return -(-registers // _UNIT) * _UNIT


def _violations(report: OrderReport, execution: Execution, launch: int) -> Iterator[Violation]:
    kinds = (ev.RegisterReconfigure, ev.CtaBarrier)
    steps = [step for step in steps_of(execution) if isinstance(step.event, kinds)]
    arrivals: dict[tuple[BarrierKey | None, int], set[int]] = {}
    for step in steps:
        if isinstance(step.event, ev.CtaBarrier):
            arrivals.setdefault((step.key, step.phase), set()).add(step.number)
    for cta in {warp.cta for warp in execution.warps}:
        warps = [number for number, warp in enumerate(execution.warps) if warp.cta == cta]
        own = [step for step in steps if step.warp in warps]
        missing = {place: set(numbers) for place, numbers in arrivals.items()}
        pool = _Pool(dict.fromkeys(warps, launch), missing)
        for step in own:
            pool.submit(step)
        blocked = pool.blocked()
        if blocked:
            yield _exceeded(report, execution, pool, blocked[0], launch)
        elif pool.least_free:
            yield from _left_over(own, pool, launch)


def _exceeded(report: OrderReport, execution: Execution, pool: _Pool, step: Step, launch: int) -> Violation:
    leaving = _may_leave(execution, pool)
    blocked = pool.blocked()
    lacking = sum(_registers(one) - pool.held[one.warp] for one in blocked) - pool.free
    may_be_freed = sum(pool.held[warp] for warp in leaving)
    sentences = [f"{len(pool.held)} warps have {launch} registers a thread at launch: {_warps_total(pool)}."]
    sentences.append(f"With every increase done, {_warps_total(pool) + lacking} are needed.")
    if leaving:
        sentences.append(f"{len(leaving)} warps may leave before; whether that returns theirs is not known.")
    share = pool.free // len(blocked)
    waiting = "1 warp that has" if len(blocked) == 1 else f"{len(blocked)} warps that have"
    mismatch = f"asks for {_registers(step)} registers, but for {waiting} {pool.held[step.warp]}"
    return Violation(
        step.instruction,
        {"mismatch": f"{mismatch} the pool holds only {share} more each"},
        tuple(Related(one, "gives registers back") for one in _decreases(execution)),
        tuple(sentences),
        severity=Severity.WARNING if may_be_freed >= lacking or not execution.possible else None,
        assumptions=tuple(report.assumptions),
    )


def _warps_total(pool: _Pool) -> int:
    return sum(pool.held.values()) + pool.free


def _left_over(steps: list[Step], pool: _Pool, launch: int) -> Iterator[Violation]:
    """Increases that could have been greater by a unit for every warp that is to have as many registers."""
    by_number: dict[int, list[Step]] = {}
    for step in steps:
        if _increases(step):
            by_number.setdefault(_registers(step), []).append(step)
    for number, same in by_number.items():
        warps = {step.warp for step in same}
        assert pool.least_free is not None
        if pool.least_free >= _UNIT * len(warps) and number + _UNIT <= _MOST:
            unused = f"{pool.least_free * WARP_SIZE} registers"
            yield Violation(
                same[0].instruction,
                {"mismatch": f"leaves {unused} unused: {len(warps)} warps could have {number + _UNIT}"},
                evidence=(f"{len(pool.held)} warps have {launch} registers a thread at launch.",),
                severity=Severity.WARNING,
            )


def _may_leave(execution: Execution, pool: _Pool) -> list[int]:
    """Warps that wait for nothing after their last ``setmaxnreg``: they may have ended by then."""
    staying: dict[int, bool] = dict.fromkeys(pool.held, False)
    for step in steps_of(execution):
        if step.warp in staying and isinstance(step.event, ev.RegisterReconfigure):
            staying[step.warp] = False
        elif step.warp in staying and isinstance(step.event, _WAITS):
            staying[step.warp] = True
    return [warp for warp, stays in staying.items() if not stays and not pool.waiting.get(warp)]


def _decreases(execution: Execution) -> list[Instruction]:
    found = {
        step.instruction.index: step.instruction
        for step in steps_of(execution)
        if isinstance(step.event, ev.RegisterReconfigure) and not step.event.increase
    }
    return list(found.values())


def _registers(step: Step) -> int:
    assert isinstance(step.event, ev.RegisterReconfigure)
    return step.event.registers


def _increases(step: Step) -> bool:
    return isinstance(step.event, ev.RegisterReconfigure) and step.event.increase
