"""What the evaluation modules share: an instruction's shape, and operations on known numbers per lane."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ptxaudit.ir.operands import Operand, Register
from ptxaudit.ir.values import LANES, Affine, Domain, Flags, Truth, Value, as_lanes, collapse

SHARED_WINDOW = 1 << 56
"""Where the generic addresses of shared memory start in the model."""

_TYPE = re.compile(
    r"pred|[usbf](?:8|16|32|64|128|1024)(?:x[24])?|bf16(?:x2)?|tf32|u?e[0-9]m[0-9](?:x[24])?|s2f6(?:x2)?"
)
_WIDTHS = {"8": 8, "16": 16, "32": 32, "64": 64, "128": 128}


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


def integer_width(kind: str) -> int | None:
    """Width in bits of an untyped or integer type (``b32``, ``u16``, ``s64``); ``None`` for any other."""
    return _WIDTHS.get(kind[1:]) if kind[:1] in ("b", "u", "s") else None


def is_type(part: str) -> bool:
    """Whether an opcode's component is a fundamental or packed type, rather than a modifier."""
    return _TYPE.fullmatch(part) is not None


@dataclass(frozen=True)
class Shape:
    """An instruction as its opcode and operands spell it.

    ``modifiers`` are the opcode's components after the name. ``sources`` and ``destinations`` are the
    flattened operands; ``register_types`` the declared types of registers, where the caller has them.
    """

    opcode: str
    name: str
    modifiers: tuple[str, ...]
    sources: tuple[Operand, ...]
    destinations: tuple[Register | None, ...]
    register_types: Mapping[str, str]

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The type components, in order."""
        return tuple(part for part in self.modifiers if is_type(part))

    @cached_property
    def kind(self) -> str:
        """The last type component, which names the type of most instructions; empty if there is none."""
        return self.types[-1] if self.types else ""

    @cached_property
    def bits(self) -> int:
        """Width of an integer type; 0 for every other."""
        return integer_width(self.kind) or 0

    @cached_property
    def is_signed(self) -> bool:
        """Whether the type is a signed integer."""
        return self.kind.startswith("s")

    def has(self, *modifiers: str) -> bool:
        """Whether any of the modifiers is spelled."""
        return any(modifier in self.modifiers for modifier in modifiers)


Compiler = Callable[[Shape], Compute | None]


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
