"""What the opcode scan leaves unread has nothing for the rules: reports are the same without it."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from damaged_cubins import with_second_code
from tools_support import ptxas

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.engine.audit import AuditOptions, AuditRun, audit
from ptxaudit.engine.image import KernelImage, image_of
from ptxaudit.engine.registry import Rule, load_registry, needs_of, select_rules
from ptxaudit.engine.screening import sought_roots
from ptxaudit.frontends.sass import disassemble, load_cubin, size
from ptxaudit.frontends.sass.elf import read_cubin, read_header
from ptxaudit.frontends.sass.screen import Screen
from ptxaudit.frontends.sass.sections import is_plain
from ptxaudit.isa.sass.traits import roots_with
from ptxaudit.rules.model import AuditReport, Outcome, Verdict

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
CUBINS = sorted(path for path in FIXTURES.rglob("*.cubin") if "hostile" not in path.parts)
REGISTRY = load_registry()
POLL = "l1-invalidate-in-poll-loop"
KERNELS = ".version 8.0\n.target sm_90a\n.address_size 64\n" + "".join(
    f"""
.visible .entry kernel_{number}(.param .u64 flag)
{{
  .reg .pred %p1;
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [flag];
$poll:
  {poll};
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra $poll;
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd2, %r2, {number + 4};
  add.s64 %rd2, %rd2, %rd1;
  st.global.u32 [%rd2], %r2;
  ret;
}}
"""
    for number, poll in enumerate(
        ["ld.relaxed.gpu.global.u32 %r1, [%rd1]", "ld.acquire.gpu.global.u32 %r1, [%rd1]"] * 3
    )
)


@pytest.fixture
def library(tmp_path: Path) -> KernelImage:
    """A cubin of six kernels, half of which have what the rule on polling loops is about."""
    tool = ptxas()
    if tool is None:
        pytest.skip("needs ptxas")
    (tmp_path / "k.ptx").write_text(KERNELS)
    command = [str(tool), "-arch=sm_90a", "-o", "k.cubin", "k.ptx"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return image_of("k.cubin", (tmp_path / "k.cubin").read_bytes())


def audited(images: tuple[KernelImage, ...], scan: bool, *rules: str) -> AuditRun:
    return audit(images, AuditOptions(select_rules(REGISTRY, rules), jobs=1, scan=scan))


def without_text(report: AuditReport) -> AuditReport:
    return replace(report, listings={})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many functions each run of the disassembler is asked for; 0 for all."""
    runs: list[int] = []
    start = disassemble.start_nvdisasm

    def counted(data: bytes, file: str, symbols: Iterator[int] | None = None) -> object:
        chosen = None if symbols is None else list(symbols)
        runs.append(0 if chosen is None else len(chosen))
        return start(data, file, chosen)

    monkeypatch.setattr(disassemble, "start_nvdisasm", counted)
    monkeypatch.setattr("ptxaudit.frontends.sass.start_nvdisasm", counted)
    return runs


def ruled_out(rule: Rule, data: bytes, name: str) -> frozenset[str]:
    """The sections that the scan leaves out for one rule."""
    cubin = read_cubin(data, name, read_header(data, name))
    needs = needs_of(rule)
    assert needs is not None and Screen.is_trusted(cubin)
    screen = Screen(cubin, roots_with(needs))
    return frozenset(section for section in cubin.code if not screen.takes(section))


@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.name)
def test_what_the_scan_leaves_out_is_not_applicable(path: Path) -> None:
    data = path.read_bytes()
    module = load_cubin(data, path.name)
    for rule in REGISTRY.values():
        out = ruled_out(rule, data, path.name)
        for function in module.functions:
            if f".text.{function.name}" in out:
                outcome = rule.check(FunctionAnalysis(function, module))
                assert outcome == Outcome(Verdict.NOT_APPLICABLE), (rule.id, function.name)


