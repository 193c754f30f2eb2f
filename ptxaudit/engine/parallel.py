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

from ptxaudit.engine.image_audit import audit_images
from ptxaudit.engine.progress import Progress
from ptxaudit.engine.results import AuditOptions, ImageResult
from ptxaudit.engine.units import Task
from ptxaudit.errors import PtxauditError, Stopped

_WAITING_PER_JOB = 2
_WAITING_BYTES = 1 << 27
# What was to be done (a result where nothing was), and the results of it.
Answer = tuple[Task | ImageResult, tuple[ImageResult, ...]]
_told_to_end = threading.Event()


def parallel_results(
    tasks: Iterator[Task | ImageResult], options: AuditOptions, jobs: int, progress: Progress
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
            yield from _in_order(pool, tasks, options, jobs, progress)
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
    tasks: Iterator[Task | ImageResult],
    options: AuditOptions,
    jobs: int,
    progress: Progress,
) -> Iterator[Answer]:
    waiting: deque[tuple[Task | ImageResult, Future[tuple[ImageResult, ...]] | None]] = deque()
    size = 0
    try:
        for task in tasks:
            if isinstance(task, ImageResult):
                waiting.append((task, None))
            else:
                waiting.append((task, pool.submit(_audit_in_worker, task, options)))
                size += task.size
            while waiting and (len(waiting) > jobs * _WAITING_PER_JOB or size > _WAITING_BYTES):
                answer = _answer(*waiting[0], progress)
                done, _ = waiting.popleft()
                size -= done.size if isinstance(done, Task) else 0
                yield answer
        while waiting:
            answer = _answer(*waiting[0], progress)
            waiting.popleft()
            yield answer
    except (KeyboardInterrupt, Stopped):
        # What is done already is not lost.
        yield from (_answer(*one, progress) for one in waiting if one[1] is None or _is_done(one[1]))
        raise


def _is_done(future: Future[tuple[ImageResult, ...]]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def _answer(
    task: Task | ImageResult, future: Future[tuple[ImageResult, ...]] | None, progress: Progress
) -> Answer:
    if isinstance(task, ImageResult) or future is None:
        return task, ()
    progress.started(task.name)
    return task, future.result()


class _Ended(BaseException):
    """This process was told to end: unwinds the audit, so that its disassembler is stopped."""


def _start_worker(scratch: str) -> None:
    # Ctrl-C reaches the whole process group: a worker ends at once and without a traceback, and what it
    # leaves in its temporary directory goes with the parent's.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    tempfile.tempdir = scratch


def _audit_in_worker(task: Task, options: AuditOptions) -> tuple[ImageResult, ...]:
    # The pool keeps what a task raises and goes on with the next one.
    if _told_to_end.is_set():
        raise _Ended
    previous = signal.signal(signal.SIGTERM, _end)
    try:
        return audit_images(task.images, options)
    finally:
        signal.signal(signal.SIGTERM, previous)


def _end(number: int, frame: FrameType | None) -> None:
    _told_to_end.set()
    raise _Ended
