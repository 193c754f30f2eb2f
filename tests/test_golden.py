"""One whole JSON report, byte for byte. ``PTXAUDIT_UPDATE_GOLDEN=1 pytest`` writes it anew."""

import os
from pathlib import Path

import pytest
from audit_support import KERNEL, run_cli, tiny_registry

from ptxaudit import __version__

GOLDEN = Path(__file__).parent / "golden" / "report.json"


def test_json_report_is_the_golden_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = tiny_registry(tmp_path / "patterns")
    monkeypatch.setattr("ptxaudit.engine.registry.load_registry", lambda: registry)
    monkeypatch.chdir(tmp_path)
    Path("kernel.ptx").write_text(KERNEL)
    arguments = ("kernel.ptx", "missing.ptx", "--ignore", "tiny-fault", "--no-assemble", "--json", "out.json")
    assert run_cli(monkeypatch, "audit", *arguments) == 3
    text = Path("out.json").read_text().replace(f'"version": "{__version__}"', '"version": "VERSION"')
    if os.environ.get("PTXAUDIT_UPDATE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
