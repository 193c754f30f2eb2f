"""Severity and confidence of races on global memory, and what is left undecided."""

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.checks import global_memory_race
from ptxaudit.engine.inputs import load_module
from ptxaudit.ir.launch import Launch
from ptxaudit.rules.model import Outcome, Severity, Verdict

REQUIRED = ".reqntid 128, 1, 1"


def outcome_of(body: str, directives: str = REQUIRED, launch: Launch | None = None) -> Outcome:
    """The outcome for a kernel whose %rd1 is a pointer and whose %r1 is the thread index."""
    text = f"""
.version 8.8
.target sm_90a
.address_size 64
.visible .entry k (.param .u64 table, .param .u32 count)
{directives}
{{
    .reg .pred %p<4>;
    .reg .b32 %r<10>;
    .reg .b64 %rd<10>;
    mov.u32 %r1, %tid.x;
    ld.param.u64 %rd1, [table];
    cvta.to.global.u64 %rd1, %rd1;
    ld.param.u32 %r9, [count];
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd2, %rd1, %rd2;
    xor.b32 %r2, %r1, 64;
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd3, %rd1, %rd3;
{body}
    ret;
}}
"""
    module = load_module("k.ptx", text.encode())
    return global_memory_race.check(FunctionAnalysis(module.functions[0], module, launch))


EXCHANGE = "    st.global.u32 [%rd2], %r1;\n    ld.global.u32 %r3, [%rd3];\n"


def severities(outcome: Outcome) -> list[Severity | None]:
    return [violation.severity for violation in outcome.violations]


def test_what_rests_on_nothing_has_the_severity_of_the_pattern() -> None:
    outcome = outcome_of(EXCHANGE)
    assert severities(outcome) == [None]
    assert outcome.violations[0].assumptions == ()


def test_an_assumed_block_makes_it_a_warning() -> None:
    assert severities(outcome_of(EXCHANGE, ".maxntid 128, 1, 1")) == [Severity.WARNING]


def test_a_block_that_nothing_states_may_be_a_single_warp() -> None:
    assert severities(outcome_of(EXCHANGE, "")) == [Severity.NOTE]
    with_barrier = outcome_of(f"    bar.sync 0;\n{EXCHANGE}", "")
    assert severities(with_barrier) == [Severity.WARNING]
    assert severities(outcome_of(EXCHANGE, "", Launch(block=(128, 1, 1)))) == [None]


def test_a_condition_that_had_to_be_decided_makes_it_a_warning() -> None:
    body = f"    setp.gt.u32 %p1, %r9, 7;\n    @%p1 bra SKIP;\n{EXCHANGE}SKIP:\n"
    assert severities(outcome_of(body)) == [Severity.WARNING]


def test_threads_that_an_unknown_bound_sends_home_are_taken_to_stay() -> None:
    outcome = outcome_of(f"    setp.ge.u32 %p1, %r1, %r9;\n    @%p1 exit;\n{EXCHANGE}")
    assert severities(outcome) == [Severity.WARNING]


def test_one_strong_side_is_a_race_and_a_warning() -> None:
    body = EXCHANGE.replace("ld.global", "ld.relaxed.gpu.global")
    assert severities(outcome_of(body)) == [Severity.WARNING]


def test_stores_of_numbers_that_are_not_known_may_agree() -> None:
    body = "    st.global.u32 [%rd2], %r9;\n    st.global.u32 [%rd3], %r2;\n"
    assert severities(outcome_of(body)) == [Severity.NOTE]


def test_a_register_that_is_moved_once_is_a_number() -> None:
    body = """
    mov.u32 %r4, 1;
    mov.u32 %r5, 1;
    st.global.u32 [%rd2], %r4;
    st.global.u32 [%rd3], %r5;
"""
    assert outcome_of(body).verdict is Verdict.CLEAN
    assert severities(outcome_of(body.replace("%r5, 1", "%r5, 2"))) == [None]


def test_other_buffers_of_one_pointer_are_left_alone() -> None:
    body = """
    mul.wide.u32 %rd4, %r9, 4;
    add.s64 %rd4, %rd3, %rd4;
    st.global.u32 [%rd2], %r1;
    ld.global.u32 %r3, [%rd4];
"""
    assert outcome_of(body).verdict is Verdict.CLEAN


def test_scattered_reads_matter_where_their_pointer_is_written() -> None:
    scattered = """
    ld.global.u32 %r4, [%rd2];
    mul.wide.u32 %rd4, %r4, 4;
    ld.param.u64 %rd5, [table];
    add.s64 %rd4, %rd5, %rd4;
    ld.global.u32 %r3, [%rd4];
"""
    written = outcome_of(f"{scattered}    st.global.u32 [%rd2], %r3;\n")
    assert written.verdict is Verdict.UNKNOWN
    assert written.reason is not None
    assert "which bytes a thread accesses" in written.reason
    assert outcome_of(scattered).verdict is Verdict.NOT_APPLICABLE


def test_generic_addresses_may_be_local_where_there_is_local_memory() -> None:
    body = EXCHANGE.replace(".global", "")
    assert severities(outcome_of(body)) == [None]
    assert outcome_of(f"    .local .b32 own[4];\n{body}").verdict is Verdict.UNKNOWN


def test_races_between_the_same_blocks_are_one_finding() -> None:
    body = """
    st.global.u32 [%rd2], %r1;
    st.global.u32 [%rd2+1024], %r1;
    ld.global.u32 %r3, [%rd3];
    ld.global.u32 %r4, [%rd3+1024];
"""
    (violation,) = outcome_of(body).violations
    assert [related.note for related in violation.related][-1].startswith("likewise, with st.global.u32")
