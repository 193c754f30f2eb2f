"""What is said of kernels with instructions that no table has."""

from audit_support import audit_text

from ptxaudit.engine.registry import load_registry
from ptxaudit.rules.model import Verdict

RULES = tuple(load_registry().values())
KERNEL = """
.version 8.8
.target sm_90a
.address_size 64
.visible .entry kernel()
{{
    .reg .b32 %r<4>;
    {instruction}
    ret;
}}
"""


def verdicts(instruction: str) -> set[Verdict]:
    run = audit_text(KERNEL.format(instruction=instruction), RULES)
    (report,) = run.report.functions
    return set(report.verdicts.values())


def test_an_instruction_of_which_nothing_is_known_leaves_every_rule_open() -> None:
    run = audit_text(KERNEL.format(instruction="frobnicate.u32 %r1, %r2;"), RULES)
    (report,) = run.report.functions
    assert set(report.verdicts.values()) == {Verdict.UNKNOWN}
    assert "frobnicate.u32 is in no instruction table" in report.unknown_reasons["cp-async-not-drained"]


def test_known_instructions_rule_out_what_they_are_not() -> None:
    assert verdicts("add.u32 %r1, %r2, %r3;") == {Verdict.NOT_APPLICABLE}


def test_an_unknown_modifier_leaves_open_only_what_the_instruction_is_about() -> None:
    assert verdicts("ld.shared.frobnicated.u32 %r1, [%r2];") == {Verdict.NOT_APPLICABLE, Verdict.UNKNOWN}
