"""The architectures that ptxaudit knows, with the facts that rules need."""

import re
from dataclasses import dataclass

from ptxaudit.errors import UnsupportedArchitecture


@dataclass(frozen=True, slots=True)
class Architecture:
    """A target such as ``sm_90a``.

    ``number`` is ten times the compute capability (90, 100, 103, 120); ``suffix`` is ``a`` for the
    architecture-specific and ``f`` for the family-specific feature set. ``registers_per_cta_pool`` is
    the number of 32-bit registers a multiprocessor has.
    """

    number: int
    suffix: str = ""

    @property
    def name(self) -> str:
        """The spelling that ptxas and the reports use."""
        return f"sm_{self.number}{self.suffix}"

    @property
    def has_clusters(self) -> bool:
        """Thread block clusters, mbarrier remote operations and TMA exist (sm_90 and later)."""
        return self.number >= 90

    @property
    def has_tensor_memory(self) -> bool:
        """``tcgen05`` and tensor memory exist on sm_100, sm_101, sm_103 and sm_110."""
        return 100 <= self.number < 120


WARP_SIZE = 32
REGISTERS_PER_MULTIPROCESSOR = 65536
# Of every architecture; clusters of more than 8 CTAs have to be asked for.
MOST_THREADS_PER_CTA = 1024
MOST_CTAS_PER_CLUSTER = 16

# Architectures whose SASS the event tables were checked against. PTX is the same language everywhere.
SASS_ARCHITECTURES = frozenset({80, 86, 87, 89, 90, 100, 101, 103, 110, 120, 121})
# Those from before, by NVIDIA's tables of compute capabilities, from Tesla to Turing.
OLDER_ARCHITECTURES = frozenset({10, 11, 12, 13, 20, 21, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 75})

_TARGET = re.compile(r"(?:sm|compute)_?(\d{2,3})([af]?)$", re.IGNORECASE)


def parse_architecture(text: str) -> Architecture:
    """``sm_90a`` (also ``compute_90a``, ``SM90a``) as an :class:`Architecture`.

    Raises :class:`UnsupportedArchitecture` when the text names no architecture.
    """
    match = _TARGET.match(text.strip())
    if match is None:
        raise UnsupportedArchitecture(f"found architecture {text!r}, expected one like sm_90a")
    return Architecture(int(match.group(1)), match.group(2).lower())


def require_sass_support(architecture: Architecture, file: str) -> None:
    """Raise :class:`UnsupportedArchitecture` unless the SASS tables know this architecture."""
    if architecture.number not in SASS_ARCHITECTURES:
        known = ", ".join(f"sm_{number}" for number in sorted(SASS_ARCHITECTURES))
        message = f"{file}: found SASS for {architecture.name}, expected one of {known}"
        raise UnsupportedArchitecture(message, is_older=architecture.number in OLDER_ARCHITECTURES)
