"""A worker process that is killed costs at most what it was auditing."""

import multiprocessing
import os
import signal
from pathlib import Path

import pytest
from audit_support import KERNEL, tiny_registry

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.engine.audit import AuditOptions, AuditRun, audit
from ptxaudit.engine.image import image_of
from ptxaudit.engine.pool import WorkerPool
from ptxaudit.engine.registry import Rule
from ptxaudit.engine.units import Task
from ptxaudit.errors import PtxauditError
from ptxaudit.rules.model import Outcome

NAMES = ("a", "b", "c", "d", "e", "f")
DEATHS = "PTXAUDIT_TEST_DEATHS"


def deadly_check(analysis: FunctionAnalysis) -> Outcome:
    """Kills its process in the kernel ``c``, as often as there are files for it to take away."""
    if analysis.function.name == "c":
        for one in Path(os.environ[DEATHS]).iterdir():
            one.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
    return Outcome.of([])


def audited(folder: Path, deaths: int, jobs: int, monkeypatch: pytest.MonkeyPatch) -> AuditRun:
    places = folder / f"deaths-{jobs}"
    places.mkdir()
    for number in range(deaths):
        (places / str(number)).touch()
    monkeypatch.setenv(DEATHS, str(places))
    rule = Rule(tiny_registry(folder)["tiny-rule"].pattern, deadly_check)
    images = [image_of(f"{name}.ptx", KERNEL.replace("kernel(", f"{name}(").encode()) for name in NAMES]
    run = audit(images, AuditOptions((rule,), jobs=jobs))
    assert list(places.iterdir()) == []
    return run


def test_a_worker_that_is_killed_once_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = audited(tmp_path, 1, 2, monkeypatch)
    assert there.report == audited(tmp_path, 0, 1, monkeypatch).report
    assert not there.report.shortcomings


def test_what_kills_its_worker_twice_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = audited(tmp_path, 2, 2, monkeypatch).report
    assert [one.path for one in report.inputs] == [f"{name}.ptx" for name in NAMES]
    reason = "its worker process was killed, also with no other one running (out of memory?)"
    expected = {"c.ptx": f"c.ptx: could not be audited: {reason}"}
    assert {one.path: one.error for one in report.inputs if one.error is not None} == expected
    assert [one.name for one in report.functions] == [name for name in NAMES if name != "c"]
    assert report.shortcomings == ("1 input could not be read",)


def dying_start(scratch: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_workers_that_never_begin_end_the_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptxaudit.engine.pool._start_worker", dying_start)
    pool = WorkerPool(2, AuditOptions(()), str(tmp_path))
    with pytest.raises(PtxauditError, match="killed at their start"):
        pool.submit(()).result()
    pool.end(at_once=True)


def test_workers_that_begin_no_more_cost_no_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tuple(Task((image_of(f"{name}.ptx", KERNEL.encode()),)) for name in NAMES[:2])
    pool = WorkerPool(1, AuditOptions(()), str(tmp_path))
    ((first,),) = pool.submit(work[:1]).result()
    assert first.report is not None and first.report.error is None
    monkeypatch.setattr("ptxaudit.engine.pool._start_worker", dying_start)
    for worker in multiprocessing.active_children():
        worker.kill()
    ((second,),) = pool.submit(work[1:]).result()
    assert second.report is not None and second.report.error is not None
    pool.end(at_once=True)
