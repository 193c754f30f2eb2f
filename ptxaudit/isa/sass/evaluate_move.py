"""Data movement of SASS: MOV, special registers, values between lanes and the uniform data path.

``R2UR`` and a special register read into a uniform one take the value of the lowest executing lane.
Shuffles read any lane; votes, reductions and elections see the executing lanes, since the member mask of
the PTX instruction is gone.
"""

import struct
from collections.abc import Sequence

import numpy as np

from ptxaudit.ir.affine import Affine, Atom, sum_of
from ptxaudit.ir.operands import Immediate, Negated, Operand, Register
from ptxaudit.ir.values import LANE_INDEX, Domain, Value
from ptxaudit.isa.evaluation import Compute, LaneState, Result
from ptxaudit.isa.ptx import evaluate_warp
from ptxaudit.isa.ptx.evaluate_base import Shape
from ptxaudit.isa.sass.evaluate_base import (
    Compiler,
    Form,
    Plan,
    Unmodelled,
    Word,
    only,
    pair_destinations,
)


def lane_value(domain: Domain, value: Value, lane: int) -> Value:
    """What one lane holds."""
    if isinstance(value, int):
        return value
    if not isinstance(value, Affine):
        return int(value[lane])
    if not value.varying:
        return value
    totals: dict[Atom, int] = {}
    for atom, factor in value.terms:
        read = atom
        if atom.varying:
            key = ("lane", atom.identity, lane)
            read = domain.atom(key, f"{atom.name}@{lane}", False, atom.low, atom.high).terms[0][0]
        totals[read] = totals.get(read, 0) + factor
    offset = value.offset if isinstance(value.offset, int) else int(value.offset[lane])
    return sum_of(totals, offset, 64)


def _copy(word: Word, destination: Register | None) -> Plan:
    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        return (word.get(domain, values),)

    return Plan((destination,), compute)


def _compile_move(form: Form) -> Plan:
    form.allow("64", "SPILL", "U32")
    flags, words = form.results()
    if any(flags) or len(form.operands) not in (1, 2):
        raise Unmodelled
    # MOV's second source, where one is written, is the mask of bytes that it writes.
    if len(form.operands) == 2 and form.number(1) & 0xF != 0xF:
        raise Unmodelled
    if not form.has("64"):
        return _copy(form.word(0), only(words))
    low, high = form.pair(0)

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        return low.get(domain, values), high.get(domain, values)

    return Plan(pair_destinations(only(words)), compute)


