"""The command line on containers: what is audited, listed, told apart, skipped, and left behind (nothing)."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from audit_support import KERNEL, TINY, Run, report_of
from container_builders import CONTAINERS, CUBIN, TARGET_A, ZSTD, fatbin, fatbin_entry, host_elf, zipped

PTX = KERNEL.encode()
OTHER = KERNEL.replace("kernel(", "other(").encode()


@pytest.fixture
def run(run: Run) -> Run:
    """With ``pkg.whl`` there, too."""
    library = host_elf(
        {".nv_fatbin": fatbin(fatbin_entry(PTX, 1, flags=ZSTD | TARGET_A), fatbin_entry(CUBIN))}
    )
    Path("pkg.whl").write_bytes(zipped({"pkg/lib.so": library, "pkg/copy.ptx": PTX, "pkg/other.ptx": OTHER}))
    return run


def test_a_wheel_is_audited_and_a_copy_is_audited_once(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("audit", "pkg.whl", *TINY, "--json", "out.json") == 1
    report = report_of("out.json")
    original = "pkg.whl!pkg/lib.so!fatbin 1 compute_90a"
    assert [(one["path"], one.get("same_as")) for one in report["inputs"]] == [
        (original, None),
        ("pkg.whl!pkg/lib.so!fatbin 1 sm_90a", None),
        ("pkg.whl!pkg/copy.ptx", original),
        ("pkg.whl!pkg/other.ptx", None),
    ]
    assert [one["input"] for one in report["functions"] if one["name"] == "kernel"] == [original]
    assert {one["input"] for one in report["findings"]} == {original, "pkg.whl!pkg/other.ptx"}
    assert "1 input the same as another" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("options", "inputs"),
    [
        (("--kernel", "other"), ["pkg.whl!pkg/other.ptx"]),
        (("--kernel", "^kernel$"), ["pkg.whl!pkg/lib.so!fatbin 1 compute_90a", "pkg.whl!pkg/copy.ptx"]),
        (("--arch", "sm_90a"), ["pkg.whl!pkg/lib.so!fatbin 1 sm_90a"]),
    ],
)
def test_only_what_is_asked_for_is_audited(run: Run, options: tuple[str, ...], inputs: list[str]) -> None:
    assert run("audit", "pkg.whl", "--select", "tiny-rule", *options, "--json", "out.json") == 0
    assert [one["path"] for one in report_of("out.json")["inputs"]] == inputs


@pytest.mark.parametrize("option", [("--kernel", "zzz"), ("--arch", "sm_100f")])
def test_asking_for_nothing_that_is_there_is_an_error(
    run: Run, capfd: pytest.CaptureFixture[str], option: tuple[str, str]
) -> None:
    assert run("audit", "pkg.whl", *option) == 2
    assert f"no function that matches {' '.join(option)}" in capfd.readouterr().err


def test_listing(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("audit", str(CONTAINERS / "libtwo.so"), "--list", "--arch", "sm_100f", "--json", "l.json") == 0
    lines = capfd.readouterr().out.splitlines()
    place = f"{CONTAINERS / 'libtwo.so'}!fatbin"
    assert lines == [
        f"{place} 1 sm_100f: cubin sm_100f",
        "  add(float*, float const*)  _Z3addPfPKf",
        f"{place} 1 compute_100f: ptx sm_100f",
        "  add(float*, float const*)  _Z3addPfPKf",
        f"{place} 2 sm_100f: cubin sm_100f",
        "  void ns::scale<float>(float*, float)  _ZN2ns5scaleIfEEvPT_S1_",
        f"{place} 2 compute_100f: ptx sm_100f",
        "  void ns::scale<float>(float*, float)  _ZN2ns5scaleIfEEvPT_S1_",
        "4 kernels in 2 cubins and 2 PTX texts; 2 images passed over",
    ]
    document = json.loads(Path("l.json").read_text())
    first = document["images"][0]
    assert (first["place"], first["kind"], first["arch"]) == (f"{place} 1 sm_100f", "cubin", "sm_100f")
    assert first["kernels"] == [{"name": "_Z3addPfPKf", "demangled": "add(float*, float const*)"}]
    assert len(first["sha256"]) == 64
    assert document["errors"] == []
    assert run("audit", "pkg.whl", "--list", "--kernel", "scale") == 0
    assert capfd.readouterr().out.splitlines() == [
        "0 kernels in 0 cubins and 0 PTX texts; 4 images passed over"
    ]


def test_broken_parts_are_listed_by_name(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    Path("cut.whl").write_bytes(zipped({"a.cubin": CUBIN[:900], "b.ptx": PTX}))
    assert run("audit", "cut.whl", "--list") == 3
    captured = capfd.readouterr()
    assert "cut.whl!b.ptx: ptx sm_90" in captured.out
    assert captured.out.endswith("1 part could not be read\n")
    assert captured.err.startswith("ptxaudit: cut.whl!a.cubin+")
    assert run("audit", "cut.whl", *TINY, "--json", "out.json") == 3
    statuses = {one["path"]: one["status"] for one in report_of("out.json")["inputs"]}
    assert statuses == {"cut.whl!a.cubin": "failed", "cut.whl!b.ptx": "audited"}


def cubin_for(architecture: int) -> bytes:
    """A cubin that says it is for another architecture than its code."""
    return CUBIN[:48] + (0x6000004 | architecture << 8).to_bytes(4, "little") + CUBIN[52:]


def test_an_old_architecture_is_skipped_in_a_container_only(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("old.cubin").write_bytes(cubin_for(60))
    Path("both.fatbin").write_bytes(
        fatbin(fatbin_entry(cubin_for(60), number=60, flags=0), fatbin_entry(PTX, 1))
    )
    assert run("audit", "both.fatbin", *TINY, "--json", "out.json") == 1
    report = report_of("out.json")
    assert [one["path"] for one in report["inputs"]] == ["both.fatbin!fatbin 1 compute_90a"]
    assert [one["path"] for one in report["skipped"]] == ["both.fatbin!fatbin 1 sm_60"]
    printed = capfd.readouterr().out
    assert printed.startswith("incomplete: 1 image not audited\n")
    assert "found SASS for sm_60, expected one of sm_80" in printed
    assert run("audit", "both.fatbin", "--arch", "sm_60", *TINY) == 3
    assert run("audit", "old.cubin", *TINY) == 3
    assert "found SASS for sm_60" in capfd.readouterr().err


@pytest.mark.parametrize("number", [0, 1, 79, 88, 130, 255])
def test_an_architecture_that_is_new_or_does_not_exist_could_not_be_audited(
    run: Run, capfd: pytest.CaptureFixture[str], number: int
) -> None:
    """Nobody knows what the code for it is like, so that no exit code may pass over it."""
    entries = fatbin_entry(cubin_for(number), number=number, flags=0), fatbin_entry(PTX, 1)
    Path("both.fatbin").write_bytes(fatbin(*entries))
    assert run("audit", "both.fatbin", *TINY, "--json", "out.json") == 3
    report = report_of("out.json")
    assert [one["status"] for one in report["inputs"]] == ["failed", "audited"]
    assert "skipped" not in report
    printed = capfd.readouterr()
    assert printed.out.startswith("incomplete: 1 input could not be read\n")
    assert f"found SASS for sm_{number}, expected one of sm_80" in printed.err
    assert run("audit", "both.fatbin", "--arch", "sm_90", *TINY) in (0, 1)


def test_ptx_for_an_architecture_that_does_not_exist_could_not_be_read(run: Run) -> None:
    Path("both.whl").write_bytes(zipped({"a.ptx": PTX.replace(b"sm_90", b"sm_0"), "b.ptx": PTX}))
    assert run("audit", "both.whl", *TINY, "--json", "out.json") == 3
    statuses = {one["path"]: one["status"] for one in report_of("out.json")["inputs"]}
    assert statuses == {"both.whl!a.ptx": "failed", "both.whl!b.ptx": "audited"}


def test_one_image_of_a_container_can_be_dumped(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("dump", "cfg", "pkg.whl", "--kernel", "other") == 0
    assert "other" in capfd.readouterr().out
    assert run("dump", "cfg", "pkg.whl") == 2
    assert "expected one (see --kernel)" in capfd.readouterr().err


def start(folder: Path, *arguments: str | Path, **options: Any) -> "subprocess.Popen[str]":
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(temporary)}
    # Tests that run in the background were started with SIGINT ignored, and would hand that on.
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from ptxaudit.cli import main; sys.argv[0] = 'ptxaudit'; main()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, *(str(argument) for argument in arguments)],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_standard_input_that_is_a_pipe_can_be_a_container(tmp_path: Path, jobs: str) -> None:
    process = start(
        tmp_path, "audit", "-", "--jobs", jobs, "--json", tmp_path / "out.json", stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.buffer.write((CONTAINERS / "libtwo.so").read_bytes())
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
    paths = [one["path"] for one in report_of(str(tmp_path / "out.json"))["inputs"]]
    assert paths[0] == "<stdin>!fatbin 1 sm_90a"
    assert len(paths) == 6
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_nothing_is_left_when_stopped(tmp_path: Path, jobs: str, number: signal.Signals) -> None:
    many = {f"{count}.cubin": CUBIN + bytes(count) for count in range(200)}
    (tmp_path / "many.zip").write_bytes(zipped(many))
    process = start(tmp_path, "audit", tmp_path / "many.zip", "--jobs", jobs, start_new_session=True)
    temporary = tmp_path / "temporary"
    deadline = time.monotonic() + 60
    while not any(temporary.rglob("input.cubin")) and time.monotonic() < deadline:
        time.sleep(0.01)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else 128 + number)
    assert "Traceback" not in errors
    assert list(temporary.iterdir()) == []
