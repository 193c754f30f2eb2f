"""How a kernel is launched, as far as somebody said."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch description; ``None`` where nothing is said.

    ``block`` and ``cluster`` are threads per CTA and CTAs per cluster (x, y, z), ``grid`` is in CTAs.
    ``dynamic_shared`` is in bytes. ``arguments`` maps a parameter's position to its value; only 32-bit
    and 64-bit integers can be given.
    """

    block: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None
    grid: tuple[int, int, int] | None = None
    dynamic_shared: int | None = None
    arguments: Mapping[int, int] = field(default_factory=dict)
