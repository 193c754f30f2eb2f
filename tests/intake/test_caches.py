"""Compilers' caches by name and by folder: kernels with the launch facts that lie beside them."""

import json
from pathlib import Path
from typing import Any

import pytest
from audit_support import KERNEL, Run
from container_builders import CUBIN, host_elf
from test_metadata import DEVICE, TRITON, host, integers

from ptxaudit.engine.function_audit import prepare
from ptxaudit.engine.image import KernelImage
from ptxaudit.engine.launches import completed
from ptxaudit.intake.caches import CACHE_NAMES, cache_folders
from ptxaudit.intake.fatbins import WalkOptions
from ptxaudit.intake.sources import find_images
from ptxaudit.ir.launch import Launch

VARIABLES = {
    "triton": "TRITON_CACHE_DIR",
    "inductor": "TORCHINDUCTOR_CACHE_DIR",
    "tilelang": "TILELANG_CACHE_DIR",
    "cute": "CUTE_DSL_DUMP_DIR",
}


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a temporary folder without caches."""
    for name in (*VARIABLES.values(), "TRITON_HOME", "CUTE_DSL_CACHE_DIR", "CUTE_EXPERIMENTAL_DSL_DUMP_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("FLASH_ATTENTION_CUTE_DSL_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LOGNAME", "someone")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", CACHE_NAMES)
def test_a_variable_moves_a_cache(nowhere: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    folders, (missing,) = cache_folders([name])
    assert folders == ()
    assert missing.message.startswith(f"--cache {name}: found no folder")
    (nowhere / "moved").mkdir()
    monkeypatch.setenv(VARIABLES[name], str(nowhere / "moved"))
    assert cache_folders([name]) == ((str(nowhere / "moved"),), ())


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("triton", "home/.triton/cache"),
        ("inductor", "tmp/torchinductor_someone"),
        ("tilelang", "home/.tilelang/cache"),
        ("cute", "tmp/someone/cutlass_python_cache"),
        ("cute", "tmp/someone/flash_attention_cute_dsl_cache"),
    ],
)
def test_where_a_cache_is_by_itself(nowhere: Path, name: str, place: str) -> None:
    (nowhere / place).mkdir(parents=True)
    assert cache_folders([name]) == ((str(nowhere / place),), ())


def test_a_path_is_a_cache_and_any_other_name_is_not(nowhere: Path) -> None:
    (nowhere / "mine").mkdir()
    folders, missing = cache_folders(["mine", "not/there", "tritn"])
    assert folders == ("mine",)
    expected = "no such folder, expected one or a cache's name (triton, inductor, tilelang, cute)"
    assert [one.message for one in missing] == [
        f"--cache {name}: {expected}" for name in ("not/there", "tritn")
    ]


def test_a_cache_that_is_not_there_is_an_input_that_cannot_be_read(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    """As is a missing file: the other inputs are audited."""
    select = ("--select", "tiny-undecided")
    assert run("audit", "kernel.ptx", "--cache", "tritn", *select) == 3
    captured = capfd.readouterr()
    assert captured.err.startswith("ptxaudit: --cache tritn: no such folder")
    assert "1 function of 2 inputs" in captured.out
    assert run("audit", "--cache", "tilelang", *select) == run("audit", "missing.ptx", *select) == 3


def test_tilelang_keeps_a_cubin_twice_and_its_facts_once(tmp_path: Path) -> None:
    entry, bare = tmp_path / "0.1/linux/kernels/8a4c", tmp_path / "0.1/cuda-binaries/fde9"
    entry.mkdir(parents=True)
    bare.mkdir(parents=True)
    (entry / "device_kernel.cu").write_text(DEVICE)
    (entry / "host_kernel.cu").write_text(host(*integers(8, 4, 256, 1, 1, 49152)))
    (entry / "executable.so").write_bytes(host_elf({".rodata": CUBIN}))
    (bare / "kernel.cubin").write_bytes(CUBIN)
    first, second = find_images([str(tmp_path)], WalkOptions())
    assert isinstance(first, KernelImage)
    assert isinstance(second, KernelImage)
    assert first.name == f"{entry}/executable.so!cubin at 0x40"
    assert first.launches[0].launch.block == (256, 1, 1)
    assert (second.name, second.launches) == (f"{bare}/kernel.cubin", ())


def test_what_a_user_says_comes_before_what_a_cache_says() -> None:
    said = Launch(block=(128, 1, 1), arguments={0: 1})
    cached = Launch(block=(256, 1, 1), cluster=(2, 1, 1), dynamic_shared=64, arguments={0: 2, 1: 3})
    assert completed(said, cached) == Launch((128, 1, 1), (2, 1, 1), None, 64, {0: 1, 1: 3})
    assert completed(None, cached) is cached
    assert completed(said, None) is said


@pytest.fixture
def run(run: Run, nowhere: Path) -> Run:
    """The command line with a Triton cache of two entries of the same PTX, launched in two ways."""
    for number, warps in (("AA", 4), ("BB", 8)):
        entry = nowhere / "home/.triton/cache" / number
        entry.mkdir(parents=True)
        (entry / "kernel.ptx").write_text(KERNEL)
        (entry / "kernel.json").write_text(json.dumps({**TRITON, "name": "kernel", "num_warps": warps}))
        (entry / "__grp__kernel.json").write_text('{"child_paths": {}}')
        (entry / "kernel.ttir").write_text("module {}")
    return run


def test_a_triton_cache_is_audited_with_its_launches(
    run: Run, nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches: list[Launch | None] = []

    def noted(function: Any, module: Any, file: str, launch: Launch | None) -> Any:
        launches.append(launch)
        return prepare(function, module, file, launch)

    monkeypatch.setattr("ptxaudit.engine.image_audit.prepare", noted)
    options = ("--select", "tiny-rule", "--jobs", "1", "--no-assemble", "--json", "out.json")
    assert run("audit", "--cache", "triton", *options) == 0
    report = json.loads(Path("out.json").read_text())
    cache = nowhere / "home/.triton/cache"
    assert [one["path"] for one in report["inputs"]] == [f"{cache}/AA/kernel.ptx", f"{cache}/BB/kernel.ptx"]
    assert [launch and launch.block for launch in launches] == [(128, 1, 1), (256, 1, 1)]


def test_there_must_be_something_to_audit(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("audit") == 2
    assert capfd.readouterr().err == "ptxaudit: found no input, expected INPUT... or --cache\n"
    assert run("audit", "--cache", "triton", "--list") == 0
    assert capfd.readouterr().out.endswith("2 kernels in 0 cubins and 2 PTX texts\n")


def test_a_folder_that_the_system_does_not_look_up_is_not_there() -> None:
    folders, (missing,) = cache_folders(["k" * 300])
    assert folders == ()
    assert "no such folder" in missing.message
