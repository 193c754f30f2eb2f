"""The code of functions for a page: lines, pairs, loops, roles and costs, as one record of each function."""

import pickle
from functools import cache
from pathlib import Path

import pytest
from join_support import SOURCE, needs_ptxas

from ptxaudit.engine import audit as engine
from ptxaudit.engine.audit import AuditOptions, AuditRun, audit
from ptxaudit.engine.registry import load_registry, select_rules
from ptxaudit.intake.fatbins import WalkOptions
from ptxaudit.intake.sources import find_images
from ptxaudit.rules.code import CodeText, FunctionCode

RING = Path(__file__).parent.parent / "fixtures" / "kernels" / "gemm_ring"
PTX, CUBIN = RING / "gemm_ring.ptx", RING / "gemm_ring.cubin"
NARROW = SOURCE.with_name("exchange_narrow.ptx")
EARLY = "wgmma-stage-released-early"


def run(*paths: Path, rule: str = EARLY, assemble: bool = False) -> AuditRun:
    rules = select_rules(load_registry(), [rule], [])
    images = find_images([str(path) for path in paths], WalkOptions())
    done = audit(images, AuditOptions(rules, jobs=1, assemble=assemble, pack=pickle.dumps))
    assert done.internal_errors == ()
    return done


@cache
def ring() -> FunctionCode:
    """The ring GEMM in both languages."""
    (packed,) = run(PTX, CUBIN).report.code.values()
    code = pickle.loads(packed)
    assert isinstance(code, FunctionCode)
    return code


def instructions(text: CodeText) -> list[str]:
    return [text.lines[line].strip() for line in text.line_of]


def block_with(text: CodeText, word: str) -> int:
    index = next(index for index, line in enumerate(instructions(text)) if word in line)
    return next(number for number, block in enumerate(text.blocks) if block.start <= index < block.end)


def test_the_lines_are_those_of_the_function() -> None:
    ptx, sass = ring().texts
    listing = PTX.read_text().split("\n")
    assert ptx.lines == tuple(listing[ptx.first - 1 : ptx.first - 1 + len(ptx.lines)])
    assert ".entry gemm_ring(" in ptx.lines[0]
    assert ptx.lines[-1] == "}"
    assert instructions(ptx)[-1] == "ret;"
    assert (sass.listing, sass.offsets[:3]) == (str(CUBIN), (0, 0x10, 0x20))
    assert sass.lines[0].startswith("LDC R1")


def test_the_instruction_that_does_the_work_is_the_telling_one() -> None:
    code = ring()
    ptx, sass = code.texts
    assert code.pairs is not None
    issues = [index for index, line in enumerate(instructions(ptx)) if line.startswith("wgmma.mma_async")]
    assert issues
    for issue in issues:
        theirs = {index for index, own in code.pairs.ptx_of.items() if own == issue} & code.pairs.telling
        assert {instructions(sass)[index].split(".")[0] for index in theirs} == {"HGMMA"}


@pytest.mark.parametrize("language", [0, 1])
def test_hot_loops_and_polling_loops_are_told_apart(language: int) -> None:
    text = ring().texts[language]
    polling = {block for loop in text.loops if loop.polls for block in loop.blocks}
    works = block_with(text, ("wgmma.mma_async", "HGMMA")[language])
    # The assembler peels first attempts off their loops, so that not every wait is in one.
    attempts = [
        line
        for block in polling
        for line in instructions(text)[text.blocks[block].start : text.blocks[block].end]
    ]
    assert any(("mbarrier.try_wait", "TRYWAIT")[language] in line for line in attempts)
    assert any(loop.hot and works in loop.blocks for loop in text.loops)
    assert works not in polling


def test_roles_cover_what_their_warps_must_execute() -> None:
    code = ring()
    assert len(code.roles) > 1
    for text in code.texts:
        works = block_with(text, ("wgmma.mma_async", "HGMMA")[text.language == "sass"])
        executing = [role for role in code.roles if works in role.blocks[text.language]]
        assert executing
        assert len(executing) < len(code.roles)
        assert all(0 in role.blocks[text.language] for role in code.roles), "all enter the function"
    assert any(activity == "wgmma issue" for role in code.roles for activity, _ in role.activities)


def test_a_function_that_no_rule_executes_has_no_roles() -> None:
    (packed,) = run(PTX, rule="gpu-membar-in-hot-loop").report.code.values()
    assert pickle.loads(packed).roles == ()


def test_synchronisation_and_its_measured_cost_are_known() -> None:
    text = ring().texts[1]
    assert any(kinds == ("mbarrier wait",) for kinds in text.synchronisation.values())
    assert text.budget is not None
    waits = [one for one in text.budget.places if one.operation == "wgmma.wait.1"]
    assert [instructions(text)[one.index].split()[0] for one in waits] == ["WARPGROUP.DEPBAR.LE"]


def test_a_function_says_what_its_measured_synchronisation_costs() -> None:
    report = run(PTX, CUBIN).report
    (code,) = (pickle.loads(packed) for packed in report.code.values())
    (function,) = report.functions
    assert function.budget is not None
    own = code.texts[-1].budget
    assert own is not None
    assert function.budget == own.as_reported(), "that of the SASS"
    assert any(place.roles for place in function.budget.places), "as the PTX was executed"


@needs_ptxas
def test_lines_of_the_source_come_with_their_text(tmp_path: Path) -> None:
    code = pickle.loads(next(iter(run(NARROW, assemble=True).report.code.values())))
    ptx, sass = code.texts
    assert ptx.sources
    named = {code.sources[place].file for place in (*ptx.sources.values(), *sass.sources.values())}
    assert set(code.source_texts) <= named


def test_code_with_findings_is_kept_when_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_CODE_WITHOUT_FINDINGS", 0)
    report = run(PTX, RING / "gemm_ring_early_release.ptx").report
    assert {input_name for input_name, _ in report.code} == {finding.input for finding in report.findings}
    assert report.findings


def test_a_fault_of_the_packing_is_said_and_the_audit_goes_on() -> None:
    def broken(code: FunctionCode) -> bytes:
        raise ValueError("no room")

    images = find_images([str(PTX)], WalkOptions())
    rules = select_rules(load_registry(), [EARLY], [])
    done = audit(images, AuditOptions(rules, jobs=1, pack=broken))
    assert "its costs and code: internal error: ValueError: no room" in done.internal_errors[0].message
    assert len(done.report.functions) == 1
