"""The launches of a kernel that are executed first: one that runs to its end, and one that surely hangs.

Property: ``first_launch`` gives a shape and loop bounds with which every warp ends and every ring of
barriers comes round twice, parameters unknown if that can be, else sampled. ``Start.hanging`` is a launch
with every parameter known in which warps wait for ever: it exists where a run with unknown parameters got
stuck, too, and where with the sampled values every shape that the code leaves open does, whichever way the
kernel's data decide. Direction and join do not apply. Known limits: all sampled parameters have one value;
data decide all one way or all the other; of a kernel in SASS no hanging launch is given, since a value that
the analysis lacks looks the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from ptxaudit.analysis.order.budget import Budget
from ptxaudit.analysis.order.machine import Bounds, LaunchShape, Machine
from ptxaudit.analysis.order.program import Program
from ptxaudit.analysis.order.rings import falls_short, not_round, wanted_iterations
from ptxaudit.analysis.order.samples import Sample
from ptxaudit.analysis.order.shapes import shapes
from ptxaudit.analysis.order.trace import Execution, Step
from ptxaudit.ir.function import Language

# A count of iterations or tiles; sizes that give a few iterations of loops over tiles of elements.
_SAMPLES = (Sample((4,)), Sample((1024,)), Sample((512,)))
# What global memory holds is known, too: warps that go by it then agree. Mixed sizes reach more.
_FULL_SAMPLES = (
    *(Sample((number,), number) for number in (4, 512, 1024, 2048)),
    *(Sample((1, 4, 512, 2048), step, salt) for salt in range(1, 7) for step in (512, 2048)),
)
# One with which long rings come round twice: only to see whether it hangs, since it takes long where not.
_LONG_SAMPLE = Sample((8192,))
# Times round a loop whose buffers no mbarriers keep: so that rings of up to four, and of up to eight, come
# round twice.
_ITERATIONS_OF_BUFFERS = (9, 17)
# A sampled execution may have this part of the operations; so many that are cut short cost as much as one.
_SAMPLED_SHARE = 5


@dataclass(slots=True)
class Attempt:
    """An execution with what it was made from; ``shortest`` is the one with the least loop bounds.

    ``longer`` is one with greater bounds that got stuck and need not be possible.
    """

    execution: Execution
    shortest: Execution
    shape: LaunchShape
    bounds: Bounds
    sample: Sample | None
    longer: Execution | None = None


@dataclass(slots=True)
class Start:
    """The launch to explore; one that hangs, if one was found; whether the unknown one got stuck.

    ``others`` are attempts that were not chosen, and yet may reach more.
    """

    first: Attempt
    hanging: Attempt | None = None
    stuck: bool = False
    others: "tuple[Attempt, ...]" = ()


@dataclass(slots=True)
class _Tries:
    """The attempts with one sample, by shape, and the one to go on with; ``all`` when none was left out."""

    attempts: list[Attempt]
    best: Attempt
    all: bool


def first_launch(program: Program, budget: Budget) -> Start | None:
    """Find a launch that runs to its end and loop bounds that let every ring come round twice.

    Parameters stay unknown in the first attempts; where that leads to no complete run (decisions about
    related quantities need not fit together), samples of parameter values are tried.
    """
    unknown = _try_shapes(program, None, budget)
    if unknown is None:
        return None
    first = unknown.best
    if _is_endless(first):
        return Start(first)
    settled = first.execution.complete or shows_something(first.execution)
    doubtful = first.longer if settled else first.execution
    if doubtful is None:
        return Start(first)
    tries: dict[Sample, _Tries | None] = {}
    if not settled:
        tries = {sample: _try_shapes(program, sample, budget) for sample in _SAMPLES}
    hanging = hanging_launch(program, budget, first.shape, (doubtful,), tries)
    ended = [found.best for found in tries.values() if found is not None and found.best.execution.complete]
    # A run with unknown parameters stands for every launch: what it leaves unresolved is unknown, and a
    # sample in which it is known shows that launch only.
    if settled:
        return Start(first, hanging)
    if not any(is_resolved(attempt.execution) for attempt in ended):
        ended += _full_samples(program, budget)
    if not ended:
        return Start(first, hanging)
    best = max(ended, key=lambda attempt: _worth(program, attempt))
    others = tuple(attempt for attempt in (first, *ended) if attempt is not best)
    # With other values warps may still wait for ever: the sample shows one launch, not all.
    return Start(best, hanging, bool(first.execution.stuck), others)


def _is_endless(attempt: Attempt) -> bool:
    """Whether an attempt used up its operations on a course that no parameter has a say in."""
    execution = attempt.execution
    return is_cut_short(execution, attempt.bounds) and not execution.decisions and is_resolved(execution)


def is_cut_short(execution: Execution, bounds: Bounds) -> bool:
    """Whether an execution used up its operations."""
    return execution.operations >= bounds.operations


def confirming_launch(program: Program, budget: Budget, shape: LaunchShape) -> Attempt | None:
    """A launch with known parameters that runs to its end and decides nothing that need not be possible."""
    for sample in _SAMPLES:
        if budget.is_used_up:
            break
        attempt = _attempt(program, shape, sample, budget)
        execution = attempt.execution
        if execution.complete and execution.possible and is_resolved(execution):
            return attempt
    return None


def hanging_launch(
    program: Program,
    budget: Budget,
    shape: LaunchShape,
    doubtful: Iterable[Execution],
    known: "Mapping[Sample, _Tries | None]" = MappingProxyType({}),
) -> Attempt | None:
    """A sampled launch that hangs on a barrier on which one of the ``doubtful`` executions got stuck, too.

    ``known`` are samples that were tried already.
    """
    barriers = {barrier for execution in doubtful for barrier in _starved(execution)}
    if program.analysis.function.language is not Language.PTX or not barriers:
        return None
    for sample in (*_SAMPLES, _LONG_SAMPLE):
        tries = known.get(sample) or _try_shapes(program, sample, budget)
        hanging = None if tries is None else _hanging(program, tries, shape, barriers, budget)
        if hanging is not None:
            return hanging
    return None


def _full_samples(program: Program, budget: Budget) -> list[Attempt]:
    """Launches with everything known that run to their end, each reaching what none before it did.

    Where the first were all cut short, the kernel is taken to be endless.
    """
    ended: list[Attempt] = []
    seen: set[int] = set()
    cut_short = 0
    for sample in _FULL_SAMPLES:
        tries = _try_shapes(program, sample, budget)
        if tries is None or not tries.best.execution.complete:
            cut_short += tries is not None and is_cut_short(tries.best.execution, tries.best.bounds)
            if not ended and cut_short == _SAMPLED_SHARE:
                break
            continue
        places = reached(tries.best.execution).keys()
        if is_resolved(tries.best.execution) and not places <= seen:
            ended.append(tries.best)
            seen |= places
    return ended


def _worth(program: Program, attempt: Attempt) -> tuple[bool, int, bool, int]:
    """Attempts are preferred that leave nothing unresolved, reach most, and bring every ring round twice."""
    execution = attempt.execution
    round_twice = not falls_short(program, execution)
    return is_resolved(execution), len(reached(execution)), round_twice, len(execution.entries)


def is_resolved(execution: Execution) -> bool:
    """Whether every address, count and parity in it is known."""
    return all(step.unresolved is None for step in execution.entries if isinstance(step, Step))


def reached(execution: Execution) -> dict[int, Step]:
    """The instructions with an event that it executed, each with a step of it."""
    return {entry.instruction.index: entry for entry in execution.entries if isinstance(entry, Step)}


def _try_shapes(program: Program, sample: Sample | None, budget: Budget) -> _Tries | None:
    """Try the shapes until every warp runs to its end; the best is that one, else the first.

    ``None`` where there is no shape, or nothing left to try one with.
    """
    if budget.is_used_up:
        return None
    attempts: list[Attempt] = []
    for shape in shapes(program):
        attempts.append(_attempt(program, shape, sample, budget))
        latest = attempts[-1]
        if latest.execution.complete:
            return _Tries(attempts, latest, False)
        if latest.execution.limits or budget.is_used_up:
            return _Tries(attempts, attempts[0], False)
    return _Tries(attempts, attempts[0], True) if attempts else None


def _hanging(
    program: Program, tries: _Tries, shape: LaunchShape, barriers: set[tuple[str, int]], budget: Budget
) -> Attempt | None:
    """The attempt with a shape, if a sample hangs in every shape, and there on one of some barriers.

    Where the kernel's data decide something on the way, it must hang with the contrary decisions as well.
    """
    hangs = (_hangs_whatever_the_data(program, attempt, budget) for attempt in tries.attempts)
    if not (tries.all and all(hangs)):
        return None
    alike = next((attempt for attempt in tries.attempts if attempt.shape == shape), tries.best)
    return alike if _starved(alike.execution) & barriers else None


def _hangs_whatever_the_data(program: Program, attempt: Attempt, budget: Budget) -> bool:
    if shows_something(attempt.execution):
        return True
    if not _rests_on_data_alone(attempt.execution):
        return False
    contrary = budget.run(
        Machine(program, attempt.shape, attempt.bounds, sample=attempt.sample, against_data=True)
    )
    if contrary.complete or not _rests_on_data_alone(contrary):
        return False
    return bool(_starved(contrary) & _starved(attempt.execution))


def _starved(execution: Execution) -> set[tuple[str, int]]:
    """The barriers that warps wait for, in whatever CTA."""
    return {(stuck.key[0], stuck.key[2]) for stuck in execution.stuck if stuck.key is not None}


def _attempt(program: Program, shape: LaunchShape, sample: Sample | None, budget: Budget) -> Attempt:
    operations = budget.each if sample is None else budget.each // _SAMPLED_SHARE
    bounds = Bounds(operations)
    shortest = budget.run(Machine(program, shape, bounds, sample=sample))
    best = Attempt(shortest, shortest, shape, bounds, sample)
    # Where nothing was decided, no bound had a say.
    while best.execution.complete and best.execution.decisions and not budget.is_used_up:
        wanted = wanted_iterations(program, best.execution, best.bounds)
        every = best.bounds.default_iterations
        if wanted == dict(best.bounds.iterations or {}):
            # Another loop with the same trip count is left earlier: let all go on as long.
            longest = max(wanted.values(), default=0)
            if longest <= every or not falls_short(program, best.execution):
                break
            every = longest
        bounds = Bounds(operations, every, wanted)
        if not any(bounds.limit(loop) > best.bounds.limit(loop) for loop in best.execution.bounded):
            best = replace(best, bounds=bounds)  # it would be the same execution
            continue
        longer = budget.run(Machine(program, shape, bounds, sample=sample))
        if not longer.complete and not shows_something(longer):
            best.longer = longer
            break
        best = Attempt(longer, shortest, shape, bounds, sample)
    return _with_buffers_returning(program, best, budget)


def _with_buffers_returning(program: Program, attempt: Attempt, budget: Budget) -> Attempt:
    """The attempt with loops gone round until the buffers in them come back, where they ever do."""
    apart = not_round(program, attempt.execution, 1) if attempt.execution.complete else {}
    for iterations in _ITERATIONS_OF_BUFFERS:
        if not apart or budget.is_used_up:
            break
        bounds = _at_least(attempt.bounds, apart, iterations)
        longer = budget.run(Machine(program, attempt.shape, bounds, sample=attempt.sample))
        if not longer.complete and not shows_something(longer):
            break
        still = not_round(program, longer, 2)
        if any(accesses - still.get(loop, frozenset()) for loop, accesses in apart.items()):
            attempt, apart = replace(attempt, execution=longer, bounds=bounds), still
    return attempt


def _at_least(bounds: Bounds, loops: Iterable[int], iterations: int) -> Bounds:
    wanted = {loop: max(bounds.limit(loop), iterations) for loop in loops}
    return replace(bounds, iterations={**(bounds.iterations or {}), **wanted})


def shows_something(execution: Execution) -> bool:
    """Whether what happened until an execution got stuck is certain to be possible."""
    return execution.possible and _is_followed(execution)


def _rests_on_data_alone(execution: Execution) -> bool:
    decided = all(decision.possible or decision.on_data for decision in execution.decisions)
    return decided and _is_followed(execution)


def _is_followed(execution: Execution) -> bool:
    """Whether nothing was cut short, left out or taken for granted on the way."""
    if execution.limits:
        return False
    return not any(isinstance(entry, Step) and (entry.unresolved or entry.may) for entry in execution.entries)
