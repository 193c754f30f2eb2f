"""What fails around an audit, the disassembler, the disk, the process: none of it passes for clean."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from audit_support import KERNEL, Install, run_cli
from container_builders import CONTAINERS, CUBIN
from jsonschema import Draft202012Validator

from ptxaudit.errors import ToolError
from ptxaudit.frontends.sass import tools
from ptxaudit.report.json_report import load_schema


def _has_nvdisasm() -> bool:
    try:
        tools.find_tool("nvdisasm")
    except ToolError:
        return False
    return True


needs_nvdisasm = pytest.mark.skipif(not _has_nvdisasm(), reason="nvdisasm is not installed")
TWO_KERNELS = CONTAINERS / "two_kernels.sm_90a.cubin"
# The order engine follows a kernel the longer, the more code it has.
SPIN = "$again: " + "bar.sync 0; " * 3000 + "bra $again;"
SPINNING = KERNEL.replace("kernel(", "spins(").replace("@%p1 bra $done;", SPIN)
RULE = ("--select", "shared-memory-race,divergent-barrier")
Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("good.ptx").write_text(KERNEL)
    Path("two.cubin").write_bytes(TWO_KERNELS.read_bytes())
    Path("one.cubin").write_bytes(CUBIN)
    return lambda *arguments: run_cli(monkeypatch, "audit", *arguments, "--no-assemble", "--json", "r.json")


def report() -> Any:
    document = json.loads(Path("r.json").read_text())
    Draft202012Validator(load_schema()).validate(document)
    return document


def statuses() -> dict[str, str]:
    return {one["path"]: one["status"] for one in report()["inputs"]}


@needs_nvdisasm
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("kill -9 $$", "ended by SIGKILL"),
        ("kill -11 $$", "ended by SIGSEGV"),
        ("exit 7", "exit status 7"),
        ("exec sleep 60", "took more than 1 s (tool-seconds)"),
        ("echo '[{}, [{\"function-name\": 3'", "cannot be read"),
        ("head -c 100000 /dev/urandom", "cannot be read"),
        ("printf '[[[[[[[%.0s' $(seq 30000)", "cannot be read"),
        ('echo "[]"', "cannot be read"),
        ("exec yes '[[[[[['", "it prints more than it may (tool-output-megabytes)"),
    ],
)
def test_a_disassembler_that_fails_costs_its_input_only(
    run: Run, install: Install, capfd: pytest.CaptureFixture[str], body: str, reason: str
) -> None:
    install(body)
    assert run("one.cubin", "two.cubin", "good.ptx", *RULE, "--limit", "tool-seconds=1") == 3
    assert statuses() == {"one.cubin": "failed", "two.cubin": "failed", "good.ptx": "audited"}
    printed = capfd.readouterr()
    assert reason in printed.err
    assert "Traceback" not in printed.err
    assert printed.out.startswith("incomplete: 2 inputs could not be read\n")


@needs_nvdisasm
def test_a_missing_disassembler_costs_cubins_only(
    run: Run, install: Install, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert run("one.cubin", "good.ptx", *RULE) == 3
    assert statuses() == {"one.cubin": "failed", "good.ptx": "audited"}
    assert "found no nvdisasm" in capfd.readouterr().err


@needs_nvdisasm
@pytest.mark.parametrize("fault", ["kill -11 $$", "echo garbage; exit 0"])
def test_a_disassembler_that_fails_on_one_function_costs_that_one_only(
    run: Run, install: Install, capfd: pytest.CaptureFixture[str], fault: str
) -> None:
    install('exec $REAL "$@"')
    assert run("two.cubin", *RULE) == 0
    names = sorted(one["name"] for one in report()["functions"])
    assert len(names) == 2
    # It fails on the whole, and on the first function alone.
    first = f'case "$*" in *"-fun {index_of(names[0])} "*) {fault};; *-fun*) ;; *) {fault};; esac'
    install(f'{first}\nexec $REAL "$@"')
    capfd.readouterr()
    assert run("two.cubin", "good.ptx", *RULE) == 3
    functions = {one["name"]: one for one in report()["functions"]}
    assert set(functions) == {*names, "kernel"}
    lost, kept = functions[names[0]], functions[names[1]]
    assert set(lost["verdicts"].values()) == {"unknown"}
    assert "nvdisasm" in lost["incomplete"]
    assert "incomplete" not in kept
    assert "unknown" not in kept["verdicts"].values()
    assert statuses() == {"two.cubin": "audited", "good.ptx": "audited"}
    assert capfd.readouterr().out.startswith("incomplete: 1 function not audited in full\n")


def wait_for_worker(process: int, jobs: int) -> None:
    """Until the first kernel is done, and the second, which takes several seconds, is under way."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if max(map(processor_seconds, [process, *children(process)])) > 3:
            return
        time.sleep(0.2)


