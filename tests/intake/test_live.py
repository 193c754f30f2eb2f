"""Capturing a running program, with a CUPTI that the test plays."""

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from audit_support import run_cli

from ptxaudit.engine.image import ImageKind
from ptxaudit.engine.launches import read_launches
from ptxaudit.errors import ToolError, UsageError
from ptxaudit.intake.live.compilers import compiler_environment
from ptxaudit.intake.live.folder import launch_toml, read_record
from ptxaudit.intake.live.library import find_cupti, injection_library
from ptxaudit.intake.live.program import run_captured
from ptxaudit.intake.live.session import capture

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")
FAKE = Path(__file__).with_name("fake_cupti.c")
# The header of an ELF file for NVIDIA's machine.
CUBIN = b"\x7fELF\x02\x01\x01" + bytes(11) + b"\xbe" + bytes(45)
PTX = b".version 8.7\n.target sm_90a\n.address_size 64\n"
LOAD, LAUNCH, LAUNCH_EX, LINK, ALLOCATE = 2, 3, 4, 5, 6


class Launch(ctypes.Structure):
    _fields_ = [("function", ctypes.c_void_p), ("shape", ctypes.c_uint * 7)]


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("padding", ctypes.c_char * 4), ("value", ctypes.c_uint * 16)]


class Configuration(ctypes.Structure):
    _fields_ = [
        ("shape", ctypes.c_uint * 7),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    ]


class LaunchEx(ctypes.Structure):
    _fields_ = [("configuration", ctypes.POINTER(Configuration)), ("function", ctypes.c_void_p)]


class Load(ctypes.Structure):
    _fields_ = [("module", ctypes.c_void_p), ("image", ctypes.c_char_p)]


class Link(ctypes.Structure):
    _fields_ = [
        ("state", ctypes.c_void_p),
        ("type", ctypes.c_int),
        ("data", ctypes.c_char_p),
        ("size", ctypes.c_size_t),
    ]


@pytest.fixture(scope="module")
def fake_cupti(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert COMPILER is not None
    library = tmp_path_factory.mktemp("cupti") / "libcupti.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", str(library), str(FAKE)], check=True)
    return library


@pytest.fixture
def cupti(fake_cupti: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ctypes.CDLL]:
    monkeypatch.setenv("PTXAUDIT_CUPTI", str(fake_cupti))
    yield ctypes.CDLL(str(fake_cupti))


@needs_compiler
def test_a_module_that_is_loaded_twice_is_kept_once(cupti: ctypes.CDLL) -> None:
    with capture() as kernels:
        cupti.fake_module(CUBIN, ctypes.c_size_t(len(CUBIN)))
        cupti.fake_module(CUBIN, ctypes.c_size_t(len(CUBIN)))
        cupti.fake_module(CUBIN + b"x", ctypes.c_size_t(len(CUBIN) + 1))
    assert sorted(image.content for image in kernels) == [CUBIN, CUBIN + b"x"]
    assert {image.kind for image in kernels} == {ImageKind.CUBIN}
    assert kernels.record is not None
    assert (kernels.record.callbacks, kernels.record.processes, kernels.faults) == (3, 1, ())


@needs_compiler
def test_ptx_text_is_kept_and_other_images_are_left_to_the_module(cupti: ctypes.CDLL) -> None:
    with capture() as kernels:
        cupti.fake_call(LOAD, ctypes.byref(Load(None, PTX)), None)
        cupti.fake_call(LOAD, ctypes.byref(Load(None, CUBIN)), None)
        cupti.fake_call(LINK, ctypes.byref(Link(None, 1, PTX + b"// linked\0", len(PTX) + 10)), None)
        cupti.fake_call(LINK, ctypes.byref(Link(None, 0, CUBIN, len(CUBIN))), None)
    assert sorted(image.content for image in kernels) == [PTX, PTX + b"// linked"]


