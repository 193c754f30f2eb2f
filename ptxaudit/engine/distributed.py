"""Auditing on the workers of a Dask cluster: the same work, the same results in the same order.

What is audited is sent to the workers, so that they need no files of the client but the sources that line
tables name. Dask gives the work of a lost worker to another one. What several workers were lost over is
tried task by task, and what is at fault then is reported as an input that could not be audited.
"""

import contextlib
import functools
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from distributed import Client, Future, KilledWorker

from ptxaudit.engine.image import KernelImage
from ptxaudit.engine.image_audit import audit_tasks
from ptxaudit.engine.parallel import Answer, in_order
from ptxaudit.engine.progress import Progress
from ptxaudit.engine.recall import environment
from ptxaudit.engine.results import AuditOptions, ImageResult, Results
from ptxaudit.engine.screening import batches
from ptxaudit.engine.units import Task, Work
from ptxaudit.errors import PtxauditError, UsageError, system_reason
from ptxaudit.rules.model import InputReport

_CONNECT_SECONDS = 30
_WORKER_SECONDS = 300
_LOOK_SECONDS = 10
_RETRIES = 2
# The limits of an audit are those of a process: one at a time, however many threads a worker has.
_one_at_a_time = threading.Lock()


def distributed_results(
    tasks: Iterator[Task | ImageResult], options: AuditOptions, progress: Progress
) -> Iterator[Answer]:
    """The results of each task in the order of the tasks, from the cluster that ``options`` names.

    Raises :class:`UsageError` where there is no scheduler, or it gets no worker.
    """
    assert options.scheduler is not None
    with _connected(options.scheduler) as client:
        jobs = len(client.scheduler_info(n_workers=-1)["workers"])
        work = batches(tasks, options, jobs)
        submit = functools.partial(_Submitted, client, options, environment())
        yield from in_order(submit, work, jobs, progress)


@contextlib.contextmanager
def _connected(address: str) -> Iterator[Client]:
    file = address if _is_file(address) else None
    try:
        client = Client(
            None if file else address, scheduler_file=file, timeout=_CONNECT_SECONDS, set_as_default=False
        )
    except (OSError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"--scheduler {address}: found no Dask scheduler there ({reason})") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=_WORKER_SECONDS)
        except TimeoutError as error:
            found = f"found no worker within {_WORKER_SECONDS} s"
            raise UsageError(f"--scheduler {address}: {found}, expected at least one") from error
        yield client


def _is_file(address: str) -> bool:
    """Whether it names a scheduler's file, which holds its address.

    Raises :class:`UsageError` for a missing file, for which Dask would wait, and one of something else.
    """
    if "://" in address or re.fullmatch(r"[^/\\\s]+:\d+", address):
        return False
    try:
        document = json.loads(Path(address).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--scheduler {address}: {system_reason(error)}") from error
    except (ValueError, RecursionError) as error:
        document = error
    if not isinstance(document, dict) or not isinstance(document.get("address"), str):
        expected = "the file that `dask scheduler --scheduler-file` writes"
        raise UsageError(f"--scheduler {address}: found no address in it, expected {expected}")
    return True


class _Submitted:
    """Work that is done somewhere; dropping it takes it back."""

    def __init__(self, client: Client, options: AuditOptions, expected: str, work: Work) -> None:
        self._client = client
        self._options = options
        self._expected = expected
        self._work = work
        self._future = self._submitted(work)

    def _submitted(self, work: Work) -> Future:
        return self._client.submit(
            _audit_on_worker, work, self._options, self._expected, pure=False, retries=_RETRIES
        )

    def is_done(self) -> bool:
        """Whether the results are there."""
        return bool(self._future.status == "finished")

    def result(self) -> Results:
        """The results, waited for."""
        try:
            return self._waited_for(self._future)
        except KilledWorker:
            return tuple(self._alone(task) for task in self._work)

    def _alone(self, task: Task) -> tuple[ImageResult, ...]:
        try:
            return self._waited_for(self._submitted((task,)))[0]
        except KilledWorker:
            return tuple(_lost(image) for image in task.images)

    def _waited_for(self, future: Future) -> Results:
        left = time.monotonic() + _WORKER_SECONDS
        while True:
            try:
                results: Results = future.result(timeout=_LOOK_SECONDS)
                return results
            except TimeoutError as error:
                if self._client.nthreads():
                    left = time.monotonic() + _WORKER_SECONDS
                elif time.monotonic() > left:
                    message = f"found no worker on the cluster for {_WORKER_SECONDS} s, expected at least one"
                    raise PtxauditError(message) from error


def _lost(image: KernelImage) -> ImageResult:
    message = f"{image.name}: the workers that audited it were lost one after the other"
    return ImageResult(InputReport(image.name, image.kind.value, image.sha256, message))


def _audit_on_worker(work: Work, options: AuditOptions, expected: str) -> Results:
    if expected != environment():
        raise PtxauditError(
            "found a worker with another ptxaudit, Python, nvdisasm, ptxas or library, expected the client's"
        )
    with _one_at_a_time:
        return tuple(audit_tasks(work, options))
