"""Finding byte strings in a stream of any size, a piece at a time."""

from collections.abc import Iterator
from typing import BinaryIO

from ptxaudit.frontends.containers.streams import read_at

_PIECE = 1 << 22


def find_all(
    stream: BinaryIO, start: int, end: int, needles: tuple[bytes, ...]
) -> Iterator[tuple[int, bytes]]:
    """Where each needle begins between two offsets, in the order of the stream.

    The consumer may read the stream meanwhile. Memory is a few megabytes whatever there is to search.
    """
    overlap = max(len(needle) for needle in needles) - 1
    position = start
    while position < end:
        piece = read_at(stream, position, min(_PIECE + overlap, end - position))
        hits = [hit for needle in needles for hit in _hits(piece, needle, position)]
        # What begins in the overlap is found again with the next piece.
        yield from sorted(hit for hit in hits if hit[0] < position + _PIECE)
        if len(piece) < _PIECE + overlap:
            return
        position += _PIECE


def _hits(piece: bytes, needle: bytes, base: int) -> Iterator[tuple[int, bytes]]:
    at = piece.find(needle)
    while at >= 0:
        yield base + at, needle
        at = piece.find(needle, at + 1)
