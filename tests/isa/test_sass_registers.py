"""Registers that SASS instructions write and read."""

import os
from pathlib import Path

import pytest

from ptxaudit.errors import ToolError
from ptxaudit.frontends.sass import load_cubin
from ptxaudit.frontends.sass.lower import parse_instruction
from ptxaudit.frontends.sass.tools import find_tool
from ptxaudit.isa.sass import opcodes
from ptxaudit.isa.sass.events import MODELLED
from ptxaudit.isa.sass.opcodes import DESTINATIONS

CORPUS = os.environ.get("PTXAUDIT_CORPUS", "")

# text | registers written | registers read
SPELLINGS = """
MOV R1, c[0x0][0x28] | R1 |
@!P0 IADD3 R2, P3, PT, R4, UR24, RZ | R2 P3 | R4 UR24 P0
IADD3.X R3, PT, PT, RZ, UR25, RZ, P3, !PT | R3 | UR25 P3
LOP3.LUT P0, RZ, R2, 0x1, RZ, 0xc0, !PT | P0 | R2
IMAD.WIDE R22, R0, 0x2, R8 | R22 R23 | R0 R1 R8 R9
UIMAD.WIDE.U32 UR6, UR6, UR7, URZ | UR6 UR7 | UR6 UR7 UR8
ISETP.LT.AND P6, PT, RZ, c[0x0][0x180], P1 | P6 | P1
UISETP.NE.U32.AND UP1, UPT, UR40, URZ, UPT | UP1 | UR40
PLOP3.LUT P4, PT, PT, PT, UP0, 0x80, 0x8 | P4 | UP0
FCHK P0, R2, R3 | P0 | R2 R3
VOTE.ANY R4, PT, !P0 | R4 | P0
VOTEU.ANY UP1, P3 | UP1 | P3
SHFL.IDX PT, R2, R155, RZ, 0x1f | R2 | R155
R2UR UR26, R2 | UR26 | R2
R2P PR, R36, 0x7f | P0 P1 P2 P3 P4 P5 P6 | R36
P2R R44, PR, RZ, 0x8 | R44 | P0 P1 P2 P3 P4 P5 P6
UR2UP UPR, UR62.B3 | UP0 UP1 UP2 UP3 UP4 UP5 UP6 | UR62
CS2R R84, SRZ | R84 R85 |
CS2R.32 R6, SR_CgaSize | R6 | SR_CgaSize
LDC.64 R2, c[0x0][0x380] | R2 R3 |
LDG.E.128 R8, desc[UR4][R2.64+0x10] | R8 R9 R10 R11 | R2 UR4 UR5 R3
LDG.E.ENL2.256 R8, R4, desc[UR4][R2.64] | R8 R9 R10 R11 R4 R5 R6 R7 | R2 UR4 UR5 R3
STG.E.64 desc[UR4][R2.64], R6 | | R2 UR4 UR5 R6 R7 R3
STS.128 [UR4], R4 | | UR4 R4 R5 R6 R7
LDGSTS.E.BYPASS.128 [R229+0x4000][R6.64], P5 | | R229 R6 P5 R7
LDS R4, [R0.X16] | R4 | R0
ATOMG.E.CAS.STRONG.GPU PT, R11, [R8], R6, R7 | R11 | R8 R6 R7
ATOMG.E.ADD.F32x4.RN.STRONG.GPU PT, R16, [R8.64], R0 | R16 R17 R18 R19 | R8 R0 R1 R2 R3 R9
LDSM.16.M88.4 R4, [R4+UR4] | R4 R5 R6 R7 | R4 UR4
STSM.16.M88.4 [R0], R4 | | R0 R4 R5 R6 R7
LDTM.x4 R4, tmem[UR4] | R4 R5 R6 R7 | UR4 UR5
LDTM.16dp256bit R4, tmem[UR5] | R4 R5 R6 R7 | UR5 UR6
STTM.x2 tmem[UR4], R4 | | UR4 UR5 R4 R5
HMMA.16816.F32 R4, R8, R12, RZ | R4 R5 R6 R7 | R8 R9 R10 R11 R12 R13 R14 R15
HGMMA.64x8x16.F32 R24, gdesc[UR4], R24, gsb0 | R24 R25 R26 R27 | UR4 UR5 UR6 UR7 R24 R25 R26 R27 gsb0
HGMMA.64x8x16.F16 R28, R24, gdesc[UR4], R28 | R28 R29 | R24 R25 R26 R27 UR4 UR5 UR6 UR7 R28 R29
FADD2 R198, R200.F32x2.HI_LO, R198.F32x2.HI_LO | R198 R199 | R200 R201 R198 R199
DADD R2, R4, R6 | R2 R3 | R4 R5 R6 R7
SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R3+URZ+0x38], R2 | P0 | R3 R2
SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR4], RZ | | UR4
USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0x98 | UP0 |
UTCATOMSWS.FIND_AND_SET.ALIGN UP0, UR4, UR7 | UP0 UR4 | UR7
ELECT P1, UR4, PT | P1 UR4 |
BRA.U !UP0, 0x100 | | UP0
BSSY B6, 0x280 | B6 |
UBLKCP.S.G [UR4], [UR8], UR6 | | UR4 UR5 UR8 UR9 UR6
STAS.128 [R2.64], R4 | | R2 R4 R5 R6 R7 R3
"""
ROWS = [[part.strip() for part in row.split("|")] for row in SPELLINGS.strip().splitlines()]


@pytest.mark.parametrize(("text", "writes", "reads"), ROWS, ids=[row[0] for row in ROWS])
def test_registers(text: str, writes: str, reads: str) -> None:
    instruction = parse_instruction(text)
    assert instruction.known
    assert [register.name for register in instruction.writes] == writes.split()
    assert [register.name for register in instruction.reads] == reads.split()


def test_tables_name_each_root_once() -> None:
    roots = [root for group in opcodes._TABLE.values() for root in group.split()]
    assert len(roots) == len(set(roots)) == len(DESTINATIONS)
    assert [root for root in roots if not root.replace("_", "").isalnum() or root != root.upper()] == []
    assert "SYNCS" in DESTINATIONS and "FROBNICATE" not in DESTINATIONS
    assert set(DESTINATIONS) > MODELLED


def _corpus() -> list[Path]:
    try:
        find_tool("nvdisasm")
    except ToolError:
        return []
    return sorted(Path(CORPUS).rglob("*.cubin")) if CORPUS else []


@pytest.mark.skipif(not _corpus(), reason="needs nvdisasm and PTXAUDIT_CORPUS")
@pytest.mark.parametrize("path", _corpus(), ids=lambda path: path.name)
def test_every_opcode_of_the_corpus_is_known(path: Path) -> None:
    module = load_cubin(path.read_bytes(), path.name)
    unknown = {i.opcode for function in module.functions for i in function.instructions if not i.known}
    assert unknown == set()
