"""An audit on a Dask cluster gives what a local one does, also when workers are lost."""

import contextlib
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from audit_support import run_cli

from ptxaudit.engine.audit import AuditOptions, AuditRun, audit
from ptxaudit.engine.image import KernelImage, image_of
from ptxaudit.engine.progress import SILENT, Progress
from ptxaudit.engine.registry import load_registry, select_rules
from ptxaudit.errors import UsageError

distributed = pytest.importorskip("distributed")
FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
CUBINS = sorted(path for path in FIXTURES.rglob("*.cubin") if "hostile" not in path.parts)[::4]
IMAGES = tuple(image_of(path.name, path.read_bytes()) for path in CUBINS)
POLL = select_rules(load_registry(), ["l1-invalidate-in-poll-loop", "gpu-membar-in-hot-loop"])


@contextlib.contextmanager
def running(workers: int) -> Iterator[str]:
    """The address of a scheduler with workers that are processes and are started again when they end."""
    with distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
    ) as made:
        yield made.scheduler_address


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running(2) as address:
        yield address


def audited(
    images: tuple[KernelImage, ...], scheduler: str | None = None, progress: Progress = SILENT
) -> AuditRun:
    return audit(images, AuditOptions(POLL, jobs=1, listings=False, scheduler=scheduler), progress)


def worker_processes(address: str) -> list[int]:
    with distributed.Client(address, set_as_default=False) as client:
        return list(client.run(os.getpid).values())


@pytest.mark.slow
def test_it_gives_what_a_local_audit_does(address: str) -> None:
    broken = image_of("broken.cubin", IMAGES[0].content[:200])
    images = (IMAGES[0], broken, *IMAGES[1:], IMAGES[0])
    there, here = audited(images, address), audited(images)
    assert there.report == here.report
    assert there.internal_errors == here.internal_errors == ()


@pytest.mark.slow
def test_a_lost_worker_costs_nothing(address: str) -> None:
    lost: list[int] = []

    def finished(name: str) -> None:
        if not lost:
            lost.append(worker_processes(address)[0])
            os.kill(lost[0], signal.SIGKILL)

    there = audited(IMAGES, address, Progress(finished=finished))
    assert lost and lost[0] not in worker_processes(address)
    assert there.report == audited(IMAGES).report


@pytest.mark.slow
def test_what_workers_are_lost_over_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    import dask

    from ptxaudit.engine import distributed as module

    monkeypatch.setattr(module, "_audit_on_worker", deadly)
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), running(1) as address:
        report = audited(IMAGES[:3], address).report
    assert [one.error is not None for one in report.inputs] == [False, True, False]
    message = "the workers that audited it were lost one after the other"
    assert report.inputs[1].error == f"{IMAGES[1].name}: {message}"
    assert {one.input for one in report.functions} == {IMAGES[0].name, IMAGES[2].name}


@pytest.mark.slow
def test_an_audit_does_not_wait_for_ever_for_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    from ptxaudit.engine import distributed as module

    monkeypatch.setattr(module, "_WORKER_SECONDS", 1)
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.5)
    with running(0) as address, pytest.raises(UsageError, match="found no worker within 1 s"):
        audited(IMAGES[:1], address)


def deadly(work: tuple[object, ...], options: AuditOptions, expected: str) -> object:
    from ptxaudit.engine.image_audit import audit_tasks

    if any(task.name == IMAGES[1].name for task in work):  # type: ignore[attr-defined]
        os.kill(os.getpid(), signal.SIGKILL)
    return tuple(audit_tasks(work, options))  # type: ignore[arg-type]


@pytest.mark.slow
def test_workers_with_another_ptxaudit_are_refused(
    address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ptxaudit.engine.distributed.environment", lambda: "another")
    arguments = ("audit", str(CUBINS[0]), "--scheduler", address, "--no-store")
    assert run_cli(monkeypatch, *arguments) == 2
    assert "found a worker with another ptxaudit" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(None, "no such file or directory"), ("[]", "found no address in it"), ("{", "found no address in it")],
)
def test_a_wrong_scheduler_file_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    content: str | None,
    complaint: str,
) -> None:
    file = tmp_path / "scheduler.json"
    if content is not None:
        file.write_text(content)
    assert run_cli(monkeypatch, "audit", str(CUBINS[0]), "--scheduler", str(file), "--no-store") == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"ptxaudit: --scheduler {file}: {complaint}")


def test_no_scheduler_is_one_line(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("ptxaudit.engine.distributed._CONNECT_SECONDS", 0.2)
    arguments = ("audit", str(CUBINS[0]), "--scheduler", "tcp://127.0.0.1:9", "--no-store")
    assert run_cli(monkeypatch, *arguments) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("ptxaudit: --scheduler tcp://127.0.0.1:9: found no Dask scheduler there")
