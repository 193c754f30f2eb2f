"""Seekable binary streams: a part of one seen as a whole, and reads that say what was cut short."""

import io
import os
from collections.abc import Callable
from typing import BinaryIO, TypeVar

from ptxaudit.errors import BinaryFault

_Result = TypeVar("_Result")
_FARTHEST = 1 << 44  # no file system holds a larger file, and seek refuses what exceeds 63 bits


class _SizedStream(io.RawIOBase):
    """A readable stream of ``size`` bytes whose position may be set anywhere: seeking reads nothing."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move as :meth:`io.IOBase.seek` does; a place before the start is the start."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position


class Window(_SizedStream):
    """``size`` bytes of ``stream`` from ``start``, as a stream of its own that ends where the other does.

    Nothing is copied. The two share one position, so only one of them is in use at a time.
    """

    def __init__(self, stream: BinaryIO, start: int, size: int) -> None:
        super().__init__(size)
        self._stream = stream
        self._start = start

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill ``buffer`` as far as the window and the stream below reach."""
        wanted = min(len(buffer), max(0, self._size - self._position))
        self._stream.seek(self._start + self._position)
        content = self._stream.read(wanted)
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)


def window(stream: BinaryIO, start: int, size: int) -> BinaryIO:
    """A part of a stream as a stream; see :class:`Window`."""
    return io.BufferedReader(Window(stream, start, size))


def size_of(stream: BinaryIO) -> int:
    """How many bytes there are in all."""
    return stream.seek(0, os.SEEK_END)


def read_at(stream: BinaryIO, offset: int, size: int) -> bytes:
    """Up to ``size`` bytes from ``offset``; fewer where the stream ends."""
    if offset > _FARTHEST:
        return b""
    stream.seek(offset)
    return stream.read(size)


def read_exactly(stream: BinaryIO, offset: int, size: int, file: str, what: str) -> bytes:
    """``size`` bytes from ``offset``; raises :class:`BinaryFault` naming ``what`` when they are not there."""
    # Sizes come from headers: what is not there must not be allocated.
    content = read_at(stream, offset, min(size, max(0, size_of(stream) - offset)))
    if len(content) < size:
        found = f"the end of the file at {offset + len(content):#x}"
        raise BinaryFault(file, offset, found, f"{what} of {size} bytes")
    return content


class ForwardStream(_SizedStream):
    """A stream that can only be read on (decompression), made seekable at a bounded cost in memory.

    The last two pieces are kept, so that small steps back are free; a longer step back starts again from
    the beginning, which ``reopen`` gives. ``size`` is what the stream claims to hold: one that ends
    before is a :class:`BinaryFault` of ``file``, as is every error of ``faults`` that reading it raises.
    """

    _PIECE = 1 << 20

    def __init__(
        self,
        reopen: Callable[[], BinaryIO],
        size: int,
        file: str,
        faults: tuple[type[Exception], ...],
    ) -> None:
        super().__init__(size)
        self._reopen = reopen
        self._file = file
        self._faults = faults
        self._reached = 0
        self._before = self._piece = b""
        self._source = self._guarded(reopen)

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill ``buffer`` as far as the stream reaches."""
        wanted = min(len(buffer), max(0, self._size - self._position))
        if not wanted:
            return 0
        if self._position < self._reached - len(self._piece) - len(self._before):
            self._source.close()
            self._source = self._guarded(self._reopen)
            self._reached, self._before, self._piece = 0, b"", b""
        while self._reached <= self._position:
            self._advance()
        piece, end = self._piece, self._reached
        if self._position < end - len(piece):
            piece, end = self._before, end - len(piece)
        start = self._position - (end - len(piece))
        content = piece[start : start + wanted]
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)

    def _advance(self) -> None:
        piece = self._guarded(lambda: self._source.read(self._PIECE))
        if not piece:
            found = f"the end of what it holds at {self._reached} bytes"
            raise BinaryFault(self._file, None, found, f"the {self._size} bytes that it claims")
        self._reached += len(piece)
        self._before, self._piece = self._piece, piece

    def _guarded(self, action: Callable[[], _Result]) -> _Result:
        try:
            return action()
        except self._faults as error:
            raise BinaryFault(self._file, None, f"broken content ({error})", "a whole one") from error

    def close(self) -> None:
        """Close what is read from."""
        self._source.close()
        super().close()