def _from_lowest_lane(word: Word, destination: Register | None) -> Plan:
    def compute(domain: Domain, state: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        return (lane_value(domain, word.get(domain, values), int(state.active.argmax())),)

    return Plan((destination,), compute)


def _compile_to_uniform(form: Form) -> Plan:
    form.allow("FILL")
    form.expect(1)
    flags, words = form.results()
    if any(flags):
        raise Unmodelled
    return _from_lowest_lane(form.word(0), only(words))


def _compile_special(form: Form) -> Plan:
    """S2R, S2UR; CS2R reads 64 bits unless it is spelled ``.32``, of which the upper word is an atom."""
    form.allow("32", "64")
    form.expect(1)
    _, words = form.results()
    word = form.word(0)
    if form.root == "CS2R" and not form.has("32"):
        return _wide_special(word, only(words), form.opcode)
    if form.opcode.startswith(("S2U", "CS2U")):
        return _from_lowest_lane(word, only(words))
    return _copy(word, only(words))


def _wide_special(word: Word, destination: Register | None, name: str) -> Plan:
    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        low = word.get(domain, values)
        return low, 0 if type(low) is int else domain.opaque(f"{name} high", low)

    return Plan(pair_destinations(destination), compute)


def _compile_half_constant(form: Form) -> Plan:
    """``HFMA2 R, -RZ, RZ, high, low``: two half-precision numbers that no arithmetic changes."""
    if not set(form.modifiers) <= {"MMA", "BF16", "BF16_V2"} or len(form.operands) != 4:
        raise Unmodelled
    factors = [operand.operand if isinstance(operand, Negated) else operand for operand in form.operands[:2]]
    if any(not isinstance(factor, Register) or factor.name not in ("RZ", "URZ") for factor in factors):
        raise Unmodelled
    is_brain = form.has("BF16", "BF16_V2")
    high, low = (_half(operand, is_brain) for operand in form.operands[2:])
    _, words = form.results()
    return _copy(Word(-1, high << 16 | low), only(words))


def _half(operand: Operand, is_brain: bool) -> int:
    if not isinstance(operand, Immediate):
        raise Unmodelled
    number = float(operand.value)
    try:
        if is_brain:
            return int.from_bytes(struct.pack("<f", number)[2:], "little")
        return int.from_bytes(struct.pack("<e", number), "little")
    except OverflowError as error:
        raise Unmodelled from error


# Warp-wide ---------------------------------------------------------------------------------------------


def _borrowed(name: str, *modifiers: str, sources: int, destinations: int) -> Compute:
    """What the PTX instruction of this spelling computes."""
    operands: tuple[Operand, ...] = tuple(Register(f"source{index}") for index in range(sources))
    results = tuple(Register(f"result{index}") for index in range(destinations))
    opcode = ".".join((name, *modifiers))
    compute = evaluate_warp.COMPILERS[name](Shape(opcode, name, modifiers, operands, results, {}))
    if compute is None:
        raise Unmodelled
    return compute


def _compile_shuffle(form: Form) -> Plan:
    form.allow("IDX", "UP", "DOWN", "BFLY")
    form.expect(3)
    flags, words = form.results()
    inside = only(flags)
    if len(form.modifiers) != 1:
        raise Unmodelled
    shuffle = _borrowed("shfl", "sync", form.modifiers[0].lower(), "b32", sources=3, destinations=2)
    inputs = [form.word(position) for position in range(3)]

    def compute(domain: Domain, state: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        return shuffle(domain, state, [word.get(domain, values) for word in inputs])

    return Plan((only(words), inside), compute)


def _compile_vote(form: Form) -> Plan:
    """VOTE: a predicate destination gets the vote, a register the lanes whose predicate holds."""
    modes = {"ALL": "all", "ANY": "any", "EQ": "uni"}
    form.allow(*modes)
    form.expect(1)
    if len(form.modifiers) != 1 or not form.destinations:
        raise Unmodelled
    flag = form.flag(0)
    vote = _borrowed("vote", "sync", modes[form.modifiers[0]], "pred", sources=1, destinations=1)
    ballot = _borrowed("vote", "sync", "ballot", "b32", sources=1, destinations=1)
    flags, words = form.results()
    destinations = (*flags, *words)
    count = len(flags)

    def compute(domain: Domain, state: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        truth = (flag.get(domain, values),)
        return [
            (vote if position < count else ballot)(domain, state, truth)[0]
            for position in range(len(destinations))
        ]

    return Plan(destinations, compute)


def _compile_election(form: Form) -> Plan:
    """ELECT: the lowest executing lane whose predicate holds, as a flag per lane and as its number."""
    form.allow()
    form.expect(1)
    flags, words = form.results()
    flag = form.flag(0)

    def compute(domain: Domain, state: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        truth = flag.get(domain, values)
        if isinstance(truth, bool | np.ndarray):
            candidates = state.active & truth
            if candidates.any():
                leader = int(candidates.argmax())
                return leader == LANE_INDEX, leader
        atom = domain.opaque(form.opcode, truth, state.active)
        return domain.truth_of(atom), domain.opaque(f"{form.opcode} leader", truth, state.active)

    return Plan((only(flags), only(words)), compute)


def _compile_reconfiguration(form: Form) -> Plan:
    """USETMAXREG.TRY_ALLOC: whether the registers were there. The loop around it goes on until they are."""
    if not form.has("TRY_ALLOC"):
        raise Unmodelled
    flags, _ = form.results()

    def compute(domain: Domain, _: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        return (True,)

    return Plan((only(flags),), compute)


_REDUCTIONS = {"SUM": "add", "MIN": "min", "MAX": "max", "OR": "or", "XOR": "xor", "AND": "and"}


def _compile_reduction(form: Form) -> Plan:
    form.allow(*_REDUCTIONS, "S32", "U32")
    form.expect(1)
    named = [_REDUCTIONS[part] for part in form.modifiers if part in _REDUCTIONS]
    kind = "s32" if form.has("S32") else "u32"
    mode = named[0] if named else "and"
    reduce = _borrowed("redux", "sync", mode, kind, sources=1, destinations=1)
    _, words = form.results()
    source = form.word(0)

    def compute(domain: Domain, state: LaneState, values: Sequence[Result]) -> Sequence[Result]:
        return reduce(domain, state, (source.get(domain, values),))

    return Plan((only(words),), compute)


COMPILERS: dict[str, Compiler] = {
    "MOV": _compile_move,
    "MOV32I": _compile_move,
    "R2UR": _compile_to_uniform,
    "S2R": _compile_special,
    "S2UR": _compile_special,
    "CS2R": _compile_special,
    "CS2UR": _compile_special,
    "HFMA2": _compile_half_constant,
    "SHFL": _compile_shuffle,
    "VOTE": _compile_vote,
    "VOTEU": _compile_vote,
    "ELECT": _compile_election,
    "USETMAXREG": _compile_reconfiguration,
    "REDUX": _compile_reduction,
    "CREDUX": _compile_reduction,
}
