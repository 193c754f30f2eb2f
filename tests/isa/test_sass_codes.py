"""The opcode numbers that the scan goes by are those that nvdisasm reads, on every architecture."""

import re
import subprocess
from pathlib import Path

import pytest
from tools_support import ptxas

from ptxaudit.arch import SASS_ARCHITECTURES
from ptxaudit.frontends.sass.disassemble import parse_listing, start_nvdisasm
from ptxaudit.frontends.sass.elf import read_cubin, read_header
from ptxaudit.frontends.sass.screen import COUNTED_ROOTS, opcode_numbers
from ptxaudit.isa.sass.codes import CODES, SCANNED_ARCHITECTURES, codes_of
from ptxaudit.isa.sass.events import MODELLED
from ptxaudit.isa.sass.opcodes import DESTINATIONS, INDIRECT_BRANCHES
from ptxaudit.isa.sass.traits import TRAITS

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
CUBINS = sorted((FIXTURES / "kernels").rglob("*.cubin")) + sorted((FIXTURES / "cubin").glob("*.cubin"))
# PTX by the least target that it is for; "a" is tried with each architecture of its family.
FOR_ALL = (
    "correctness/cp-async-not-drained/*.ptx",
    "performance/gpu-membar-in-hot-loop/*.ptx",
    "performance/l1-invalidate-in-poll-loop/flag_*.ptx",
)
TARGETS = {
    **{number: ("sm_80", *(("sm_90",) if number >= 90 else ())) for number in (80, 86, 87, 89, 90, 120, 121)},
    **{number: ("sm_80", "sm_90", "sm_100a") for number in (100, 103, 110)},
}
MANY = """
  .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<8>; .reg .f32 %f<8>; .reg .f64 %d<4>; .reg .b16 %h<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.f32 %f1, [%rd3];
  ld.global.nc.b32 %r2, [%rd3+4];
  ld.volatile.global.u32 %r3, [%rd3+8];
  fma.rn.f32 %f2, %f1, %f1, 0f3F800000;
  ex2.approx.f32 %f3, %f2;
  cvt.f64.f32 %d1, %f3;
  fma.rn.f64 %d2, %d1, %d1, %d1;
  cvt.rn.f16.f32 %h1, %f3;
  cvt.rzi.s32.f32 %r4, %f3;
  popc.b32 %r5, %r2;
  bfind.u32 %r6, %r2;
  prmt.b32 %r7, %r2, %r3, 0x5410;
  shf.l.wrap.b32 %r8, %r2, %r3, %r1;
  lop3.b32 %r9, %r2, %r3, %r4, 0x96;
  setp.lt.s32 %p1, %r4, 7;
  @%p1 bra $done;
  shfl.sync.idx.b32 %r10, %r9, 0, 31, -1;
  vote.sync.ballot.b32 %r11, %p1, -1;
  match.any.sync.b32 %r12, %r2, -1;
  redux.sync.add.s32 %r13, %r2, -1;
  atom.global.add.u32 %r14, [%rd3], %r13;
  red.global.gpu.relaxed.max.u32 [%rd3], %r14;
  atom.acq_rel.gpu.global.cas.b32 %r15, [%rd3], %r14, %r13;
  fence.acq_rel.gpu;
  membar.sys;
  bar.sync 0;
  barrier.sync 1, 64;
  bar.warp.sync -1;
  st.shared.u32 [word], %r15;
  ld.shared.u32 %r16, [word];
  atom.shared.add.u32 %r17, [word], %r16;
  nanosleep.u32 100;
  activemask.b32 %r18;
  discard.global.L2 [%rd1], 128;
  st.global.v2.b32 [%rd3], {%r17, %r18};
  add.u32 %r5, %r5, %r6; add.u32 %r5, %r5, %r7; add.u32 %r5, %r5, %r8; add.u32 %r5, %r5, %r10;
  add.u32 %r5, %r5, %r11; add.u32 %r5, %r5, %r12;
  st.global.u32 [%rd3+16], %r5;
  st.global.f64 [%rd1], %d2;
  st.global.b16 [%rd1+8], %h1;
$done:
  ret;
"""
KERNEL = ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry many(.param .u64 out)\n"


