"""Values that are taken for what a launch decides, for the first CTA or cluster of the grid.

Property: the values of one sample are one launch, whether the host makes it or not. Known limits: which
parameters belong together is not known, so that mixed values may be none that any host gives.
"""

from dataclasses import dataclass

_TABLE_ENTRIES = 8
_GRANTED_REQUESTS = 2
_SPREAD = 0x9E3779B1


@dataclass(frozen=True, slots=True)
class Sample:
    """What the 32-bit parameters and the size of the grid are: one number, or, mixed by ``salt``, several.

    ``tables`` is by how much the entries of tables in global memory go up, ``None`` where they are unknown:
    tables of sequence lengths are sums, and the difference of neighbours is what loops go by.
    """

    numbers: tuple[int, ...]
    tables: int | None = None
    salt: int = 0

    def parameter(self, place: int) -> int:
        """The parameter at a place in the constant bank."""
        return self.numbers[(place // 4 * _SPREAD * (2 * self.salt + 1) >> 16) % len(self.numbers)]

    def grid(self, axis: int) -> int:
        """The size of the grid along an axis."""
        return self.parameter(4 * axis)

    def entry(self, address: int, width: int) -> int | None:
        """The word of a table in global memory, where that is known."""
        if self.tables is None:
            return None
        return self.tables * (1 + address // max(width, 1) % _TABLE_ENTRIES)

    def answer(self, request: int, position: int) -> int | None:
        """A word of the answer to a request for more work; the first requests are granted.

        The CTA's index is in the first word, and whether there is one in the last bit of the third.
        """
        if self.tables is None:
            return None
        granted = request <= _GRANTED_REQUESTS
        return {0: request, 8: 1}.get(position, 0) if granted else 0

    def __str__(self) -> str:
        numbers = " or ".join(map(str, self.numbers))
        values = f"32-bit parameters and the grid size are {numbers}"
        if self.tables is not None:
            values += f", entries of tables in global memory go up by {self.tables}"
        return f"{values} (first CTA)"
