"""How SASS encodes the numbers of barrier and copy instructions in their register operands.

An mbarrier is written as the 64-bit object that the hardware counts in: its low word is twice the
complement of the arrival count to 2**20. A parity stands in the bit where a state's upper word has its
phase. Sizes of bulk copies are in units of 16 bytes below the CTA mask. Tensor memory is allocated in units
of 32 columns. Each function takes the value that the operand holds, and gives it back unchanged where it is
no known number.
"""

from functools import lru_cache

from ptxaudit.ir.values import Value

INSTRUCTION_BYTES = 16
_COUNTS = 1 << 20
_PHASE_BIT = 31
_MASK_BIT = 16
_MASK_BITS = 0xFFFF
_ALLOCATION_UNITS = 16

TENSOR_COLUMN_UNIT = 32
"""Columns of tensor memory that one bit of an allocation mask stands for."""


_ISSUED_ONCE = (
    *("UTMALDG", "UTMASTG", "UTMAREDG", "UTMACMDFLUSH", "UBLKCP", "UBLKRED", "UMEMSETS", "UGETNEXTWORKID"),
    *("USTGR", "UREDGR", "UTCBAR", "UTCCP", "UTCSHIFT", "UTCATOMSWS"),
    *("UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA", "UTCMXQMMA"),
)


@lru_cache(maxsize=1024)
def is_issued_once(opcode: str) -> bool:
    """Whether an instruction of the uniform data path acts once for a warp, not once a lane.

    In PTX a single thread issues it; ptxas then needs no branch around it.
    """
    return opcode.split(".", 1)[0] in _ISSUED_ONCE


def arrival_count(low_word: Value) -> Value:
    """The expected arrivals of an mbarrier that ``SYNCS.EXCH`` initialises."""
    return _COUNTS - (low_word & 0xFFFFFFFF) // 2 if isinstance(low_word, int) else low_word


def parity(word: Value) -> Value:
    """The phase parity that ``SYNCS.PHASECHK`` asks for."""
    return word >> _PHASE_BIT & 1 if isinstance(word, int) else word


def copy_mask(word: Value) -> Value:
    """The CTA mask of a multicast copy: it stands above the size."""
    return word >> _MASK_BIT & _MASK_BITS if isinstance(word, int) else word


def commit_mask(word: Value) -> Value:
    """The CTA mask of a multicast ``UTCBAR``."""
    return word & _MASK_BITS if isinstance(word, int) else word


def freed_columns(mask: Value) -> tuple[int, int] | None:
    """First column and number of columns whose bits ``UTCATOMSWS.AND`` clears; ``None`` if not known."""
    if not isinstance(mask, int):
        return None
    cleared = ~mask & ((1 << _ALLOCATION_UNITS) - 1)
    if not cleared:
        return None
    first = (cleared & -cleared).bit_length() - 1
    return first * TENSOR_COLUMN_UNIT, cleared.bit_count() * TENSOR_COLUMN_UNIT