@needs_compiler
def test_launches_give_what_they_share(cupti: ctypes.CDLL) -> None:
    cluster = Attribute(id=4, value=(ctypes.c_uint * 16)(2, 1, 1))
    shape = (ctypes.c_uint * 7)(132, 1, 1, 384, 1, 1, 1024)
    configuration = Configuration(shape, None, ctypes.pointer(cluster), 1)
    with capture() as kernels:
        assert cupti.fake_call(
            LAUNCH_EX, ctypes.byref(LaunchEx(ctypes.pointer(configuration), None)), b"gemm"
        )
        for blocks, threads in ((10, 128), (20, 128), (20, 256)):
            plain = Launch(None, (ctypes.c_uint * 7)(blocks, 1, 1, threads, 1, 1, 0))
            assert cupti.fake_call(LAUNCH, ctypes.byref(plain), b"scale")
        assert not cupti.fake_call(ALLOCATE, None, None), "only loads and launches are asked for"
    record = kernels.record
    assert record is not None
    assert record.kernels == ("gemm", "scale")
    assert [launch["block"] for launch in record.launches if launch["kernel"] == "scale"] == [
        [128, 1, 1],
        [256, 1, 1],
    ]
    gemm = next(launch for launch in record.launches if launch["kernel"] == "gemm")
    assert (gemm["grid"], gemm["block"], gemm["cluster"], gemm["shared"]) == (
        [132, 1, 1],
        [384, 1, 1],
        [2, 1, 1],
        1024,
    )


@needs_compiler
def test_a_second_subscriber_is_a_fault_in_words(cupti: ctypes.CDLL) -> None:
    handle = ctypes.c_void_p()
    assert cupti.cuptiSubscribe(ctypes.byref(handle), ctypes.c_void_p(1), None) == 0
    try:
        with capture() as kernels:
            pass
    finally:
        cupti.cuptiUnsubscribe(handle)
    assert len(kernels) == 0
    assert [fault for fault in kernels.faults if "has a subscriber already" in fault]


@needs_compiler
def test_a_library_that_is_no_cupti_is_a_fault_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTXAUDIT_CUPTI", str(injection_library()))
    with capture() as kernels:
        pass
    assert [fault for fault in kernels.faults if "no callback interface" in fault]


def test_one_capture_at_a_time() -> None:
    with capture(), pytest.raises(UsageError, match="found one running"), capture():
        pass
    with capture() as again:
        pass
    assert len(again) == 0


def test_compilers_are_asked_and_the_environment_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", "/mine")
    monkeypatch.delenv("CUTE_DSL_DUMP_DIR", raising=False)
    with capture() as kernels:
        cache = Path(os.environ["TRITON_CACHE_DIR"])
        assert cache != Path("/mine")
        (cache / "key").mkdir(parents=True)
        (cache / "key" / "scale.ptx").write_bytes(PTX)
        (Path(os.environ["CUTE_DSL_DUMP_DIR"]) / "gemm.cubin").write_bytes(CUBIN)
    assert {(image.kind, image.content) for image in kernels} == {
        (ImageKind.PTX, PTX),
        (ImageKind.CUBIN, CUBIN),
    }
    assert os.environ["TRITON_CACHE_DIR"] == "/mine"
    assert "CUTE_DSL_DUMP_DIR" not in os.environ


def test_a_capture_that_fails_keeps_what_there_was_and_lets_the_error_through(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), capture(tmp_path / "kept") as kernels:
        Path(os.environ["CUTE_DSL_DUMP_DIR"], "gemm.ptx").write_bytes(PTX)
        raise ZeroDivisionError
    assert [image.content for image in kernels] == [PTX]
    assert (tmp_path / "kept" / "compilers" / "cute" / "gemm.ptx").is_file()


def test_a_command_runs_with_the_compilers_asked(tmp_path: Path) -> None:
    script = "import os; open(os.environ['CUTE_DSL_DUMP_DIR'] + '/k.ptx', 'w').write('.version 8.7'); exit(7)"
    run = run_captured([sys.executable, "-c", script], tmp_path / "out")
    assert run.exit_code == 7
    assert (tmp_path / "out" / "compilers" / "cute" / "k.ptx").read_text() == ".version 8.7"
    assert run.launch_file is None


def test_a_command_that_a_signal_ends(tmp_path: Path) -> None:
    run = run_captured([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], tmp_path / "out")
    assert run.exit_code == 137


def test_a_program_of_the_driver_is_told_where_the_library_is(tmp_path: Path) -> None:
    script = "import os, sys; sys.exit(os.environ.get('CUDA_INJECTION64_PATH') != sys.argv[1])"
    library = str(injection_library()) if COMPILER else "None"
    run = run_captured([sys.executable, "-c", script, library], tmp_path / "out", fresh_caches=False)
    assert run.exit_code == (0 if COMPILER else 1)
    assert not (tmp_path / "out" / "compilers").exists()
    assert (run.fault is None) == (COMPILER is not None)


