"""Warp-wide instructions (PTX ISA 9.7.9.6, 9.7.13): shfl, vote, activemask, elect, redux.

Lanes that take part are those of the member mask that execute the instruction now; a vote or reduction
that lanes reach from different branches sees only the lanes present. Shuffles read any lane.
"""

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxaudit.ir.affine import Affine, Combination, is_varying, rests_on_data, sum_of
from ptxaudit.ir.values import (
    LANES,
    Domain,
    Flags,
    Truth,
    Value,
    as_lanes,
    collapse,
    collapse_flags,
    signed,
)
from ptxaudit.isa.evaluation import Compute, LaneState, Result, as_numbers, lane_mask, truth_of
from ptxaudit.isa.ptx.evaluate_base import Compiler, Shape

_NUMBERS = np.arange(LANES)
_MODES = ("up", "down", "bfly", "idx")


def members(state: LaneState, mask: Result | None) -> Flags:
    """The executing lanes that a member mask names; all of them if there is none, or it is not one number."""
    if type(mask) is not int:
        return state.active
    named = state.active & (((mask & 0xFFFFFFFF) >> _NUMBERS) & 1).astype(np.bool_)
    return named if named.any() else state.active


@lru_cache(maxsize=4096)
def _sources(mode: str, amount: int, clamp: int) -> tuple[NDArray[np.int64], Flags]:
    """The lane each lane reads, and whether it is in range."""
    return _source_lanes(mode, np.full(LANES, amount), np.full(LANES, clamp))


def _source_lanes(
    mode: str, amount: NDArray[np.int64], clamp: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Flags]:
    amount, segment, limit = amount & 31, clamp >> 8 & 31, clamp & 31
    most = (_NUMBERS & segment) | (limit & ~segment)
    if mode == "up":
        source = _NUMBERS - amount
        inside = source >= most
    else:
        if mode == "down":
            source = _NUMBERS + amount
        elif mode == "bfly":
            source = _NUMBERS ^ amount
        else:
            source = (_NUMBERS & segment) | (amount & ~segment)
        inside = source <= most
    return np.where(inside, source, _NUMBERS), inside


def _compile_shuffle(shape: Shape) -> Compute | None:
    mode = next((part for part in shape.modifiers if part in _MODES), None)
    if mode is None or len(shape.sources) < 3 or len(shape.destinations) not in (1, 2):
        return None
    both = len(shape.destinations) == 2

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        value, amount, clamp = as_numbers(values[:3])
        if isinstance(amount, Affine) or isinstance(clamp, Affine):
            uniform = not is_varying(value)
            result = value if uniform else domain.opaque(f"shfl.{mode}", value, amount, clamp)
            if not both:
                return (result,)
            return (result, domain.truth_of(domain.opaque(f"shfl.{mode}.in", amount, clamp)))
        if type(amount) is int and type(clamp) is int:
            source, inside = _sources(mode, amount, clamp)
        else:
            spread = (as_lanes(n).astype(np.int64) for n in (amount, clamp))
            source, inside = _source_lanes(mode, *spread)
        result = _gather(domain, value, source)
        return (result, collapse_flags(inside)) if both else (result,)

    return compute


def _gather(domain: Domain, value: Value, source: NDArray[np.int64]) -> Value:
    """The value that each lane reads from its source lane."""
    if type(value) is int:
        return value
    if not isinstance(value, Affine):
        return collapse(value[source])  # type: ignore[index]
    if not value.varying or (source == _NUMBERS).all():
        return value
    same = bool((source == source[0]).all())
    totals: dict[Any, int] = {}
    for atom, factor in value.terms:
        read = atom
        if atom.varying:
            name = f"{atom.name}@{source[0]}" if same else f"shfl({atom.name})"
            key = ("lane", atom.identity, int(source[0]) if same else source.tobytes())
            read = domain.atom(key, name, not same, atom.low, atom.high).terms[0][0]
        totals[read] = totals.get(read, 0) + factor
    offset = value.offset if isinstance(value.offset, int) else value.offset[source]
    return sum_of(totals, offset, 64)


