"""Fixtures that the tests of the command line share; no test uses what earlier runs left in a store."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from audit_support import KERNEL, Install, Run, run_cli, tiny_registry

from ptxaudit.frontends.sass import tools

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


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a shell script in the place of nvdisasm; ``$REAL`` in it is the real one."""
    real = tools.find_tool("nvdisasm")
    program = tmp_path / "site" / "nvidia" / "cu13" / "bin" / "nvdisasm"
    program.parent.mkdir(parents=True)

    def put(body: str) -> None:
        version = 'if [ "$1" = --version ]; then echo "release 13.2, V13.2.51"; exit; fi'
        program.write_text(f"#!/bin/sh\nREAL={real}\n{version}\n{body}\n")
        program.chmod(0o755)

    monkeypatch.setattr(tools, "site_directories", lambda: iter([tmp_path / "site"]))
    tools.find_tool.cache_clear()
    tools.tool_release.cache_clear()
    yield put
    tools.find_tool.cache_clear()
    tools.tool_release.cache_clear()
