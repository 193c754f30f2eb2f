"""The PTX instruction table: notation, coverage and operand roles."""

import os
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxaudit.isa.ptx.forms import instruction_form
from ptxaudit.isa.ptx.table import ptx_table

ROLES = [
    # opcode, operand count, canonical name, written, read and written
    ("add.rn.ftz.f32x2", 3, "add", (0,), ()),
    ("add.cc.u32", 3, "add", (0,), ()),
    ("fma.rn.f32.bf16", 4, "fma", (0,), ()),
    ("max.NaN.xorsign.abs.f32", 3, "max", (0,), ()),
    ("max.ftz.f32", 4, "max", (0,), ()),
    ("setp.lt.and.s32", 4, "setp", (0,), ()),
    ("lop3.or.b32", 6, "lop3", (0,), ()),
    ("mov.b64", 2, "mov", (0,), ()),
    ("cvt.rn.satfinite.relu.e4m3x2.f32", 3, "cvt", (0,), ()),
    ("cvt.pack.sat.u8.s32.b32", 4, "cvt.pack", (0,), ()),
    ("shf.l.wrap.b32", 4, "shf", (0,), ()),
    ("ld.param.u64", 2, "ld", (0,), ()),
    ("ld.global.nc.L1::no_allocate.L2::256B.v4.b32", 2, "ld", (0,), ()),
    ("ld.acquire.gpu.global.L2::cache_hint.b32", 3, "ld", (0,), ()),
    ("ldu.global.v2.f32", 2, "ldu", (0,), ()),
    ("st.release.sys.global.u32", 2, "st", (), ()),
    ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32", 3, "st.async", (), ()),
    ("st.bulk.weak.shared::cta", 3, "st.bulk", (), ()),
    ("multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2", 2, "multimem.ld_reduce", (0,), ()),
    ("multimem.red.release.gpu.global.add.u32", 2, "multimem.red", (), ()),
    ("multimem.cp.async.bulk.global.shared::cta.bulk_group", 3, "multimem.cp.async.bulk", (), ()),
    ("atom.acq_rel.gpu.global.cas.b128", 4, "atom", (0,), ()),
    ("atom.global.gpu.release.exch.b32", 3, "atom", (0,), ()),
    ("red.relaxed.gpu.global.add.noftz.v4.f16x2", 2, "red", (), ()),
    (
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64",
        3,
        "red.async",
        (),
        (),
    ),
    ("prefetch.param.tensormap", 1, "prefetch", (), ()),
    ("createpolicy.fractional.L2::evict_last.b64", 2, "createpolicy.fractional", (0,), ()),
    ("cvta.to.shared::cluster.u64", 2, "cvta", (0,), ()),
    ("mapa.shared::cluster.u32", 3, "mapa", (0,), ()),
    ("isspacep.param::entry", 2, "isspacep", (0,), ()),
    ("cp.async.cg.shared.global.L2::128B", 4, "cp.async", (), ()),
    ("cp.async.mbarrier.arrive.noinc.shared::cta.b64", 1, "cp.async.mbarrier.arrive", (), ()),
    ("cp.async.bulk.wait_group.read", 1, "cp.async.bulk.wait_group", (), ()),
    ("cp.async.bulk.prefetch.tensor.2d.L2.global.tile", 1, "cp.async.bulk.prefetch.tensor", (), ()),
    (
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        ".multicast::cluster.cta_group::2.L2::cache_hint",
        5,
        "cp.async.bulk.tensor",
        (),
        (),
    ),
    ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16", 3, "cp.reduce.async.bulk", (), ()),
    ("tensormap.replace.tile.box_dim.shared::cta.b1024.b32", 3, "tensormap.replace", (), ()),
    (
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned",
        3,
        "tensormap.cp_fenceproxy",
        (),
        (),
    ),
    ("bar.cta.sync", 2, "bar.sync", (), ()),
    ("bar.red.popc.u32", 3, "bar.red", (0,), ()),
    ("barrier.cta.red.or.aligned.pred", 4, "barrier.red", (0,), ()),
    ("barrier.cluster.arrive.relaxed.aligned", 0, "barrier.cluster.arrive", (), ()),
    ("fence.acquire.sync_restrict::shared::cluster.cluster", 0, "fence", (), ()),
    ("fence.mbarrier_init.release.cluster", 0, "fence.mbarrier_init", (), ()),
    ("fence.proxy.async.shared::cta", 0, "fence.proxy.async", (), ()),
    (
        "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster",
        0,
        "fence.proxy.async::generic",
        (),
        (),
    ),
    ("fence.proxy.tensormap::generic.acquire.gpu", 2, "fence.proxy.tensormap::generic", (), ()),
    ("membar.gl", 0, "membar", (), ()),
    ("mbarrier.init.shared::cta.b64", 2, "mbarrier.init", (), ()),
    ("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64", 3, "mbarrier.arrive", (0,), ()),
    ("mbarrier.arrive_drop.noComplete.shared.b64", 3, "mbarrier.arrive_drop", (0,), ()),
    ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64", 2, "mbarrier.expect_tx", (), ()),
    ("mbarrier.try_wait.parity.shared::cta.b64", 4, "mbarrier.try_wait", (0,), ()),
    ("mbarrier.try_wait.parity.phase_type::primary.shared::cta.b64", 5, "mbarrier.try_wait", (0, 1), ()),
    ("mbarrier.pending_count.b64", 2, "mbarrier.pending_count", (0,), ()),
    ("shfl.sync.bfly.b32", 5, "shfl.sync", (0,), ()),
    ("vote.sync.ballot.b32", 3, "vote.sync", (0,), ()),
    ("match.all.sync.b64", 3, "match.all.sync", (0,), ()),
    ("elect.sync", 2, "elect.sync", (0,), ()),
    ("redux.sync.min.abs.NaN.f32", 3, "redux.sync", (0,), ()),
    ("griddepcontrol.wait", 0, "griddepcontrol.wait", (), ()),
    (
        "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128",
        2,
        "clusterlaunchcontrol.query_cancel",
        (0,),
        (),
    ),
    ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 4, "mma", (0,), ()),
    (
        "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::f8f6f4.f32.e2m1.e4m3.f32",
        6,
        "mma",
        (0,),
        (),
    ),
    ("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16", 3, "wmma.load", (0,), ()),
    ("wmma.store.d.sync.aligned.row.m16n16k16.global.f32", 3, "wmma.store", (), ()),
    ("ldmatrix.sync.aligned.m8n16.x4.shared::cta.b8x16.b6x16_p32", 2, "ldmatrix", (0,), ()),
    ("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16", 2, "stmatrix", (), ()),
    ("wgmma.mma_async.sync.aligned.m64n248k16.f32.bf16.bf16", 8, "wgmma.mma_async", (), (0,)),
    ("wgmma.mma_async.sp.sync.aligned.m64n8k64.s32.u8.s8", 6, "wgmma.mma_async", (), (0,)),
    ("wgmma.wait_group.sync.aligned", 1, "wgmma.wait_group", (), ()),
    ("setmaxnreg.dec.sync.aligned.u32", 1, "setmaxnreg", (), ()),
    ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32", 2, "tcgen05.alloc", (), ()),
    ("tcgen05.dealloc.cta_group::2.sync.aligned.b32", 2, "tcgen05.dealloc", (), ()),
    ("tcgen05.ld.sync.aligned.32x32b.x128.pack::16b.b32", 2, "tcgen05.ld", (0,), ()),
    ("tcgen05.ld.red.sync.aligned.32x32b.x8.max.NaN.f32", 3, "tcgen05.ld", (0, 1), ()),
    ("tcgen05.st.sync.aligned.16x32bx2.x2.b32", 3, "tcgen05.st", (), ()),
    ("tcgen05.mma.ws.sp.cta_group::1.kind::i8.collector::b3::lastuse", 6, "tcgen05.mma", (), ()),
    ("tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.scale_vec::4X", 7, "tcgen05.mma", (), ()),
    ("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64", 1, "tcgen05.commit", (), ()),
    ("tcgen05.wait::ld.sync.aligned", 0, "tcgen05.wait::ld", (), ()),
    ("tcgen05.fence::after_thread_sync", 0, "tcgen05.fence::after_thread_sync", (), ()),
    ("tex.level.a2d.v4.f32.f32", 3, "tex", (0,), ()),
    ("sust.b.2d.v4.b32.clamp", 2, "sust", (), ()),
    ("vset4.u32.s32.ge.add", 4, "vset4", (0,), ()),
    ("vmad.s32.s32.u32.po.sat.shr7", 4, "vmad", (0,), ()),
    ("brx.idx.uni", 2, "brx.idx", (), ()),
    ("alloca.u64", 3, "alloca", (0,), ()),
    ("nanosleep.u32", 1, "nanosleep", (), ()),
    (
        "fabric.try_get.async.shared::cta.mbarrier::complete_tx::bytes.mbarrier::report::fabric.relaxed.sys.b128",
        4,
        "fabric.try_get",
        (),
        (),
    ),
    ("spcompress.b16.b2.sp::2:4.x8", 4, "spcompress", (0, 1), ()),
]


