"""What is known of the contents of shared memory while a kernel is executed."""

from collections import Counter

from ptxaudit.ir.values import Value

_WIDEST = 8


class SharedContents:
    """Words that were stored, by CTA and offset. A load of part of a known number gives that part."""

    def __init__(self) -> None:
        self._words: dict[tuple[int, int], tuple[int, Value]] = {}
        # How many words start in a granule of a CTA: most ranges touch granules that hold none.
        self._granules: Counter[tuple[int, int]] = Counter()

    def store(self, cta: int, offset: int, width: int, value: Value) -> None:
        """Remember a word of ``width`` bytes; what it overlaps is forgotten."""
        place = (cta, offset)
        old = self._words.get(place)
        if old is None or old[0] != width:
            self.forget(cta, offset, width)
            self._granules[cta, offset // _WIDEST] += 1
        self._words[place] = (width, value)

    def load(self, cta: int, offset: int, width: int) -> Value | None:
        """The word at a place, or ``None`` when it is not known."""
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
