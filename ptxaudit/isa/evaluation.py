"""What the evaluations of PTX and SASS share: their form, truths, and functions of known numbers per lane."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    domain: Domain, operation: str, values: Sequence[Result], truths: Sequence[bool]
) -> list[Result]:
    """An atom per destination, equal for equal sources; for a predicate, that its atom is not zero."""
    whole = domain.opaque(operation, *values)
    root = whole.terms[0][0]
    results: list[Result] = []
    for index, is_truth in enumerate(truths):
        part = whole
        if index:
            part = domain.atom(("part", root.identity, index), f"{root.name}[{index}]", root.varying)
        results.append(domain.truth_of(part) if is_truth else part)
    return results


def lane_mask(flags: Flags) -> int:
    """The flags as a number, lane 0 in bit 0."""
    return int(sum(1 << lane for lane in range(LANES) if flags[lane]))


def unmodelled_compute(operation: str, truths: Sequence[bool], fresh: bool) -> Compute:
    """The evaluation of an instruction that is not modelled: an atom for each destination.

    ``truths`` tells which destinations are predicates. Unless the results are ``fresh``, those that depend
    on state that no operand names, equal sources give equal atoms.
    """

    def opaque(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        return unmodelled(domain, operation, values, truths)

    def unique(domain: Domain, _: LaneState, __: Sequence[Result]) -> Sequence[Result]:
        state = domain.atom((operation, object()), operation, True)
        return unmodelled(domain, operation, (state,), truths)

    return unique if fresh else opaque
