"""Each fault by each format: the exit code and the first line say what could not be done."""

import errno
import json
import multiprocessing
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from audit_support import KERNEL, report_of, run_cli, tiny_registry
from container_builders import CUBIN, PTX, fatbin, fatbin_entry

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.engine.registry import Rule
from ptxaudit.frontends.sass import tools
from ptxaudit.rules.model import Outcome

UNREAD = "1 input could not be read"
FILES = ("json", "html", "sarif", "junit", "markdown")


def trying_check(analysis: FunctionAnalysis) -> Outcome:
    """Does what the kernel's name says."""
    name = analysis.function.name
    if name == "raises":
        raise RuntimeError("no idea")
    if name == "endless":
        while True:
            pass
    if name == "interrupts":
        signal.raise_signal(signal.SIGINT)
    if name == "terminates":
        signal.raise_signal(signal.SIGTERM)
    if name == "dies" and multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome.of([])


@dataclass(frozen=True, slots=True)
class Fault:
    """What an audit of ``inputs`` beside a good one comes to.

    ``said`` is what the first line says, empty where the audit is whole; ``nvdisasm`` is a script in its
    place.
    """

    code: int
    said: str
    inputs: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    nvdisasm: str | None = None
    prepare: Callable[[pytest.MonkeyPatch], None] = lambda patch: None


def full(patch: pytest.MonkeyPatch) -> None:
    """Nothing can be written to a temporary folder."""

    def write(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    patch.setattr(Path, "write_bytes", write)


def without_tools(patch: pytest.MonkeyPatch) -> None:
    patch.setenv("PATH", "/nowhere")
    patch.setattr(tools, "site_directories", lambda: iter([]))
    tools.find_tool.cache_clear()


def sealed(patch: pytest.MonkeyPatch) -> None:
    """A store that can be read only; root may write everywhere, so the folder is one of the system's."""
    Path("store").symlink_to("/proc/self")


def torn(patch: pytest.MonkeyPatch) -> None:
    Path("store").mkdir()
    Path("store/results.sqlite").write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)


