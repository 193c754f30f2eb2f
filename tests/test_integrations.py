"""Build systems and hooks, each from an empty folder: CMake, pre-commit; what CI services read."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).parents[1]
KERNELS = REPOSITORY / "fixtures" / "kernels" / "gemm_ring"
MODULES = REPOSITORY / "ptxaudit" / "integrations"
BIN = Path(sys.executable).parent
COMPILER = shutil.which("cc") or shutil.which("gcc")
# A library that carries a cubin, made without a CUDA toolkit.
LIBRARY = """
__asm__(".section .kernels,\\"a\\"\\n.balign 16\\n.incbin \\"%s\\"\\n.text\\n");
int answer(void) { return 42; }
"""
PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(kernels C)
list(APPEND CMAKE_MODULE_PATH {modules})
include(PtxAudit)
add_library(kernels {kind} kernels.c)
ptxaudit_audit(kernels --select wgmma-stage-released-early --json ${{CMAKE_BINARY_DIR}}/audit.json)
"""


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", **variables}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def wrapper(tmp_path: Path) -> Path:
    """The program of this checkout, also where only an older one is installed."""
    path = tmp_path / "tools" / "ptxaudit"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nPYTHONPATH={REPOSITORY} exec {sys.executable} -m ptxaudit "$@"\n')
    path.chmod(0o755)
    return path


@pytest.mark.skipif(COMPILER is None or not (BIN / "cmake").exists(), reason="no C compiler or CMake")
@pytest.mark.parametrize(
    ("kind", "cubin", "succeeds"),
    [
        ("STATIC", "gemm_ring", True),
        ("SHARED", "gemm_ring_early_release", False),
        ("OBJECT", "gemm_ring_early_release", False),
    ],
)
def test_a_cmake_target_is_audited_after_its_build(
    tmp_path: Path, wrapper: Path, kind: str, cubin: str, succeeds: bool
) -> None:
    source = tmp_path / "project"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(PROJECT.format(modules=MODULES, kind=kind))
    (source / "kernels.c").write_text(LIBRARY % (KERNELS / f"{cubin}.cubin"))
    configure = ["cmake", "-G", "Ninja", "-B", "build", f"-DPTXAUDIT_EXECUTABLE={wrapper}"]
    configured = run(configure, source)
    assert configured.returncode == 0, configured.stderr
    built = run(["cmake", "--build", "build"], source)
    assert (built.returncode == 0) == succeeds, built.stdout + built.stderr
    assert ("error[wgmma-stage-released-early]" in built.stdout) == (not succeeds)
    assert (source / "build" / "audit.json").is_file()


def test_the_command_line_says_where_the_cmake_module_is(wrapper: Path) -> None:
    said = run([str(wrapper), "integration", "cmake"], wrapper.parent)
    assert (Path(said.stdout.strip()) / "PtxAudit.cmake").is_file()


@pytest.mark.skipif(not (BIN / "cmake").exists(), reason="no CMake")
def test_cmake_without_the_program_says_so(tmp_path: Path) -> None:
    lines = (
        "cmake_minimum_required(VERSION 3.20)",
        "project(x NONE)",
        f"list(APPEND CMAKE_MODULE_PATH {MODULES})",
        "include(PtxAudit)",
        "ptxaudit_audit(x)",
    )
    (tmp_path / "CMakeLists.txt").write_text("\n".join(lines))
    configured = run([str(BIN / "cmake"), "-G", "Ninja", "-B", "build"], tmp_path, PATH="/usr/bin:/bin")
    assert configured.returncode != 0
    assert "found no ptxaudit program" in configured.stderr


@pytest.mark.skipif(not (BIN / "pre-commit").exists() or shutil.which("git") is None, reason="no pre-commit")
def test_the_pre_commit_hook_stops_a_commit_with_a_defect(tmp_path: Path, wrapper: Path) -> None:
    (hook,) = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text())
    # The hook as it is, run by this checkout: installing it from its repository would fetch the releases.
    local = {**hook, "language": "system", "entry": f"{wrapper} {hook['entry'].partition(' ')[2]}"}
    configuration = {"repos": [{"repo": "local", "hooks": [local]}]}
    (tmp_path / ".pre-commit-config.yaml").write_text(yaml.safe_dump(configuration))
    home = {"PRE_COMMIT_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    for command in (
        ["git", "init", "-q"],
        ["git", "config", "user.email", "a@b.c"],
        ["git", "config", "user.name", "a"],
    ):
        assert run(command, tmp_path, **home).returncode == 0
    shutil.copy(KERNELS / "gemm_ring.ptx", tmp_path / "kernel.ptx")
    (tmp_path / "notes.txt").write_text("not PTX")
    assert run(["git", "add", "kernel.ptx", "notes.txt"], tmp_path, **home).returncode == 0
    right = run(["pre-commit", "run"], tmp_path, **home)
    assert right.returncode == 0, right.stdout + right.stderr
    assert "Passed" in right.stdout
    shutil.copy(KERNELS / "gemm_ring_early_release.ptx", tmp_path / "kernel.ptx")
    assert run(["git", "add", "kernel.ptx"], tmp_path, **home).returncode == 0
    wrong = run(["pre-commit", "run"], tmp_path, **home)
    assert wrong.returncode == 1
    assert "error[wgmma-stage-released-early]" in wrong.stdout


def test_the_action_hands_over_sarif_and_says_what_it_takes() -> None:
    action = yaml.safe_load((REPOSITORY / ".github" / "actions" / "audit" / "action.yml").read_text())
    assert action["inputs"]["paths"]["required"] is True
    steps = action["runs"]["steps"]
    audit = next(step for step in steps if step.get("id") == "audit")
    # What comes from outside reaches the shell by variables only, or it could add commands.
    assert "${{" not in audit["run"]
    for option in ("--format github", "--sarif ptxaudit.sarif", "--markdown"):
        assert option in audit["run"]
    upload = next(step for step in steps if "upload-sarif" in step.get("uses", ""))
    assert upload["with"]["sarif_file"] == "ptxaudit.sarif"
    assert upload["if"].startswith("always()")


def test_the_gitlab_job_keeps_its_reports() -> None:
    job = yaml.safe_load((REPOSITORY / ".gitlab" / "audit.yml").read_text())["ptxaudit"]
    assert job["artifacts"]["reports"]["junit"] == "ptxaudit.xml"
    assert any("--junit ptxaudit.xml" in line for line in job["script"])


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("ptxaudit expl", ["plain,explain"]),
        ("ptxaudit explain wgmma-s", ["plain,wgmma-stage-released-early", "plain,wgmma-serialized"]),
        (
            "ptxaudit audit --select divergent-barrier,tmem-d",
            ["plain,divergent-barrier,tmem-dealloc-before-join"],
        ),
        ("ptxaudit diff --ignore zzz", []),
    ],
)
def test_a_shell_completes_commands_and_rules(words: str, offered: list[str]) -> None:
    environment = {
        **os.environ,
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
        "_PTXAUDIT_COMPLETE": "bash_complete",
    }
    run = "import sys; sys.argv[0] = 'ptxaudit'; from ptxaudit.cli import cli; cli.main(prog_name='ptxaudit')"
    done = subprocess.run(
        [sys.executable, "-c", run], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.split() == offered