def disagreements(data: bytes, name: str) -> set[str]:
    """Instructions whose root the table does not have under their number."""
    cubin = read_cubin(data, name, read_header(data, name))
    wrong: set[str] = set()
    with start_nvdisasm(data, name) as run:
        sections = parse_listing(run.output(), name)
    for section in sections:
        numbers = opcode_numbers(cubin.code[section.name])
        assert len(numbers) == len(section.instructions)
        for number, one in zip(numbers.tolist(), section.instructions, strict=True):
            if one["opcode"].partition(".")[0] not in CODES.get(number, ()):
                wrong.add(f"{number:03x} {one['opcode']}")
    return wrong


def sources(number: int, folder: Path) -> list[tuple[str, Path]]:
    """PTX to assemble for an architecture, each with the target to assemble it for."""
    many = folder / "many.ptx"
    many.write_text(f"{KERNEL}{{\n  .shared .b32 word;\n{MANY}}}\n")
    chosen = [(f"sm_{number}", many)]
    for pattern in FOR_ALL:
        for path in sorted(FIXTURES.glob(pattern)):
            target = re.search(r"^\.target (\w+)", path.read_text(), re.M)
            assert target is not None
            if target[1] in TARGETS[number]:
                suffix = "a" if target[1].endswith("a") else ""
                chosen.append((f"sm_{number}{suffix}", path))
    if "sm_100a" in TARGETS[number]:
        tensor = sorted((FIXTURES / "correctness").glob("t*/*.ptx"))
        chosen += [(f"sm_{number}a", path) for path in tensor if ".target sm_100a" in path.read_text()][::6]
    if number == 90:
        wgmma = sorted((FIXTURES / "correctness").glob("wgmma-*/*.ptx"))
        chosen += [("sm_90a", path) for path in wgmma[:3]]
    return chosen


@pytest.mark.slow
@pytest.mark.parametrize("number", sorted(SCANNED_ARCHITECTURES))
def test_the_table_is_what_the_disassembler_reads(number: int, tmp_path: Path) -> None:
    tool = ptxas()
    if tool is None:
        pytest.skip("needs ptxas")
    assembled = 0
    for target, path in sources(number, tmp_path):
        text = re.sub(r"^(\.target )\w+", rf"\g<1>{target}", path.read_text(), flags=re.M)
        text = re.sub(r"^\.version .*", ".version 9.0", text, flags=re.M)
        (tmp_path / "k.ptx").write_text(text)
        done = subprocess.run(
            [tool, f"-arch={target}", "-o", "k.cubin", "k.ptx"],
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        if done.returncode == 0:
            assembled += 1
            assert disagreements((tmp_path / "k.cubin").read_bytes(), str(path)) == set()
    assert assembled >= 5


@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.name)
def test_shipped_cubins_read_by_the_table(path: Path) -> None:
    data = path.read_bytes()
    if read_header(data, str(path)).architecture_number in SCANNED_ARCHITECTURES:
        assert disagreements(data, str(path)) == set()


def test_what_is_scanned_is_known() -> None:
    assert SCANNED_ARCHITECTURES <= SASS_ARCHITECTURES
    assert frozenset().union(*CODES.values()) <= DESTINATIONS.keys()
    assert all(CODES[number] == {root} for root in COUNTED_ROOTS for number in codes_of({root}))
    assert codes_of({"CCTL"}) and not codes_of({"CCTL"}) & codes_of(MODELLED - {"CCTL"})


def test_the_roots_of_one_number_answer_alike() -> None:
    several = {number: roots for number, roots in CODES.items() if len(roots) > 1}
    assert several[0x235] == {"HFMA2", "IADD"}  # of different architectures
    for number, roots in several.items():
        assert len({TRAITS.get(root, ()) for root in roots}) == 1, f"{number:03x}"
        assert not roots & {*INDIRECT_BRANCHES, *COUNTED_ROOTS}, f"{number:03x}"
