"""The part of a warp that follows one path: its lanes, registers and place."""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from ptxaudit.analysis.order.trace import BarrierKey
from ptxaudit.ir.values import Domain, Flags, Truth, Value

Registers = dict[str, "Value | Truth"]


@dataclass(slots=True)
class JoinPoint:
    """Where lanes that parted meet again; ``remaining`` are those that have not come or left yet."""

    block: int
    remaining: Flags
    arrived: "list[Fragment]" = field(default_factory=list)


@dataclass(slots=True)
class Waiting:
    """What a fragment waits for: ``phase`` of ``key`` to complete."""

    key: BarrierKey
    phase: int


@dataclass(slots=True, eq=False)
class Fragment:
    """Lanes of one warp that execute together."""

    warp: int
    mask: Flags
    registers: Registers
    block: int = 0
    position: int = 0
    joins: tuple[JoinPoint, ...] = ()
    waiting: Waiting | None = None
    progress: int = 0
    failed_waits: dict[int, tuple[BarrierKey, int, int]] = field(default_factory=dict)
    iterations: dict[int, int] = field(default_factory=dict)

    @property
    def lanes(self) -> int:
        """The lanes as a bit mask."""
        return lane_bits(self.mask)


def lane_bits(mask: Flags) -> int:
    """Flags as a bit mask, lane 0 in bit 0."""
    return _bits_of(mask.tobytes())


@lru_cache(maxsize=4096)
def _bits_of(flags: bytes) -> int:
    """The mask of one byte a lane; an execution asks for the same few again and again."""
    return int.from_bytes(np.packbits(np.frombuffer(flags, np.uint8), bitorder="little").tobytes(), "little")


def merge(domain: Domain, parts: "list[Fragment]", joins: tuple[JoinPoint, ...]) -> Fragment:
    """One fragment of all the lanes, each lane with the registers of its part."""
    first = parts[0]
    if len(parts) == 1:
        first.joins = joins
        return first
    registers = dict(first.registers)
    mask = first.mask.copy()
    for part in parts[1:]:
        for name, value in part.registers.items():
            old = registers.get(name)
            if old is None:
                registers[name] = value
            elif old is not value:
                registers[name] = blend(domain, part.mask, value, old)
        mask |= part.mask
    iterations = {
        header: max(part.iterations.get(header, 0) for part in parts)
        for header in set().union(*(part.iterations for part in parts))
    }
    progress = max(part.progress for part in parts) + 1
    return Fragment(
        first.warp, mask, registers, first.block, first.position, joins, None, progress, {}, iterations
    )


def blend(domain: Domain, lanes: Flags, new: "Value | Truth", old: "Value | Truth") -> "Value | Truth":
    """``new`` in the flagged lanes, ``old`` elsewhere, for numbers and truths."""
    if is_truth(new) or is_truth(old):
        return blend_truth(domain, lanes, new, old)  # type: ignore[arg-type]
    return domain.blend(lanes, new, old)  # type: ignore[arg-type]


def blend_truth(domain: Domain, lanes: Flags, new: Truth, old: Truth) -> Truth:
    """``new`` in the flagged lanes, ``old`` elsewhere."""
    if isinstance(new, bool) and isinstance(old, bool) and new == old:
        return new
    if isinstance(new, bool | np.ndarray) and isinstance(old, bool | np.ndarray):
        flags: Flags = np.where(lanes, new, old)
        return flags
    chosen = domain.combine("and", lanes, new)
    return domain.combine("or", chosen, domain.combine("and", ~lanes, old))


def is_truth(value: object) -> bool:
    """Whether a register holds a truth and no number."""
    if isinstance(value, np.ndarray):
        return bool(value.dtype == np.bool_)
    return isinstance(value, bool) or type(value).__name__ in ("Comparison", "Combination")
