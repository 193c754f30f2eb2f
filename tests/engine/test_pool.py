"""A process that is killed costs at most what it was auditing: a worker, or all of an audit."""

import multiprocessing
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from audit_support import KERNEL, report_of, tiny_registry
from container_builders import CONTAINERS, CUBIN

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.engine.audit import AuditOptions, AuditRun, audit
from ptxaudit.engine.image import image_of
from ptxaudit.engine.pool import WorkerPool
from ptxaudit.engine.registry import Rule
from ptxaudit.engine.units import Task
from ptxaudit.errors import PtxauditError
from ptxaudit.rules.model import Outcome, Violation

RULES = ("--no-assemble", "--select", "shared-memory-race,divergent-barrier", "--fail-on", "never")
AUDIT = (sys.executable, "-m", "ptxaudit", "audit", ".", "--jobs", "2", *RULES)
TESTS = Path(__file__).parent
NAMES = ("a", "b", "c", "d", "e", "f")
DEATHS = "PTXAUDIT_TEST_DEATHS"


def deadly_check(analysis: FunctionAnalysis) -> Outcome:
    """Kills its process in the kernel ``c``, as often as there are files for it to take away."""
    if analysis.function.name == "c":
        for one in Path(os.environ[DEATHS]).iterdir():
            one.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
    return Outcome.of([])


def large_check(analysis: FunctionAnalysis) -> Outcome:
    """Finds a megabyte; the process that writes this of the kernel ``c`` somewhere is killed half-way."""
    if analysis.function.name == "c":
        Path.write_bytes = cut_short(Path.write_bytes)  # type: ignore[method-assign]
        Connection._send = cut_short(Connection._send)  # type: ignore[attr-defined]
    details = {"instruction": "one", "number": "1"}
    found = Violation(analysis.function.instructions[0], details, evidence=("x" * (1 << 20),))
    return Outcome.of([found])


