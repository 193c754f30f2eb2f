"""The certain costs in the PTX event tables, measured against what ptxas emits.

Every statement is assembled as a kernel of its own; its events must hold an ``L1Invalidate`` exactly where
the SASS has ``CCTL.IVALL``, and a ``MemoryFlush`` of the scope of the widest ``MEMBAR`` in the SASS.
"""

import json
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ptxaudit.arch import parse_architecture
from ptxaudit.frontends.ptx import load_ptx
from ptxaudit.ir.events import L1Invalidate, MemoryFlush, Scope
from ptxaudit.isa.ptx.events import events
from ptxaudit.source import SourceText


def _tool(name: str) -> str | None:
    on_path = shutil.which(name)
    if on_path:
        return on_path
    packaged = sorted(Path(sysconfig.get_path("purelib")).glob(f"nvidia/cu*/bin/{name}"))
    return str(packaged[-1]) if packaged else None


PTXAS, NVDISASM = _tool("ptxas"), _tool("nvdisasm")
pytestmark = pytest.mark.skipif(not (PTXAS and NVDISASM), reason="needs ptxas and nvdisasm")

CLUSTER = ["90a", "100a", "103a", "110a", "120a", "121a"]
BASE = ["80", "86", "87", "89", *CLUSTER]
TENSOR = ["100a", "103a", "110a"]
BLACKWELL = CLUSTER[1:]

SPACES = {".global": "%rd2", ".shared": "%r3", "": "%rd1"}
REMOTE = {**SPACES, ".shared::cluster": "%r4"}


def _memory_statements() -> Iterator[tuple[str, list[str]]]:
    for scope in ("cta", "cluster", "gpu", "sys"):
        archs = CLUSTER if scope == "cluster" else BASE
        for order in ("relaxed", "acquire", "release", "acq_rel"):
            for space, address in REMOTE.items():
                where = CLUSTER if space == ".shared::cluster" else archs
                qualifiers = f".{order}.{scope}{space}"
                if order in ("relaxed", "acquire"):
                    yield f"ld{qualifiers}.u32 %r5,[{address}]; st.global.u32 [%rd2],%r5;", where
                if order in ("relaxed", "release"):
                    yield f"st{qualifiers}.u32 [{address}],%r1;", where
                    yield f"red{qualifiers}.add.u32 [{address}],%r1;", where
                yield f"atom{qualifiers}.exch.b32 %r5,[{address}],%r1; st.global.u32 [%rd2],%r5;", where
    for space, address in SPACES.items():
        yield f"ld.volatile{space}.u32 %r5,[{address}]; st.global.u32 [%rd2],%r5;", BASE
        yield f"st.volatile{space}.u32 [{address}],%r1;", BASE
        yield f"atom{space}.add.u32 %r5,[{address}],%r1; st.global.u32 [%rd2],%r5;", BASE
        yield f"atom.acquire{space}.add.u32 %r5,[{address}],%r1; st.global.u32 [%rd2],%r5;", BASE
        yield f"red.release{space}.add.u32 [{address}],%r1;", BASE
    yield "ld.mmio.relaxed.sys.global.u32 %r5,[%rd2]; st.global.u32 [%rd2],%r5;", BASE
    yield "multimem.ld_reduce.acquire.gpu.global.add.u32 %r5,[%rd2]; st.global.u32 [%rd2],%r5;", CLUSTER
    yield "multimem.ld_reduce.relaxed.gpu.global.add.u32 %r5,[%rd2]; st.global.u32 [%rd2],%r5;", CLUSTER
    yield "multimem.st.release.sys.global.u32 [%rd2],%r1;", CLUSTER
    yield "multimem.red.release.gpu.global.add.u32 [%rd2],%r1;", CLUSTER
    yield "multimem.red.global.add.u32 [%rd2],%r1;", CLUSTER
    yield "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r4],%r1,[%r4+64];", CLUSTER
    yield "st.async.release.gpu.global.u32 [%rd2],%r1;", BLACKWELL
    yield "st.async.mmio.release.sys.global.u32 [%rd2],%r1;", BLACKWELL
    yield "red.async.release.gpu.global.add.u32 [%rd2],%r1;", BLACKWELL