@pytest.mark.parametrize(
    ("opcode", "count", "name", "written", "read_written"), ROLES, ids=[role[0] for role in ROLES]
)
def test_operand_roles(
    opcode: str, count: int, name: str, written: tuple[int, ...], read_written: tuple[int, ...]
) -> None:
    form = instruction_form(opcode, count)
    assert (form.name, form.written, form.read_written) == (name, written, read_written)
    assert form.known
    assert form.unknown_modifiers == ()


def test_modifiers_are_kept_as_spelled() -> None:
    form = instruction_form("mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64", 3)
    assert form.modifiers == ("parity", "acquire", "cluster", "shared::cta", "b64")
    assert instruction_form("bar.cta.sync", 1).modifiers == ("cta",)


def test_the_longest_name_is_taken() -> None:
    assert instruction_form("cp.async.bulk.commit_group", 0).name == "cp.async.bulk.commit_group"
    assert instruction_form("cp.async.commit_group", 0).name == "cp.async.commit_group"
    assert instruction_form("fence.acq_rel.gpu", 0).modifiers == ("acq_rel", "gpu")


def test_unknown_opcode_may_write_its_first_operand() -> None:
    form = instruction_form("frobnicate.b32", 2)
    assert (form.known, form.name, form.written, form.modifiers) == (False, "frobnicate", (0,), ("b32",))
    assert form.unknown_modifiers == ()
    assert instruction_form("frobnicate.b32", 1).written == ()


