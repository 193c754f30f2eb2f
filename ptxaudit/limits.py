"""What an input may cost: the limits of an audit, and how a function that exceeds its share is stopped.

Limits are generous: of 200 kernels of flashinfer-cubin three came to one. What reaches one is said to be
``unknown`` with that reason, and counts as not read. They hold for the thread that :func:`in_force` was
entered in, so that a reader deep in a container need not be handed them.
"""

import contextlib
import ctypes
import threading
import time
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from mmap import PAGESIZE
from pathlib import Path

_MEGABYTE = 1 << 20
_LOOK_SECONDS = 0.1
# An interrupt that meets the thread in a callback, such as the garbage collector's, is lost.
_AGAIN_SECONDS = 0.5
_MEMORY = Path("/proc/self/statm")
# The C library keeps what small arrays leave free between others: of 1,060 MB that the largest kernels of
# flashinfer-cubin took it were 660 MB. It gives that back when asked, once a process has grown by so much.
_SLACK = 64 * _MEGABYTE


@dataclass(frozen=True, slots=True)
class Limits:
    """Every limit; each is a whole number of at least 1.

    ``nesting``: how deep a file may be in others. ``members``: files, and entries of fatbins, in one input.
    ``image_megabytes``: one PTX text or cubin. ``functions``: those of one that are asked for.
    ``unpacked_ratio``: what is decompressed, to what it took: of one image above 32 MB, and of all of an
    input above 1 GB. ``kernel_seconds`` of processor time and ``kernel_megabytes``, by which the process
    grows, for all rules on one function. ``tool_seconds``, ``tool_megabytes`` and ``tool_output_megabytes``
    for one run of a disassembler, an assembler or NVRTC, elapsed time and address space.
    """

    nesting: int = 8
    members: int = 1_000_000
    image_megabytes: int = 1024
    functions: int = 100_000
    unpacked_ratio: int = 200
    kernel_seconds: int = 1800
    kernel_megabytes: int = 940
    tool_seconds: int = 300
    tool_megabytes: int = 32768
    tool_output_megabytes: int = 8192

    def changed(self, values: Mapping[str, int]) -> "Limits":
        """These limits with some of them, spelt as in settings (``tool-seconds``), changed."""
        return replace(self, **{name.replace("-", "_"): value for name, value in values.items()})

    @property
    def image_bytes(self) -> int:
        """``image_megabytes`` in bytes."""
        return self.image_megabytes * _MEGABYTE


NAMES = tuple(one.name.replace("_", "-") for one in fields(Limits))

_current: ContextVar[Limits] = ContextVar("limits", default=Limits())  # noqa: B039 (it is frozen)


def limits() -> Limits:
    """The limits in force."""
    return _current.get()


@contextlib.contextmanager
def in_force(given: Limits) -> Iterator[None]:
    """These limits hold inside."""
    token = _current.set(given)
    try:
        yield
    finally:
        _current.reset(token)


class Disturbances(threading.local):
    """Counts what ended in this thread for reasons that another time may not be there."""

    count = 0


DISTURBANCES = Disturbances()


class LimitReached(BaseException):
    """A function took more than its share; no ``except Exception`` on the way may take it for a fault."""


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Raise :class:`LimitReached` inside once the limits of one function are exceeded.

    A thread looks at the process ten times a second and interrupts the one that entered this. What does not
    come back to Python is not interrupted.
    """
    watch = _Watch(limits())
    watch.start()
    try:
        yield
    finally:
        reason = _end(watch)
        if reason is not None:
            DISTURBANCES.count += 1
            raise LimitReached(reason)


def _end(watch: "_Watch") -> str | None:
    """End a watch, and end it anew if a further interrupt meets the thread in this."""
    while True:
        try:
            return watch.end()
        except LimitReached:
            continue


class _Watch(threading.Thread):
    def __init__(self, given: Limits) -> None:
        super().__init__(name="ptxaudit limits", daemon=True)
        self._given = given
        self._watched = threading.get_ident()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._before = (time.process_time(), _resident())
        self._trimmed_at = self._before[1]

    def run(self) -> None:
        """Look until something is exceeded or the watch ends."""
        while not self._ended.wait(_LOOK_SECONDS if self._reason is None else _AGAIN_SECONDS):
            self._reason = self._reason or self._exceeded()
            with self._lock:
                if self._reason is not None and not self._ended.is_set():
                    _interrupt(self._watched, LimitReached)

    def _exceeded(self) -> str | None:
        started, before = self._before
        if time.process_time() - started > self._given.kernel_seconds:
            return f"stopped after {self._given.kernel_seconds} s (kernel-seconds)"
        most = before + self._given.kernel_megabytes * _MEGABYTE
        if self._needed(_SLACK) > most and self._needed(0) > most:
            return f"stopped at {self._given.kernel_megabytes} MB of memory (kernel-megabytes)"
        return None

    def _needed(self, slack: int) -> int:
        """The memory of this process in bytes, without what is free in it where that may be more than so."""
        if _resident() - self._trimmed_at > slack:
            _give_back()
            self._trimmed_at = _resident()
        return _resident()

    def end(self) -> str | None:
        """Stop looking; why the thread was interrupted, ``None`` when it was not."""
        with self._lock:
            self._ended.set()
            if self._reason is not None:
                # What was sent may not have arrived yet, and must not arrive later.
                _interrupt(self._watched, None)
        # What this function leaves free is not to count for the next one.
        self._trimmed_at = min(self._trimmed_at, self._before[1])
        self._needed(_SLACK)
        return self._reason


def _interrupt(thread: int, kind: type[BaseException] | None) -> None:
    """Have a thread raise an exception at its next step; ``None`` takes back one that it has yet to raise."""
    sent = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), sent)


def _give_back() -> None:
    """Have the C library give the system what is free; others than glibc do without."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _resident() -> int:
    """The memory of this process in bytes, 0 where the system does not tell."""
    try:
        return int(_MEMORY.read_text("ascii").split()[1]) * PAGESIZE
    except (OSError, ValueError, IndexError):
        return 0
