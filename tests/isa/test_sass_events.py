"""The events of SASS instructions, by a table of spellings and by their fields."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ptxaudit.arch import Architecture
from ptxaudit.errors import ToolError
from ptxaudit.frontends.sass import load_cubin
from ptxaudit.frontends.sass.lower import parse_instruction
from ptxaudit.frontends.sass.tools import find_tool
from ptxaudit.ir.describe import describe
from ptxaudit.ir.events import (
    GroupCommit,
    GroupKind,
    GroupWait,
    MbarrierArrive,
    MbarrierWait,
    Scope,
    StateSpace,
)
from ptxaudit.ir.function import Function, Language
from ptxaudit.ir.operands import Memory, Register
from ptxaudit.isa.sass.events import events, function_events

HOPPER = Architecture(90, "a")
FIXTURES = Path(__file__).parents[2] / "fixtures" / "cubin"
TABLE = Path(__file__).with_name("sass_events.txt")


def _rows() -> list[tuple[str, list[str]]]:
    rows: list[tuple[str, list[str]]] = []
    for line in TABLE.read_text().splitlines():
        if line.startswith("    "):
            rows[-1][1].append(line.strip())
        elif line and not line.startswith("#"):
            rows.append((line, []))
    return rows


@pytest.mark.parametrize(("text", "expected"), _rows(), ids=[text for text, _ in _rows()])
def test_spelling_gives_its_events(text: str, expected: list[str]) -> None:
    assert [describe(event) for event in events(parse_instruction(text), HOPPER)] == expected


def _function(listing: str) -> Function:
    instructions = tuple(
        parse_instruction(line.strip(), index=index, offset=16 * index)
        for index, line in enumerate(listing.strip().splitlines())
    )
    return Function("k", "k", Language.SASS, HOPPER, True, instructions, ())


def test_what_sass_cannot_show_is_none() -> None:
    (wait,) = events(parse_instruction("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R3], R2"), HOPPER)
    assert isinstance(wait, MbarrierWait)
    assert (wait.semantics, wait.scope) == (None, None)
    assert wait.result == Register("P0")
    (arrive,) = events(parse_instruction("SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [R0], RZ"), HOPPER)
    assert isinstance(arrive, MbarrierArrive)
    assert (arrive.semantics, arrive.scope, arrive.space) == (None, None, StateSpace.CLUSTER)
    assert arrive.count is None and arrive.state is None


def test_scoreboard_wait_is_one_for_the_groups_that_the_function_commits() -> None:
    bulk = _function("UTMACMDFLUSH\nDEPBAR.LE SB0, 0x1\nNOP\nDEPBAR.LE SB0, 0x0\nNOP\nCCTL.IVALL")
    found = function_events(bulk)
    assert found[0] == (GroupCommit(GroupKind.BULK),)
    assert found[1] == (GroupWait(GroupKind.BULK, 1, read_only=True),)
    assert found[3] == (GroupWait(GroupKind.BULK, 0, read_only=False),)
    copies = function_events(_function("LDGDEPBAR\nDEPBAR.LE SB0, 0x2"))
    assert copies[1] == (GroupWait(GroupKind.CP_ASYNC, 2),)
    assert function_events(_function("NOP\nDEPBAR.LE SB0, 0x36"))[1] == ()


def test_invalidation_under_another_guard_is_not_that_of_the_wait() -> None:
    found = function_events(_function("UTMACMDFLUSH\nDEPBAR.LE SB0, 0x0\n@P0 CCTL.IVALL"))
    assert found[1] == (GroupWait(GroupKind.BULK, 0, read_only=True),)


def test_acquire_of_a_tensor_map_commits_no_group() -> None:
    listing = "DEPBAR {5,4,3,2,1,0}\nUTMACCTL.IV [UR4]\nUTMACMDFLUSH\nLDGDEPBAR\nDEPBAR.LE SB0, 0x0"
    found = function_events(_function(listing))
    assert found[2] == ()
    assert found[4] == (GroupWait(GroupKind.CP_ASYNC, 0),)


def _nvdisasm() -> bool:
    try:
        find_tool("nvdisasm")
    except ToolError:
        return False
    return True


@pytest.mark.skipif(not _nvdisasm(), reason="needs nvdisasm")
def test_hopper_kernel_has_the_events_of_its_source() -> None:
    path = FIXTURES / "mailbox.sm_90a.cubin"
    (function,) = load_cubin(path.read_bytes(), path.name).functions
    found = function_events(function)
    said = {
        instruction.location.offset: [describe(event) for event in some]
        for instruction, some in zip(function.instructions, found, strict=True)
        if some
    }
    assert said[0x140] == ["mbarrier init [UR13] count UR4"]
    assert said[0x320] == ["mbarrier arrive [UR13] expect bytes R0 ?"]
    assert said[0x330][-1] == "mbarrier complete_tx [UR13] in shared::cluster at .cluster async proxy"
    assert said[0x3E0] == ["L1 invalidate"]
    assert said[0x430][-1] == "commit group of wgmma"
    assert said[0x470] == ["mapa UR9 = UR9 in CTA UR4"]
    assert said[0x570] == ["wait group of cp.async.bulk depth 0 read"]
    assert said[0x580] == ["wait group of cp.async.bulk depth 0"]
    unknown = [lines for lines in said.values() if any("unknown" in line for line in lines)]
    assert unknown == []


def _ptxas() -> str | None:
    packaged = sorted(find_tool("nvdisasm").parent.glob("ptxas")) if _nvdisasm() else []
    return str(packaged[0]) if packaged else shutil.which("ptxas")


KERNEL = """
.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 q) {{
 .reg .b64 %rd<4>; .reg .b32 %r<9>; .reg .pred %p<3>; .reg .b16 %h;
 .shared .align 128 .b8 sm[4096];
 ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [q]; mov.u32 %r2, sm; add.u32 %r3, %r2, %r1;
 {statement}
 ret;
}}
"""

# PTX statement | what one of the SASS instructions must give
EMITTED = [
    ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], %r1;", "expect bytes"),
    ("fence.sc.gpu;", "memory barrier .gpu sc"),
    ("fence.proxy.async.global;", "fence proxy async of global"),
    ("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r3];", "by cp.async.mbarrier.arrive noinc"),
    ("barrier.cluster.arrive.relaxed.aligned;", "cluster barrier arrive ?"),
    ("griddepcontrol.wait;", "griddepcontrol wait"),
    ("ld.acquire.gpu.global.u32 %r4, [%rd1]; st.global.u32 [%rd1+4], %r4;", "L1 invalidate"),
    ("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r3], %r1, [%r2];", "generic proxy"),
    ("barrier.cta.sync %r1, 64;", "threads 64"),
    ("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r3], %r1;", "mbarrier complete_tx"),
]


@pytest.mark.skipif(not (_nvdisasm() and _ptxas()), reason="needs ptxas and nvdisasm")
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize(("statement", "expected"), EMITTED, ids=[one for one, _ in EMITTED])
def test_what_ptxas_emits_is_understood(target: str, statement: str, expected: str, tmp_path: Path) -> None:
    source, cubin = tmp_path / "k.ptx", tmp_path / "k.cubin"
    source.write_text(KERNEL.format(target=target, statement=statement))
    subprocess.run([_ptxas() or "", "-arch", target, "-o", cubin, source], check=True, capture_output=True)
    module = load_cubin(cubin.read_bytes(), "k.cubin")
    (function,) = module.functions
    said = [describe(event) for some in function_events(function) for event in some]
    assert module.architecture.name == target
    assert any(expected in line for line in said), said
    assert not any("unknown" in line for line in said)


def test_immediate_depths_are_integers() -> None:
    (wait,) = events(parse_instruction("WARPGROUP.DEPBAR.LE gsb0, 0x2"), HOPPER)
    assert wait == GroupWait(GroupKind.WGMMA, 2)


def test_shared_atomics_are_relaxed_at_the_scope_of_the_cta() -> None:
    (access,) = events(parse_instruction("ATOMS.ADD RZ, [R2+0x10], R3"), HOPPER)
    assert getattr(access, "scope", None) is Scope.CTA
    assert getattr(access, "address", None) == Memory((Register("R2"),), 16)
    assert getattr(access, "value", None) == Register("R3")