def test_unknown_modifier_is_named_and_taken_conservatively() -> None:
    form = instruction_form("bar.sync.whim", 2)
    assert (form.known, form.name, form.unknown_modifiers, form.written) == (
        False,
        "bar.sync",
        ("whim",),
        (0,),
    )
    wgmma = instruction_form("wgmma.mma_async.sync.aligned.m64n9k16.f32.f16.f16", 8)
    assert (wgmma.unknown_modifiers, wgmma.written, wgmma.read_written) == (("m64n9k16",), (), (0,))


@pytest.mark.parametrize(
    "name", ["", "shared::cta", "multimem.async", "cp", "tcgen05", "mbarrier", "fence.proxy"]
)
def test_incomplete_names_are_unknown(name: str) -> None:
    assert not instruction_form(name, 2).known


_COMPONENTS = st.sampled_from(
    ["bar", "cta", "sync", "cp", "async", "bulk", "mbarrier", "arrive", "b64", "x", ""]
)


@given(st.lists(_COMPONENTS, min_size=1, max_size=6), st.integers(0, 12))
def test_no_component_of_an_opcode_is_lost(components: list[str], count: int) -> None:
    form = instruction_form(".".join(components), count)
    assert sorted([*form.name.split("."), *form.modifiers]) == sorted(components)
    assert form.known == (form.name in ptx_table().forms and not form.unknown_modifiers)
    assert all(position < count for position in (*form.written, *form.read_written))


