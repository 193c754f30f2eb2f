"""What is known of the contents of shared memory while a kernel is executed."""

from collections import Counter

import numpy as np

from ptxaudit.analysis.order.address import OFFSET_MASK, RANK_SHIFT
from ptxaudit.ir.lanes import Lanes
from ptxaudit.ir.values import Value

_WIDEST = 8
_PAGE_SHIFT = 10
# A store by the lanes of a warp that is spread further is carried out at once.
_MOST_PAGES = 64


class SharedContents:
    """Words that were stored, by CTA and offset. A load of part of a known number gives that part.

    Stores by many lanes are carried out when something near is loaded, which of most never happens; what
    comes after them waits, too.
    """

    def __init__(self) -> None:
        # Stores by lanes (places, width, value) and what was to be forgotten (CTA, offset, size).
        self._waiting: list[tuple[Lanes, int, Value] | tuple[int, int, int]] = []
        self._pages: set[int] = set()
        self._words: dict[tuple[int, int], tuple[int, Value]] = {}
        # How many words start in a granule of a CTA: most ranges touch granules that hold none.
        self._granules: Counter[tuple[int, int]] = Counter()

    def store(self, cta: int, offset: int, width: int, value: Value) -> None:
        """Remember a word of ``width`` bytes; what it overlaps is forgotten."""
        if self._is_near(cta, offset, width):
            self._settle()
        self._store(cta, offset, width, value)

    def store_lanes(self, places: Lanes, width: int, value: Value) -> None:
        """Remember a word for each lane; of lanes that store to one place the last one counts.

        ``places`` are ``cta << RANK_SHIFT | offset``, ``value`` is one for all or an array like ``places``.
        """
        first, last = int(places.min()) >> _PAGE_SHIFT, int(places.max()) + width >> _PAGE_SHIFT
        if last - first < _MOST_PAGES:
            self._waiting.append((places, width, value))
            self._pages.update(range(first, last + 1))
        else:
            self._settle()
            self._store_lanes(places, width, value)

    def _store_lanes(self, places: Lanes, width: int, value: Value) -> None:
        words = value.tolist() if isinstance(value, np.ndarray) else [value] * len(places)
        for place, word in zip(places.tolist(), words, strict=True):
            self._store(place >> RANK_SHIFT, place & OFFSET_MASK, width, word)

    def _is_near(self, cta: int, offset: int, size: int) -> bool:
        """Whether something that waits may concern a range, or a word that reaches into it."""
        if not self._waiting:
            return False
        start = cta << RANK_SHIFT | offset
        first, last = start - _WIDEST >> _PAGE_SHIFT, start + size + _WIDEST >> _PAGE_SHIFT
        return not self._pages.isdisjoint(range(first, last + 1))

    def _settle(self) -> None:
        """Carry out what waits."""
        waiting, self._waiting = self._waiting, []
        self._pages.clear()
        for one in waiting:
            if isinstance(one[0], int):
                self._forget(*one)
            else:
                self._store_lanes(*one)

    def _store(self, cta: int, offset: int, width: int, value: Value) -> None:
        place = (cta, offset)
        old = self._words.get(place)
        if old is None or old[0] != width:
            self._forget(cta, offset, width)
            self._granules[cta, offset // _WIDEST] += 1
        self._words[place] = (width, value)

    def load(self, cta: int, offset: int, width: int) -> Value | None:
        """The word at a place, or ``None`` when it is not known."""
        if self._is_near(cta, offset, width):
            self._settle()
        granule = offset // _WIDEST
        if not self._granules.get((cta, granule)) and not self._granules.get((cta, granule - 1)):
            return None
        for start in range(offset, offset - _WIDEST, -1):
            found = self._words.get((cta, start))
            if found is None:
                continue
            size, value = found
            if start == offset and size == width:
                return value
            if start + size >= offset + width and isinstance(value, int):
                return value >> 8 * (offset - start) & ((1 << 8 * width) - 1)
        return None

    def forget(self, cta: int, offset: int, size: int) -> None:
        """Drop every word that touches a range."""
        if self._is_near(cta, offset, size):
            start = cta << RANK_SHIFT | offset
            self._waiting.append((cta, offset, size))
            self._pages.update(range(start >> _PAGE_SHIFT, (start + size >> _PAGE_SHIFT) + 1))
        else:
            self._forget(cta, offset, size)

    def _forget(self, cta: int, offset: int, size: int) -> None:
        first, end = offset - _WIDEST + 1, offset + size
        for granule in range(first // _WIDEST, (end - 1) // _WIDEST + 1):
            if not self._granules.get((cta, granule)):
                continue
            base = granule * _WIDEST
            for start in range(max(first, base), min(end, base + _WIDEST)):
                found = self._words.get((cta, start))
                if found is not None and start + found[0] > offset:
                    del self._words[cta, start]
                    self._granules[cta, granule] -= 1
