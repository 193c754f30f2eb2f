"""The command line: exit codes, bad inputs, formats, what goes where."""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from audit_support import KERNEL, TINY, Run, report_of

from ptxaudit.cli import cli
from ptxaudit.intake.extent import Extent, files_left
from ptxaudit.intake.fatbins import WalkOptions
from ptxaudit.intake.sources import find_images
from ptxaudit.progress import abridged, rate

TOLD = ("--select", "tiny-rule,tiny-undecided")


@pytest.mark.parametrize("output", ["text", "github"])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("kernel.ptx", *TINY), 1),
        (("kernel.ptx", "--select", "tiny-rule"), 0),
        (("kernel.ptx", "--select", "tiny-rule", "--fail-on", "note"), 1),
        (("kernel.ptx", "--select", "tiny-rule", "--fail-on", "never"), 0),
        (("quiet.ptx", *TINY), 0),
        (("kernel.ptx", "--select", "tiny-undecided"), 0),
        (("kernel.ptx", "--select", "tiny-fault"), 2),
        (("kernel.ptx", "missing.ptx", *TINY), 3),
        (("kernel.ptx", "--select", "no-such-rule"), 2),
        (("kernel.ptx", "--kernel", "nothing"), 2),
        (("kernel.ptx", "--kernel", "("), 2),
        (("kernel.ptx", "--arch", "volta"), 2),
        (("kernel.ptx", "--arch", "sm_100", *TINY), 2),
        (("kernel.ptx", "--arch", "sm_90", *TINY), 1),
        (("kernel.ptx", "--jobs", "-1"), 2),
        (("kernel.ptx", "--json", "no/such/folder.json", *TINY), 2),
        (("kernel.ptx", "--json", "-", *TINY), 2),
        (("--list", "kernel.ptx", "--html", "out.html"), 2),
        (("--list", "kernel.ptx", "--write-baseline", "known.json"), 2),
        (("kernel.ptx", "--json", "out", "--html", "./out", *TINY), 2),
        (("kernel.ptx", "--json", "known.json", "--write-baseline", "known.json", *TINY), 2),
        (("kernel.ptx", "--json", "/dev/null", "--html", "/dev/null", *TINY), 1),
        ((), 2),
    ],
)
def test_exit_codes_are_the_same_in_every_format(
    run: Run, capfd: pytest.CaptureFixture[str], output: str, arguments: tuple[str, ...], code: int
) -> None:
    assert run("audit", *arguments, "--format", output) == code
    captured = capfd.readouterr()
    assert "Traceback" not in captured.out + captured.err
    if code in (2, 3):
        assert len(captured.err.strip().splitlines()) == 1
        assert captured.err.startswith("ptxaudit: ")
    else:
        assert captured.err == ""


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("empty.ptx", b"", "empty file"),
        ("blank.ptx", b" \n\n", "empty file"),
        ("short.cubin", b"\x7fELF\x02\x01", "end of the file"),
        ("truncated.cubin", b"\x7fELF\x02\x01\x01" + bytes(11) + b"\xbe\x00" + bytes(12), "truncated.cubin"),
        ("host.cubin", b"\x7fELF\x02\x01\x01" + bytes(11) + b"\x3e\x00" + bytes(44), "host ELF without"),
        ("words.ptx", b"// a comment\nint main() {}\n", "words.ptx:2:1: found 'int'"),
        ("comment.ptx", b"/* nothing else */", "found the end of the file"),
        ("bytes.ptx", b".version \xff\xfe", "found byte 0xff"),
        ("fat.cubin", b"\x50\xed\x55\xba" + bytes(60), "found a fatbin"),
        ("broken.ptx", KERNEL[: KERNEL.index("bar.sync")].encode(), "broken.ptx:"),
        ("arch.ptx", KERNEL.replace("sm_90", "gfx90").encode(), "arch.ptx"),
    ],
)
def test_bad_input_is_one_line_and_the_good_ones_are_audited(
    run: Run, capfd: pytest.CaptureFixture[str], name: str, content: bytes, complaint: str
) -> None:
    Path(name).write_bytes(content)
    assert run("audit", name, "kernel.ptx", *TINY, "--json", "out.json") == 3
    captured = capfd.readouterr()
    assert len(captured.err.splitlines()) == 1
    assert complaint in captured.err
    assert "internal error" not in captured.err
    assert "could not read" in captured.out
    report = report_of("out.json")
    assert [one["status"] for one in report["inputs"]] == ["failed", "audited"]
    assert len(report["findings"]) == 2


