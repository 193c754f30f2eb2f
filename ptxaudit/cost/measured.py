"""Measured cycles of synchronisation, with where they come from.

One table: what an operation after an mbarrier wait adds to a plain ``.cta`` wait, per wait, while the
loop around it has none, one or eight loads per thread that are in L1.
"""

from dataclasses import dataclass
from enum import StrEnum


class Operation(StrEnum):
    """What was measured, in PTX's spelling."""

    ACQUIRE_CLUSTER = "mbarrier wait .acquire.cluster"
    ACQUIRE_RESTRICTED = "fence.acquire.sync_restrict::shared::cluster.cluster"
    FENCE_CLUSTER = "fence.acq_rel.cluster"
    FENCE_GPU = "fence.acq_rel.gpu"
    FENCE_SYS = "fence.acq_rel.sys"
    PROXY_FENCE_SHARED = "fence.proxy.async.shared::cta"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where measurements were taken, and how."""

    architecture: str
    device: str
    driver: str
    method: str


PROVENANCE = Provenance(
    architecture="sm_90a",
    device="H200",
    driver="580",
    method="2000 waits, one CTA; difference in cycles per wait to a plain .cta wait",
)

THREADS = (32, 128, 512)  # of the CTA
LOADS = (0, 1, 8)  # L1-resident loads per thread in the loop

# A column for each of THREADS, a row for each of LOADS.
_CYCLES: dict[Operation, tuple[tuple[int, int, int], ...]] = {
    Operation.ACQUIRE_CLUSTER: ((0, 0, 6), (235, 274, 295), (277, 287, 305)),
    Operation.ACQUIRE_RESTRICTED: ((1, 1, -3), (1, 1, 2), (1, 1, -11)),
    Operation.FENCE_CLUSTER: ((284, 279, 394), (631, 702, 807), (862, 877, 964)),
    Operation.FENCE_GPU: ((284, 279, 394), (631, 702, 806), (861, 877, 964)),
    Operation.FENCE_SYS: ((1041, 1035, 1866), (1263, 1295, 2110), (1306, 1308, 2128)),
    Operation.PROXY_FENCE_SHARED: ((19, 19, 17), (0, 5, 22), (2, 13, 25)),
}


def cycles(operation: Operation, loads: int) -> tuple[int, int]:
    """The range measured for an operation over all CTA sizes: lowest and highest cycles per execution.

    ``loads`` is the number of loads that can hit L1; from one on, the rows of one and of eight count.
    Differences below zero are noise and count as zero.
    """
    rows = _CYCLES[operation][:1] if loads == 0 else _CYCLES[operation][1:]
    values = [max(0, value) for row in rows for value in row]
    return min(values), max(values)
