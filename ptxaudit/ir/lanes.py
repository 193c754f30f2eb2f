"""Known numbers and truths of a warp's 32 lanes: numpy arrays, and the one number that all lanes share."""

import numpy as np
from numpy.typing import NDArray

LANES = 32
Lanes = NDArray[np.uint64]
Flags = NDArray[np.bool_]

LANE_INDEX: Lanes = np.arange(LANES, dtype=np.uint64)


def signed(value: int, bits: int) -> int:
    """``value`` (unsigned, below 2**bits) as a two's complement number."""
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def signed_lanes(value: Lanes, bits: int) -> "NDArray[np.int64]":
    """Lanes of unsigned ``bits``-wide numbers as signed ones."""
    shift = np.uint64(64 - bits)
    return (value << shift).view(np.int64) >> np.int64(64 - bits)


def as_lanes(value: "int | Lanes") -> Lanes:
    """A known value as a number per lane."""
    if isinstance(value, int):
        return np.full(LANES, value, dtype=np.uint64)
    return value


def collapse(value: Lanes) -> "int | Lanes":
    """The one number that all lanes hold, or the lanes."""
    first = value[0]
    return int(first) if (value == first).all() else value


def collapse_flags(value: Flags) -> "bool | Flags":
    """The one truth that all lanes hold, or the lanes."""
    count = int(np.count_nonzero(value))
    return bool(count) if count in (0, LANES) else value


def wrap(value: Lanes, bits: int) -> Lanes:
    """The low ``bits`` of every lane."""
    return value if bits >= 64 else value & np.uint64((1 << bits) - 1)
