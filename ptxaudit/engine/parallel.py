"""Auditing in several processes: results in order, a bounded number of images on their way, a clean end."""

import multiprocessing
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import FrameType

from ptxaudit.engine.image_audit import audit_tasks
from ptxaudit.engine.progress import Progress
from ptxaudit.engine.results import AuditOptions, ImageResult
from ptxaudit.engine.units import Task, Work
from ptxaudit.errors import PtxauditError, Stopped

_WAITING_PER_JOB = 2
_WAITING_BYTES = 1 << 27
# What was to be done (a result where nothing was), and the results of it.
Answer = tuple[Task | ImageResult, tuple[ImageResult, ...]]
_Results = tuple[tuple[ImageResult, ...], ...]
_Waiting = tuple[Work | ImageResult, Future[_Results] | None]
_told_to_end = threading.Event()


def parallel_results(
    work: Iterator[Work | ImageResult], options: AuditOptions, jobs: int, progress: Progress
) -> Iterator[Answer]:
    """The results of each task in the order of the tasks, from ``jobs`` processes.

    No more images are read ahead than keep the processes busy. Whatever ends this (an error, Ctrl-C, a
    signal to stop), the processes end and their temporary files are removed before it returns.
    """
    with tempfile.TemporaryDirectory(prefix="ptxaudit-", ignore_cleanup_errors=True) as scratch:
        # A spawned worker inherits no thread and no signal handler of the command line.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(jobs, context, initializer=_start_worker, initargs=(scratch,))
        try:
            yield from _in_order(pool, work, options, jobs, progress)
        except BrokenProcessPool as error:
            raise PtxauditError(
                "found a worker process killed, expected it to finish (try --jobs 1)"
            ) from error
        except BaseException:
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _in_order(
    pool: ProcessPoolExecutor,
    work: Iterator[Work | ImageResult],
    options: AuditOptions,
    jobs: int,
    progress: Progress,
) -> Iterator[Answer]:
    waiting: deque[_Waiting] = deque()
    size = 0
    try:
        for one in work:
            if isinstance(one, ImageResult):
                waiting.append((one, None))
            else:
                waiting.append((one, pool.submit(_audit_in_worker, one, options)))
                size += _size(one)
            while waiting and (len(waiting) > jobs * _WAITING_PER_JOB or size > _WAITING_BYTES):
                yield from _answers(*waiting[0], progress)
                size -= _size(waiting.popleft()[0])
        while waiting:
            yield from _answers(*waiting[0], progress)
            waiting.popleft()
    except (KeyboardInterrupt, Stopped):
        # What is done already is not lost.
        for done in waiting:
            if done[1] is None or _is_done(done[1]):
                yield from _answers(*done, progress)
        raise


def _size(work: Work | ImageResult) -> int:
    return 0 if isinstance(work, ImageResult) else sum(task.size for task in work)


def _is_done(future: Future[_Results]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def _answers(
    work: Work | ImageResult, future: Future[_Results] | None, progress: Progress
) -> Iterator[Answer]:
    if isinstance(work, ImageResult) or future is None:
        assert isinstance(work, ImageResult)
        yield work, ()
        return
    progress.started(work[0].name)
    yield from zip(work, future.result(), strict=True)


class _Ended(BaseException):
    """This process was told to end: unwinds the audit, so that its disassembler is stopped."""


def _start_worker(scratch: str) -> None:
    # Ctrl-C reaches the whole process group: a worker ends at once and without a traceback, and what it
    # leaves in its temporary directory goes with the parent's.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    tempfile.tempdir = scratch


def _audit_in_worker(work: Work, options: AuditOptions) -> _Results:
    # The pool keeps what a task raises and goes on with the next one.
    if _told_to_end.is_set():
        raise _Ended
    previous = signal.signal(signal.SIGTERM, _end)
    try:
        return tuple(audit_tasks(work, options))
    finally:
        signal.signal(signal.SIGTERM, previous)


def _end(number: int, frame: FrameType | None) -> None:
    _told_to_end.set()
    raise _Ended
