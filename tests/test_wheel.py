"""The wheel, installed where there is no checkout: patterns, templates and the schema travel with it."""

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from audit_support import KERNEL

ROOT = Path(__file__).parent.parent


def run(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_installed_wheel_audits(tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    isolation = ("--no-build-isolation",) if importlib.util.find_spec("hatchling") else ()
    run(*pip, "wheel", "--no-deps", *isolation, "--wheel-dir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("ptxaudit-*.whl")
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    purelib = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run(python, "-c", purelib, cwd=tmp_path).strip())
    run(*pip, "--python", python, "install", "--no-deps", wheel, cwd=tmp_path)
    # The dependencies come from this interpreter's packages, after the new environment's own. Its .pth
    # files are not read there, so an editable install of the checkout stays out.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (tmp_path / "kernel.ptx").write_text(KERNEL)
    where = run(python, "-c", "import ptxaudit; print(ptxaudit.__file__)", cwd=tmp_path).strip()
    assert where.startswith(str(site))
    command = tmp_path / "venv" / "bin" / "ptxaudit"
    rules = run(command, "rules", cwd=tmp_path)
    for path in (ROOT / "patterns").rglob("*.toml"):
        assert path.stem in rules
    reports = ("audit", "kernel.ptx", "--json", "out.json", "--html", "out.html", "--fail-on", "never")
    run(command, *reports, cwd=tmp_path)
    assert (tmp_path / "out.html").stat().st_size > 1000
    report = json.loads((tmp_path / "out.json").read_text())
    assert [one["name"] for one in report["functions"]] == ["kernel"]
    schema = "from ptxaudit.report.json_report import load_schema; print(load_schema()['title'])"
    assert run(python, "-c", schema, cwd=tmp_path).strip() == "ptxaudit report"
