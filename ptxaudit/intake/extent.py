"""How much there is to read, in bytes of files, where in them an image stands, and which were not reached."""

import time
from collections.abc import Iterable, Set
from itertools import accumulate
from pathlib import Path

from ptxaudit.engine.image import SEPARATOR, Place
from ptxaudit.errors import InputError
from ptxaudit.frontends.containers.content import PROBE_BYTES, Content, recognise
from ptxaudit.frontends.containers.zips import ZipReader
from ptxaudit.intake.sources import STDIN, input_files


class Extent:
    """The bytes of all inputs in the order in which they are read.

    ``total`` counts all of them; a member of a zip counts as many as it has there.
    """

    def __init__(self, arguments: Iterable[str]) -> None:
        sizes: dict[str, int] = {}
        for path in input_files(one for one in arguments if one != STDIN):
            for name, size in _parts(path):
                sizes[name] = sizes.get(name, 0) + size
        self._ends = dict(zip(sizes, accumulate(sizes.values()), strict=True))
        self.total = sum(sizes.values())
        self._reached = 0

    def position(self, name: str) -> int:
        """The bytes that are read when the image of this name is done; never less than before."""
        for place in _around(name):
            end = self._ends.get(place)
            if end is not None:
                self._reached = max(self._reached, end)
                break
        return self._reached


def files_left(
    arguments: Iterable[str], names: Iterable[str], barren: Set[Path], seconds: float
) -> int | None:
    """How many files hold no image of these names and are not ``barren``; ``None`` where to look for them
    takes longer than ``seconds``."""
    reached = {place for name in names for place in _around(name)}
    end = time.monotonic() + seconds
    left = 0
    for path in input_files(one for one in arguments if one != STDIN):
        if time.monotonic() > end:
            return None
        left += str(path) not in reached and path not in barren
    return left


def _around(name: str) -> list[str]:
    """The image of this name and what it is in, from the inside out."""
    parts = name.split(SEPARATOR)
    return [SEPARATOR.join(parts[:count]) for count in range(len(parts), 0, -1)]


def _parts(path: Path) -> Iterable[tuple[str, int]]:
    """A file, or the members of one that has many, with their sizes in bytes."""
    place = Place((str(path),))
    try:
        with path.open("rb") as stream:
            if recognise(stream.read(PROBE_BYTES)) is Content.ZIP:
                members = ZipReader(stream, str(place)).members()
                return [(str(place.inside(one.name)), one.information.compress_size) for one in members]
        return [(str(place), path.stat().st_size)]
    except (OSError, InputError):
        return []