def _sections() -> Iterator[tuple[str, list[str]]]:
    for file in (files("ptxaudit.isa.ptx") / "tables").iterdir():
        if not file.name.endswith(".txt") or file.name == "common.txt":
            continue
        for section in re.split(r"^== ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            title, _, body = section.partition("\n")
            yield title, body.splitlines()


def test_every_set_of_a_section_is_used() -> None:
    """A misspelt set would silently become a literal modifier, and leave the set that was meant unused."""
    unused = [
        (title, name)
        for title, lines in _sections()
        for name in re.findall(r"^(\.\w+)\s*=", "\n".join(lines), flags=re.MULTILINE)
        if not any(re.search(re.escape(name) + r"(?![\w:])", line) for line in lines if line[:1].isalpha())
    ]
    assert unused == []


def test_a_form_without_optional_parts_accepts_its_own_spelling() -> None:
    for name, forms in ptx_table().forms.items():
        for form in forms:
            spelled = [sorted(choice)[0] for choice in form.required]
            opcode = ".".join([name, *(part for alternative in spelled for part in alternative)])
            assert instruction_form(opcode, form.operand_range[0]).known, opcode
            assert form.accepts(frozenset(part for alternative in spelled for part in alternative)), opcode


_CORPUS = os.environ.get("PTXAUDIT_CORPUS")
_INSTRUCTION = re.compile(r"(?:@!?[%\w$]+\s+)?([a-z]\w*(?:\.[\w:]+)*)(?=[\s;]|$)")
_REGISTER = re.compile(r"%[A-Za-z_]\w*\d+\b")


def _instructions(text: str) -> Iterator[tuple[str, list[str]]]:
    """Rough opcodes and operands of a PTX text, enough to look them up."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/|\"[^\"]*\"", " ", text, flags=re.DOTALL)
    for statement in re.split(r"[;]", code):
        # Braces open scopes unless they hold a vector operand; labels and directives stand before.
        body = re.sub(
            r"^(?:\s|[{}]|[$\w%]+:(?!:)|\.(?:loc|file|pragma|reg|shared|section)\b[^\n]*)*", "", statement
        )
        match = _INSTRUCTION.match(body)
        if match:
            operands = re.split(r",(?![^\[({]*[\])}])", body[match.end() :])
            yield match[1], [operand.strip() for operand in operands if operand.strip()]


@pytest.mark.skipif(_CORPUS is None, reason="PTXAUDIT_CORPUS names no folder of compiled kernels")
def test_every_opcode_of_the_corpus_is_known() -> None:
    assert _CORPUS is not None
    kernels = sorted(Path(_CORPUS).glob("*.ptx"))
    assert kernels
    unknown = {
        opcode
        for kernel in kernels
        for opcode, operands in _instructions(kernel.read_text(encoding="utf-8"))
        if not instruction_form(opcode, len(operands)).known
    }
    assert unknown == set()


@pytest.mark.skipif(_CORPUS is None, reason="PTXAUDIT_CORPUS names no folder of compiled kernels")
def test_every_register_of_the_corpus_is_written_somewhere() -> None:
    """A destination that the table does not know would leave a register that is only ever read."""
    assert _CORPUS is not None
    for kernel in sorted(Path(_CORPUS).glob("*.ptx")):
        used: set[str] = set()
        written: set[str] = set()
        for opcode, operands in _instructions(kernel.read_text(encoding="utf-8")):
            form = instruction_form(opcode, len(operands))
            for position, operand in enumerate(operands):
                registers = set(_REGISTER.findall(operand))
                used |= registers
                if position in (*form.written, *form.read_written) and "[" not in operand:
                    written |= registers
        assert used - written == set(), kernel.name
