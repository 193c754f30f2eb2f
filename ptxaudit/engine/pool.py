"""Processes that audit; where one of them is killed, as for want of memory, that costs what it had at most.

A process pool of Python fails all that it holds when one of its processes is killed, and ends the others.
What was not under way in the killed one is then given to a new pool. What was is done again task by task with
no other process running, so that it has all the memory there is, and it is known which task is at fault.
Work and results go through files: in a pipe the start of a message that its writer, killed, does not finish
would be waited for without end.
"""

import contextlib
import functools
import itertools
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from ptxaudit.engine.image import KernelImage
from ptxaudit.engine.image_audit import audit_tasks
from ptxaudit.engine.parcels import Parcel, opened, packed
from ptxaudit.engine.results import AuditOptions, ImageResult, Results
from ptxaudit.engine.units import Task, Work
from ptxaudit.errors import PtxauditError
from ptxaudit.rules.model import InputReport

_MOST_FUTILE = 4
# A terminal sends these to every process that it has started: the parent ends the workers.
_OF_THE_GROUP = (signal.SIGINT, signal.SIGHUP)


class WorkerPool:
    """``jobs`` processes that audit by ``options`` and keep what they write for themselves in ``scratch``."""

    def __init__(self, jobs: int, options: AuditOptions, scratch: str) -> None:
        self._jobs = jobs
        self._options = packed(options, Path(scratch, "options"))
        self._scratch = scratch
        self._numbers = itertools.count()
        self._under_way: list[Submission] = []
        self._futile = 0
        self._has_results = False
        self._executor = self._new_executor(jobs)

    def submit(self, work: Work) -> "Submission":
        """Have the work done as soon as a process is free."""
        submission = Submission(self, work, Files(Path(self._scratch), next(self._numbers)))
        self._under_way.append(submission)
        self._give([submission])
        return submission

    def end(self, at_once: bool) -> None:
        """End the processes, ``at_once`` also those that are at work, and wait for that."""
        if at_once:
            for worker in multiprocessing.active_children():
                worker.terminate()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def start_again(self) -> None:
        """Take up, after a process was killed, what has no result yet.

        Raises :class:`PtxauditError` when processes are killed again and again without having begun anything,
        and there are no results yet that this would cost.
        """
        self._renew(1)
        left = [one for one in self._under_way if not one.is_done()]
        begun = [one for one in left if one.files.begun.exists()]
        self._futile = 0 if begun else self._futile + 1
        if self._futile == _MOST_FUTILE:
            if not self._has_results:
                raise PtxauditError(
                    "found worker processes killed at their start, expected them to audit (try --jobs 1)"
                )
            begun = left
        for one in begun:
            one.results = tuple(self._last_try(task, one.files) for task in one.work)
        self._renew(self._jobs)
        self._give([one for one in left if one.results is None])

    def done(self, submission: "Submission") -> None:
        """Its results are there: it need not be done again."""
        self._under_way.remove(submission)
        self._futile = 0
        self._has_results = True
        submission.files.remove()

    def _give(self, submissions: list["Submission"]) -> None:
        try:
            for one in submissions:
                one.future = self._submitted(one.work, one.files)
        except BrokenProcessPool:
            self.start_again()

    def _last_try(self, task: Task, files: "Files") -> tuple[ImageResult, ...]:
        try:
            return _unpacked(self._submitted((task,), files).result())[0]
        except BrokenProcessPool:
            self._renew(1)
            return tuple(_killed(image) for image in task.images)

    def _submitted(self, work: Work, files: "Files") -> "Future[Parcel]":
        parcel = packed(work, files.work)
        # A process that this starts is deaf to the group's signals until it ignores them.
        with _deaf():
            return self._executor.submit(_audit, parcel, self._options, files)

    def _renew(self, jobs: int) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._executor = self._new_executor(jobs)

    def _new_executor(self, jobs: int) -> ProcessPoolExecutor:
        # A spawned worker inherits no thread and no signal handler of the command line.
        context = multiprocessing.get_context("spawn")
        # Python's process for what semaphores leave is started here, and would not outlive a hangup.
        with _deaf():
            return ProcessPoolExecutor(jobs, context, initializer=_start_worker, initargs=(self._scratch,))


@dataclass(frozen=True, slots=True)
class Files:
    """The files in ``folder`` of the work with this ``number``."""

    folder: Path
    number: int

    @property
    def begun(self) -> Path:
        """Is there once a process has begun with it."""
        return self.folder / f"begun-{self.number}"

    @property
    def work(self) -> Path:
        """Where the work is, unless it is small."""
        return self.folder / f"work-{self.number}"

    @property
    def results(self) -> Path:
        """Where its results are, unless they are small."""
        return self.folder / f"results-{self.number}"

    def remove(self) -> None:
        """Remove what is there."""
        for file in (self.begun, self.work, self.results):
            file.unlink(missing_ok=True)


class Submission:
    """Work that a pool was given."""

    def __init__(self, pool: WorkerPool, work: Work, files: Files) -> None:
        self._pool = pool
        self.work = work
        self.files = files
        self.future: Future[Parcel] | None = None
        self.results: Results | None = None

    def is_done(self) -> bool:
        """Whether it came to its end, and not by an exception."""
        if self.results is not None:
            return True
        future = self.future
        return future is not None and future.done() and not future.cancelled() and future.exception() is None

    def result(self) -> Results:
        """What the process sent back, waited for."""
        while self.results is None:
            assert self.future is not None
            try:
                self.results = _unpacked(self.future.result())
            except BrokenProcessPool:
                self._pool.start_again()
        self._pool.done(self)
        return self.results


def _killed(image: KernelImage) -> ImageResult:
    reason = "its worker process was killed, also with no other one running (out of memory?)"
    message = f"{image.name}: could not be audited: {reason}"
    return ImageResult(InputReport(image.name, image.kind.value, image.sha256, message))


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Have signals of the group wait, in this thread and for good in processes that are started."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_THE_GROUP)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Ended(BaseException):
    """This process was told to end: unwinds the audit, so that its disassembler is stopped."""


def _start_worker(scratch: str) -> None:
    for number in _OF_THE_GROUP:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _OF_THE_GROUP)
    tempfile.tempdir = scratch
    threading.Thread(target=_end_with_parent, args=(scratch,), daemon=True).start()


def _end_with_parent(scratch: str) -> None:
    """Once the parent is gone, killed for one, nobody has work for this process nor removes its files."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    shutil.rmtree(scratch, ignore_errors=True)
    os.kill(os.getpid(), signal.SIGTERM)


def _audit(work: Parcel, options: Parcel, files: Files) -> Parcel:
    try:
        signal.signal(signal.SIGTERM, _end)
        try:
            # Without it, work that its process is killed over is given once more to several processes.
            with contextlib.suppress(OSError):
                files.begun.touch()
            return packed(_outcome(opened(work), _opened_once(options)), files.results)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    except _Ended:
        # The work is not at fault. The pool would keep the exception, and this process would live on.
        files.begun.unlink(missing_ok=True)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)
        raise


def _outcome(work: Work, options: AuditOptions) -> Results | Exception:
    """The results, or what was raised in their place: with its traceback it may be too large for a pipe."""
    try:
        return tuple(audit_tasks(work, options))
    except Exception as error:
        error.add_note("".join(traceback.format_exception(error)))
        return error


def _unpacked(parcel: Parcel) -> Results:
    outcome: Results | Exception = opened(parcel)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


@functools.cache
def _opened_once(parcel: Parcel) -> AuditOptions:
    options: AuditOptions = opened(parcel)
    return options


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise _Ended