def test_some_rule_is_ruled_out_somewhere() -> None:
    for rule_id in (POLL, "wgmma-fence-missing", "tmem-dealloc-before-join", "pdl-wait-missing"):
        assert any(ruled_out(REGISTRY[rule_id], path.read_bytes(), path.name) for path in CUBINS)


@pytest.mark.parametrize("rule", [POLL, "gpu-membar-in-hot-loop", "tmem-dealloc-before-join"])
def test_reports_are_equal_with_and_without_the_scan(rule: str) -> None:
    images = tuple(image_of(path.name, path.read_bytes()) for path in CUBINS[::4])
    scanned, whole = audited(images, True, rule), audited(images, False, rule)
    assert without_text(scanned.report) == without_text(whole.report)
    assert scanned.internal_errors == whole.internal_errors == ()


def test_only_functions_with_hits_are_disassembled(library: KernelImage, asked: list[int]) -> None:
    scanned = audited((library,), True, POLL).report
    assert asked == [3]
    assert [one.name for one in scanned.functions] == [f"kernel_{number}" for number in reversed(range(6))]
    expected = [Verdict.FINDING, Verdict.NOT_APPLICABLE] * 3
    assert [one.verdicts[POLL] for one in scanned.functions] == expected
    whole = audited((library,), False, POLL).report
    assert asked == [3, 0]
    # Also the lines of the listing, in which each function keeps its place.
    assert without_text(scanned) == without_text(whole)
    line = scanned.findings[-1].primary.location.line
    texts = [report.listings["k.cubin"].split("\n")[(line or 0) - 1] for report in (scanned, whole)]
    assert texts[0] == texts[1] != ""


def test_a_cubin_without_hits_needs_no_disassembler(library: KernelImage, asked: list[int]) -> None:
    report = audited((library,), True, "wgmma-fence-missing").report
    assert asked == []
    assert without_text(report) == without_text(audited((library,), False, "wgmma-fence-missing").report)


def test_parts_have_only_what_has_hits(
    library: KernelImage, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = audited((library,), False, POLL).report
    monkeypatch.setattr(size, "LARGEST_WHOLE", 0)
    monkeypatch.setattr(size, "LARGEST_PART", 1)
    asked.clear()
    assert without_text(audited((library,), True, POLL).report) == without_text(whole)
    assert asked == [1, 1, 1]


def test_an_architecture_that_was_not_checked_is_read_whole(
    library: KernelImage, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptxaudit.frontends.sass.screen.SCANNED_ARCHITECTURES", frozenset({80}))
    audited((library,), True, POLL)
    assert asked == [0]


@pytest.mark.parametrize("in_parts", [False, True])
def test_code_of_two_sections_of_one_name_is_not_ruled_out(
    in_parts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = (FIXTURES / "performance" / POLL).glob("flag_acquire_gpu.sm_90a.cubin")
    images = (image_of("odd.cubin", with_second_code(path.read_bytes())),)
    whole = audited(images, False, POLL).report
    assert [one.rule for one in whole.findings] == [POLL]
    if in_parts:
        monkeypatch.setattr(size, "LARGEST_WHOLE", 0)
        assert size.is_read_in_parts(images[0].content)
    assert audited(images, True, POLL).report == whole


def test_all_shipped_cubins_are_plain() -> None:
    for path in CUBINS:
        assert is_plain(path.read_bytes(), path.name), path


def test_nothing_is_sought_where_every_function_is_of_interest() -> None:
    def sought(*rules: str, **options: object) -> frozenset[str] | None:
        return sought_roots(AuditOptions(select_rules(REGISTRY, rules), **options))  # type: ignore[arg-type]

    assert sought(POLL) == {"CCTL"}
    assert sought(POLL, "shared-memory-race") is None
    assert sought() is None
    assert sought(POLL, scan=False) is None
    assert sought(POLL, count=True) is None
    assert sought(POLL, pack=lambda code: b"") is None
