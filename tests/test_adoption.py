"""Settings, suppressions and the baseline: what a project decides about its findings."""

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from audit_support import KERNEL, TINY, Run, report_of, run_cli
from join_support import assembled_by

from ptxaudit.engine.baseline import (
    BaselineEntry,
    Unmet,
    entry_of,
    match,
    read_baseline,
    render_baseline,
    why_unmet,
)
from ptxaudit.engine.comments import read_comments
from ptxaudit.engine.settings import Settings, find_settings, read_settings
from ptxaudit.rules.model import Category, CodePlace, Confidence, Finding, FunctionReport, Severity, Verdict
from ptxaudit.source import Location, LocationKind

FIRST, SECOND = "    bar.sync 0;\n    st.global", "    bar.sync 0;\n$done"


def report() -> Any:
    return report_of("out.json")


def reasons() -> list[str | None]:
    return [finding.get("suppressed", {}).get("reason") for finding in report()["findings"]]


def settings(text: str, name: str = "ptxaudit.toml") -> None:
    Path(name).write_text(text)


# Settings


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("selct = []", "'selct' was unexpected"),
        ("fail-on = 'maybe'", "fail-on: 'maybe'"),
        ("[[suppress]]\nrule = 'tiny-rule'", "'reason' is a required property"),
        ("[[suppress]]\nrule = 'tiny-rule'\nreason = ' '", "suppress.0.reason"),
        ("[[suppress]]\nrule = 'tiny-rule'\nreason = 'x'\nuntil = 'soon'", "expected a date"),
        ("[[suppress]]\nrule = 'tiny-rule'\nreason = 'x'\nkernel = '('", "expected a regular expression"),
        ("[[kernel]]\nmatch = 'x'\nseverity = { tiny-rule = 'fatal' }", "'fatal'"),
        ("select = [", "expected settings"),
        ("select = ['no-such-rule']", "unknown rule 'no-such-rule'"),
        ("[[suppress]]\nrule = 'no-such-rule'\nreason = 'x'", "ptxaudit.toml: found unknown rule"),
        ("[thresholds.no-such-rule]\nx = 1", "ptxaudit.toml: found unknown rule 'no-such-rule'"),
        ("[thresholds.tiny-rule]\nx = 'many'", "thresholds.tiny-rule.x: 'many' is not of type"),
        ("[thresholds.tiny-rule]\nx = 1", "thresholds.tiny-rule.x: found an unknown threshold"),
    ],
)
def test_wrong_settings_are_one_line(
    run: Run, capfd: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    settings(text)
    assert run("audit", "kernel.ptx") == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert complaint in line


def test_settings_decide_what_the_command_line_leaves_open(run: Run) -> None:
    settings("select = ['tiny-rule']\nfail-on = 'warning'")
    assert run("audit", "kernel.ptx") == 1
    assert run("audit", "kernel.ptx", "--fail-on", "error") == 0
    assert run("audit", "kernel.ptx", "--select", "tiny-undecided") == 0
    settings("select = ['tiny-undecided']\nfail-on-unknown = true")
    assert run("audit", "kernel.ptx") == 1
    settings("select = ['tiny-rule']\n[severity]\ntiny-rule = 'error'")
    assert run("audit", "kernel.ptx") == 1


def test_fail_on_unknown(run: Run) -> None:
    assert run("audit", "kernel.ptx", "--select", "tiny-undecided") == 0
    assert run("audit", "kernel.ptx", "--select", "tiny-undecided", "--fail-on-unknown") == 1
    assert run("audit", "kernel.ptx", "--select", "tiny-rule", "--fail-on-unknown") == 0


def test_the_nearest_settings_hold(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.ptxaudit]\nstrict = true")
    (inner / "pyproject.toml").write_text("[tool.other]\nx = 1")
    assert find_settings(inner).path == tmp_path / "pyproject.toml"
    (tmp_path / "a" / "ptxaudit.toml").write_text("fail-on = 'note'\nbaseline = 'known.json'")
    found = find_settings(inner)
    assert (found.fail_on, found.strict) == ("note", False)
    assert found.baseline == tmp_path / "a" / "known.json"


def test_without_settings_nothing_is_set(tmp_path: Path) -> None:
    assert read_settings(_written(tmp_path / "ptxaudit.toml", "")) == Settings(tmp_path / "ptxaudit.toml")


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_settings_of_a_kernel(run: Run) -> None:
    settings("[[kernel]]\nmatch = '^kern'\nseverity = { tiny-rule = 'note' }")
    assert run("audit", "kernel.ptx", *TINY, "--json", "out.json") == 0
    assert {finding["severity"] for finding in report()["findings"]} == {"note"}
    settings("[[kernel]]\nmatch = '^other'\nseverity = { tiny-rule = 'note' }")
    assert run("audit", "kernel.ptx", *TINY) == 1
    settings("[[kernel]]\nmatch = '^kern'\nignore = ['tiny-rule']")
    assert run("audit", "kernel.ptx", *TINY, "--json", "out.json") == 0
    assert report()["findings"] == []
    assert report()["functions"][0]["verdicts"] == {}


# Suppressions


def test_a_suppression_needs_its_rule_its_kernel_and_its_time(run: Run) -> None:
    entry = "[[suppress]]\nrule = 'tiny-rule'\nreason = 'known to us'\n"
    settings(entry)
    assert run("audit", "kernel.ptx", *TINY, "--json", "out.json") == 0
    assert reasons() == ["known to us", "known to us"]
    settings(entry + "kernel = 'another'")
    assert run("audit", "kernel.ptx", *TINY, "--json", "out.json") == 1
    assert reasons() == [None, None]
    assert "meets no finding" in report()["notices"][0]
    settings(entry + "until = 2001-01-01")
    assert run("audit", "kernel.ptx", *TINY, "--json", "out.json") == 1
    assert "expired on 2001-01-01" in report()["notices"][0]


@pytest.mark.parametrize(
    "place",
    [
        "    bar.sync 0; // ptxaudit: ignore[tiny-rule] by hand\n    st.global",
        "    // ptxaudit: ignore[other, tiny-rule] by hand\n    // more\n    bar.sync 0;\n    st.global",
        "    //ptxaudit:ignore[tiny-rule] until=2999-12-31 by hand\n\n    bar.sync 0;\n    st.global",
    ],
)
def test_a_comment_suppresses_the_finding_on_its_line_or_below(run: Run, place: str) -> None:
    Path("kernel.ptx").write_text(KERNEL.replace(FIRST, place))
    assert run("audit", "kernel.ptx", *TINY, "--json", "out.json") == 1
    assert reasons() == ["by hand", None]


@pytest.mark.parametrize(
    ("comment", "fault"),
    [
        ("// ptxaudit: ignore[tiny-rule]", "found no reason"),
        ("// ptxaudit: ignore tiny-rule because", "expected // ptxaudit: ignore[RULE] REASON"),
        ("// ptxaudit: allow[tiny-rule] because", "found '// ptxaudit: allow"),
        ("// ptxaudit: ignore[tiny-rule] until=soon because", "expected a date"),
    ],
)
def test_a_comment_that_is_wrong_suppresses_nothing_and_is_named(run: Run, comment: str, fault: str) -> None:
    Path("kernel.ptx").write_text(KERNEL.replace(FIRST, f"    {comment}\n{FIRST}"))
    assert run("audit", "kernel.ptx", *TINY, "--json", "out.json") == 1
    assert reasons() == [None, None]
    (notice,) = report()["notices"]
    assert fault in notice
    assert notice.startswith("kernel.ptx:")


def test_an_unused_comment_is_reported(run: Run) -> None:
    Path("kernel.ptx").write_text(
        KERNEL.replace(SECOND, f"    // ptxaudit: ignore[tiny-fault] why not\n{SECOND}")
    )
    assert run("audit", "kernel.ptx", *TINY, "--json", "out.json") == 1
    (notice,) = report()["notices"]
    assert "ignore of tiny-fault meets no finding" in notice


def test_a_comment_is_for_the_next_line_of_code_only() -> None:
    text = "// ptxaudit: ignore[a] x\n// ptxaudit: ignore[b] y\nmov;\nadd;\nsub; // ptxaudit: ignore[c] z\n"
    found, faults = read_comments("k.ptx", text)
    assert [(one.line, one.suppression.rule, one.suppression.reason) for one in found] == [
        (3, "a", "x"),
        (3, "b", "y"),
        (5, "c", "z"),
    ]
    assert faults == []


def test_a_suppression_holds_on_its_last_day() -> None:
    (found,), _ = read_comments("k.ptx", "mov; // ptxaudit: ignore[a] until=2026-11-30 x")
    assert not found.suppression.has_expired(datetime.date(2026, 11, 30))
    assert found.suppression.has_expired(datetime.date(2026, 12, 1))


SUM = """\
#ifndef HELPER
__device__ float neighbour(float* tile) {
  return tile[threadIdx.x ^ 32];
}
#endif
extern "C" __global__ void sum(float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = out[threadIdx.x];
  out[threadIdx.x] = neighbour(tile);
}
"""
RACE = ("--select", "shared-memory-race", "--launch", "launch.toml", "--json", "out.json")


def commented_source(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> int:
    """The exit code of an audit of a source whose block of 64 exchanges values without a barrier."""
    pytest.importorskip("cuda.bindings.nvrtc")
    monkeypatch.chdir(folder)
    Path("sum.cu").write_text(text)
    Path("launch.toml").write_text("[[launch]]\nblock = [64, 1, 1]\n")
    return run_cli(monkeypatch, "audit", "sum.cu", *RACE)


@pytest.mark.parametrize(
    "line",
    ["  return tile[threadIdx.x ^ 32];", "  out[threadIdx.x] = neighbour(tile);"],
    ids=["where it is written", "where it is called"],
)
def test_a_comment_in_the_source_suppresses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str
) -> None:
    assert commented_source(monkeypatch, tmp_path, SUM) == 1
    assert reasons() == [None]
    comment = "// ptxaudit: ignore[shared-memory-race] both are the same"
    assert commented_source(monkeypatch, tmp_path, SUM.replace(line, f"{line} {comment}")) == 0
    assert reasons() == ["both are the same"]
    assert commented_source(monkeypatch, tmp_path, SUM.replace(line, f"  {comment}\n{line}")) == 0
    assert report().get("notices", []) == []


def test_a_comment_in_the_source_that_meets_nothing_is_reported_where_code_was_made_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    comment = "// ptxaudit: ignore[divergent-barrier] not here"
    text = SUM.replace("neighbour(tile);", f"neighbour(tile); {comment}")
    commented_source(monkeypatch, tmp_path, text + f"__device__ int unused() {{\n  return 1; {comment}\n}}\n")
    assert report()["notices"] == ["sum.cu:9: ignore of divergent-barrier meets no finding"]


def test_the_source_that_a_cubin_names_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = pytest.importorskip("ptxaudit.frontends.nvrtc")
    pytest.importorskip("cuda.bindings.nvrtc")
    comment = "// ptxaudit: ignore[shared-memory-race] both are the same"
    commented_source(monkeypatch, tmp_path, SUM)
    path = tmp_path / "sum.cu"
    path.write_text(SUM.replace("^ 32];", f"^ 32]; {comment}"))
    ptx = compiler.compile_source(path.read_bytes(), path, "sum.cu", compiler.CompileOptions())
    (tmp_path / "sum.cubin").write_bytes(assembled_by(tmp_path, ptx, "-lineinfo"))
    assert run_cli(monkeypatch, "audit", "sum.cubin", *RACE) == 0
    assert reasons() == ["both are the same"]


def test_a_comment_of_inline_assembly_is_not_one_of_the_source() -> None:
    text = 'asm("bar.sync 0; // ptxaudit: ignore[a] x"); // ptxaudit: ignore[b] y\nint c = \'"\';\n'
    found, _ = read_comments("k.cu", text)
    assert [one.suppression.rule for one in found] == ["b"]


def test_python_comments_begin_as_they_do() -> None:
    found, _ = read_comments("k.py", "a = b // c\n# ptxaudit: ignore[a] x\nload()\n")
    assert [(one.line, one.suppression.rule) for one in found] == [(3, "a")]


def test_what_is_suppressed_is_listed_in_the_text(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    settings("[[suppress]]\nrule = 'tiny-rule'\nreason = 'known to us'\n")
    assert run("audit", "kernel.ptx", *TINY) == 0
    shown = capfd.readouterr().out
    assert "suppressed:\n  warning[tiny-rule] kernel.ptx:17:5 in kernel and 1 more: known to us\n" in shown
    assert "2 suppressed" in shown


# Baseline


def test_a_baseline_knows_what_was_found_and_nothing_else(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("audit", "kernel.ptx", *TINY, "--write-baseline", "known.json") == 0
    assert "known.json: written" in capfd.readouterr().err
    assert run("audit", "kernel.ptx", *TINY, "--baseline", "known.json") == 0
    assert "2 suppressed" in capfd.readouterr().out
    Path("kernel.ptx").write_text(KERNEL.replace(SECOND, f"    bar.sync 0;\n{SECOND}"))
    assert run("audit", "kernel.ptx", *TINY, "--baseline", "known.json", "--json", "out.json") == 1
    assert sorted(map(str, reasons())) == ["None", "in the baseline", "in the baseline"]
    Path("kernel.ptx").write_text(KERNEL.replace("bar.sync 0;", "", 1))
    assert run("audit", "kernel.ptx", *TINY, "--baseline", "known.json", "--json", "out.json") == 0
    assert report()["notices"] == ["1 baseline entry met no finding: it is gone"]


def test_a_baseline_can_be_written_anew_over_itself(run: Run) -> None:
    run("audit", "kernel.ptx", *TINY, "--write-baseline", "known.json")
    before = Path("known.json").read_text()
    run("audit", "kernel.ptx", *TINY, "--baseline", "known.json", "--write-baseline", "known.json")
    assert Path("known.json").read_text() == before


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "found no JSON"),
        ("{}", "'version' is a required property"),
        ('{"version": 2, "findings": []}', "version"),
        ('{"version": 1, "findings": [{"rule": "x"}]}', "findings.0"),
    ],
)
def test_a_wrong_baseline_is_one_line(
    run: Run, capfd: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    Path("known.json").write_text(text)
    assert run("audit", "kernel.ptx", "--baseline", "known.json") == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert "--baseline known.json: " in line
    assert complaint in line


def test_the_baseline_of_the_settings_need_not_be_there_to_be_written(run: Run) -> None:
    settings('baseline = "known.json"')
    run("audit", "kernel.ptx", *TINY, "--write-baseline", "known.json")
    assert len(read_baseline(Path("known.json"))) == 2
    assert run("audit", "kernel.ptx", *TINY) == 0


def test_a_missing_baseline_is_one_line(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("audit", "kernel.ptx", "--baseline", "none.json") == 2
    assert capfd.readouterr().err == "ptxaudit: --baseline none.json: no such file or directory\n"


def finding(fingerprint: str, text: str, rule: str = "r", function: str = "f") -> Finding:
    place = CodePlace("primary", Location(LocationKind.SASS, "k.cubin", offset=16), text)
    return Finding(
        rule,
        Category.CORRECTNESS,
        Severity.ERROR,
        Confidence.HIGH,
        function,
        "k.cubin",
        "said",
        place,
        fingerprint,
    )


def test_an_entry_is_the_rule_the_function_and_the_bare_opcode(tmp_path: Path) -> None:
    one = finding("1", "@!P0 SYNCS.ARRIVE.TRANS64 RZ, [UR4+0x8], RZ")
    assert entry_of(one) == BaselineEntry(
        "1", "r", "f", "SYNCS", evidence="sass", severity="error", file="k.cubin"
    )
    path = tmp_path / "known.json"
    path.write_text(render_baseline([one]))
    assert read_baseline(path) == (entry_of(one),)


def test_a_finding_that_changed_a_little_is_matched_by_likeness_one_for_one() -> None:
    entries = (BaselineEntry("1", "r", "f", "SYNCS"), BaselineEntry("2", "r", "f", "SYNCS"))
    changed = [finding("9", "SYNCS.X"), finding("2", "SYNCS.Y"), finding("8", "SYNCS.Z")]
    matched = match(changed, entries)
    assert matched.known == {0, 1}, "the exact one goes first, the first of the rest takes the entry left"
    assert matched.gone == ()


@pytest.mark.parametrize(
    "other", [finding("9", "BAR.SYNC"), finding("9", "SYNCS", rule="s"), finding("9", "SYNCS", function="g")]
)
def test_another_finding_is_new(other: Finding) -> None:
    entry = BaselineEntry("1", "r", "f", "SYNCS")
    assert match([other], [entry]).known == frozenset()
    assert match([other], [entry]).gone == (entry,)


def test_the_same_instruction_goes_before_the_same_fingerprint() -> None:
    entries = (
        BaselineEntry("1", "r", "f", "SYNCS", "mbarrier wait", "first"),
        BaselineEntry("2", "r", "f", "SYNCS", "mbarrier wait", "second"),
    )
    # The first is mended, so that the second now counts as the first of its kind.
    second = replace(finding("1", "SYNCS.Y"), operation="mbarrier wait", likeness="second")
    assert match([second], entries).gone == entries[:1]


def test_what_does_the_same_is_known_in_the_other_language_one_for_one() -> None:
    entry = BaselineEntry("1", "r", "f", "SYNCS", "mbarrier wait", "of SASS", "sass")
    in_ptx = [
        replace(finding(name, "mbarrier.try_wait"), operation="mbarrier wait", likeness="of PTX")
        for name in ("8", "9")
    ]
    assert match(in_ptx, [entry]).known == {0}


def test_another_instruction_of_the_same_rule_is_known_in_the_other_language_only() -> None:
    entry = BaselineEntry("1", "r", "f", "SYNCS", "mbarrier arrive", "of SASS", "sass")
    wait = replace(finding("8", "mbarrier.try_wait"), operation="mbarrier wait", likeness="of PTX")
    place = replace(wait.primary, location=Location(LocationKind.PTX, "k.ptx", 3, 1))
    assert match([replace(wait, primary=place)] * 2, [entry]).known == {0}
    assert match([wait], [entry]).known == frozenset()


def numbered(fingerprint: str, number: int, of: int) -> Finding:
    place = CodePlace("primary", Location(LocationKind.PTX, "k.ptx", 3, 1), "ld.shared.u32 %r1, [%r2]")
    load = replace(finding(fingerprint, ""), primary=place)
    return replace(load, likeness="load", occurrence=(number, of))


def test_entries_are_read_as_they_were_written(tmp_path: Path) -> None:
    one = replace(numbered("1", 2, 3), architecture="sm_90a", input="build/k.so!k.cubin")
    path = tmp_path / "known.json"
    path.write_text(render_baseline([one]))
    assert read_baseline(path) == (entry_of(one),)
    assert entry_of(one).home == ("f", "k.so", "sm_90a")


def test_an_entry_does_not_stand_for_a_more_severe_finding() -> None:
    note = replace(finding("1", "MEMBAR"), severity=Severity.NOTE)
    warning = replace(note, severity=Severity.WARNING)
    risen = match([warning], [entry_of(note)])
    assert (risen.known, risen.gone, risen.worse) == (frozenset(), (), {0: entry_of(note)})
    assert match([note], [entry_of(warning)]).known == {0}
    assert match([warning], [replace(entry_of(note), severity="")]).known == {0}, "as old files have it"
    # Each has a partner of its severity, whatever their order.
    assert match([warning, note], [entry_of(note), entry_of(warning)]).known == {0, 1}


def test_a_finding_at_another_of_as_many_equal_instructions_is_new() -> None:
    entry = entry_of(numbered("1", 1, 3))
    moved = match([numbered("1", 2, 3)], [entry])
    assert (moved.known, moved.gone) == (frozenset(), (entry,))
    # Where there are more or fewer of them the number says nothing, and little in SASS.
    in_sass = [replace(numbered("1", number, 3), primary=finding("1", "LDS").primary) for number in (1, 2)]
    assert match(in_sass[1:], [entry_of(in_sass[0])]).known == {0}
    assert match(in_sass, [entry_of(in_sass[1])]).known == {1}
    assert match([numbered("1", 2, 4)], [entry]).known == {0}


def test_the_finding_that_an_entry_was_made_for_has_it_though_a_comment_is_about_it() -> None:
    suppressed = replace(numbered("2", 2, 3), suppressed="by hand")
    entry = entry_of(numbered("1", 2, 3))
    assert match([numbered("1", 1, 3), suppressed], [entry]).known == {1}


def test_suppressed_findings_leave_entries_to_others() -> None:
    found = [replace(numbered("8", 1, 5), suppressed="by hand"), numbered("9", 2, 5)]
    assert match(found, [entry_of(numbered("1", 1, 3))]).known == {1}


def test_an_entry_is_for_its_file_and_architecture_while_they_are_audited() -> None:
    entry = entry_of(replace(finding("1", "LDS"), input="old/a.cubin", architecture="sm_90a"))
    elsewhere = replace(finding("1", "LDS"), input="new/b.cubin", architecture="sm_90a")
    assert (
        match([elsewhere], [entry], {("f", "a.cubin", "sm_90a"), ("f", "b.cubin", "sm_90a")}).known == set()
    )
    assert match([elsewhere], [entry], {("f", "b.cubin", "sm_90a")}).known == {0}, "the file was renamed"
    newer = replace(finding("1", "LDS"), input="a.cubin", architecture="sm_100a")
    assert match([newer], [entry], {("f", "a.cubin", "sm_90a"), ("f", "a.cubin", "sm_100a")}).known == set()


def test_a_rise_of_severity_counts_and_is_told(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    settings('[severity]\ntiny-rule = "note"\n')
    run("audit", "kernel.ptx", *TINY, "--write-baseline", "known.json")
    settings("")
    assert run("audit", "kernel.ptx", *TINY, "--baseline", "known.json") == 1
    assert "2 baseline entries met findings that are more severe now: they count" in capfd.readouterr().out


def judged(evidence: str, verdict: Verdict, reasons: dict[str, str], by: str | None = None) -> FunctionReport:
    decided_by = {} if by is None else {"r": by}
    return FunctionReport(
        "f", "f", "k", "sm_90a", evidence, {"r": verdict}, unknown_reasons=reasons, decided_by=decided_by
    )


@pytest.mark.parametrize(
    ("functions", "reason"),
    [
        ((), Unmet.NOT_ASKED),
        ((replace(judged("sass", Verdict.CLEAN, {}), verdicts={}),), Unmet.NOT_ASKED),
        ((judged("sass", Verdict.CLEAN, {}),), Unmet.GONE),
        ((judged("sass", Verdict.FINDING, {}),), Unmet.GONE),
        ((judged("sass", Verdict.UNKNOWN, {"r": "why"}),), Unmet.UNDECIDED),
        ((judged("sass", Verdict.FINDING, {"r": "the rest"}),), Unmet.UNDECIDED),
        ((judged("ptx", Verdict.CLEAN, {}),), Unmet.OTHER_LANGUAGE),
        ((judged("both", Verdict.CLEAN, {}, "ptx"),), Unmet.OTHER_LANGUAGE),
        ((judged("both", Verdict.CLEAN, {}, "both"),), Unmet.GONE),
        ((judged("ptx", Verdict.CLEAN, {}), judged("sass", Verdict.CLEAN, {})), Unmet.GONE),
    ],
)
def test_an_entry_without_a_finding_is_gone_only_where_that_is_known(
    functions: tuple[FunctionReport, ...], reason: Unmet
) -> None:
    entry = BaselineEntry("1", "r", "f", "SYNCS", evidence="sass")
    assert why_unmet(entry, functions) is reason


def test_reports_say_why_entries_met_no_finding(run: Run) -> None:
    run("audit", "kernel.ptx", *TINY, "--write-baseline", "known.json")
    run("audit", "kernel.ptx", "--select", "tiny-undecided", "--baseline", "known.json", "--json", "out.json")
    assert report()["notices"] == [
        "2 baseline entries met no finding: their kernels or their rules are not in this audit"
    ]


def test_suppressed_findings_stay_out_of_a_baseline(run: Run) -> None:
    Path("kernel.ptx").write_text(
        KERNEL.replace(FIRST, f"    // ptxaudit: ignore[tiny-rule] by hand\n{FIRST}")
    )
    run("audit", "kernel.ptx", *TINY, "--write-baseline", "known.json")
    assert len(read_baseline(Path("known.json"))) == 1


def test_a_comment_that_names_no_rule_is_reported_as_that(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("kernel.ptx").write_text(KERNEL.replace(SECOND, f"// ptxaudit: ignore[tiny-rul] known\n{SECOND}"))
    run("audit", "kernel.ptx", *TINY)
    shown = capfd.readouterr().out
    assert "found unknown rule 'tiny-rul'; did you mean tiny-rule, " in shown
    assert "meets no finding" not in shown
