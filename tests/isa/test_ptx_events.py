"""The events of PTX instructions, by a table of spellings and by their fields."""

from pathlib import Path
from typing import get_args

import pytest

from ptxaudit.arch import Architecture, parse_architecture
from ptxaudit.frontends.ptx import load_ptx
from ptxaudit.ir import events as model
from ptxaudit.ir.describe import describe
from ptxaudit.ir.events import (
    Access,
    AccessKind,
    Addressing,
    ArriveSource,
    Completion,
    Event,
    Fence,
    L1Invalidate,
    MbarrierArrive,
    MbarrierCompleteTx,
    MbarrierWait,
    MemoryFlush,
    Proxy,
    Scope,
    Semantics,
    StateSpace,
    UnknownEffect,
)
from ptxaudit.ir.instruction import Instruction
from ptxaudit.ir.operands import Immediate, Memory, Register, Vector
from ptxaudit.isa.ptx.events import MODELLED, events
from ptxaudit.isa.ptx.table import ptx_table
from ptxaudit.source import Location, LocationKind, SourceText

TABLE = Path(__file__).with_name("ptx_events.txt")


def _instruction(opcode: str, *operands: object) -> Instruction:
    where = Location(LocationKind.PTX, "k.ptx", 1, 1)
    return Instruction(0, opcode, None, operands, (), (), where, opcode)  # type: ignore[arg-type]


def _read(statement: str, target: str) -> Instruction:
    text = f"""
.version 9.0
.target {target}
.address_size 64
.func foo(.param .b32 q);
.visible .entry k() {{
 .reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<99>; .reg .b64 %rd<99>; .reg .b128 %q<3>;
 .param .b32 a;
 {statement};
}}
"""
    return load_ptx(SourceText("k.ptx", text)).functions[0].instructions[0]


def _rows() -> list[tuple[str, str, list[str]]]:
    rows: list[tuple[str, str, list[str]]] = []
    for line in TABLE.read_text().splitlines():
        if line.startswith("    "):
            rows[-1][2].append(line.strip())
        elif line and not line.startswith("#"):
            target, statement = line.split(" | ", 1)
            rows.append((target, statement, []))
    return rows


@pytest.mark.parametrize(("target", "statement", "expected"), _rows())
def test_spelling_gives_its_events(target: str, statement: str, expected: list[str]) -> None:
    found = events(_read(statement, target), parse_architecture(target))
    assert [describe(event) for event in found] == expected


def _of(statement: str, target: str = "sm_90a") -> tuple[Event, ...]:
    return events(_read(statement, target), parse_architecture(target))


BASE = Memory((Register("%r1"),))
BARRIER = Memory((Register("%r6"),))


def test_async_store_is_a_generic_write_completed_at_cluster_scope() -> None:
    statement = "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [%r1], {%rd1,%rd2}, [%r6]"
    assert _of(statement) == (
        Access(
            AccessKind.WRITE,
            StateSpace.CLUSTER,
            BASE,
            16,
            completion=Completion.MBARRIER,
            barrier=BARRIER,
            value=Vector((Register("%rd1"), Register("%rd2"))),
        ),
        MbarrierCompleteTx(BARRIER, StateSpace.CLUSTER, Immediate(16), Scope.CLUSTER, Proxy.GENERIC),
    )


def test_tensor_load_reads_through_its_map_in_the_async_proxy() -> None:
    opcode = "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes"
    read, write, complete = _of(f"{opcode} [%r1], [%rd1, {{%r2}}], [%r6]")
    assert isinstance(read, Access) and isinstance(write, Access)
    assert (read.addressing, read.proxy) == (Addressing.TENSOR_MAP, Proxy.ASYNC)
    assert (write.addressing, write.proxy, write.size) == (Addressing.POINTER, Proxy.ASYNC, None)
    assert complete == MbarrierCompleteTx(BARRIER, StateSpace.CLUSTER, None, Scope.CLUSTER, Proxy.ASYNC)


def test_wait_defaults_are_acquire_at_cta_scope() -> None:
    (wait,) = _of("mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r2")
    assert wait == MbarrierWait(
        BASE, Register("%r2"), True, Semantics.ACQUIRE, Scope.CTA, Register("%p1"), True
    )