def test_missing_file_and_empty_directory(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    Path("folder").mkdir()
    Path("folder/readme.txt").write_text("no kernel here")
    assert run("audit", "missing.ptx", "folder", *TINY, "--json", "out.json") == 3
    errors = capfd.readouterr().err.splitlines()
    assert errors == [
        "ptxaudit: missing.ptx: no such file or directory",
        "ptxaudit: folder: found a directory without kernels, expected files that hold PTX or cubins",
    ]
    assert [one["status"] for one in report_of("out.json")["inputs"]] == ["failed", "failed"]


def test_syntax_error_has_a_caret(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    Path("bad.ptx").write_text(KERNEL.replace("bar.sync 0;", "bar.sync 0 0;", 1))
    assert run("audit", "bad.ptx", *TINY) == 3
    lines = capfd.readouterr().out.splitlines()
    caret = next(number for number, line in enumerate(lines) if line.strip() == "^")
    assert "bar.sync 0 0;" in lines[caret - 1]


def test_directory_is_searched_by_content(run: Run) -> None:
    Path("folder/.hidden").mkdir(parents=True)
    Path("folder/deeper").mkdir()
    Path("folder/deeper/no_suffix").write_text("// a comment\n" + KERNEL)
    Path("folder/kernel.ptx").write_text(KERNEL)
    Path("folder/.hidden/kernel.ptx").write_text(KERNEL)
    Path("folder/notes.txt").write_text("nothing")
    assert run("audit", "folder", "folder/kernel.ptx", *TINY, "--json", "out.json") == 1
    paths = [one["path"] for one in report_of("out.json")["inputs"]]
    assert paths == ["folder/kernel.ptx", "folder/deeper/no_suffix"]


def test_report_says_who_what_where(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("audit", "kernel.ptx", *TOLD, "--no-assemble", "--json", "out.json") == 0
    report = report_of("out.json")
    (function,) = report["functions"]
    assert function["verdicts"] == {"tiny-rule": "finding", "tiny-undecided": "unknown"}
    assert function["unknown_reasons"] == {"tiny-undecided": "needs PTX"}
    assert (function["arch"], function["evidence"]) == ("sm_90", "ptx")
    first, second = report["findings"]
    assert first["message"] == "bar.sync number 0 in kernel"
    assert first["locations"][0]["line"] == KERNEL[: KERNEL.index("bar.sync")].count("\n") + 1
    assert first["locations"][0]["text"].startswith("bar.sync 0")
    assert first["fingerprint"] != second["fingerprint"]
    shown = capfd.readouterr().out
    assert "warning[tiny-rule]: bar.sync number 0 in kernel" in shown
    assert "  needs PTX\n    leaves open: tiny-undecided\n    in kernel" in shown
    assert "2 warnings" in shown


def test_fingerprint_ignores_lines_and_registers(run: Run) -> None:
    run("audit", "kernel.ptx", *TINY, "--json", "before.json")
    Path("kernel.ptx").write_text("// moved\n\n" + KERNEL.replace("%r", "%v").replace("%p", "%q"))
    run("audit", "kernel.ptx", *TINY, "--json", "after.json")
    before, after = (report_of(f"{name}.json")["findings"] for name in ("before", "after"))
    assert [one["fingerprint"] for one in before] == [one["fingerprint"] for one in after]


def test_internal_error_is_unknown_and_one_line(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("audit", "kernel.ptx", "--json", "out.json") == 2
    captured = capfd.readouterr()
    place = "ptxaudit: kernel.ptx: kernel: tiny-fault: "
    assert captured.err == f"{place}internal error: RuntimeError: no idea about kernel\n"
    (function,) = report_of("out.json")["functions"]
    assert function["verdicts"]["tiny-fault"] == "unknown"
    assert function["unknown_reasons"]["tiny-fault"].startswith("internal error: ")
    assert function["verdicts"]["tiny-rule"] == "finding"
    assert run("audit", "kernel.ptx", "--traceback") == 2
    assert "RuntimeError" in capfd.readouterr().err


def test_jobs_change_nothing(run: Run) -> None:
    Path("many").mkdir()
    for number in range(5):
        text = KERNEL if number % 2 else "not PTX"
        Path(f"many/{number}.ptx").write_text(text.replace("kernel", f"kernel_{number}"))
    assert run("audit", "many", *TINY, "--jobs", "1", "--json", "one.json") == 3
    assert run("audit", "many", *TINY, "--jobs", "2", "--json", "two.json") == 3
    assert Path("one.json").read_text() == Path("two.json").read_text()
    assert len(report_of("one.json")["findings"]) == 4


def test_github_commands_are_escaped(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    Path("a,b:c%.ptx").write_text(KERNEL)
    assert run("audit", "a,b:c%.ptx", "--format", "github", *TINY) == 1
    first = capfd.readouterr().out.splitlines()[0]
    match = re.fullmatch(r"::warning file=([^,:]*),line=\d+,col=\d+,title=ptxaudit%3A tiny-rule::(.*)", first)
    assert match is not None, first
    assert match[1] == "a%2Cb%3Ac%25.ptx"
    assert "100%25, really" in match[2]
    assert "%0A" in match[2]


def test_junit_agrees_with_the_exit_code(run: Run) -> None:
    Path("bad\x01.ptx").write_text("no")
    for fail_on, failures in (("warning", 1), ("error", 0)):
        run("audit", "kernel.ptx", "bad\x01.ptx", "--junit", "out.xml", "--fail-on", fail_on,
            "--ignore", "tiny-fault")  # fmt: skip
        root = ElementTree.parse("out.xml").getroot()
        assert root.attrib["failures"] == str(failures)
        assert root.attrib["errors"] == "1"
        assert root.attrib["skipped"] == "1"
        assert root.attrib["tests"] == "3"


def test_sarif_has_rules_results_and_failures(run: Run) -> None:
    run("audit", "kernel.ptx", "missing.ptx", *TINY, "--sarif", "out.sarif")
    log = json.loads(Path("out.sarif").read_text())
    (sarif_run,) = log["runs"]
    assert log["version"] == "2.1.0"
    rules = [rule["id"] for rule in sarif_run["tool"]["driver"]["rules"]]
    result = sarif_run["results"][0]
    assert rules[result["ruleIndex"]] == result["ruleId"] == "tiny-rule"
    assert result["level"] == "warning"
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "kernel.ptx"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] > 1
    assert sarif_run["invocations"][0]["executionSuccessful"] is False


def test_html_is_one_whole_page(run: Run) -> None:
    assert run("audit", "kernel.ptx", *TINY, "--html", "out.html") == 1
    page = Path("out.html").read_text()
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "tiny-rule" in page
    assert [path.name for path in Path().glob(".out.html*")] == []


def test_report_is_not_left_half_written(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out.json").write_text("before")
    Path("folder").mkdir()
    assert run("audit", "kernel.ptx", "--select", "tiny-rule", "--html", "folder/x/y.html") == 2
    assert Path("out.json").read_text() == "before"
    assert list(Path("folder").iterdir()) == []


def test_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("kernel.ptx").open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert run("audit", "-", *TINY, "--json", "out.json") == 1
    assert [one["path"] for one in report_of("out.json")["inputs"]] == ["<stdin>"]


def test_dump_cfg_is_the_contract(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("dump", "cfg", "kernel.ptx", "--format", "json") == 0
    (function,) = json.loads(capfd.readouterr().out)["functions"]
    assert function["name"] == "kernel"
    assert [block["successors"] for block in function["blocks"]] == [[1, 2], [2], []]
    starts = [block["start"] for block in function["blocks"]]
    assert [block["end"] for block in function["blocks"]][:-1] == starts[1:]
    assert run("dump", "cfg", "kernel.ptx", "--format", "dot") == 0
    dot = capfd.readouterr().out
    assert dot.startswith("digraph {")
    assert '"kernel.0" -> "kernel.2";' in dot
    assert run("dump", "cfg", "kernel.ptx") == 0
    assert "-> B1 B2" in capfd.readouterr().out


def test_dump_events_shows_places_and_events(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("dump", "events", "kernel.ptx") == 0
    lines = capfd.readouterr().out.splitlines()
    barrier = next(number for number, line in enumerate(lines) if "bar.sync 0" in line)
    assert "barrier" in lines[barrier + 1].lower()
    assert run("dump", "events", "kernel.ptx", "--format", "json") == 0
    (function,) = json.loads(capfd.readouterr().out)["functions"]
    assert any(one["events"] for one in function["instructions"])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("dump", "events", "kernel.ptx", "--format", "dot"), 2),
        (("dump", "nothing", "kernel.ptx"), 2),
        (("dump", "cfg", "missing.ptx"), 3),
        (("dump", "cfg", "kernel.ptx", "--kernel", "zzz"), 2),
        (("explain", "tiny-rul"), 2),
        (("nonsense",), 2),
        (("--version",), 0),
        (("explain", "tiny-rule"), 0),
        (("rules",), 0),
    ],
)
def test_other_commands_exit_as_the_contract_says(
    run: Run, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int
) -> None:
    assert run(*arguments) == code
    captured = capfd.readouterr()
    assert "Traceback" not in captured.err
    assert len(captured.err.splitlines()) == (0 if code == 0 else 1)


def test_interrupt_is_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ptxaudit.engine.audit.audit", interrupted)
    assert run("audit", "kernel.ptx") == 130
    assert capfd.readouterr().err.strip() == "ptxaudit: interrupted"


def test_module_runs_and_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.ptx"
    kernel.write_text(KERNEL)
    command = [sys.executable, "-m", "ptxaudit", "dump", "events", str(kernel)]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.returncode == 141
    assert done.stderr == ""


def test_the_bare_command_shows_its_help(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    assert run() == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "Usage:" in captured.err
    assert "audit " in captured.err


def test_nothing_is_written_for_a_list_that_asks_for_a_page(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("audit", "--list", "kernel.ptx", "--html", "out.html") == 2
    assert "--html: found it beside --list" in capfd.readouterr().err
    assert not Path("out.html").exists()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("--kernel", "kernl"), "found no function that matches --kernel kernl, expected at least one; "
         "there is kernel, kernel_fp16, attention and 1 more"),
        (("--arch", "sm_100"), "found no function that matches --arch sm_100, expected at least one; "
         "there is one for sm_90"),
        (("--kernel", "kernel", "--arch", "sm_100"), "found no function that matches --kernel kernel and "
         "--arch sm_100, expected at least one; there is one for sm_90"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_what_matches_nothing_is_told_with_what_there_is(
    run: Run, capfd: pytest.CaptureFixture[str], asked: tuple[str, ...], told: str, jobs: str
) -> None:
    for name in ("kernel_fp16", "attention", "softmax"):
        Path(f"{name}.ptx").write_text(KERNEL.replace("entry kernel(", f"entry {name}("))
    Path("quiet.ptx").unlink()
    assert run("audit", ".", *asked, *TINY, "--jobs", jobs) == 2
    assert capfd.readouterr().err == f"ptxaudit: {told}\n"


def test_dump_tells_near_names_too(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("dump", "cfg", "kernel.ptx", "--kernel", "kernl") == 2
    assert "there is kernel\n" in capfd.readouterr().err


def terminal(folder: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    """The exit code, and all that a person sees of ``ptxaudit`` at a terminal."""
    environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "ptxaudit", *arguments]
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environment
    ) as process:
        os.close(slave)
        seen = b""
        with contextlib.suppress(OSError):  # Linux tells the end of a terminal so
            while part := os.read(master, 1 << 16):
                seen += part
        code = process.wait()
    os.close(master)
    return code, seen.decode()


@pytest.mark.parametrize(("width", "longest"), [(40, 14), (80, 14), (100, 34), (300, 60)])
def test_a_name_beside_the_progress_bar_leaves_room_for_times(width: int, longest: int) -> None:
    shown = abridged("/very/long/way/" * 9 + "gemm.cubin", width)
    assert len(shown) == longest
    assert shown.endswith("gemm.cubin")
    assert abridged("gemm.cubin", width) == "gemm.cubin"


def test_a_terminal_has_colours_progress_and_every_line_once(tmp_path: Path) -> None:
    (tmp_path / "kernel.ptx").write_text(KERNEL)
    rule = ("--select", "divergent-barrier")
    code, seen = terminal(tmp_path, "audit", "kernel.ptx", "missing.ptx", *rule)
    assert code == 3
    assert seen.count("missing.ptx: no such file") == 1
    # What is being audited is there before it is done.
    assert 0 <= seen.find("kernel.ptx") < seen.find("could not read")
    assert "0 done" in seen
    code, seen = terminal(tmp_path, "explain", "divergent-barrier")
    assert (code, "\x1b[1mdivergent-barrier" in seen) == (0, True)
    code, seen = terminal(tmp_path, "rules", NO_COLOR="1")
    assert (code, "divergent-barrier" in seen, "\x1b" in seen) == (0, True, False)
    _, seen = terminal(tmp_path, "rules")
    assert "\x1b[1;31merror" in seen


@pytest.mark.parametrize(
    ("images", "part", "seconds", "told"),
    [
        (0, 0.0, 5.0, ""),
        (3, 0.5, 0.5, ""),
        (30, 0.25, 60.0, "30/min, about 3:00 left"),
        (30, 1.0, 60.0, "30/min"),
        (1, 0.0, 10.0, "6/min"),
    ],
)
def test_how_fast_it_goes_and_how_long_it_takes(images: int, part: float, seconds: float, told: str) -> None:
    assert rate(images, part, seconds) == told


def test_how_much_is_done_is_told_by_bytes(run: Run) -> None:
    Path("a").mkdir()
    Path("a/one.ptx").write_text(KERNEL)
    Path("a/two.ptx").write_text(KERNEL)
    with zipfile.ZipFile("pkg.whl", "w") as archive:
        archive.writestr("first.ptx", KERNEL)
        archive.writestr("second.ptx", KERNEL)
    extent = Extent(["a", "pkg.whl", "missing", "-"])
    assert extent.total == 4 * len(KERNEL)
    places = ["a/one.ptx", "elsewhere", "a/two.ptx", "pkg.whl!first.ptx", "a/one.ptx", "pkg.whl!second.ptx"]
    assert [extent.position(place) / len(KERNEL) for place in places] == [1, 1, 2, 3, 3, 4]


def test_what_an_interrupted_audit_did_not_get_to_is_counted(run: Run) -> None:
    Path("a").mkdir()
    for name in ("one", "two", "three"):
        Path(f"a/{name}.ptx").write_text(KERNEL)
    with zipfile.ZipFile("a/none.whl", "w") as archive:
        archive.writestr("readme.txt", "no kernel")
    with zipfile.ZipFile("pkg.whl", "w") as archive:
        archive.writestr("first.ptx", KERNEL)
    paths = ("a", "pkg.whl", "-")
    barren: set[Path] = set()
    names = [found.name for found in find_images(paths[:2], WalkOptions(), barren)]
    assert barren == {Path("a/none.whl")}
    assert files_left(paths, names, barren, 60) == 0
    assert files_left(paths, ["a/two.ptx", "pkg.whl!first.ptx"], barren, 60) == 2
    assert files_left(paths, [], set(), 60) == 5
    assert files_left(paths, [], set(), 0) is None


def test_capture_takes_every_option_of_an_audit_but_those_of_inputs() -> None:
    own = {"arguments", "only_list", "caches", "relocatable", "includes", "defines", "standard"}
    asked, taken = ({one.name for one in cli.commands[name].params} for name in ("audit", "capture"))
    assert asked - own <= taken


@pytest.mark.parametrize("command", [("audit",), ("diff", "k.ptx"), ("audit", "k.ptx")])
def test_a_name_that_is_too_long_is_an_input_that_cannot_be_read(
    run: Run, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    assert run(*command, "k" * 300, "--select", "tiny-rule") == 3
    assert "k: file name too long" in capsys.readouterr().err


def test_a_place_without_permission_is_told_before_the_audit(
    run: Run, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("locked").mkdir()
    really = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "locked" and really(path, mode))
    assert run("audit", "kernel.ptx", *TINY, "--html", "locked/page.html") == 2
    said = capfd.readouterr().err
    assert said.startswith("ptxaudit: --html locked/page.html: found no permission to write in ")


def test_what_holds_no_kernel_is_not_a_pass(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    Path("none.ptx").write_text(KERNEL[: KERNEL.index(".visible")])
    assert run("audit", "none.ptx", *TINY) == 3
    shown = capfd.readouterr().out
    assert shown.startswith("incomplete: no kernel was found\n")
    assert "none.ptx: found no kernel and no function, so there is nothing to audit" in shown
    assert run("audit", "none.ptx", "kernel.ptx", *TINY) == 1
    assert "none.ptx: found no kernel" in capfd.readouterr().out


def test_a_copy_of_what_cannot_be_read_is_told_with_what_is_wrong(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.ptx", "b.ptx"):
        Path(name).write_text("")
    assert run("audit", "a.ptx", "b.ptx", *TINY) == 3
    said = capfd.readouterr().err
    assert "a.ptx: found an empty file" in said and "b.ptx: found an empty file" in said
