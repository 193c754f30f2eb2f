"""Comparing two builds: pairing, what is counted, what is said, exit codes."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from audit_support import KERNEL, Run, audit_text, tiny_registry
from join_support import needs_ptxas

from ptxaudit.engine.changes import changes
from ptxaudit.engine.compare import CountChange, compare, pair
from ptxaudit.report import compare_html
from ptxaudit.report.compare_text import render_json, render_markdown, render_text, said
from ptxaudit.rules.budget import Budget, LoopCost, Part
from ptxaudit.rules.model import AuditReport, FunctionReport, Severity, Synchronisation, Verdict
from ptxaudit.source import Location, LocationKind

TINY = ("--select", "tiny-rule")
LOOP = """    bar.sync 0;
$again:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;
    @!%p1 bra $again;
    fence.acq_rel.gpu;
    st.global"""


@pytest.fixture
def run(run: Run) -> Run:
    Path("old.ptx").write_text(KERNEL)
    Path("new.ptx").write_text(KERNEL.replace("    bar.sync 0;\n    st.global", LOOP))
    return run


def report(text: str, tmp_path: Path) -> AuditReport:
    rules = (tiny_registry(tmp_path / "patterns")["tiny-rule"],)
    return audit_text(text, rules, count=True).report


def function(name: str, arch: str = "sm_90a", evidence: str = "ptx") -> FunctionReport:
    return FunctionReport(name, f"{name}()", "k", arch, evidence, {})


def test_a_build_is_the_same_as_itself(tmp_path: Path) -> None:
    one = report(KERNEL, tmp_path)
    comparison = compare(one, one)
    (kernel,) = comparison.kernels
    assert not kernel.is_changed
    assert kernel.unchanged == 2
    assert "1 kernel in both, 0 of them changed" in render_text(comparison)


def test_what_changed_is_counted_with_its_loops(tmp_path: Path) -> None:
    old = report(KERNEL, tmp_path)
    new = report(KERNEL.replace("    bar.sync 0;\n    st.global", LOOP), tmp_path)
    (kernel,) = compare(old, new).kernels
    changes = {change.kind: change for change in kernel.counts}
    wait = changes["mbarrier wait .acquire.cta"]
    assert (wait.old, wait.new, wait.looped) == (0, 1, (0, 1))
    assert changes["fence.acq_rel.gpu"] == CountChange("fence.acq_rel.gpu", 0, 1, (0, 0))
    assert "CTA barrier" not in changes


def test_findings_that_are_gone_and_new(tmp_path: Path) -> None:
    old, new = report(KERNEL, tmp_path), report(KERNEL.replace("bar.sync 0;", "", 1), tmp_path)
    (kernel,) = compare(old, new).kernels
    assert (len(kernel.new_findings), len(kernel.gone_findings), kernel.unchanged) == (0, 1, 1)
    (back,) = compare(new, old).kernels
    assert (len(back.new_findings), len(back.gone_findings), back.unchanged) == (1, 0, 1)


def test_a_finding_that_got_worse_counts_and_is_told(tmp_path: Path) -> None:
    new = report(KERNEL, tmp_path)
    first, *others = new.findings
    old = replace(new, findings=(replace(first, severity=Severity.NOTE), *others))
    comparison = compare(old, new)
    (kernel,) = comparison.kernels
    assert kernel.is_changed
    assert (kernel.new_findings, kernel.gone_findings, kernel.unchanged) == ((), (), 1)
    assert comparison.new_findings == (first,)
    assert "  worse: warning[tiny-rule] " in render_text(comparison)
    assert "(was: note at " in render_markdown(comparison)
    assert "0 new, 1 worse, 0 fixed" in render_text(comparison)
    (worse,) = json.loads(render_json(comparison))["kernels"][0]["findings"]["worse"]
    assert (worse["severity"], worse["old_severity"]) == ("warning", "note")
    (better,) = compare(new, old).kernels
    assert (better.worse_findings, better.unchanged) == ((), 2)


def test_a_verdict_that_changed(tmp_path: Path) -> None:
    old = report(KERNEL, tmp_path)
    (one,) = old.functions
    new = replace(old, functions=(replace(one, verdicts={"tiny-rule": Verdict.UNKNOWN}),))
    (kernel,) = compare(old, new).kernels
    (change,) = kernel.verdicts
    assert (change.rule, change.old, change.new) == ("tiny-rule", Verdict.FINDING, Verdict.UNKNOWN)
    assert "tiny-rule: finding -> unknown" in render_text(compare(old, new))


def test_pairing_goes_from_the_same_to_the_alike() -> None:
    old = [
        function("gemm"),
        function("gemm", "sm_100a"),
        function("attention_v1_hdim128"),
        function("dropped"),
    ]
    new = [
        function("gemm", "sm_100a"),
        function("attention_v2_hdim128"),
        function("gemm"),
        function("added"),
        function("gemm", evidence="sass"),
    ]
    names = [(a and (a.name, a.arch), b and (b.name, b.arch, b.evidence)) for a, b in pair(old, new)]
    assert names == [
        (("gemm", "sm_100a"), ("gemm", "sm_100a", "ptx")),
        (("attention_v1_hdim128", "sm_90a"), ("attention_v2_hdim128", "sm_90a", "ptx")),
        (("gemm", "sm_90a"), ("gemm", "sm_90a", "ptx")),
        (None, ("added", "sm_90a", "ptx")),
        (None, ("gemm", "sm_90a", "sass")),
        (("dropped", "sm_90a"), None),
    ]


def test_a_kernel_for_another_architecture_is_the_same_kernel() -> None:
    ((old, new),) = pair([function("gemm", "sm_90a")], [function("gemm", "sm_100a")])
    assert old is not None
    assert new is not None


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("old.ptx", "old.ptx"), 0),
        (("old.ptx", "new.ptx"), 0),
        (("quiet.ptx", "old.ptx", "--fail-on", "warning"), 1),
        (("quiet.ptx", "old.ptx", "--fail-on", "error"), 0),
        (("quiet.ptx", "old.ptx", "--fail-on", "never"), 0),
        (("old.ptx", "quiet.ptx", "--fail-on", "note"), 0),
        (("old.ptx", "missing.ptx"), 3),
        (("missing.ptx", "old.ptx"), 3),
        (("old.ptx",), 2),
    ],
)
def test_exit_codes(run: Run, arguments: tuple[str, ...], code: int) -> None:
    assert run("diff", *arguments, *TINY) == code


def test_every_format_says_the_same(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    places = ("--json", "d.json", "--markdown", "d.md", "--html", "d.html")
    assert run("diff", "old.ptx", "new.ptx", *TINY, *places) == 0
    shown = capfd.readouterr().out
    assert "  synchronisation:\n    added mbarrier wait .acquire.cta in a loop: line 19\n" in shown
    assert "    added fence.acq_rel.gpu: line 21\n" in shown
    (kernel,) = json.loads(Path("d.json").read_text())["kernels"]
    assert kernel["synchronisation"]["fence.acq_rel.gpu"] == {
        "old": 0,
        "new": 1,
        "old_in_loops": 0,
        "new_in_loops": 0,
    }
    assert "| mbarrier wait .acquire.cta |  | 1 |  | 1 |" in Path("d.md").read_text()
    assert kernel["changes"][0] == {
        "old": [],
        "new": [{"kind": "mbarrier wait .acquire.cta", "in_a_loop": True, "place": "new.ptx:19:5"}],
    }
    assert "- `added fence.acq_rel.gpu: line 21`" in Path("d.md").read_text()
    assert "mbarrier wait .acquire.cta" in Path("d.html").read_text()


def test_names_from_inputs_are_text_everywhere(tmp_path: Path) -> None:
    one = report(KERNEL, tmp_path)
    evil = "<script>alert(1)</script>`|@someone"
    (kernel,) = one.functions
    named = replace(one, functions=(replace(kernel, demangled=evil, verdicts={"tiny-rule": Verdict.CLEAN}),))
    comparison = compare(one, named)
    page = compare_html.render(comparison, "<old>", "<new>")
    assert "<script>" not in page
    assert "&lt;old&gt;" in page
    assert "`` <script>alert(1)</script>`\N{BROKEN BAR}@someone ``" in render_markdown(comparison)
    assert json.loads(render_json(comparison))["kernels"][0]["name"] == evil


def test_copies_of_one_finding_are_one_line(tmp_path: Path) -> None:
    quiet = report(KERNEL.replace("bar.sync 0;", ""), tmp_path)
    text = render_text(compare(quiet, report(KERNEL, tmp_path)))
    assert text.count("warning[tiny-rule]") == 1
    assert "(and 1 more like it)" in text


def test_a_side_that_is_not_there_is_no_side_without_kernels(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("diff", "old.ptx", "missing.ptx", *TINY, "--json", "d.json") == 3
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == "ptxaudit: missing.ptx: no such file or directory\n"
    assert not Path("d.json").exists()


def sequence(text: str) -> tuple[Synchronisation, ...]:
    """Synchronisations by line, those in loops with a star: ``wait .acquire.cta* | CTA barrier``."""
    return tuple(
        Synchronisation(
            kind.strip(" *"),
            kind.strip(" *").partition(".")[0],
            "*" in kind,
            Location(LocationKind.PTX, "k", line=number),
        )
        for number, kind in enumerate(text.split("|"), 1)
        if kind.strip()
    )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("a | b", "a | b", []),
        ("a", "a | b* | b*", ["added b in a loop, 2 times: lines 2 and 3"]),
        ("a | b", "a", ["removed b: line 2"]),
        (
            "a | mbarrier wait .acquire.cta* | c",
            "a | mbarrier wait .acquire.cluster* | c",
            ["changed mbarrier wait .acquire.cta -> mbarrier wait .acquire.cluster in a loop: "
             "line 2 -> line 2"],
        ),
        ("a | fence.acq_rel.cta", "a | fence.acq_rel.gpu",
         ["changed fence.acq_rel.cta -> fence.acq_rel.gpu: line 2 -> line 2"]),
        ("a | b | c", "b | c | a", []),
        ("a | b* | c | b*", "a | b | c | b",
         ["moved b out of a loop, 2 times: lines 2 and 4 -> lines 2 and 4"]),
        ("a | CTA barrier", "a | wgmma.fence", ["added wgmma.fence: line 2", "removed CTA barrier: line 2"]),
    ],
)  # fmt: skip
def test_a_change_reads_like_a_changelog(old: str, new: str, told: list[str]) -> None:
    assert [said(change) for change in changes(sequence(old), sequence(new))] == told


def test_a_finding_that_is_gone_is_fixed_only_where_the_rule_is_clean(tmp_path: Path) -> None:
    old, quiet = report(KERNEL, tmp_path), report(KERNEL.replace("bar.sync 0;", ""), tmp_path)
    (one,) = quiet.functions

    def shown(verdict: Verdict) -> str:
        reasons = {"tiny-rule": "the table does not say"}
        function = replace(one, verdicts={"tiny-rule": verdict}, unknown_reasons=reasons)
        return render_text(compare(old, replace(quiet, functions=(function,))))

    assert "  fixed: warning[tiny-rule]" in shown(Verdict.CLEAN)
    assert "findings: 0 new, 2 fixed, 0 gone, 0 unchanged" in shown(Verdict.CLEAN)
    assert "findings: 0 new, 0 fixed, 2 gone, 0 unchanged" in shown(Verdict.UNKNOWN)
    unknown = shown(Verdict.UNKNOWN)
    assert "  gone: warning[tiny-rule]" in unknown
    assert "    the rule is unknown now\n    the table does not say\n" in unknown


def test_a_kernel_may_be_in_what_could_not_be_read(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    Path("one").mkdir()
    Path("two").mkdir()
    for folder in ("one", "two"):
        Path(folder, "kernel.ptx").write_text(KERNEL)
    Path("one/other.ptx").write_text(KERNEL.replace("entry kernel(", "entry something_else("))
    Path("two/other.ptx").write_text(".version 8.0 nonsense")
    assert run("diff", "one", "two", *TINY) == 3
    shown = capfd.readouterr().out
    assert "something_else [sm_90]\n  gone, or in an input of the new side that could not be read\n" in shown
    assert "incomplete: the new side: 1 input could not be read" in shown


def test_the_settings_hold_for_a_comparison(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("diff", "empty.ptx", "old.ptx", *TINY, "--fail-on", "warning")
    Path("empty.ptx").write_text(KERNEL.replace("bar.sync", "bar.warp.sync -1; //"))
    assert run(*arguments) == 1
    Path("ptxaudit.toml").write_text('fail-on = "warning"')
    assert run(*arguments[:-2]) == 1
    Path("ptxaudit.toml").write_text('[[suppress]]\nrule = "tiny-rule"\nreason = "known"')
    assert run(*arguments) == 0
    assert "suppressed: known" in capsys.readouterr().out
    Path("ptxaudit.toml").write_text('[severity]\ntiny-rule = "note"')
    assert run(*arguments) == 0


def test_a_page_tells_what_changed_where(tmp_path: Path) -> None:
    old = report(KERNEL, tmp_path)
    new = report(KERNEL.replace("    bar.sync 0;\n    st.global", LOOP), tmp_path)
    page = compare_html.render(compare(old, new), "old", "new")
    assert "added mbarrier wait .acquire.cta in a loop: line" in page
    none = report(KERNEL.replace("bar.sync 0;", ""), tmp_path)
    assert "<b>gone</b>" in compare_html.render(compare(old, none), "old", "new")


def many_live(limit: str) -> str:
    """A kernel whose 40 values live across a barrier, with a directive in front."""
    loads = "\n".join(f"    ld.global.u32 %r{n}, [%rd1+{4 * n}];" for n in range(40))
    stores = "\n".join(f"    st.global.u32 [%rd1+{4 * n}], %r{n};" for n in range(39, -1, -1))
    return f"""\