def cut_short(write: Callable[[Any, bytes], Any]) -> Callable[[Any, bytes], Any]:
    """Ends the process in the midst of what no pipe takes in one piece, as long as there are files for it."""

    def written(place: Any, content: bytes) -> Any:
        if len(content) > select.PIPE_BUF:
            for one in Path(os.environ[DEATHS]).iterdir():
                write(place, content[: len(content) // 2])
                one.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        return write(place, content)

    return written


def audited(
    folder: Path,
    deaths: int,
    jobs: int,
    monkeypatch: pytest.MonkeyPatch,
    check: Callable[[FunctionAnalysis], Outcome] = deadly_check,
) -> AuditRun:
    places = folder / f"deaths-{jobs}"
    places.mkdir()
    for number in range(deaths):
        (places / str(number)).touch()
    monkeypatch.setenv(DEATHS, str(places))
    rule = Rule(tiny_registry(folder)["tiny-rule"].pattern, check)
    images = [image_of(f"{name}.ptx", KERNEL.replace("kernel(", f"{name}(").encode()) for name in NAMES]
    run = audit(images, AuditOptions((rule,), jobs=jobs))
    assert list(places.iterdir()) == []
    return run


def ended(
    command: Sequence[str],
    folder: Path,
    during: Callable[[int], None] = lambda process: None,
    **variables: str,
) -> int:
    """The exit status of a command, which is killed with all that it has started if it does not end."""
    modules = os.pathsep.join([*sys.path, str(TESTS), str(TESTS.parent)])
    environment = {**os.environ, "PYTHONPATH": modules, **variables}
    with subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True) as process:
        try:
            during(process.pid)
            return process.wait(timeout=120)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


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


def results_cut_short() -> None:
    """The one of two workers that has the kernel ``c`` is killed while it writes its results."""
    with pytest.MonkeyPatch.context() as patch:
        report = audited(Path.cwd(), 1, 2, patch, large_check).report
    assert not report.shortcomings
    assert [(one.function, len(one.evidence[0])) for one in report.findings] == [(n, 1 << 20) for n in NAMES]


def test_a_worker_that_is_killed_while_it_writes_results_stops_nothing(tmp_path: Path) -> None:
    """In a pipe the reader would wait for the other half."""
    program = "import test_pool; test_pool.results_cut_short()"
    assert ended([sys.executable, "-c", program], tmp_path) == 0


def write_many(folder: Path) -> None:
    for number in range(12):
        text = KERNEL.replace("kernel(", f"kernel_{number}(")
        (folder / f"{number:02}.ptx").write_text(text.replace("bar.sync 0;", "bar.sync 0;" * (number + 1)))
    (folder / "one.cubin").write_bytes(CUBIN)
    (folder / "two.cubin").write_bytes((CONTAINERS / "two_kernels.sm_90a.cubin").read_bytes())


def workers(process: int) -> list[int]:
    found: list[int] = []
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        try:
            command = Path(f"/proc/{child}/cmdline").read_text()
        except OSError:
            continue
        if "multiprocessing.spawn" in command:
            found.append(int(child))
    return found


def test_an_audit_that_is_killed_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    spin = "$again: " + "bar.sync 0; " * 300 + "bra $again;"
    for name in NAMES:
        (tmp_path / f"{name}.ptx").write_text(KERNEL.replace("@%p1 bra $done;", f"// {name}\n{spin}"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    left: list[int] = []

    def kill(process: int) -> None:
        deadline = time.monotonic() + 60
        while not list(scratch.glob("*/begun-1")) and time.monotonic() < deadline:
            time.sleep(0.1)
        left.extend(workers(process))
        os.kill(process, signal.SIGKILL)

    assert ended([*AUDIT, "--json", "r.json"], tmp_path, kill, TMPDIR=str(scratch)) == -signal.SIGKILL
    assert len(left) == 2
    deadline = time.monotonic() + 30
    while any(map(is_running, left)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [one for one in left if is_running(one)]
    assert list(scratch.iterdir()) == []
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1))
def test_an_audit_that_is_killed_at_any_time_spoils_no_later_one(tmp_path: Path, seed: int) -> None:
    """Neither by what it kept of its results nor by its report, which is whole or not there."""
    write_many(tmp_path)
    began = time.monotonic()
    assert ended([*AUDIT, "--json", "whole.json"], tmp_path) == 0
    seconds = time.monotonic() - began
    whole = report_of(str(tmp_path / "whole.json"))
    command = [*AUDIT, "--store", "store", "--json", "report.json"]
    chance = random.Random(seed)

    def kill_soon(process: int) -> None:
        time.sleep(chance.uniform(0.1, 0.6) * seconds)
        os.kill(process, signal.SIGKILL)

    statuses = {ended(command, tmp_path, kill_soon) for _ in range(4)}
    assert -signal.SIGKILL in statuses
    if (tmp_path / "report.json").exists():
        assert report_of(str(tmp_path / "report.json")) == whole
    assert ended(command, tmp_path) == 0
    assert report_of(str(tmp_path / "report.json")) == whole


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_workers_that_are_killed_at_any_time_cost_at_most_what_they_had(tmp_path: Path, seed: int) -> None:
    write_many(tmp_path)
    command = [*AUDIT, "--json"]
    assert ended([*command, "whole.json"], tmp_path) == 0
    chance = random.Random(seed)
    killed = 0

    def kill_some(process: int) -> None:
        nonlocal killed
        # Four that have begun nothing end the audit.
        for _ in range(3):
            time.sleep(chance.uniform(0.2, 2))
            there = workers(process)
            if there:
                os.kill(chance.choice(there), signal.SIGKILL)
                killed += 1

    status = ended([*command, "killed.json"], tmp_path, kill_some)
    whole, left = report_of(str(tmp_path / "whole.json")), report_of(str(tmp_path / "killed.json"))
    assert [one["path"] for one in left["inputs"]] == [one["path"] for one in whole["inputs"]]
    lost = {one["path"] for one in left["inputs"] if one["status"] == "failed"}
    assert killed
    assert len(lost) <= killed // 2
    assert status == (3 if lost else 0)
    for part in ("functions", "findings"):
        assert left[part] == [one for one in whole[part] if one["input"] not in lost]
