"""Auditing in several processes: results in order, a bounded number of images on their way, a clean end."""

import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from ptxaudit.engine.pool import WorkerPool
from ptxaudit.engine.progress import Progress
from ptxaudit.engine.results import AuditOptions, ImageResult, Results
from ptxaudit.engine.units import Task, Work
from ptxaudit.errors import Stopped

_WAITING_PER_JOB = 2
_WAITING_BYTES = 1 << 27
# What was to be done (a result where nothing was), and the results of it.
Answer = tuple[Task | ImageResult, tuple[ImageResult, ...]]


def parallel_results(
    work: Iterator[Work | ImageResult], options: AuditOptions, jobs: int, progress: Progress
) -> Iterator[Answer]:
    """The results of each task in the order of the tasks, from ``jobs`` processes.

    No more images are read ahead than keep the processes busy. Whatever ends this (an error, Ctrl-C, a
    signal to stop), the processes end and their temporary files are removed before it returns.
    """
    with tempfile.TemporaryDirectory(prefix="ptxaudit-", ignore_cleanup_errors=True) as scratch:
        pool = WorkerPool(jobs, options, scratch)
        at_once = True
        try:
            yield from in_order(pool.submit, work, jobs, progress)
            at_once = False
        finally:
            pool.end(at_once)


class Submitted(Protocol):
    """Work that is done elsewhere."""

    def is_done(self) -> bool:
        """Whether its results are there."""

    def result(self) -> Results:
        """The results, waited for."""


def in_order(
    submit: Callable[[Work], Submitted], work: Iterator[Work | ImageResult], jobs: int, progress: Progress
) -> Iterator[Answer]:
    """The results of what is submitted, in order; no more is under way than keeps ``jobs`` workers busy.

    When it is interrupted, what is done is given first.
    """
    waiting: deque[_Awaited] = deque()
    size = 0
    try:
        for one in work:
            waiting.append(_Awaited(one, None if isinstance(one, ImageResult) else submit(one)))
            size += waiting[-1].size
            while waiting and (len(waiting) > jobs * _WAITING_PER_JOB or size > _WAITING_BYTES):
                yield from waiting[0].answers(progress)
                size -= waiting.popleft().size
        while waiting:
            yield from waiting[0].answers(progress)
            waiting.popleft()
    except (KeyboardInterrupt, Stopped):
        # What is done already is not lost.
        for done in waiting:
            if done.is_done():
                yield from done.answers(progress)
        raise


class _Awaited:
    """Work that is submitted, or a result where there was none to do; each answer is given once."""

    def __init__(self, work: Work | ImageResult, submitted: Submitted | None) -> None:
        self._work = work
        self._submitted = submitted
        self._given = 0
        self.size = 0 if isinstance(work, ImageResult) else sum(task.size for task in work)

    def is_done(self) -> bool:
        """Whether nothing is to be waited for."""
        return self._submitted is None or self._submitted.is_done()

    def answers(self, progress: Progress) -> Iterator[Answer]:
        """The answers that were not given yet, waited for."""
        answers = self._waited_for(progress)
        while self._given < len(answers):
            # An interrupt may come while it is given.
            self._given += 1
            yield answers[self._given - 1]

    def _waited_for(self, progress: Progress) -> list[Answer]:
        if isinstance(self._work, ImageResult) or self._submitted is None:
            assert isinstance(self._work, ImageResult)
            return [(self._work, ())]
        progress.started(self._work[0].name)
        return list(zip(self._work, self._submitted.result(), strict=True))