.version 8.0
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 out)
{limit}
{{
    .reg .b32 %r<40>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
{loads}
    bar.sync 0;
{stores}
    ret;
}}
"""


@needs_ptxas
def test_registers_and_spills_of_two_ptx_builds_are_compared(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("old.ptx").write_text(many_live(""))
    Path("new.ptx").write_text(many_live(".maxnreg 24"))
    assert run("diff", "old.ptx", "new.ptx", *TINY) == 0
    shown = capfd.readouterr().out
    assert re.search(r"registers per thread: \d+ -> 2\d\n", shown)
    assert re.search(r"local loads \(spills or arrays\): 0 -> \d+\n", shown)
    assert re.search(r"local stores \(spills or arrays\): 0 -> \d+\n", shown)
    assert run("diff", "old.ptx", "new.ptx", *TINY, "--no-assemble") == 0
    assert "registers per thread" not in capfd.readouterr().out


@needs_ptxas
def test_what_only_one_side_can_assemble_is_still_one_kernel(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("old.ptx").write_text(KERNEL)
    Path("new.ptx").write_text(KERNEL.replace(".version 8.0", ".version 99.0"))
    assert run("diff", "old.ptx", "new.ptx", *TINY) == 0
    assert "1 kernel in both, 0 of them changed" in capfd.readouterr().out


def budget(looped: dict[Part, float], once: dict[Part, float], measured: str | None = "sm_90") -> Budget:
    place = Location(LocationKind.SASS, "k", 1, 1, 0)
    loop = LoopCost(1, place, 1, True, 40, (3,), parts=looped)
    return Budget((), (loop,), 128, measured, once_parts=once)


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (
            budget({Part.WAIT: 20.0}, {Part.BARRIER: 40.0}),
            "    down: one iteration of each loop 1,260 -> 20 cycles (flush 1,240 -> 0), estimated for sm_90",
        ),
        (
            budget({Part.WAIT: 20.0, Part.FLUSH: 1240.0}, {Part.BARRIER: 140.0}),
            "    up: outside of loops 40 -> 140 cycles (barrier 40 -> 140), estimated for sm_90",
        ),
        (budget({Part.WAIT: 24.0, Part.FLUSH: 1240.0}, {Part.BARRIER: 45.0}), ""),
        (budget({}, {}, measured="sm_100a"), ""),
        (budget({}, {}, measured=None), ""),
    ],
)
def test_costs_that_went_up_or_down_are_told(tmp_path: Path, after: Budget, told: str) -> None:
    one = report(KERNEL, tmp_path)
    (function,) = one.functions
    before = budget({Part.WAIT: 20.0, Part.FLUSH: 1240.0}, {Part.BARRIER: 40.0})
    old, new = (replace(one, functions=(replace(function, budget=side),)) for side in (before, after))
    comparison = compare(old, new)
    shown = render_text(comparison)
    assert ("  cost of synchronisation:\n" + told + "\n" in shown) if told else "cost of synch" not in shown
    assert ("costs: " in shown) is bool(told)
    assert bool(json.loads(render_json(comparison))["kernels"][0]["costs"]) is bool(told)
    assert told.strip() in render_markdown(comparison)
    page = compare_html.render(comparison, "old", "new")
    assert ("What it costs" in page) is bool(told)