def test_arrive_keeps_state_and_count_apart_from_expected_bytes() -> None:
    (plain,) = _of("mbarrier.arrive.shared.b64 %rd1, [%r1], 3")
    (expecting,) = _of("mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 3")
    release = (BASE, StateSpace.SHARED, Semantics.RELEASE, Scope.CTA)
    assert plain == MbarrierArrive(*release, count=Immediate(3), state=Register("%rd1"))
    assert expecting == MbarrierArrive(*release, expect_bytes=Immediate(3))


def test_arrive_of_a_multicast_mask_takes_no_count_from_it() -> None:
    arrive = _instruction(
        "mbarrier.arrive.relaxed.cluster.shared::cluster.multicast::cluster.b64",
        Register("_"),
        BASE,
        Register("%rs1"),
    )
    (event,) = events(arrive, Architecture(100, "a"))
    assert event == MbarrierArrive(
        BASE,
        StateSpace.CLUSTER,
        Semantics.RELAXED,
        Scope.CLUSTER,
        multicast=True,
        cta_mask=Register("%rs1"),
    )


@pytest.mark.parametrize(
    ("mode", "offsets"),
    [("tile", ""), ("im2col", ", {%rs3, %rs4}")],
)
def test_multicast_copy_goes_to_the_ctas_of_its_mask(mode: str, offsets: str) -> None:
    opcode = f"cp.async.bulk.tensor.4d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes"
    place = "[%r1], [%rd1, {%r2, %r3, %r4, %r5}], [%r6]"
    _, write, complete = _of(f"{opcode}.multicast::cluster {place}{offsets}, %rs1")
    for event in (write, complete):
        assert isinstance(event, Access | MbarrierCompleteTx)
        assert event.multicast
        assert event.cta_mask == Register("%rs1")


def test_tensor_commit_arrives_by_release_at_cluster_scope() -> None:
    opcode = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"
    _, arrive = _of(f"{opcode} [%r1]", "sm_100a")
    assert arrive == MbarrierArrive(
        BASE, StateSpace.CLUSTER, Semantics.RELEASE, Scope.CLUSTER, source=ArriveSource.TCGEN05_COMMIT
    )


def test_compare_and_swap_stores_its_last_operand() -> None:
    (access,) = _of("atom.relaxed.gpu.global.cas.b32 %r1, [%rd1], %r2, %r3")
    assert isinstance(access, Access)
    assert (access.value, access.operation) == (Register("%r3"), "cas")


@pytest.mark.parametrize("statement", ["fence.acq_rel.gpu", "barrier.cluster.wait", "fence.proxy.async"])
def test_cost_is_not_claimed_for_an_architecture_that_was_not_measured(statement: str) -> None:
    found = events(_read(statement, "sm_90a"), Architecture(70))
    assert found and not any(isinstance(event, L1Invalidate | MemoryFlush) for event in found)


def test_unknown_modifier_adds_an_unknown_effect_and_keeps_the_rest() -> None:
    fence, *_, unknown = events(_instruction("fence.acq_rel.gpu.sideways"), Architecture(90, "a"))
    assert fence == Fence(Semantics.ACQ_REL, Scope.GPU)
    assert unknown == UnknownEffect("fence.acq_rel.gpu.sideways")


@pytest.mark.parametrize(
    "opcode",
    sorted({"st.global.u32", "cp.async.ca.shared.global", "mapa.u64", "tcgen05.mma.cta_group::1.kind::f16"}),
)
def test_missing_operands_are_an_unknown_effect(opcode: str) -> None:
    assert events(_instruction(opcode), Architecture(100, "a")) == (UnknownEffect(opcode),)


def test_every_instruction_of_the_table_is_decided() -> None:
    undecided = set(ptx_table().forms) - MODELLED
    # The fabric transfers and proxies of PTX ISA 9.3 have no place in the event model.
    fabric = ("fabric.", "fence.alias", "fence.proxy.fabric", "fence.proxy.generic::fabric")
    assert {name for name in undecided if not name.startswith(fabric)} == set()
    assert set(ptx_table().forms) >= MODELLED


def test_describe_knows_every_event() -> None:
    from ptxaudit.ir.describe import _describe

    assert all(_describe.dispatch(kind) is not _describe.dispatch(object) for kind in get_args(model.Event))
