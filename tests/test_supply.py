"""What an audit rests on: no network, no code of an input, and a list of what is installed with it."""

import itertools
import re
import socket
import sys
import tomllib
from pathlib import Path

import pytest
from audit_support import KERNEL, run_cli
from container_builders import CUBIN, zipped
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import ptxaudit

ROOT = Path(__file__).parent.parent
THIRD_PARTY = Path(ptxaudit.__file__).parent / "THIRD_PARTY.md"


def test_nothing_is_asked_of_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor may a library that an audit loads: every way to a socket fails."""

    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError(f"a socket was asked for: {arguments}")

    for name in ("connect", "connect_ex", "bind", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    for name in ("create_connection", "getaddrinfo", "gethostbyname"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.chdir(tmp_path)
    Path("in.whl").write_bytes(zipped({"a.ptx": KERNEL.encode(), "b.cubin": CUBIN}))
    reports = ["--json", "r.json", "--html", "r.html", "--sarif", "r.sarif", "--junit", "r.xml"]
    assert run_cli(monkeypatch, "audit", "in.whl", "--fail-on", "never", *reports, "--jobs", "1") == 0
    assert "http" not in re.sub(r"https?://(docs|www)\S*", "", Path("r.sarif").read_text())


def test_no_code_is_taken_from_the_folder_of_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A repository under audit may have modules of any name, and programs called like the tools."""
    import subprocess

    (tmp_path / "kernel.ptx").write_text(KERNEL)
    for name in ("jinja2", "lz4", "pycxxfilt", "ptxaudit", "json", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken')\n")
    for name in ("nvdisasm", "ptxas", "cuobjdump"):
        (tmp_path / name).write_text("#!/bin/sh\ntouch taken\n")
        (tmp_path / name).chmod(0o755)
    program = "import sys; sys.argv[1:] = ['audit', 'kernel.ptx', '--fail-on', 'never', '--html', 'r.html']"
    program += "; from ptxaudit.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "taken").exists()


def test_what_is_installed_with_it_is_listed_with_its_licence() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.match(r"[A-Za-z0-9._-]+", one)[0].lower() for one in project["dependencies"]}  # type: ignore[index]
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", THIRD_PARTY.read_text(), re.MULTILINE)
    assert {name for name, _ in rows} == needed
    assert all(licence.strip() for _, licence in rows)


def test_every_dependency_has_a_range_and_ci_a_version_with_hashes() -> None:
    """The build backend, too: `.ci/run` builds with what is installed."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = document["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*document["build-system"]["requires"], *project["dependencies"], *itertools.chain(*extras)]
    locked = locked_versions()
    for requirement in map(Requirement, wanted):
        assert {one.operator for one in requirement.specifier} & {">=", "~=", "=="}, (
            f"{requirement}: no range"
        )
        version = locked.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in .ci/lock.txt"
        assert version in requirement.specifier, f"{requirement}: .ci/lock.txt has {version}"


def locked_versions() -> dict[str, str]:
    """Of all that CI installs; each has the hashes of its files."""
    entries = re.split(r"^(?=\S)", (ROOT / ".ci" / "lock.txt").read_text(), flags=re.MULTILINE)
    versions: dict[str, str] = {}
    for entry in (one for one in entries if one and not one.startswith("#")):
        pinned = re.match(r"(?P<name>[\w.-]+)==(?P<version>\S+) ", entry)
        assert pinned is not None, entry
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry), f"{pinned['name']} has no hash"
        versions[canonicalize_name(pinned["name"])] = pinned["version"]
    return versions
