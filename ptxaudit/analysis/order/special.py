"""The values of special registers, PTX and SASS spelling, for a warp of the executed launch."""

from typing import TYPE_CHECKING

import numpy as np

from ptxaudit.analysis.order.fragment import Fragment
from ptxaudit.ir.values import LANE_INDEX, LANES, Lanes, Truth, Value, collapse
from ptxaudit.isa.evaluation import SHARED_WINDOW
from ptxaudit.isa.sass.evaluate_float import rounded_bits

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
    # Which of the launch's cluster sizes this cluster has: code adds it, times a table's size, to the address
    # of the first. Only a launch with a preferred cluster size has a second.
    "SR_CgaSize": 0,
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
    if name == "SR_SWINHI":
        return SHARED_WINDOW >> 32
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
        grid = machine.launch.grid
        if base == "%nctaid" and axis and grid is not None:
            return grid[_AXES.index(axis)]
        if machine.sample is not None and base == "%nctaid":
            return machine.sample.grid(_AXES.index(axis or "x"))
        key = (name, machine.operation_count) if base in _CLOCKS else name
        return machine.domain.source(("special", key), name, low=0)
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


def _axes(start: int, name: str) -> dict[int, str]:
    return {start + 4 * place: f"{name}.{axis}" for place, axis in enumerate(_AXES)}


# What the driver writes to constant bank 0 before the parameters, by the first architecture that has it
# there. 1/ stands for the single-precision reciprocal.
_LAUNCH_CONSTANTS: tuple[tuple[int, dict[int, str]], ...] = (
    (
        100,
        {
            **_axes(0x2A0, "%cluster_nctaid"),
            **_axes(0x2B0, "1/cluster_nctaid"),
            **_axes(0x360, "%ntid"),
            **_axes(0x370, "%nctaid"),
            0x2AC: "%dynamic_smem_size",
            0x36C: "%is_explicit_cluster",
            0x2CC: "%cluster_nctarank",
        },
    ),
    (
        90,
        {
            **_axes(0x0, "%ntid"),
            **_axes(0xC, "%nctaid"),
            0x140: "%is_explicit_cluster",
            **_axes(0x144, "%cluster_nctaid"),
            **_axes(0x150, "1/cluster_nctaid"),
            0x2C: "%dynamic_smem_size",
            0x188: "%cluster_nctarank",
        },
    ),
    (80, {**_axes(0x0, "%ntid"), **_axes(0xC, "%nctaid"), 0x2C: "%dynamic_smem_size"}),
)


def launch_constant(machine: "Machine", fragment: Fragment, address: int) -> Value | None:
    """What the launch itself puts into constant bank 0 at an address (SASS), or ``None``."""
    number = machine.function.architecture.number
    table = next((table for first, table in _LAUNCH_CONSTANTS if number >= first), {})
    name = table.get(address)
    if name is None:
        return None
    if name == "%is_explicit_cluster" and machine.shape.ctas > 1:
        return 1
    if name.startswith("1/"):
        return rounded_bits(1 / machine.shape.cluster[_AXES.index(name[-1])])
    return special_value(machine, fragment, name)  # type: ignore[return-value]


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
        cluster = machine.domain.source(("special", f"%clusterid.{letter}"), f"%clusterid.{letter}", low=0)
    place = _cluster_index(machine.shape.cluster, rank)[axis]
    return machine.domain.add(machine.domain.multiply(cluster, size, 64), place, 64)


def _lane_mask(kind: str) -> Value | None:
    one: Lanes = np.ones(LANES, dtype=np.uint64)
    below = (one << LANE_INDEX) - one
    exact = one << LANE_INDEX
    masks = {"eq": exact, "lt": below, "le": below | exact, "gt": ~(below | exact), "ge": ~below}
    mask = masks.get(kind)
    return None if mask is None else mask & np.uint64(0xFFFFFFFF)
