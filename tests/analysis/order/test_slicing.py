"""What is in the synchronisation slice, which registers live in it, and which guards are settled early."""

import pytest
from test_order_kernels import analysis, links

from ptxaudit.analysis.order.explore import Limits, explore
from ptxaudit.analysis.order.program import Operation, compile_program
from ptxaudit.analysis.order.races import Link


def operations(body: str) -> dict[str, Operation]:
    """The operations of the slice that come from the body, by their text."""
    program = compile_program(analysis(body))
    return {
        operation.instruction.text: operation for block in program.blocks for operation in block.operations
    }


def defines(body: str, text: str) -> bool:
    """Whether an instruction is worked out, and not only executed for its events."""
    found = operations(body).get(text)
    return found is not None and (found.evaluation is not None or found.value_needed)


def test_a_definition_lives_until_the_next_one() -> None:
    body = "mov.u32 %r3, 4;\nst.shared.u32 [data+%r3], 1;\nmov.u32 %r3, 8;\nmov.u32 %r4, %r3;"
    assert defines(body, "mov.u32 %r3, 4")
    assert "mov.u32 %r3, 8" not in operations(body)


def test_a_guarded_definition_leaves_the_one_before_alive() -> None:
    body = "mov.u32 %r3, 4;\n{guard}mov.u32 %r3, 8;\nst.shared.u32 [data+%r3], 1;"
    assert defines(body.format(guard="@%p0 "), "mov.u32 %r3, 4")
    assert not defines(body.format(guard=""), "mov.u32 %r3, 4")


def test_a_definition_lives_round_a_loop() -> None:
    body = """
    mov.u32 %r3, 0;
ROUND:
    st.shared.u32 [data+%r3], 1;
    bar.sync 0;
    add.u32 %r3, %r3, 4;
    setp.lt.u32 %p2, %r3, 12;
    @%p2 bra ROUND;
    """
    assert defines(body, "add.u32 %r3, %r3, 4")


@pytest.mark.parametrize(("address", "followed"), [("%r4", False), ("%r3", True)])
def test_a_load_is_followed_for_a_value_that_lives(address: str, followed: bool) -> None:
    """In SASS above all, one register is an address here and data there."""
    body = f"mov.u32 %r4, 0;\nld.shared.u32 %r3, [data];\nst.shared.u32 [data+{address}], 1;\nmov.u32 %r3, 8;"
    stores = f"mov.u32 %r5, 4;\nst.shared.u32 [data], %r5;\nbar.sync 0;\n{body}"
    assert defines(body, "ld.shared.u32 %r3, [data]") is followed
    assert defines(stores, "mov.u32 %r5, 4") is followed


@pytest.mark.parametrize(
    "body",
    ["ret;\nst.shared.u32 [data], 1;", "bra END;\nDEAD:\nbar.sync 0;\nEND:"],
    ids=["behind ret", "block"],
)
def test_code_that_nothing_leads_to_is_in_no_execution(body: str) -> None:
    report = explore(analysis(body), Limits())
    assert report.reason is None
    assert not any(execution.stuck for execution in report.executions)


# Whether a warp stores depends on a parameter; where, on the same condition.
PREPARED = """
    ld.param.u32 %r5, [count];
    setp.gt.u32 %p2, %r5, 7;
    mov.u32 %r3, 0;
    @%p2 mov.u32 %r3, 64;
    {between}
    add.u32 %r4, %r3, 32;
    @%p2 st.shared.u32 [data+%r4], 1;
    @!%p2 bra END;
    @%p1 st.shared.u32 [data+96], 2;
END:
"""


def test_a_guard_is_settled_before_anything_rests_on_it() -> None:
    report = explore(analysis(PREPARED.format(between="")), Limits())
    assert links(report) == {Link.NONE}
    assert report.complete


def test_a_guard_that_is_defined_anew_before_the_event_is_not_settled_for_it() -> None:
    prepared = operations(PREPARED.format(between=""))["@%p2 mov.u32 %r3, 64"]
    anew = operations(PREPARED.format(between="setp.gt.u32 %p2, %r5, 9;"))["@%p2 mov.u32 %r3, 64"]
    assert prepared.settles is not None
    assert anew.settles is None


def test_a_guard_is_settled_for_events_of_its_polarity_alone() -> None:
    turned = PREPARED.format(between="").replace("@%p2 mov", "@!%p2 mov")
    assert operations(turned)["@!%p2 mov.u32 %r3, 64"].settles is None


def test_every_component_that_is_asked_for_was_foreseen() -> None:
    """What a reduction by bulk copy has written is asked for where a flag is released behind it."""
    body = """
    @%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd0], [data], 16;
    @%p0 st.release.gpu.global.u32 [%rd0+64], 1;
    cp.async.ca.shared.global [data+128], [%rd0+256], 16;
    """
    assert explore(analysis(body), Limits()).executions