def _compile_vote(shape: Shape) -> Compute | None:
    mode = next((part for part in shape.modifiers if part in ("all", "any", "uni", "ballot")), None)
    if mode is None:
        return None

    def compute(domain: Domain, state: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        truth = truth_of(domain, values[0])
        taking = members(state, values[1] if len(values) > 1 else None)
        if isinstance(truth, bool | np.ndarray):
            flags = np.broadcast_to(np.asarray(truth), LANES)
            return (_count_votes(mode, flags & taking, taking),)
        return (_unknown_vote(domain, mode, truth, taking),)

    return compute


def _count_votes(mode: str, voting: Flags, taking: Flags) -> Result:
    if mode == "ballot":
        return lane_mask(voting)
    count, full = int(voting.sum()), int(taking.sum())
    if mode == "any":
        return count > 0
    return count == full or (mode == "uni" and count == 0)


def _unknown_vote(domain: Domain, mode: str, truth: Truth, taking: Flags) -> Result:
    if not is_varying(truth) or taking.sum() == 1:
        if mode == "ballot":
            return domain.select(truth, lane_mask(taking), 0)
        return True if mode == "uni" else truth
    if mode in ("any", "all"):
        split = _split_vote(domain, mode, truth, taking)
        if split is not None:
            return split
    key = ("vote", mode, domain.key(truth), lane_mask(taking))
    if mode == "ballot":
        result = domain.atom(key, "ballot", False)
    else:
        result = domain.atom(key, f"vote.{mode}", False, 0, 1)
    result.terms[0][0].data = rests_on_data(truth)
    return result if mode == "ballot" else domain.truth_of(result)


def _split_vote(domain: Domain, mode: str, truth: Truth, taking: Flags) -> Truth | None:
    """A vote on truths of which all but known flags are the same in every lane; ``None`` for others."""
    if isinstance(truth, np.ndarray):
        return bool(_count_votes(mode, truth & taking, taking))
    if not is_varying(truth):
        return truth
    if not isinstance(truth, Combination) or truth.operator == "xor":
        return None
    if truth.operator == "not":
        opposite = _split_vote(domain, "all" if mode == "any" else "any", truth.parts[0], taking)
        return None if opposite is None else domain.negate(opposite)
    if all(is_varying(part) for part in truth.parts):
        return None
    parts = [_split_vote(domain, mode, part, taking) for part in truth.parts]
    if parts[0] is None or parts[1] is None:
        return None
    return domain.combine(truth.operator, parts[0], parts[1])


def _compile_active_mask(_: Shape) -> Compute:
    def compute(_: Domain, state: LaneState, __: Sequence[Result]) -> Sequence[Result]:
        return (lane_mask(state.active),)

    return compute


def _compile_elect(shape: Shape) -> Compute | None:
    if len(shape.destinations) != 2:
        return None

    def compute(_: Domain, state: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        taking = members(state, values[0] if values else None)
        leader = int(taking.argmax())
        return leader, leader == _NUMBERS

    return compute


_REDUCTIONS: dict[str, Callable[[int, int], int]] = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "add": operator.add,
    "min": min,
    "max": max,
}


def _compile_reduce(shape: Shape) -> Compute | None:
    mode = next((part for part in shape.modifiers if part in _REDUCTIONS), None)
    if mode is None or shape.bits != 32:
        return None
    combine, is_signed = _REDUCTIONS[mode], shape.is_signed

    def compute(domain: Domain, state: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        value = as_numbers(values)[0]
        taking = members(state, values[1] if len(values) > 1 else None)
        if isinstance(value, Affine):
            if not value.varying and mode not in ("add", "xor"):
                return (value,)
            key = ("redux", shape.opcode, domain.key(value), lane_mask(taking))
            return (domain.atom(key, f"redux.{mode}"),)
        numbers = [int(number) for number in as_lanes(value)[taking]]
        if is_signed:
            numbers = [signed(number, 32) for number in numbers]
        return (reduce(combine, numbers) & 0xFFFFFFFF,)

    return compute


COMPILERS: dict[str, Compiler] = {
    "shfl": _compile_shuffle,
    "vote": _compile_vote,
    "activemask": _compile_active_mask,
    "elect": _compile_elect,
    "redux": _compile_reduce,
}
