"""The SASS opcodes that ptxaudit knows, by root mnemonic, with the operands each of them writes.

SASS writes destinations first. The table groups roots by which leading operands are destinations:

``lead``    predicates, one register, and the predicates right behind it (carries), as in
            ``IADD3 R2, P3, PT, R4, UR24, RZ`` or ``SHFL.IDX PT, R2, R155, RZ, 0x1f``
``first``   the first operand only
``two``     the first two operands
``memory``  every operand before the first address
``source``  every operand but the last
``none``    no operand

Roots are those that ``nvdisasm`` prints for sm_80 to sm_121. Another root is unknown: its instruction
is kept with conservative effects.
"""

from enum import Enum


class Destinations(Enum):
    """Which operands of an instruction are destinations."""

    LEAD = "lead"
    FIRST = "first"
    TWO = "two"
    MEMORY = "memory"
    SOURCE = "source"
    NONE = "none"


_TABLE = {
    Destinations.LEAD: """
        AL2P ALD B2R BMMA BMSK BREV CLMAD CREDUX CS2R CS2UR DADD DFMA DMMA DMUL F2F F2FP F2I F2IP FADD FADD2
        FADD32I FFMA FFMA2 FFMA32I FHADD FHFMA FLO FMNMX FMNMX3 FMUL FMUL2 FMUL32I FRND FSEL FSET FSWZADD
        GATHER GENMETADATA GETLMEMBASE HADD2 HADD2_32I HFMA2 HFMA2_32I HMMA HMNMX2 HMUL2 HMUL2_32I HSET2 I2F
        I2FP I2I I2IP IABS IADD IADD3 IADD32I IDP IDP4A IMAD IMMA IMNMX IMUL IMUL32I ISBERD ISCADD ISCADD32I
        LEA LEPC LOP LOP3 LOP32I MATCH MOV MOV32I MOVM MUFU OMMA PIXLD POPC PRMT QMMA QMUL4 R2UR REDUX S2R
        S2UR SCATTER SEL SGXT SHF SHFL SHL SHR SPMETADATA SUQUERY TXQ UBMSK UBREV UCLEA UF2F UF2FP UF2I
        UFADD UFFMA UFLO UFMNMX UFMUL UFRND UFSEL UFSET UI2F UI2FP UI2I UI2IP UIABS UIADD3 UIMAD UIMNMX ULEA
        ULEPC ULOP ULOP3 ULOP32I UMOV UPOPC UPRMT UR2UR USEL USETMAXREG USGXT USHF USHL USHR UTCATOMSWS
        UVIADD UVIADDMNMX UVIMNMX UVIMNMX3 VABSDIFF VABSDIFF4 VHMNMX VIADD VIADDMNMX VIMNMX VIMNMX3 HGMMA
        QGMMA IGMMA BGMMA DGMMA
    """,
    Destinations.FIRST: "BMOV BSSY FCHK P2R R2P RPCMOV SETLMEMBASE UP2UR UR2UP",
    Destinations.TWO: "CSETP DSETP ELECT FSETP HSETP2 ISETP PLOP3 PSETP UFSETP UISETP UPLOP3 UPSETP",
    Destinations.MEMORY: """
        ATOM ATOMG ATOMS LD LDC LDCU LDG LDGMC LDL LDS LDSM LDT LDTM QSPC SUATOM SULD SYNCS TEX TLD TLD4 TMML
        TXD ULDC UMEMSETS
    """,
    Destinations.SOURCE: "VOTE VOTEU",
    Destinations.NONE: """
        ACQBULK ARRIVES BAR BPT BRA BREAK BRX BRXU BSYNC CALL CCTL CCTLL CCTLT CGAERRBAR DEPBAR ENDCOLLECTIVE
        ERRBAR EXIT FENCE JMP JMX JMXU KILL LDGDEPBAR LDGSTS MEMBAR NANOSLEEP NOP PMTRIG PREEXIT RED REDAS
        REDG RET RTT ST STAS STG STL STS STSM STT STTM SURED SUST UBLKCP UBLKPF UBLKRED UCGABAR_ARV
        UCGABAR_WAIT UGETNEXTWORKID UREDGR USETSHMSZ USTGR UTCBAR UTCCP UTCHMMA UTCIMMA UTCOMMA UTCQMMA
        UTCMXQMMA UTCSHIFT UTMACCTL UTMACMDFLUSH UTMALDG UTMALST UTMAPF UTMAREDG UTMASTG UVIRTCOUNT WARPGROUP
        WARPGROUPSET WARPSYNC YIELD
    """,
}

DESTINATIONS: dict[str, Destinations] = {
    root: destinations for destinations, roots in _TABLE.items() for root in roots.split()
}

INDIRECT_BRANCHES = frozenset({"BRX", "BRXU", "JMX", "JMXU"})
"""Branches whose targets stand in the notes of the cubin."""
