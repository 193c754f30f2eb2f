"""What one input has cost so far, so that a small file cannot be walked for ever.

Members may overlap in a zip or stand one inside the other a thousand times; each alone is harmless.
"""

from dataclasses import dataclass

from ptxaudit.errors import InputError
from ptxaudit.limits import limits

# What is decompressed counts against the ratio beyond this.
_FREE_BYTES = 1 << 30


class SpentError(InputError):
    """An input has more in it than the limits allow: the rest of it is not read."""


@dataclass(slots=True)
class Spending:
    """Counts for one input of ``size`` bytes: ``members`` met, bytes ``unpacked``."""

    size: int = 0
    members: int = 0
    unpacked: int = 0

    def member(self, place: object, unpacked: int = 0) -> None:
        """One more member, which decompresses to so many bytes; raises :class:`SpentError`."""
        allowed = limits()
        self.members += 1
        if self.members > allowed.members:
            raise SpentError(f"{place}: found more than {allowed.members} members (members)")
        self.unpacked += unpacked
        if self.unpacked > max(_FREE_BYTES, allowed.unpacked_ratio * self.size):
            found = f"{self.unpacked} bytes in members of a file of {self.size}"
            expected = f"at most {allowed.unpacked_ratio} times as many (unpacked-ratio)"
            raise SpentError(f"{place}: found {found}, expected {expected}")