def _fence_statements() -> Iterator[tuple[str, list[str]]]:
    for scope in ("cta", "cluster", "gpu", "sys"):
        archs = CLUSTER if scope == "cluster" else BASE
        yield f"fence.{scope};", archs
        yield f"fence.acq_rel.{scope};", archs
        yield f"fence.sc.{scope};", archs
        yield f"fence.acquire.{scope};", CLUSTER
        yield f"fence.release.{scope};", CLUSTER
        yield f"fence.proxy.tensormap::generic.release.{scope};", CLUSTER
        yield f"fence.proxy.tensormap::generic.acquire.{scope} [%rd1],128;", CLUSTER
    for level in ("cta", "gl", "sys"):
        yield f"membar.{level};", BASE
    for proxy in ("async", "async.global", "async.shared::cta", "async.shared::cluster"):
        yield f"fence.proxy.{proxy};", CLUSTER
    yield "fence.proxy.alias;", BASE
    for family in ("fence", "fence.proxy.async::generic"):
        yield f"{family}.acquire.sync_restrict::shared::cluster.cluster;", CLUSTER
        yield f"{family}.release.sync_restrict::shared::cta.cluster;", CLUSTER
    yield "fence.mbarrier_init.release.cluster;", CLUSTER
    yield "bar.sync 0;", BASE
    yield "bar.warp.sync 0xffffffff;", BASE
    for modifier in ("", ".aligned", ".release", ".relaxed"):
        yield f"barrier.cluster.arrive{modifier};", CLUSTER
    for modifier in ("", ".acquire.aligned"):
        yield f"barrier.cluster.wait{modifier};", CLUSTER
    for statement in ("before_thread_sync", "after_thread_sync"):
        yield f"tcgen05.fence::{statement};", TENSOR


def _mbarrier_statements() -> Iterator[tuple[str, list[str]]]:
    then_store = "%p1,[%r3],%r1; @%p1 st.global.u32 [%rd2],%r1;"
    yield f"mbarrier.test_wait.parity.shared.b64 {then_store}", BASE
    for kind in ("test_wait", "try_wait"):
        yield f"mbarrier.{kind}.parity.shared::cta.b64 {then_store}", CLUSTER
        for order in ("acquire.cta", "acquire.cluster", "relaxed.cta", "relaxed.cluster"):
            yield f"mbarrier.{kind}.parity.{order}.shared::cta.b64 {then_store}", CLUSTER
    for name in ("arrive", "arrive_drop"):
        yield f"mbarrier.{name}.shared.b64 %rd4,[%r3];", BASE
        yield f"mbarrier.{name}.noComplete.shared.b64 %rd4,[%r3],%r1;", BASE
        yield f"mbarrier.{name}.shared::cluster.b64 _,[%r4];", CLUSTER
        yield f"mbarrier.{name}.expect_tx.shared.b64 %rd4,[%r3],%r1;", CLUSTER
        for order in ("release.cta", "release.cluster", "relaxed.cta", "relaxed.cluster"):
            yield f"mbarrier.{name}.{order}.shared::cta.b64 _,[%r3];", CLUSTER
            yield f"mbarrier.{name}.{order}.shared::cluster.b64 _,[%r4];", CLUSTER
            yield f"mbarrier.{name}.expect_tx.{order}.shared::cluster.b64 _,[%r4],%r1;", CLUSTER
    yield "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%r4],%r1;", CLUSTER
    yield "mbarrier.init.shared.b64 [%r3],%r1;", BASE
    yield "mbarrier.inval.shared.b64 [%r3];", BASE


