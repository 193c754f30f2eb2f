"""What the benchmarks share: an audit that is ended when it takes too long, and all the rules."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from functools import cache
from types import FrameType

from ptxaudit.engine.registry import Rule, load_registry
from ptxaudit.errors import PatternError


class OutOfTime(BaseException):
    """An audit took too long; no ``except Exception`` of the product may stop it."""


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise :class:`OutOfTime` once this process has taken so many seconds of processor time."""
    before = signal.signal(signal.SIGPROF, _out_of_time)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _out_of_time(number: int, frame: FrameType | None) -> None:
    raise OutOfTime


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule; one whose check cannot be loaded is left out and said."""
    registry, found = load_registry(), []
    for name in registry:
        try:
            found.append(registry[name])
        except PatternError as error:
            print(error, file=sys.stderr)
    return tuple(found)