def children(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(one) for one in found]


def processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def index_of(name: str) -> int:
    from ptxaudit.frontends.sass.summary import symbols_by_section

    groups = symbols_by_section(TWO_KERNELS.read_bytes(), "two.cubin")
    return next(group[0].index for group in groups for one in group if one.name == name)


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("kernel-seconds=1", "stopped after 1 s (kernel-seconds)"),
        ("kernel-megabytes=60", "stopped at 60 MB of memory (kernel-megabytes)"),
    ],
)
def test_a_function_that_takes_too_much_is_unknown(
    run: Run, capfd: pytest.CaptureFixture[str], limit: str, reason: str
) -> None:
    """It spins at a barrier, which the order engine would follow for several seconds."""
    Path("spins.ptx").write_text(SPINNING)
    assert run("spins.ptx", "good.ptx", *RULE, "--limit", limit) == 3
    functions = {one["name"]: one for one in report()["functions"]}
    assert functions["spins"]["incomplete"] == reason
    assert set(functions["spins"]["unknown_reasons"].values()) == {reason}
    assert "incomplete" not in functions["kernel"]
    assert capfd.readouterr().out.startswith("incomplete: 1 function not audited in full\n")


def test_an_image_of_too_many_functions_is_not_read(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    """Of one that is asked for by name the others do not count."""
    head, entry = KERNEL.split(".visible", 1)
    Path("two.ptx").write_text(f"{head}.visible{entry}\n.visible{entry.replace('kernel', 'other')}")
    Path("two.cubin").write_bytes(TWO_KERNELS.read_bytes())
    limit = ["--limit", "functions=1", *RULE]
    assert run("two.ptx", "two.cubin", "good.ptx", *limit) == 3
    printed = capfd.readouterr().out
    assert printed.startswith("incomplete: 2 inputs could not be read\n")
    for name in ("two.ptx", "two.cubin"):
        assert f"{name}: found 2 functions, expected at most 1 (functions)" in printed
    assert [one["name"] for one in report()["functions"]] == ["kernel"]
    assert run("two.ptx", "--kernel", "^other$", *limit) in (0, 1)


def test_a_limit_that_is_not_known_is_an_error(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    for wrong in ("kernel-second=3", "kernel-seconds=0", "kernel-seconds", "kernel-seconds=1e3"):
        assert run("good.ptx", "--limit", wrong) == 2
        said = capfd.readouterr().err
        assert "expected NAME=NUMBER with NAME one of nesting, " in said
        assert "and NUMBER a whole number from 1" in said
    Path("ptxaudit.toml").write_text("[limits]\nkernel-seconds = 0\n")
    assert run("good.ptx") == 2
    assert "limits.kernel-seconds" in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(("jobs", "whole_group"), [("1", False), ("2", False), ("2", True)])
def test_an_audit_that_is_stopped_leaves_a_report_that_says_so(
    tmp_path: Path, number: signal.Signals, jobs: str, whole_group: bool
) -> None:
    (tmp_path / "a.ptx").write_text(KERNEL)
    (tmp_path / "b.ptx").write_text(SPINNING)
    (tmp_path / "c.ptx").write_text(SPINNING.replace("spins", "also"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "ptxaudit", "audit", "a.ptx", "b.ptx", "c.ptx", "--no-assemble"]
    reports = ["--json", "r.json", "--junit", "r.xml", "--sarif", "r.sarif", "--html", "r.html"]
    options = [*RULE, "--jobs", jobs, *reports, "--write-baseline", "b.json"]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    # A shell lets what it starts in the background ignore Ctrl-C, and so would the tests' child.
    with subprocess.Popen(
        [*command, *options],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 (no threads)
    ) as process:
        wait_for_worker(process.pid, int(jobs))
        (os.killpg if whole_group else os.kill)(process.pid, number)
        printed, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    said = "interrupted before its end, with 2 files not audited"
    assert printed.startswith(f"incomplete: {said}\n")
    document = json.loads((tmp_path / "r.json").read_text())
    Draft202012Validator(load_schema()).validate(document)
    assert document["incomplete"] == [said]
    assert [one["path"] for one in document["inputs"]] == ["a.ptx"]
    assert ElementTree.parse(tmp_path / "r.xml").getroot().attrib["errors"] == "1"
    (sarif_run,) = json.loads((tmp_path / "r.sarif").read_text())["runs"]
    assert sarif_run["invocations"][0]["executionSuccessful"] is False
    assert not (tmp_path / "b.json").exists()
    assert list(scratch.iterdir()) == []


@needs_nvdisasm
def test_nothing_is_left_in_the_temporary_folder(
    run: Run, install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    install("kill -9 $$")
    assert run("two.cubin", *RULE) == 3
    assert os.listdir(scratch) == []


@pytest.mark.parametrize("place", ["/proc/no/report", "missing/report", "good.ptx/report", "."])
@pytest.mark.parametrize("form", ["json", "html", "sarif", "junit", "markdown", "write-baseline"])
def test_a_place_that_cannot_be_written_costs_no_audit(
    run: Run, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, place: str, form: str
) -> None:
    monkeypatch.setattr("ptxaudit.engine.audit.audit_tasks", None)
    assert run_cli(monkeypatch, "audit", "good.ptx", "--no-assemble", *RULE, f"--{form}", place) == 2
    printed = capfd.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith(f"ptxaudit: --{form} {place}: found ")
    assert printed.out == ""


@pytest.mark.parametrize("form", ["json", "html", "sarif", "junit", "markdown"])
def test_a_report_that_cannot_be_written_costs_itself_only(
    run: Run, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    place = "/dev/full"
    others = ["--markdown", "other.md"] if form != "markdown" else ["--junit", "other.xml"]
    options = [*RULE, f"--{form}", place, *others]
    assert run_cli(monkeypatch, "audit", "good.ptx", "--no-assemble", *options) == 2
    assert [one.name for one in Path().iterdir() if one.name.startswith("other.")]
    printed = capfd.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith(f"ptxaudit: {place}: ")
    assert "1 function of 1 input" in printed.out
    assert not [one for one in Path().iterdir() if one.name.startswith(".")]


def test_a_report_that_cannot_be_made_costs_itself_only(
    run: Run, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> str:
        raise RuntimeError("no\nway")

    monkeypatch.setattr("ptxaudit.report.markdown.render", fail)
    assert run("good.ptx", *RULE, "--markdown", "r.md") == 2
    assert statuses() == {"good.ptx": "audited"}
    assert "ptxaudit: --markdown: internal error: RuntimeError: no way\n" in capfd.readouterr().err
    assert not Path("r.md").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_standard_output_that_is_full(tmp_path: Path) -> None:
    (tmp_path / "good.ptx").write_text(KERNEL)
    command = [sys.executable, "-m", "ptxaudit", "audit", "good.ptx", "--no-assemble", *RULE]
    command += ["--json", "r.json"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr == "ptxaudit: standard output: no space left on device\n"
    assert json.loads((tmp_path / "r.json").read_text())["functions"]


@needs_nvdisasm
def test_a_temporary_folder_that_is_full(
    run: Run, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    assert run("one.cubin", "good.ptx", *RULE) == 3
    assert statuses() == {"one.cubin": "failed", "good.ptx": "audited"}
    assert "nvdisasm cannot be started" in capfd.readouterr().err
