"""What the system keeps in the first kilobyte of a CTA's shared memory, which SASS reads and PTX cannot.

ptxas adds code round the allocation of tensor memory that keeps a state there. A pair of CTAs agrees on the
columns by an mbarrier in each CTA and a parity bit beside it: the even CTA, which allocates, waits for its
peer to be ready, stores the columns into the peer's memory and signals the peer's barrier; the odd CTA
waits, reads them and signals back. So that the first exchange goes on, the even CTA's parity must be that of
a phase that counts as complete, and the odd CTA's that of the phase to come. All else starts as zero.
"""

from collections.abc import Callable

from ptxaudit.analysis.order.address import SHARED_START
from ptxaudit.analysis.order.barriers import Mbarrier
from ptxaudit.ir.function import Function, Language

# The first architecture that reserves the shared memory below SHARED_START.
_FIRST_RESERVED = 90
_PAIR_PARITY = 0x60

UPDATES: dict[str, Callable[[int, int], int]] = {
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
}


def is_reserved(function: Function, offset: int) -> bool:
    """Whether an offset in a CTA's shared memory is the system's."""
    if function.language is not Language.SASS or function.architecture.number < _FIRST_RESERVED:
        return False
    return offset < SHARED_START


def initial_word(rank: int, offset: int) -> int:
    """What a word, or a part of one, holds when a CTA of this rank starts."""
    return 1 - rank % 2 if offset == _PAIR_PARITY else 0


def initial_barrier() -> Mbarrier:
    """An mbarrier of the system: one arrival completes a phase."""
    return Mbarrier(1, 1)
