"""Concrete addresses for shared memory: where variables lie and which CTA's memory an address is in.

Every CTA of the cluster has its shared memory at ``rank << 24`` in the shared::cluster window, as the
hardware lays it out; variables start at 0x400 (the first KiB is reserved by the system), static ones in
order of declaration and the dynamic (``extern``) ones all at the same place after them. The generic
window starts at ``SHARED_WINDOW``. A kernel that is right does not depend on these numbers.
"""

from collections.abc import Sequence

from ptxaudit.ir.function import Variable
from ptxaudit.isa.evaluation import SHARED_WINDOW

RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1
SHARED_START = 0x400


def shared_layout(variables: Sequence[Variable]) -> dict[str, int]:
    """The offset of each shared variable within its CTA's shared memory."""
    place = SHARED_START
    offsets: dict[str, int] = {}
    shared = [variable for variable in variables if variable.space.startswith("shared")]
    for variable in shared:
        if variable.size is not None and not variable.external:
            place = _aligned(place, variable.alignment)
            offsets[variable.name] = place
            place += variable.size
    dynamic = [variable for variable in shared if variable.name not in offsets]
    if dynamic:
        place = _aligned(place, max(variable.alignment for variable in dynamic))
        offsets.update((variable.name, place) for variable in dynamic)
    return offsets


def in_cta(rank: int, offset: int) -> int:
    """The shared::cluster address of an offset in the shared memory of a CTA."""
    return rank << RANK_SHIFT | offset


def split(address: int) -> tuple[int, int]:
    """The CTA rank and the offset of a shared address, generic or not."""
    plain = address & 0xFFFFFFFF
    return plain >> RANK_SHIFT, plain & OFFSET_MASK


def is_shared_generic(address: int) -> bool:
    """Whether a generic address lies in the shared window."""
    return address >= SHARED_WINDOW


def _aligned(place: int, alignment: int) -> int:
    step = max(alignment, 1)
    return (place + step - 1) // step * step
