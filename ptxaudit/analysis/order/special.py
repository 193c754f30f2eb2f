"""The values of special registers, PTX and SASS spelling, for a warp of the executed launch."""

from typing import TYPE_CHECKING

import numpy as np

from ptxaudit.analysis.order.fragment import Fragment
from ptxaudit.arch import Architecture
from ptxaudit.ir.values import LANE_INDEX, LANES, Lanes, Truth, Value, collapse

if TYPE_CHECKING:
    from ptxaudit.analysis.order.machine import Machine

_AXES = "xyz"
# SASS names of the special registers that S2R, S2UR and CS2R read.
_SASS_NAMES = {
    "SR_TID.X": "%tid.x",
    "SR_TID.Y": "%tid.y",
    "SR_TID.Z": "%tid.z",
    "SR_CTAID.X": "%ctaid.x",
    "SR_CTAID.Y": "%ctaid.y",
    "SR_CTAID.Z": "%ctaid.z",
    "SR_LANEID": "%laneid",
    "SR_CgaCtaId": "%cluster_ctarank",
    "SR_CGACTAID": "%cluster_ctarank",
}
_CONSTANTS: dict[str, Value | Truth] = {
    "RZ": 0,
    "URZ": 0,
    "SRZ": 0,
    "PT": True,
    "UPT": True,
    "WARP_SZ": LANES,
    "%laneid": LANE_INDEX,
}


def special_value(machine: "Machine", fragment: Fragment, name: str) -> "Value | Truth | None":
    """The value of a special register, or ``None`` when the name is no such register."""
    name = _SASS_NAMES.get(name, name)
    constant = _CONSTANTS.get(name)
    if constant is not None:
        return constant
    if not name.startswith(("%", "SR_")):
        return None
    identity = machine.execution.warps[fragment.warp]
    base, _, axis = name.partition(".")
    if base == "%tid" and axis:
        return _thread_index(machine.shape.block, identity.warp, _AXES.index(axis))
    if base == "%ntid" and axis:
        return machine.shape.block[_AXES.index(axis)]
    if base == "%warpid":
        return identity.warp
    if base == "%nwarpid":
        return (machine.shape.threads + LANES - 1) // LANES
    if base == "%cluster_ctarank":
        return identity.cta
    if base == "%cluster_nctarank":
        return machine.shape.ctas
    if base == "%cluster_nctaid" and axis:
        return machine.shape.cluster[_AXES.index(axis)]
    if base == "%cluster_ctaid" and axis:
        return _cluster_index(machine.shape.cluster, identity.cta)[_AXES.index(axis)]
    if base == "%ctaid" and axis:
        return _block_index(machine, identity.cta, _AXES.index(axis))
    if base.startswith("%lanemask_"):
        return _lane_mask(base.removeprefix("%lanemask_"))
    if base in _UNKNOWN or name.startswith("SR_"):
        if machine.sample is not None and base == "%nctaid":
            return machine.sample
        key = (name, machine.operation_count) if base in _CLOCKS else name
        return machine.domain.atom(("special", key), name, low=0)
    return None


_CLOCKS = {"%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"}
_UNKNOWN = _CLOCKS | {
    "%nctaid",
    "%clusterid",
    "%nclusterid",
    "%gridid",
    "%smid",
    "%nsmid",
    "%dynamic_smem_size",
    "%total_smem_size",
    "%aggr_smem_size",
    "%is_explicit_cluster",
}


def launch_constant(architecture: Architecture, address: int) -> int | None:
    """Which axis of the block size constant bank 0 holds at an address (SASS), or ``None``.

    The driver puts blockDim at 0x0 up to sm_90 and at 0x360 from sm_100 on, before the parameters.
    """
    start = 0x360 if architecture.number >= 100 else 0x0
    place, rest = divmod(address - start, 4)
    return place if rest == 0 and 0 <= place < 3 else None


def _thread_index(block: tuple[int, int, int], warp: int, axis: int) -> Value:
    linear = LANE_INDEX + warp * LANES
    before = 1
    for size in block[:axis]:
        before *= size
    index = linear // before
    return collapse(index % block[axis] if axis < 2 else index)


def _cluster_index(cluster: tuple[int, int, int], rank: int) -> tuple[int, int, int]:
    x, y, _ = cluster
    return rank % x, rank // x % y, rank // (x * y)


def _block_index(machine: "Machine", rank: int, axis: int) -> Value:
    """The block index: that of the cluster, which is not known, times its size, plus the place in it."""
    size = machine.shape.cluster[axis]
    letter = _AXES[axis]
    cluster: Value = 0
    if machine.sample is None:
        cluster = machine.domain.atom(("special", f"%clusterid.{letter}"), f"%clusterid.{letter}", low=0)
    place = _cluster_index(machine.shape.cluster, rank)[axis]
    return machine.domain.add(machine.domain.multiply(cluster, size, 64), place, 64)


def _lane_mask(kind: str) -> Value | None:
    one: Lanes = np.ones(LANES, dtype=np.uint64)
    below = (one << LANE_INDEX) - one
    exact = one << LANE_INDEX
    masks = {"eq": exact, "lt": below, "le": below | exact, "gt": ~(below | exact), "ge": ~below}
    mask = masks.get(kind)
    return None if mask is None else mask & np.uint64(0xFFFFFFFF)