def _copy_statements() -> Iterator[tuple[str, list[str]]]:
    copy = "cp.async.ca.shared.global [%r3],[%rd2],4;"
    yield f"{copy} cp.async.wait_all;", BASE
    yield f"{copy} cp.async.commit_group; cp.async.wait_group 0;", BASE
    yield "cp.async.mbarrier.arrive.noinc.shared.b64 [%r3];", BASE
    completion = "mbarrier::complete_tx::bytes"
    yield f"cp.async.bulk.shared::cluster.global.{completion} [%r3],[%rd2],128,[%r3+64];", CLUSTER
    yield "cp.async.bulk.global.shared::cta.bulk_group [%rd2],[%r3],128;", CLUSTER
    yield "cp.async.bulk.commit_group;", CLUSTER
    yield "cp.async.bulk.wait_group 1;", CLUSTER
    yield "cp.async.bulk.wait_group.read 1;", CLUSTER
    yield "griddepcontrol.wait;", CLUSTER
    yield "griddepcontrol.launch_dependents;", CLUSTER
    yield "tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r3],1;", CLUSTER
    for scope in ("cta", "gpu", "sys"):
        release = f"tensormap::generic.release.{scope}"
        yield f"tensormap.cp_fenceproxy.global.shared::cta.{release}.sync.aligned [%rd2],[%r3],128;", CLUSTER
    yield "wgmma.fence.sync.aligned;", ["90a"]
    yield "wgmma.wait_group.sync.aligned 0;", ["90a"]
    yield "tcgen05.wait::st.sync.aligned;", TENSOR
    yield "tcgen05.wait::ld.sync.aligned;", TENSOR
    yield "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3],32;", TENSOR
    yield "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];", TENSOR
    yield (
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r3],[%r3+64];",
        BLACKWELL,
    )
    yield "st.bulk.weak.shared::cta [%r3],128,0;", BLACKWELL


STATEMENTS = [
    *_memory_statements(),
    *_fence_statements(),
    *_mbarrier_statements(),
    *_copy_statements(),
]


def _kernel(name: str, statement: str, clusters: bool) -> str:
    remote = "mapa.shared::cluster.u32 %r4,%r3,%r2;" if clusters else ""
    return f"""
.visible .entry {name}(.param .u64 p0, .param .u32 p1, .param .u32 p2)
{{
 .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>;
 .shared .align 128 .b8 smem_{name}[1024];
 ld.param.u64 %rd1,[p0]; cvta.to.global.u64 %rd2,%rd1; ld.param.u32 %r1,[p1]; ld.param.u32 %r2,[p2];
 mov.u32 %r3, smem_{name}; {remote}
 st.global.u32 [%rd2+64],%r1;
 st.shared.u32 [%r3+512],%r1;
 {statement}
 ld.global.u32 %r9,[%rd2+128];
 ld.shared.u32 %r10,[%r3+516];
 add.u32 %r9,%r9,%r10;
 st.global.u32 [%rd2+68],%r9;
 ret;
}}
"""


@cache
def _sass_opcodes(text: str, architecture: str) -> dict[str, list[str]]:
    """Opcodes by kernel, from one run of ptxas and nvdisasm for all of them."""
    assert PTXAS and NVDISASM
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "k.ptx"), Path(folder, "k.cubin")
        source.write_text(text)
        subprocess.run([PTXAS, "-arch", architecture, str(source), "-o", str(cubin)], check=True)
        run = subprocess.run([NVDISASM, "-json", str(cubin)], check=True, capture_output=True, text=True)
    functions = json.loads(run.stdout)[1]
    return {f["function-name"]: [i["opcode"] for i in f["sass-instructions"]] for f in functions}


def _membar_scope(opcodes: list[str]) -> Scope | None:
    """The scope of the widest MEMBAR."""
    named = [Scope[opcode.split(".")[2]] for opcode in opcodes if opcode.startswith("MEMBAR")]
    return max(named, default=None)


@pytest.mark.parametrize("number", BASE)
def test_certain_costs_are_what_ptxas_emits(number: str) -> None:
    architecture = parse_architecture(f"sm_{number}")
    chosen = [statement for statement, where in STATEMENTS if number in where]
    kernels = {f"k{index}": statement for index, statement in enumerate(chosen)}
    body = "".join(_kernel(name, text, architecture.has_clusters) for name, text in kernels.items())
    text = f".version 9.0\n.target sm_{number}\n.address_size 64\n{body}"
    opcodes = _sass_opcodes(text, f"sm_{number}")
    module = load_ptx(SourceText("k.ptx", text))
    disagreements = []
    for function in module.functions:
        found = [event for i in function.instructions for event in events(i, architecture)]
        flushes = [event.scope for event in found if isinstance(event, MemoryFlush)]
        table = (max(flushes, default=None), any(isinstance(event, L1Invalidate) for event in found))
        emitted = opcodes[function.name]
        sass = (_membar_scope(emitted), "CCTL.IVALL" in emitted)
        if table != sass:
            disagreements.append(f"{kernels[function.name]}: table {table}, SASS {sass}")
    assert len(module.functions) == len(chosen) > 50
    assert disagreements == []
