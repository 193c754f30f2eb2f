"""The result store on the command line: where it is, when it is used, what is said of it."""

import subprocess
import sys
from pathlib import Path

import pytest
from audit_support import KERNEL, run_cli


def test_a_second_run_takes_what_the_first_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kernel.ptx").write_text(KERNEL)
    arguments = ("audit", "kernel.ptx", "--store", "kept", "--store-size", "10", "--json")
    assert run_cli(monkeypatch, *arguments, "one.json") == 0
    first = capfd.readouterr()

    def audits_again(*arguments: object) -> None:
        raise AssertionError("audited again")

    monkeypatch.setattr("ptxaudit.engine.image_audit.audit_images", audits_again)
    assert run_cli(monkeypatch, *arguments, "two.json") == 0
    assert capfd.readouterr() == first
    assert Path("one.json").read_text() == Path("two.json").read_text()
    assert run_cli(monkeypatch, *arguments, "three.json", "--no-store") == 2


def test_where_results_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PTXAUDIT_NO_STORE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.chdir(tmp_path)
    Path("kernel.ptx").write_text(KERNEL)
    select = ("--select", "divergent-barrier", "--no-assemble")
    assert run_cli(monkeypatch, "audit", "kernel.ptx", *select, "--no-store") == 0
    assert not Path("xdg").exists()
    assert run_cli(monkeypatch, "audit", "kernel.ptx", *select) == 0
    assert Path("xdg/ptxaudit/results.sqlite").is_file()
    monkeypatch.setenv("PTXAUDIT_STORE", "named")
    assert run_cli(monkeypatch, "audit", "kernel.ptx", *select) == 0
    assert Path("named/results.sqlite").is_file()
    monkeypatch.setenv("PTXAUDIT_NO_STORE", "1")
    assert run_cli(monkeypatch, "audit", "kernel.ptx", *select, "--store", "said") == 0
    assert Path("said/results.sqlite").is_file()


def test_a_store_that_cannot_be_used_is_said_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kernel.ptx").write_text(KERNEL)
    Path("file").write_text("")
    assert run_cli(monkeypatch, "audit", "kernel.ptx", "--no-assemble", "--store", "file/folder") == 0
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("ptxaudit: file/folder/results.sqlite: results are not kept: ")


def test_audits_at_the_same_time_share_a_store(tmp_path: Path) -> None:
    """One that is new to all of them; a later one takes everything from it."""
    for number in range(6):
        (tmp_path / f"{number}.ptx").write_text(KERNEL.replace("kernel(", f"kernel_{number}("))
    command = [sys.executable, "-m", "ptxaudit", "audit", ".", "--no-assemble", "--jobs", "1"]
    command += ["--select", "divergent-barrier"]
    together = [
        subprocess.Popen(
            [*command, "--store", "kept", "--json", f"{number}.json"],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for number in range(4)
    ]
    ended = [(process.communicate(timeout=120)[1], process.returncode) for process in together]
    assert ended == [(b"", 0)] * 4
    for store in (["--no-store"], ["--store", "kept"]):
        subprocess.run([*command, *store, "--json", "after.json"], cwd=tmp_path, check=True, timeout=120)
        after = (tmp_path / "after.json").read_text()
        assert {(tmp_path / f"{number}.json").read_text() for number in range(4)} == {after}
