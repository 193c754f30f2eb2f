"""Instructions that a target has not: as ptxas says, and told once."""

import subprocess
from pathlib import Path

import pytest
from tools_support import ptxas

from ptxaudit.arch import parse_architecture
from ptxaudit.frontends.ptx import load_ptx
from ptxaudit.isa.ptx.forms import instruction_form
from ptxaudit.isa.ptx.targets import missing_requirement
from ptxaudit.source import SourceText

PTXAS = ptxas()
TARGETS = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103a", "sm_120a")
INSTRUCTIONS = (
    "wgmma.fence.sync.aligned;",
    "wgmma.wait_group.sync.aligned 0;",
    "tcgen05.wait::ld.sync.aligned;",
    "tcgen05.fence::before_thread_sync;",
    "setmaxnreg.inc.sync.aligned.u32 240;",
    "cp.async.bulk.commit_group;",
    "cp.async.bulk.wait_group 0;",
    "barrier.cluster.arrive.aligned;",
    "fence.proxy.async;",
    "fence.mbarrier_init.release.cluster;",
    "griddepcontrol.wait;",
    "elect.sync %r0|%p0, 0xffffffff;",
    "mapa.shared::cluster.u32 %r0, %r1, %r2;",
    "getctarank.shared::cluster.u32 %r0, %r1;",
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r0], %r1, [%r2];",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.inc.u32 [%r0], %r1, [%r2];",
    "multimem.red.relaxed.sys.global.add.u32 [%rd0], %r1;",
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r0], {%r1};",
    "mbarrier.init.shared.b64 [%r0], 1;",
    "cp.async.wait_all;",
    "redux.sync.add.s32 %r0, %r1, 0xffffffff;",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r1];",
    "bar.sync 0;",
)


def kernel(target: str, instruction: str) -> str:
    registers = ".reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<2>;"
    body = f"{registers}\n    {instruction}\n    ret;"
    return f".version 8.8\n.target {target}\n.address_size 64\n.visible .entry k()\n{{\n    {body}\n}}\n"


@pytest.mark.skipif(PTXAS is None, reason="needs ptxas (nvidia-cuda-nvcc)")
@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_the_targets_are_those_that_ptxas_takes(instruction: str, tmp_path: Path) -> None:
    opcode, _, operands = instruction.rstrip(";").partition(" ")
    name = instruction_form(opcode, operands.count(",") + 1 if operands else 0).name
    for target in TARGETS:
        file = tmp_path / f"{target}.ptx"
        file.write_text(kernel(target, instruction))
        command = [str(PTXAS), "-arch", target, str(file), "-o", str(tmp_path / "out.cubin")]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        refused = "not supported on" in made.stderr or "requires" in made.stderr
        assert refused is (made.returncode != 0), made.stderr
        assert (missing_requirement(name, parse_architecture(target)) is not None) is refused, (target, made)


def test_each_family_is_noted_once_at_its_first_place() -> None:
    text = kernel("sm_75", "wgmma.fence.sync.aligned;\n    wgmma.commit_group.sync.aligned;\n    bar.sync 0;")
    (note,) = load_ptx(SourceText("k.ptx", text)).notes
    assert (note.location, note.message.partition(":")[0]) == (
        "k.ptx:7:5",
        "sm_75 has no wgmma instructions, which need sm_90a",
    )
