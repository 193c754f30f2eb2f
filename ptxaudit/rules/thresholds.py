"""The numbers of a rule that a project may set: how much something must cost or count to be reported.

Facts of the ISA or of the hardware are none, nor is what an audit may spend (:mod:`ptxaudit.limits`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

# Every performance rule has these: they are applied to its findings when those are priced.
LEAST_CYCLES = "least-cycles"
LEAST_SHARE = "least-share"
WARNING_CYCLES = "warning-cycles"
OF_COSTS = (LEAST_CYCLES, LEAST_SHARE, WARNING_CYCLES)

# The thresholds of one rule by name, as they hold for one kernel.
Thresholds = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold as the pattern describes it: what holds unless it is set, in which ``unit``, and what it
    means. It can be set to what lies between ``least`` and ``most``, ``whole`` numbers only where it counts.
    """

    default: float
    unit: str
    meaning: str
    least: float = 0
    most: float | None = None
    whole: bool = False

    def fault(self, value: float) -> str | None:
        """What is wrong with setting it to a number, as ``found ..., expected ...``; ``None`` if nothing."""
        too_much = self.most is not None and value > self.most
        broken = self.whole and not float(value).is_integer()
        if math.isfinite(value) and value >= self.least and not too_much and not broken:
            return None
        span = f"of at least {self.least:g}" if self.most is None else f"from {self.least:g} to {self.most:g}"
        return f"found {value:g}, expected a {'whole ' if self.whole else ''}number {span}"
