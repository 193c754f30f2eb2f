"""What is said of kernels with instructions that no table has."""

from audit_support import audit_text

from ptxaudit.engine.registry import load_registry
from ptxaudit.rules.model import Verdict

RULES = tuple(rule for rule in load_registry().values() if "ptx" in rule.pattern.inputs)
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


CALLER = """
.version 8.8
.target sm_90a
.address_size 64
.extern .func outside(.reg .b32 %a);
.extern .func __assertfail(.reg .b32 %a);
.func joining(.reg .b32 %a)
{{
    bar.sync 0;
    ret;
}}
.func adding(.reg .b32 %a)
{{
    .reg .b32 %r<4>;
    add.u32 %r1, %a, %a;
    ret;
}}
.func through(.reg .b32 %a)
{{
    call joining, (%a);
    ret;
}}
.visible .entry kernel()
{{
    .reg .b32 %r<4>;
    call {callee}, (%r0);
    ret;
}}
"""


def verdicts_of_caller(callee: str) -> dict[str, Verdict]:
    run = audit_text(CALLER.format(callee=callee), RULES)
    (report,) = (one for one in run.report.functions if one.name == "kernel")
    return dict(report.verdicts)


def test_what_a_kernel_calls_may_be_what_a_rule_is_about() -> None:
    for callee in ("joining", "through"):
        found = verdicts_of_caller(callee)
        assert found["divergent-barrier"] is Verdict.UNKNOWN, callee
        assert found["tmem-dealloc-before-join"] is Verdict.NOT_APPLICABLE, callee


def test_of_a_function_elsewhere_nothing_is_known() -> None:
    assert set(verdicts_of_caller("outside").values()) == {Verdict.UNKNOWN}


def test_harmless_calls_rule_out_what_they_are_not() -> None:
    for callee in ("adding", "__assertfail"):
        assert set(verdicts_of_caller(callee).values()) == {Verdict.NOT_APPLICABLE}, callee


def test_nothing_is_clean_beside_an_instruction_that_may_do_anything() -> None:
    barrier = "bar.sync 0; frobnicate.u32 %r1, %r2; bar.sync 0;"
    assert verdicts(barrier) == {Verdict.UNKNOWN}


def test_a_rule_about_sass_is_not_applicable_to_ptx_whatever_is_in_it() -> None:
    rule = load_registry()["wgmma-serialized"]
    (report,) = audit_text(KERNEL.format(instruction="frobnicate.u32 %r1, %r2;"), (rule,)).report.functions
    assert report.verdicts == {rule.id: Verdict.NOT_APPLICABLE}