def test_a_missing_command_and_a_full_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such command"):
        run_captured(["no-such-program-here"], tmp_path / "out")
    (tmp_path / "mine").write_text("")
    with pytest.raises(UsageError, match="expected an empty or a new folder"):
        run_captured([sys.executable, "-c", ""], tmp_path)


def test_no_compiler_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(ToolError, match="found no C compiler"):
        injection_library()
    with capture() as kernels:
        pass
    assert [fault for fault in kernels.faults if "found no C compiler" in fault]


def test_the_named_cupti_goes_first_then_the_programs_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = (
        tmp_path / "lib" / "python3.12" / "site-packages" / "nvidia" / "cuda_cupti" / "lib" / "libcupti.so.12"
    )
    own.parent.mkdir(parents=True)
    own.write_bytes(b"")
    monkeypatch.delenv("PTXAUDIT_CUPTI", raising=False)
    assert find_cupti(str(tmp_path / "bin" / "python")) == own
    monkeypatch.setenv("PTXAUDIT_CUPTI", "/named/libcupti.so")
    assert find_cupti(str(tmp_path / "bin" / "python")) == Path("/named/libcupti.so")


def test_half_a_line_of_a_killed_process_is_passed_over(tmp_path: Path) -> None:
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "launches-1.jsonl").write_text('{"kernel": "a", "block": [32, 1, 1]}\n{"kernel": "b", "blo')
    assert read_record(tmp_path).kernels == ("a",)


def test_only_what_all_launches_share_is_written(tmp_path: Path) -> None:
    launches = [
        {"kernel": "_Z1kPf", "grid": [1, 1, 1], "block": [64, 1, 1], "shared": 0},
        {"kernel": "_Z1kPf", "grid": [2, 1, 1], "block": [64, 1, 1], "shared": 0},
        {"kernel": "other", "block": [32, 1, 1]},
        {"kernel": "other", "block": [64, 1, 1]},
    ]
    path = tmp_path / "launch.toml"
    path.write_text(launch_toml(launches))
    (named,) = read_launches(path)
    assert named.kernel.search("_Z1kPf")
    assert not named.kernel.search("_Z1kPfi")
    assert (named.launch.block, named.launch.grid) == ((64, 1, 1), None)


def test_compilers_keep_below_the_folder(tmp_path: Path) -> None:
    places = [value for value in compiler_environment(tmp_path).values() if "/" in value]
    assert len(places) == 4
    assert all(Path(value).is_relative_to(tmp_path) for value in places)


def test_the_command_line_captures_then_audits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    kernels = Path(__file__).parents[2] / "fixtures" / "kernels" / "gemm_ring"
    script = """
import os, shutil, sys
shutil.copy(sys.argv[1], os.environ["CUTE_DSL_DUMP_DIR"])
sys.exit(int(sys.argv[2]))
"""
    select = ("--select", "wgmma-stage-released-early")

    def run(name: str, kernel: str, code: str, *options: str) -> int:
        command = (sys.executable, "-c", script, str(kernels / kernel), code)
        return run_cli(monkeypatch, "capture", "-o", str(tmp_path / name), *select, *options, "--", *command)

    assert run("wrong", "gemm_ring_early_release.ptx", "0") == 1
    captured = capfd.readouterr()
    assert "error[wgmma-stage-released-early]" in captured.out
    assert "ptxaudit: captured 0 modules and 0 launched kernels; the program took" in captured.err
    assert run("right", "gemm_ring.ptx", "0") == 0
    assert run("failed", "gemm_ring_early_release.ptx", "5") == 5
    assert "the program exited with 5" in capfd.readouterr().err
    assert run("kept", "gemm_ring_early_release.ptx", "0", "--no-audit") == 0
    assert (tmp_path / "kept" / "compilers" / "cute" / "gemm_ring_early_release.ptx").is_file()


def test_a_program_without_kernels_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    assert run_cli(monkeypatch, "capture", "-o", out, "--", sys.executable, "-c", "") == 3
    assert "found no kernel there" in capfd.readouterr().err
