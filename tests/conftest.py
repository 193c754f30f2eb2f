"""Fixtures that the tests of the command line share; no test uses what earlier runs left in a store."""

import os
from pathlib import Path

import pytest
from audit_support import KERNEL, Run, run_cli, tiny_registry

os.environ["PTXAUDIT_NO_STORE"] = "1"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line on the three tiny rules, in a folder with ``kernel.ptx`` and ``quiet.ptx``.

    A module that needs more files there has a fixture of the same name that asks for this one.
    """
    registry = tiny_registry(tmp_path / "patterns")
    monkeypatch.setattr("ptxaudit.engine.registry.load_registry", lambda: registry)
    monkeypatch.chdir(tmp_path)
    Path("kernel.ptx").write_text(KERNEL)
    Path("quiet.ptx").write_text(KERNEL.replace("bar.sync 0;", ""))
    return lambda *arguments: run_cli(monkeypatch, *arguments)
