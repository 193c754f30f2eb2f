"""The order engine on SASS: encodings, and kernels that ptxas assembled from the PTX fixtures."""

import os
from pathlib import Path

import numpy as np
import pytest

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import Limits, OrderReport, explore
from ptxaudit.analysis.order.program import stored_elements
from ptxaudit.analysis.order.races import Link
from ptxaudit.analysis.order.trace import Step
from ptxaudit.arch import Architecture
from ptxaudit.frontends.sass import load_cubin
from ptxaudit.frontends.sass.lower import parse_instruction
from ptxaudit.ir import events as ev
from ptxaudit.ir.operands import Register
from ptxaudit.isa.sass import encodings
from ptxaudit.isa.sass.events import events

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "fixtures"
CORRECTNESS = FIXTURES / "correctness"
CORPUS = os.environ.get("PTXAUDIT_CORPUS")


def report_of(path: Path) -> OrderReport:
    module = load_cubin(path.read_bytes(), path.name)
    (entry,) = [function for function in module.functions if function.is_entry]
    return explore(FunctionAnalysis(entry, module), Limits())


def opcodes(report: OrderReport) -> set[tuple[str, str]]:
    return {
        (race.first.step.instruction.opcode.split(".")[0], race.second.step.instruction.opcode.split(".")[0])
        for race in report.races
    }


@pytest.mark.parametrize("count", [1, 2, 32, 160, (1 << 20) - 1])
def test_arrival_count_is_the_complement(count: int) -> None:
    assert encodings.arrival_count(((1 << 20) - count) << 1) == count


def test_numbers_that_are_not_known_stay_as_they_are() -> None:
    lanes = np.arange(32, dtype=np.uint64)
    masks = (encodings.copy_mask, encodings.commit_mask)
    for decode in (encodings.arrival_count, encodings.parity, *masks):
        assert decode(lanes) is lanes
    assert encodings.freed_columns(lanes) is None


def test_parity_is_the_uppermost_bit_of_a_word() -> None:
    assert [encodings.parity(word) for word in (0, 1 << 31, 0x7FFFFFFF, 0xFFFFFFFF)] == [0, 1, 0, 1]


def test_mask_of_a_copy_stands_above_its_size() -> None:
    assert encodings.copy_mask(0x30020) == 3
    assert encodings.commit_mask(0x50003) == 3


@pytest.mark.parametrize(
    ("mask", "columns"), [(~0xFF, (0, 256)), (~(0x3 << 4), (128, 64)), (0xFFFF, None), (~1, (0, 32))]
)
def test_freed_columns(mask: int, columns: tuple[int, int] | None) -> None:
    assert encodings.freed_columns(mask & 0xFFFFFFFF) == columns


@pytest.mark.parametrize(
    ("spelling", "once"),
    [
        ("UTMALDG.2D", True),
        ("UTCBAR.2CTA.MULTICAST", True),
        ("SYNCS.ARRIVE.TRANS64.A1T0", False),
        ("STS", False),
    ],
)
def test_what_a_warp_issues_once(spelling: str, once: bool) -> None:
    assert encodings.is_issued_once(spelling) is once


def stored(text: str) -> ev.Access:
    (access,) = events(parse_instruction(text), Architecture(90))
    assert isinstance(access, ev.Access)
    return access


def test_a_wide_store_is_its_registers() -> None:
    assert stored_elements(stored("STS.64 [UR7+0x8], R2")) == (Register("R2"), Register("R3"))
    assert stored_elements(stored("STS [UR7+0x8], R2")) == (Register("R2"),)
    assert stored_elements(stored("STS.64 [UR7+0x8], RZ")) == (Register("RZ"), Register("RZ"))


def test_scoreboards_are_read_from_the_encoding() -> None:
    path = FIXTURES / "cubin" / "tensor.sm_100a.cubin"
    module = load_cubin(path.read_bytes(), path.name)
    (entry,) = [function for function in module.functions if function.is_entry]
    boards = entry.scoreboards
    assert len(boards) == len(entry.instructions)
    loads = [i.index for i in entry.instructions if i.opcode.startswith("LDTM")]
    assert loads
    for load in loads:
        board = boards[load].written
        assert board is not None
        assert any(later.waits >> board & 1 for later in boards[load + 1 :])


@pytest.mark.parametrize("name", ["ampere.sm_80", "tensor.sm_100a", "mailbox.sm_90a"])
def test_fixture_kernels_run_to_their_ends(name: str) -> None:
    report = report_of(FIXTURES / "cubin" / f"{name}.cubin")
    assert report.reason is None
    assert report.executions
    assert all(execution.complete for execution in report.executions)
    assert not [race for race in report.races if not race.doubtful]


def test_a_stage_released_early_is_in_flight() -> None:
    path = CORRECTNESS / "wgmma-stage-released-early" / "current_depth1_s2.sm_90a.cubin"
    report = report_of(path)
    assert report.complete
    assert ("HGMMA", "UBLKCP") in opcodes(report)
    assert {race.link for race in report.races} == {Link.IN_FLIGHT}


def test_a_lagged_release_is_in_order() -> None:
    report = report_of(CORRECTNESS / "wgmma-stage-released-early" / "previous_depth1_s2.sm_90a.cubin")
    assert report.complete
    assert not report.races
    assert not report.aliases


def test_a_descriptor_in_two_registers_gives_the_whole_operand() -> None:
    report = report_of(CORRECTNESS / "wgmma-stage-released-early" / "previous_depth1_s2.sm_90a.cubin")
    sizes = {
        entry.footprint.size
        for entry in report.executions[0].entries
        if isinstance(entry, Step)
        and entry.footprint is not None
        and isinstance(entry.event, ev.Access)
        and entry.event.addressing is ev.Addressing.MATRIX_DESCRIPTOR
    }
    assert sizes
    assert min(sizes) > 16


def test_two_warpgroups_without_a_join() -> None:
    folder = CORRECTNESS / "wgmma-cross-warpgroup-reuse"
    assert ("HGMMA", "LDGSTS") in opcodes(report_of(folder / "cp_async_no_join.sm_90a.cubin"))
    assert not report_of(folder / "cp_async_joined.sm_90a.cubin").races


def test_a_phase_that_nobody_observed() -> None:
    folder = CORRECTNESS / "mbarrier-phase-alias"
    assert report_of(folder / "row_two_phases.sm_90a.cubin").aliases
    assert not report_of(folder / "row_two_phases_own_wait.sm_90a.cubin").aliases


@pytest.mark.skipif(CORPUS is None, reason="needs PTXAUDIT_CORPUS")
@pytest.mark.parametrize(
    ("name", "aliased"),
    [
        ("splitk_64_8_1_10_0_1.flashinfer0.7.2.sm_100a", True),
        ("splitk_64_8_1_10_0_1.flashinfer0.7.4.sm_100a", False),
    ],
)
def test_split_k(name: str, aliased: bool) -> None:
    assert CORPUS is not None
    report = report_of(Path(CORPUS) / f"{name}.cubin")
    assert report.reason is None
    assert bool(report.aliases) is aliased
    assert not report.races
