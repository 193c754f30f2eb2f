"""Where the time of an audit goes: processor seconds by stage, those of the tools that it runs included.

Stages nest, and time counts for the innermost one, so that the stages add up to all of it. It is processor
time, because elapsed time says little on a machine that others use, too.
"""

import contextlib
import resource
import threading
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from time import thread_time


class Stage(StrEnum):
    """What a part of an audit does, in the order in which it happens."""

    START = "start"
    READING = "finding and unpacking"
    SCANNING = "opcode scan"
    DISASSEMBLER = "disassembler"
    ASSEMBLER = "assembler"
    FRONT_END = "front end"
    EVENTS = "events"
    EXECUTION = "execution"
    RACES = "race search"
    RULES = "rules"
    JOINING = "joining PTX and SASS"
    REPORTS = "reports"
    STORE = "result store"
    OTHER = "other"


Timings = Mapping[Stage, float]


class Stopwatch(threading.local):
    """Charges the processor time of its thread to stages, from the thread's beginning."""

    def __init__(self) -> None:
        self._seconds: dict[Stage, float] = {}
        self._stages = [Stage.START]
        self._last = 0.0

    @contextlib.contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        """What happens inside counts for a stage; also a decorator."""
        self._charge()
        self._stages.append(stage)
        try:
            yield
        finally:
            self._charge()
            self._stages.pop()

    @contextlib.contextmanager
    def waiting(self, stage: Stage) -> Iterator[None]:
        """What a child process took counts for a stage, if its end is waited for inside."""
        before = _children()
        try:
            yield
        finally:
            self._add(stage, _children() - before)

    def taken(self) -> dict[Stage, float]:
        """Seconds by stage since this was last asked."""
        self._charge()
        seconds, self._seconds = self._seconds, {}
        return seconds

    def _charge(self) -> None:
        now = thread_time()
        self._add(self._stages[-1], now - self._last)
        self._last = now

    def _add(self, stage: Stage, seconds: float) -> None:
        self._seconds[stage] = self._seconds.get(stage, 0.0) + seconds


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


STOPWATCH = Stopwatch()


def summed(several: Iterable[Timings]) -> dict[Stage, float]:
    """All seconds by stage, the stages in their order."""
    total: dict[Stage, float] = {}
    for one in several:
        for stage, seconds in one.items():
            total[stage] = total.get(stage, 0.0) + seconds
    return {stage: total[stage] for stage in Stage if stage in total}