def forbid(patch: pytest.MonkeyPatch) -> None:
    """A folder with a library that cannot be opened and one that cannot be listed; root may do all this."""
    for name in ("build/lib.so", "build/closed/lib.so", "build/dangling/good.ptx"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(fatbin(fatbin_entry(PTX, 1)))
    Path("build/dangling/lib.so").symlink_to("nothing")
    opening, listing = Path.open, os.scandir
    patch.setattr(Path, "open", lambda path, *how, **more: opening(permitted(path, "lib.so"), *how, **more))
    patch.setattr(os, "scandir", lambda path: listing(permitted(path, "closed")))


def permitted(path: Path | str, forbidden: str) -> Path | str:
    if Path(path).name == forbidden:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return path


def loop(patch: pytest.MonkeyPatch) -> None:
    Path("loop.ptx").symlink_to("loop.ptx")


FAULTS = {
    "nothing": Fault(0, ""),
    "nvdisasm killed": Fault(3, UNREAD, ("one.cubin",), nvdisasm="kill -9 $$"),
    "nvdisasm hanging": Fault(
        3, UNREAD, ("one.cubin",), ("--limit", "tool-seconds=1"), nvdisasm="exec sleep 60"
    ),
    "nvdisasm printing garbage": Fault(3, UNREAD, ("one.cubin",), nvdisasm="head -c 9999 /dev/urandom"),
    "nvdisasm missing": Fault(3, UNREAD, ("one.cubin",), prepare=without_tools),
    "temporary folder full": Fault(3, UNREAD, ("one.cubin",), prepare=full),
    "input missing": Fault(3, UNREAD, ("missing.ptx",)),
    "input a loop of links": Fault(3, UNREAD, ("loop.ptx",), prepare=loop),
    "folder not readable in full": Fault(3, "2 inputs could not be read", ("build",), prepare=forbid),
    "input cut off": Fault(3, UNREAD, ("cut.cubin",)),
    "input no PTX": Fault(3, UNREAD, ("wrong.ptx",)),
    "input too large": Fault(3, UNREAD, ("two.ptx",), ("--limit", "functions=1")),
    "image of no architecture": Fault(3, UNREAD, ("none.fatbin",)),
    "image of an old architecture": Fault(0, "1 image not audited", ("old.fatbin",)),
    "several": Fault(
        3, f"{UNREAD}, 1 image not audited", ("old.fatbin", "missing.ptx"), ("--format", "text")
    ),
    "function skipped": Fault(
        3, "1 function not audited in full", ("endless.ptx",), ("--limit", "kernel-seconds=1")
    ),
    "rule raised": Fault(2, "1 internal error", ("raises.ptx",)),
    "Ctrl-C": Fault(130, "interrupted before its end, with 1 file not audited", ("interrupts.ptx",)),
    "SIGTERM": Fault(143, "interrupted before its end, with 1 file not audited", ("terminates.ptx",)),
    "worker killed": Fault(3, UNREAD, ("dies.ptx",), ("--jobs", "2")),
    "cache read-only": Fault(0, "", options=("--store", "store"), prepare=sealed),
    "cache damaged": Fault(0, "", options=("--store", "store"), prepare=torn),
    "cache not a folder": Fault(0, "", options=("--store", "good.ptx/store")),
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = tiny_registry(tmp_path / "patterns")["tiny-rule"].pattern
    registry = {"tiny-rule": Rule(pattern, trying_check)}
    monkeypatch.setattr("ptxaudit.engine.registry.load_registry", lambda: registry)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("good", "raises", "endless", "interrupts", "terminates", "dies"):
        Path(f"{name}.ptx").write_text(KERNEL.replace("kernel(", f"{name}("))
    Path("two.ptx").write_text(KERNEL + KERNEL[KERNEL.index(".visible") :].replace("kernel(", "other("))
    Path("wrong.ptx").write_text(KERNEL.replace("bar.sync 0;", "bar.sync 0"))
    Path("one.cubin").write_bytes(CUBIN)
    Path("cut.cubin").write_bytes(CUBIN[: len(CUBIN) // 2])
    for name, number in (("old", 75), ("none", 0)):
        cubin = CUBIN[:48] + (0x6000004 | number << 8).to_bytes(4, "little") + CUBIN[52:]
        entries = fatbin_entry(cubin, number=number, flags=0), fatbin_entry(PTX, 1)
        Path(f"{name}.fatbin").write_bytes(fatbin(*entries))


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_in_the_exit_code_and_on_the_first_line_of_every_report(
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    fault = FAULTS[name]
    if fault.nvdisasm is not None:
        request.getfixturevalue("install")(fault.nvdisasm)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            fault.prepare(patch)
            arguments = ["audit", "good.ptx", *fault.inputs, "--no-assemble", "--jobs", "1", *fault.options]
            files = [option for one in FILES for option in (f"--{one}", f"report.{one}")]
            assert run_cli(patch, *arguments, *files) == fault.code
            text = capfd.readouterr()
            assert run_cli(patch, *arguments, "--format", "github") == fault.code
            github = capfd.readouterr()
    finally:
        signal.signal(signal.SIGINT, before)
        tools.find_tool.cache_clear()
    assert "Traceback" not in text.err
    first = {one: openings[one](Path(f"report.{one}").read_text()) for one in FILES}
    first |= {"text": text.out.splitlines()[0], "github": github.out.splitlines()[0]}
    if not fault.said:
        assert not [one for one, opening in first.items() if opening and "ncomplete" in opening]
        return
    assert first == {
        "json": f"incomplete: {fault.said}",
        "html": f"Incomplete: {fault.said}.",
        "sarif": f"incomplete: {fault.said}",
        "junit": f"incomplete: {fault.said}",
        "markdown": f"### ptxaudit: incomplete: {fault.said}",
        "text": f"incomplete: {fault.said}",
        "github": f"::warning title=ptxaudit%3A incomplete::{fault.said}",
    }
    assert is_no_success() == (fault.code != 0)


def of_json(text: str) -> str | None:
    said = json.loads(text).get("incomplete")
    return None if said is None else f"incomplete: {', '.join(said)}"


def of_html(text: str) -> str:
    """The first words of the page's own text."""
    _, _, section = text.partition('<section id="summary"')
    words = re.sub(r"<[^>]*>", "\n", section.partition(">")[2])
    sentence = re.match(r"\s*(Incomplete:\s+[^\n]*\.)\s", words)
    return "" if sentence is None else " ".join(sentence[1].split())


def of_sarif(text: str) -> str | None:
    (run,) = json.loads(text)["runs"]
    (invocation,) = run["invocations"]
    messages = [one["message"]["text"] for one in invocation["toolExecutionNotifications"]]
    said = [one.removeprefix("incomplete: ") for one in messages if one.startswith("incomplete: ")]
    assert messages[: len(said)] == [f"incomplete: {one}" for one in said]
    return f"incomplete: {', '.join(said)}" if said else None


def of_junit(text: str) -> str | None:
    """A property of the first suite, which stands for the whole audit."""
    said = ElementTree.fromstring(text).find("testsuite[1]/properties/property[@name='incomplete']")
    return None if said is None else said.get("value")


openings: dict[str, Callable[[str], str | None]] = {
    "json": of_json,
    "html": of_html,
    "sarif": of_sarif,
    "junit": of_junit,
    "markdown": lambda text: text.splitlines()[0],
}


def is_no_success() -> bool:
    """Whether SARIF and JUnit call the audit a failure, and agree; the JSON report is valid."""
    report_of("report.json")
    (run,) = json.loads(Path("report.sarif").read_text())["runs"]
    failed = not run["invocations"][0]["executionSuccessful"]
    assert (ElementTree.parse("report.junit").getroot().attrib["errors"] != "0") == failed
    return failed


def test_a_comparison_says_first_what_either_side_lacks(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for side, inputs in (("old", ("good.ptx", "cut.cubin")), ("new", ("good.ptx", "raises.ptx"))):
        Path(side).mkdir()
        for one in inputs:
            Path(side, one).write_bytes(Path(one).read_bytes())
    files = ("json", "html", "markdown")
    options = [option for one in files for option in (f"--{one}", f"report.{one}")]
    assert run_cli(monkeypatch, "diff", "old", "new", "--no-assemble", *options) == 2
    said = f"incomplete: the old side: {UNREAD}; the new side: 1 internal error"
    assert capfd.readouterr().out.splitlines()[0] == said
    assert Path("report.markdown").read_text().splitlines()[0] == f"**{said}**"
    document = json.loads(Path("report.json").read_text())
    assert document["incomplete"] == {"old": [UNREAD], "new": ["1 internal error"]}
    page = Path("report.html").read_text().partition("<main>")[2]
    assert " ".join(re.sub(r"<[^>]*>", " ", page).split()).startswith(said)


def test_costs_say_first_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(monkeypatch, "cost", "good.ptx", "cut.cubin", "--no-assemble", "--no-roles") == 3
    assert capfd.readouterr().out.splitlines()[0] == f"incomplete: {UNREAD}"


@pytest.mark.parametrize("option", ["--json", "--html", "--write-baseline", "--store"])
def test_links_in_a_circle_are_no_fault_of_the_program(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], option: str
) -> None:
    """A report takes the place of such a link."""
    loop(monkeypatch)
    assert run_cli(monkeypatch, "audit", "good.ptx", "--no-assemble", option, "loop.ptx") == 0
    assert Path("loop.ptx").is_file() == (option != "--store")
    assert "internal error" not in capfd.readouterr().err
