"""What the evaluations of PTX and SASS share: their form, truths, and functions of known numbers per lane."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from ptxaudit.ir.operands import Operand, Register
from ptxaudit.ir.values import LANES, Affine, Domain, Flags, Truth, Value, as_lanes, collapse

SHARED_WINDOW = 1 << 56
"""Where the generic addresses of shared memory start in the model."""


@dataclass(frozen=True, slots=True)
class LaneState:
    """What warp-wide instructions need: the lanes that execute the instruction."""

    active: Flags


Result = Value | Truth
Compute = Callable[[Domain, LaneState, Sequence[Result]], Sequence[Result]]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What an instruction computes for registers.

    ``compute`` takes the values of ``sources`` in order and gives one for each of ``destinations``
    (``None`` for the sink ``_``). It is pure but for atoms that it interns in the domain.
    """

    sources: tuple[Operand, ...]
    destinations: tuple[Register | None, ...]
    compute: Compute

    def writing(self, registers: Collection[str]) -> "Evaluation | None":
        """The evaluation of some destinations only, by name; ``None`` if it has none of them."""
        wanted = tuple(one is not None and one.name in registers for one in self.destinations)
        if not any(wanted):
            return None
        kept = tuple(one if asked else None for one, asked in zip(self.destinations, wanted, strict=True))
        compute = self.compute
        if isinstance(compute, UnmodelledCompute):
            truths = zip(compute.truths, wanted, strict=True)
            compute = replace(compute, truths=tuple(truth if asked else None for truth, asked in truths))
        return Evaluation(self.sources, kept, compute)


def as_numbers(values: Sequence[Result]) -> Sequence[Value]:
    """The values of sources none of which is a predicate, as the instruction's form ensures."""
    return cast("Sequence[Value]", values)


def truth_of(domain: Domain, value: Result) -> Truth:
    """A predicate operand, which may be written as a number."""
    if type(value) is int:
        return value != 0
    if isinstance(value, np.ndarray) and value.dtype != np.bool_:
        return domain.truth_of(value)  # type: ignore[arg-type]
    return domain.truth_of(value) if isinstance(value, Affine) else value  # type: ignore[return-value]


def per_lane(domain: Domain, operation: str, function: Callable[..., int], *values: Value) -> Value:
    """A function of numbers applied in every lane; an atom where an argument is not known."""
    if all(type(value) is int for value in values):
        return function(*values)
    unknown = [position for position, value in enumerate(values) if isinstance(value, Affine)]
    if unknown:
        result = domain.opaque(operation, *values)
        source = values[unknown[0]]
        if len(unknown) == 1 and isinstance(source, Affine) and not result.varying:
            known = [value for value in values if isinstance(value, int)]

            def later(number: int) -> int:
                return function(*known[: unknown[0]], number & 0xFFFFFFFF, *known[unknown[0] :])

            domain.definitions[result.terms[0][0]] = (later, source)
        return result
    columns = [as_lanes(value).tolist() for value in values]  # type: ignore[arg-type]
    results = [function(*arguments) for arguments in zip(*columns, strict=True)]
    return collapse(np.array(results, dtype=np.uint64))


def unmodelled(
    domain: Domain, operation: str, values: Sequence[Result], truths: Sequence[bool | None]
) -> list[Result]:
    """An atom per destination, equal for equal sources; for a predicate, that its atom is not zero.

    Where ``truths`` holds ``None`` nobody asks: a wgmma has over a hundred destinations, all of them data.
    """
    whole = domain.opaque(operation, *values)
    root = whole.terms[0][0]
    results: list[Result] = []
    for index, is_truth in enumerate(truths):
        if is_truth is None:
            results.append(0)
            continue
        part = whole
        if index:
            part = domain.atom(("part", root.identity, index), f"{root.name}[{index}]", root.varying)
        results.append(domain.truth_of(part) if is_truth else part)
    return results


def lane_mask(flags: Flags) -> int:
    """The flags as a number, lane 0 in bit 0."""
    return int(sum(1 << lane for lane in range(LANES) if flags[lane]))


@dataclass(frozen=True, slots=True)
class UnmodelledCompute:
    """The evaluation of an instruction that is not modelled: an atom for each destination.

    ``truths`` tells which destinations are predicates, ``None`` which nothing asks for. Unless the results
    are ``fresh``, those that depend on state that no operand names, equal sources give equal atoms.
    """

    operation: str
    truths: tuple[bool | None, ...]
    fresh: bool

    def __call__(self, domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        """An atom for each destination that is asked for; see :data:`Compute`."""
        if not self.fresh:
            return unmodelled(domain, self.operation, values, self.truths)
        state = domain.atom((self.operation, object()), self.operation, True)
        return unmodelled(domain, self.operation, (state,), self.truths)
