"""The pairs of racy and fixed kernels: how each is launched, what it is given and what it must compute.

Every kernel is ``race(out, in, trips, delay)``: ``delay`` is the number of nanoseconds that one warp (with
mbarrier_phase_alias both reading warps) sleeps at the critical place in every trip. A result is what one CTA
(or cluster) computes; it is right when each of its words is the expected one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]

TRIPS = 32
_BF16_SHIFT = 16
_DEPTH = 64
_WARP = 32
_FACTOR = 3


@dataclass(frozen=True, slots=True)
class Pair:
    """One pair of kernels: ``NAME.defect.ptx`` and ``NAME.fixed.ptx``.

    ``inputs`` makes the words that the kernel reads, for a number of results and of trips; ``expected`` the
    words of each result, one row a result. ``ctas`` is the number of CTAs that compute one result, ``trips``
    the number of rows of its input, which it reads in a loop unless the kernel is straight code.
    """

    name: str
    rule: str
    threads: int
    inputs: Callable[[np.random.Generator, int, int], Words]
    expected: Callable[[Words], Words]
    ctas: int = 1
    trips: int = TRIPS


def _random(row: int) -> Callable[[np.random.Generator, int, int], Words]:
    def make(generator: np.random.Generator, results: int, trips: int) -> Words:
        return generator.integers(1, 1 << 32, size=(results, trips, row), dtype=np.uint32)

    return make


def _tile_values(results: int, trips: int) -> npt.NDArray[np.float32]:
    """One small whole number a trip, rising, so that a tile read one trip too early always adds more."""
    values = np.arange(1, trips + 1)[None, :] + np.arange(results)[:, None] % 5
    return values.astype(np.float32)


def _tiles(words: int) -> Callable[[np.random.Generator, int, int], Words]:
    """Tiles of ``words`` words, each word the trip's value twice in bf16."""

    def make(_: np.random.Generator, results: int, trips: int) -> Words:
        half = _tile_values(results, trips).view(np.uint32) >> _BF16_SHIFT
        return np.repeat((half | half << _BF16_SHIFT)[:, :, None], words, axis=2)

    return make


def _accumulated(threads: int, rounds: int) -> Callable[[Words], Words]:
    """The least and the greatest accumulator of each thread: all are equal, since A is all ones."""

    def compute(inputs: Words) -> Words:
        values = (inputs[:, :, 0] << _BF16_SHIFT).view(np.float32)
        sums = (values.sum(axis=1) * np.float32(_DEPTH * rounds)).astype(np.float32)
        return np.repeat(sums.view(np.uint32)[:, None], 2 * threads, axis=1)

    return compute


def _first_row_turned(inputs: Words) -> Words:
    """Each lane of both readers reads its neighbour's word of the row before the second overwrites it."""
    return np.tile(inputs[:, 0, np.arange(_WARP) ^ 1], 2)


def _chain_of_reversed(words_per_slot: int) -> Callable[[Words], Words]:
    """Each thread chains the words at its mirror image's slot: three times the sum, plus the trip's word.

    A plain sum would not notice a stale word: words that are all one trip late add up to the same, once the
    memory holds the last word of the same kernel's run before.
    """

    def compute(inputs: Words) -> Words:
        chain = np.zeros_like(inputs[:, 0, ::words_per_slot])
        for trip in range(inputs.shape[1]):
            chain = chain * np.uint32(_FACTOR) + inputs[:, trip, ::words_per_slot]
        return chain[:, ::-1]

    return compute


def _unchanged(inputs: Words) -> Words:
    return inputs.reshape(inputs.shape[0], -1)


PAIRS = (
    Pair(
        "wgmma_cross_warpgroup_reuse",
        "wgmma-cross-warpgroup-reuse",
        256,
        _tiles(1),
        _accumulated(256, 1),
    ),
    Pair("mbarrier_phase_alias", "mbarrier-phase-alias", 96, _random(_WARP), _first_row_turned, trips=2),
    Pair(
        "wgmma_stage_released_early",
        "wgmma-stage-released-early",
        160,
        _tiles(4096),
        _accumulated(128, 4),
    ),
    Pair(
        "wgmma_stage_released_early_by_all",
        "wgmma-stage-released-early",
        256,
        _tiles(1),
        _accumulated(128, 4),
    ),
    Pair("shared_memory_race", "shared-memory-race", 64, _random(64), _chain_of_reversed(1)),
    Pair(
        "cp_async_without_barrier", "cp-async-wait-without-barrier", 64, _random(256), _chain_of_reversed(4)
    ),
    Pair("async_read_of_generic_write", "async-read-of-generic-write", 128, _random(512), _unchanged),
    Pair(
        "mbarrier_wait_scope_too_narrow",
        "mbarrier-wait-scope-too-narrow",
        32,
        _random(_WARP),
        _chain_of_reversed(1),
        ctas=2,
    ),
)
