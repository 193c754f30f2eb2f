"""The opcode numbers of SASS: which root mnemonics an instruction of sm_80 and later can have.

An instruction takes 16 bytes; its opcode is in the lowest 12 bits of the first (little-endian) word, the
guard right above it. The upper three bits of the number tell forms apart (register, immediate, constant,
uniform operands). A number may have several roots: other bits tell them apart (the kind of data of the tensor
core, IMUL from IMAD), or it stands for another on another architecture (235: HFMA2 up to sm_90, IADD later).
All roots of one number have the same traits, so that any of them answers what the scan asks.

The table was read off nvdisasm 13.5 by ``tests/scripts/sass_codes.py``, from what ptxas makes of the fixtures
and from the cubins of Triton, FlashAttention-4 and flashinfer-cubin 0.6.13; the tests compare it with
nvdisasm on each architecture. Roots that no compiler was seen to use (FHADD, IMUL of sm_100) were read off it
by putting the numbers into instructions of sm_80, sm_90, sm_100 and sm_120; of these there may be more. A
number that is not in it may be anything.
"""

from collections.abc import Iterable, Mapping

CODE_MASK = 0xFFF
"""The bits of an instruction's first word that hold its opcode."""

SCANNED_ARCHITECTURES = frozenset({80, 86, 87, 89, 90, 100, 103, 110, 120, 121})
"""Architectures on which the table was compared with the disassembler."""

_TABLE = """
ACQBULK 82e
ARRIVES 9b0
ATOM 38a 98a
ATOMG 3a8 3a9 9a8
ATOMS 38c 98c
BAR 51d 91d b1d
BMOV 355 356 956 f55
BPT 95c
BRA 547 947
BREAK 942
BRX 949
BRXU 958
BSSY 945
BSYNC 941
CALL 344 944
CCTL 540 98f
CGAERRBAR 5ab
CREDUX 2cc
CS2R 805
DEPBAR 91a
DFMA 22b
ELECT 82f
ENDCOLLECTIVE 91b
ERRBAR 9ab
EXIT 94d
F2F 310
F2FP 23e 63e
F2I 305
FADD 221 421 e21
FADD2 24b 44b e4b
FENCE 3c6
FFMA 223 423 823 c23
FFMA2 249 449 c49
FHADD 221 e21
FHFMA 223 c23
FLO 300 d00
FMNMX 209 809
FMNMX3 276 876
FMUL 220 820 c20
FMUL2 24a 84a c4a
FSEL 208 808
FSETP 20b 80b c0b
HADD2 230 430
HFMA2 231 235 431 435 835 c35
HGMMA 9f0 df0
HMMA 23c
HMNMX2 240 840
HMUL2 232
I2F 306 906 d06
I2FP 245 c45
IABS 213 c13
IADD 210 235 810 835 c10 c35
IADD3 210 810 a10 c10
IMAD 224 225 227 424 624 625 824 825 827 a24 a25 c24 c25 c27 e24 e25
IMNMX 217
IMUL 224 225 424 824 825 c24 c25 e24 e25
ISETP 20c 80c a0c c0c
LD 980
LDC b82
LDCU 7ac
LDG 981
LDGDEPBAR 9af
LDGMC 9a4
LDGSTS fae
LDL 983
LDS 984
LDSM 83b
LDTM 5ee 9ee
LEA 211 811 a11 c11
LOP3 212 812 c12
MATCH 3a1
MEMBAR 992
MOV 202 402 802 a02 c02
MUFU 308 d08
NANOSLEEP 95d
NOP 918
P2R 803
PLOP3 81c
POPC 309 d09
PREEXIT 82d
PRMT 816 e16
QMUL4 27c
R2P 804
R2UR 2ca 3c2
RED 98e
REDAS dbe
REDG 98e
REDUX 3c4
RET 950
RPCMOV 352 353
S2R 919
S2UR 9c3
SEL 207 807 c07
SGXT 81a
SHF 219 819 c19
SHFL 389 589 f89
ST 385 985
STAS dbd
STG 986
STL 387
STS 388 988
STSM 844
STTM 9ed
SYNCS 5a7 5b2 9a7 9b1
UBLKCP 3ba
UBLKRED 3bb
UCGABAR_ARV 9c7
UCGABAR_WAIT dc7
UF2I 25c
UFLO 2bd
UGETNEXTWORKID 3ca
UI2F 25a
UIADD3 290 297 890 897
UIMAD 2a4 2a5 2a6 4a4 8a4 8a5
UISETP 28c 88c
ULDC ab9 abb
ULEA 291 891
ULOP3 292 892
UMOV 882 c82
UP2UR 883
UPLOP3 89c
UPOPC 2bf
UPRMT 896
USEL 287 887
USETMAXREG 9c8
USGXT 89a
USHF 299 899
UTCATOMSWS 5e3 9e3
UTCBAR 3e9
UTCCP 9e7
UTCHMMA 5ea 9ea
UTCIMMA 5ea 9ea
UTCOMMA 5ea 9ea
UTCQMMA 5ea 9ea dea
UTMACCTL 9b9
UTMACMDFLUSH 9b7
UTMALDG 3b4 5b4
UTMASTG 3b5
UVIADD 249
UVIMNMX 24a 84a
UVIRTCOUNT 84c
VHMNMX 247
VIADD 836 c36
VIADDMNMX 246 446 846 c46 e46
VIMNMX 248 848 c48
VOTE 806
VOTEU 886
WARPGROUP 9c5
WARPSYNC 348 948
YIELD 946
"""


def _read(table: str) -> dict[int, frozenset[str]]:
    roots: dict[int, set[str]] = {}
    for line in table.split("\n"):
        root, *numbers = line.split() or [""]
        for number in numbers:
            roots.setdefault(int(number, 16), set()).add(root)
    return {number: frozenset(several) for number, several in roots.items()}


CODES: Mapping[int, frozenset[str]] = _read(_TABLE)
"""The roots that an opcode number was seen to have."""


def codes_of(roots: Iterable[str]) -> frozenset[int]:
    """The opcode numbers that may be one of these roots."""
    wanted = frozenset(roots)
    return frozenset(number for number, several in CODES.items() if not wanted.isdisjoint(several))
