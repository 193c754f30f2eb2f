"""One audit from two languages: PTX that is assembled, PTX beside a cubin, PTX in a cubin, CUDA C++."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
from audit_support import run_cli
from join_support import (
    NARROW,
    RIGHT,
    SOURCE,
    assembled,
    assembled_by,
    needs_ptxas,
    without_lines,
)

from ptxaudit.arch import Architecture
from ptxaudit.engine.audit import AuditOptions, AuditRun, audit
from ptxaudit.engine.merge import merged_verdict
from ptxaudit.engine.registry import load_registry
from ptxaudit.errors import ToolError
from ptxaudit.frontends import libraries
from ptxaudit.frontends.sass import assemble
from ptxaudit.intake.fatbins import WalkOptions
from ptxaudit.intake.sources import find_images
from ptxaudit.ir.function import Language
from ptxaudit.report import json_report, text
from ptxaudit.rules.model import Finding, FunctionReport, Verdict
from ptxaudit.source import LocationKind

pytestmark = needs_ptxas
REGISTRY = load_registry()
SCOPE, COST = "mbarrier-wait-scope-too-narrow", "l1-invalidate-in-poll-loop"


def run(*paths: Path, assemble: bool = True) -> AuditRun:
    images = find_images([str(path) for path in paths], WalkOptions())
    done = audit(images, AuditOptions(tuple(REGISTRY.values()), assemble=assemble))
    assert done.internal_errors == ()
    jsonschema.validate(json.loads(json_report.render(done.report)), json_report.load_schema())
    return done


def one_function(done: AuditRun) -> FunctionReport:
    (function,) = done.report.functions
    return function


def finding_of(done: AuditRun, rule: str) -> Finding:
    (finding,) = [one for one in done.report.findings if one.rule == rule]
    return finding


def kinds(finding: Finding) -> set[LocationKind]:
    return {place.location.kind for place in (finding.primary, *finding.primary.twins)}


@pytest.fixture
def narrow(tmp_path: Path) -> Path:
    path = tmp_path / "exchange.ptx"
    path.write_text(NARROW)
    return path


def test_ptx_is_audited_with_its_sass(narrow: Path) -> None:
    done = run(narrow)
    function = one_function(done)
    assert (function.evidence, function.input, function.arch) == ("both", str(narrow), "sm_90a")
    assert function.join is not None
    assert (function.join.method, function.join.confidence) == ("line table", "high")
    assert re.match(r"assembled by ptxas \d", function.join.origin)
    assert function.decided_by[SCOPE] == "ptx"
    finding = finding_of(done, SCOPE)
    assert kinds(finding) == set(LocationKind)
    assert finding.primary.location.kind is LocationKind.PTX
    line = NARROW.splitlines()[(finding.primary.location.line or 0) - 1]
    assert "mbarrier.try_wait" in line
    sass = [one for one in finding.primary.twins if one.location.kind is LocationKind.SASS]
    assert sass
    assert all("SYNCS.PHASECHK" in one.text for one in sass)
    (source,) = [one for one in finding.primary.twins if one.location.kind is LocationKind.SOURCE]
    assert (source.location.file, source.location.line) == ("exchange.cu", 39)
    assert source.note == "inlined there from exchange.cu:14"


def test_a_cost_is_one_finding_with_the_ptx_and_the_sass_of_it(tmp_path: Path) -> None:
    (tmp_path / "right.ptx").write_text(RIGHT)
    done = run(tmp_path / "right.ptx")
    assert SCOPE not in {one.rule for one in done.report.findings}
    finding = finding_of(done, COST)
    assert "mbarrier.try_wait.parity.acquire.cluster" in finding.primary.text
    twins = [one.text for one in finding.primary.twins]
    assert "CCTL.IVALL" in twins[0]
    assert one_function(done).decided_by[COST] == "both"
    assert finding.cost is not None


def test_a_json_report_lists_the_places_of_all_languages(narrow: Path) -> None:
    document = json.loads(json_report.render(run(narrow).report))
    (finding,) = [one for one in document["findings"] if one["rule"] == SCOPE]
    assert {place["kind"] for place in finding["locations"]} == {"ptx", "sass", "source"}
    assert [place["role"] for place in finding["locations"]].count("primary") == 1
    (function,) = document["functions"]
    assert function["evidence"] == "both"
    assert function["join"]["sass"] == f"{narrow}!sm_90a"


def test_without_assembling_the_ptx_is_audited_alone(narrow: Path) -> None:
    function = one_function(run(narrow, assemble=False))
    assert (function.evidence, function.join) == ("ptx", None)


def test_what_cannot_be_assembled_is_a_note(narrow: Path) -> None:
    narrow.write_text(NARROW.replace(".version 8.6", ".version 99.0"))
    done = run(narrow)
    (report,) = done.report.inputs
    assert report.error is None
    (note,) = report.notes
    assert re.search(r"only the PTX is audited: .*exchange\.ptx:9: ptxas .*Unsupported \.version 99\.0", note)
    assert one_function(done).evidence == "ptx"
    assert finding_of(done, SCOPE)
    assert "\n" not in note


def test_a_target_without_tables_is_a_note(narrow: Path) -> None:
    narrow.write_text(".version 8.0\n.target sm_75\n.address_size 64\n.entry k() { bar.sync 0; ret; }\n")
    (report,) = run(narrow).report.inputs
    assert report.notes == ("only the PTX is audited: SASS of sm_75 is not known",)


def test_that_there_is_no_assembler_is_said_once(narrow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Path:
        raise ToolError(f"found no {name}")

    monkeypatch.setattr(assemble, "find_tool", missing)
    monkeypatch.setattr(libraries, "is_bound", lambda library: False)
    other = narrow.with_name("other.ptx")
    other.write_text(RIGHT)
    done = run(narrow, other)
    (remark,) = done.remarks
    assert remark.startswith("PTX is audited without its SASS: found no assembler")
    assert {one.evidence for one in done.report.functions} == {"ptx"}


def test_a_cubin_beside_its_ptx_is_one_function(narrow: Path) -> None:
    cubin = narrow.with_suffix(".cubin")
    cubin.write_bytes(assembled(NARROW))
    done = run(narrow.parent, assemble=False)
    assert sorted(one.path for one in done.report.inputs) == sorted(map(str, (cubin, narrow)))
    function = one_function(done)
    assert (function.evidence, function.input) == ("both", str(narrow))
    assert function.join is not None and function.join.method == "line table"
    assert SCOPE in function.settled
    assert kinds(finding_of(done, SCOPE)) == set(LocationKind)
    shown = " ".join(text.render(done.report).split())
    assert re.search(rf"settled by the PTX: [a-z-, ]*{SCOPE}[a-z-, ]* \[exchange\]", shown)


@pytest.mark.parametrize(
    ("assemble", "method", "confidence"),
    [
        (False, "order of synchronisation", "low"),
        (True, "line table of the same code assembled anew", "high"),
    ],
)
def test_a_cubin_without_lines_is_joined_as_well_as_it_can_be(
    tmp_path: Path, assemble: bool, method: str, confidence: str
) -> None:
    bare = without_lines(NARROW)
    (tmp_path / "k.ptx").write_text(bare)
    (tmp_path / "k.sm90.cubin").write_bytes(assembled_by(tmp_path, bare))
    done = run(tmp_path / "k.ptx", tmp_path / "k.sm90.cubin", assemble=assemble)
    join = one_function(done).join
    assert join is not None
    assert (join.method, join.confidence) == (method, confidence)
    twins = finding_of(done, SCOPE).primary.twins
    sass = next(one for one in twins if one.location.kind is LocationKind.SASS)
    assert sass.location.file.endswith("k.sm90.cubin")
    assert ("confidence low" in (sass.note or "")) == (confidence == "low")


def test_lines_of_other_ptx_are_not_used(narrow: Path) -> None:
    narrow.with_suffix(".cubin").write_bytes(assembled("\n\n" + NARROW))
    join = one_function(run(narrow.parent, assemble=False)).join
    assert join is not None and join.method == "source lines"


def test_a_cubin_of_another_architecture_stays_alone(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(NARROW.replace("sm_90a", "sm_90"))
    other = without_lines(NARROW.replace("sm_90a", "sm_100a"))
    (tmp_path / "k.cubin").write_bytes(assembled(other, Architecture(100, "a")))
    done = run(tmp_path, assemble=False)
    assert {one.arch: one.join for one in done.report.functions}["sm_90"] is None


def test_a_cubin_asks_the_ptx_that_it_carries(tmp_path: Path) -> None:
    cubin = tmp_path / "exchange.cubin"
    cubin.write_bytes(assembled(NARROW))
    done = run(cubin)
    function = one_function(done)
    assert (function.evidence, function.input) == ("both", str(cubin))
    assert function.verdicts[SCOPE] is Verdict.FINDING
    assert SCOPE in function.settled
    finding = finding_of(done, SCOPE)
    assert finding.input == str(cubin)
    assert {place.location.file for place in finding.primary.twins} >= {str(cubin), "exchange.cu"}


def test_a_cubin_alone_shows_the_lines_of_its_source(tmp_path: Path) -> None:
    cubin = tmp_path / "exchange.cubin"
    content = assembled(RIGHT)
    cubin.write_bytes(content.replace(b".nv_debug_ptx_txt", b".nv_nothing_of_it"))
    done = run(cubin)
    assert one_function(done).evidence == "sass"
    finding = finding_of(done, COST)
    (source,) = finding.primary.twins
    assert (source.location.kind, source.location.file) == (LocationKind.SOURCE, "exchange.cu")
    assert source.location.line in (14, 39)


@pytest.mark.parametrize(
    ("ptx", "sass", "deciding", "expected", "by"),
    [
        ("clean", "unknown", ("ptx",), "clean", ("ptx",)),
        ("unknown", "clean", ("ptx",), "unknown", ()),
        ("unknown", "clean", ("ptx", "sass"), "clean", ("sass",)),
        ("unknown", "clean", ("sass",), "clean", ("sass",)),
        ("clean", "unknown", ("sass",), "unknown", ()),
        ("finding", "clean", ("sass",), "finding", ("ptx",)),
        ("clean", "finding", ("ptx",), "finding", ("sass",)),
        ("finding", "finding", ("ptx", "sass"), "finding", ("ptx", "sass")),
        ("clean", None, ("ptx", "sass"), "clean", ("ptx",)),
        ("not-applicable", "unknown", ("ptx",), "not-applicable", ("ptx",)),
        ("unknown", "not-applicable", ("ptx", "sass"), "unknown", ()),
        ("unknown", "not-applicable", ("sass",), "not-applicable", ("sass",)),
        ("unknown", "unknown", ("ptx", "sass"), "unknown", ()),
        ("unknown", None, ("ptx", "sass"), "unknown", ()),
        (None, "not-applicable", ("ptx",), "not-applicable", ("sass",)),
        (None, "clean", ("ptx",), "clean", ("sass",)),
    ],
)
def test_verdicts_are_merged(
    ptx: str | None, sass: str | None, deciding: tuple[str, ...], expected: str, by: tuple[str, ...]
) -> None:
    said = {
        language: None if one is None else Verdict(one)
        for language, one in ((Language.PTX, ptx), (Language.SASS, sass))
    }
    verdict, languages = merged_verdict(said, deciding)
    assert (verdict.value, tuple(one.value for one in languages)) == (expected, by)


def test_nothing_is_left_behind(narrow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    run(narrow)
    narrow.write_text(NARROW.replace("bar", "bra"))
    audit(find_images([str(narrow)], WalkOptions()), AuditOptions(tuple(REGISTRY.values()), assemble=True))
    assert list(scratch.iterdir()) == []


@pytest.fixture
def with_nvrtc() -> None:
    pytest.importorskip("cuda.bindings.nvrtc")


@pytest.mark.usefixtures("with_nvrtc")
def test_a_source_is_compiled_and_findings_are_on_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exchange.cu").write_text(SOURCE.read_text())
    arguments = ("--select", SCOPE, "--json", "out.json", "--arch", "sm_90a")
    assert run_cli(monkeypatch, "audit", "exchange.cu", *arguments) == 1
    (finding,) = json.loads(Path("out.json").read_text())["findings"]
    primary = finding["locations"][0]
    assert (primary["kind"], primary["file"], primary["line"]) == ("source", "exchange.cu", 39)
    assert primary["text"] == "wait(own, 0);"
    assert {place["kind"] for place in finding["locations"]} == {"ptx", "sass", "source"}
    assert run_cli(monkeypatch, "audit", "exchange.cu", *arguments, "-D", 'WAIT=".acquire.cluster"') == 0


@pytest.mark.usefixtures("with_nvrtc")
def test_a_source_with_an_error_is_an_input_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.cu").write_text("__global__ void k() {\n  nothing();\n}\n")
    assert run_cli(monkeypatch, "audit", "broken.cu") == 3
    out = capsys.readouterr()
    assert out.err == 'ptxaudit: broken.cu:2: error: identifier "nothing" is undefined\n'
    assert "1 error detected" in out.out


ROWS = """
.version 8.0
.target sm_90a
.address_size 64

.visible .entry rows(.param .u64 out, .param .u32 stride)
.reqntid 64
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [stride];
    mov.u32 %r2, %tid.x;
    mul.lo.u32 %r3, %r2, %r1;
    mul.wide.u32 %rd2, %r3, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r2;
    BETWEEN
    st.global.u32 [%rd1], %r1;
    ret;
}
"""


def test_a_cubin_that_is_not_of_the_ptx_settles_nothing(tmp_path: Path) -> None:
    other = ROWS.replace("mul.lo.u32 %r3, %r2, %r1;", "mov.u32 %r3, %r2;").replace("BETWEEN", "bar.sync 0;")
    (tmp_path / "rows.ptx").write_text(ROWS.replace("BETWEEN", ""))
    (tmp_path / "rows.cubin").write_bytes(assembled_by(tmp_path, other))
    (tmp_path / "in.ptx").unlink()
    (tmp_path / "out.cubin").unlink()
    function = one_function(run(tmp_path))
    assert function.evidence == "both"
    assert function.settled == ()
    assert function.verdicts["global-memory-race"] is Verdict.UNKNOWN
    assert any("different kinds of synchronisation" in one for one in function.assumptions)
