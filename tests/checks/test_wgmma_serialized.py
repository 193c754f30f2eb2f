"""Verdict, severity and wording of the check on serialised wgmma, on assembled fixtures."""

from pathlib import Path

import pytest

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.engine.inputs import load_module
from ptxaudit.engine.registry import ShippedCheck
from ptxaudit.rules.model import Outcome, Severity, Verdict

FIXTURES = Path(__file__).parent.parent.parent / "fixtures" / "performance" / "wgmma-serialized"


def outcome_of(name: str) -> Outcome:
    path = FIXTURES / name
    module = load_module(name, path.read_bytes())
    return ShippedCheck("wgmma-serialized")(FunctionAnalysis(module.functions[0], module))


@pytest.mark.parametrize("name", ["too_few_registers", "call_between", "recursive_call_between"])
def test_what_forces_ptxas_makes_it_a_warning(name: str) -> None:
    (violation,) = outcome_of(f"{name}.sm_90a.cubin").violations
    assert violation.severity is Severity.WARNING
    assert violation.details["by"] == "by ptxas"


@pytest.mark.parametrize("name", ["accumulator_read_between", "fragment_changed_between", "waits_in_source"])
def test_what_the_source_may_have_done_is_a_note(name: str) -> None:
    (violation,) = outcome_of(f"{name}.sm_90a.cubin").violations
    assert violation.severity is Severity.NOTE
    assert violation.details == {
        "wgmma": "HGMMA.64x64x16.F32",
        "count": "3",
        "by": "by ptxas, or by waits in the source",
    }
    assert violation.cost is not None
    assert violation.cost.cycles is None
    assert violation.cost.frequency == "every wgmma, in a loop"


def test_a_wait_for_a_product_that_is_used_is_no_loss() -> None:
    assert outcome_of("promoted_each_trip.sm_90a.cubin").verdict is Verdict.CLEAN


def test_ptx_does_not_tell() -> None:
    assert outcome_of("waits_in_source.ptx").verdict is Verdict.NOT_APPLICABLE
