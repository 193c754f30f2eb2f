"""Which functions of a cubin can have an instruction that is looked for, told without a disassembler.

The opcodes of the code are read from its bytes. A section is read where one of them is sought or is not in
the table, so that nothing is left out for want of knowledge; the whole cubin is, where the table was not
checked against the disassembler for its architecture. What is left out is known by its symbols and notes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ptxaudit.frontends.sass.disassemble import INSTRUCTION_BYTES
from ptxaudit.frontends.sass.elf import Cubin
from ptxaudit.frontends.sass.info import decode_attributes, indirect_branch_targets
from ptxaudit.isa.sass.codes import CODE_MASK, CODES, SCANNED_ARCHITECTURES, codes_of
from ptxaudit.isa.sass.opcodes import INDIRECT_BRANCHES

# What the facts of a report count; their numbers stand for nothing else.
COUNTED_ROOTS = ("LDL", "STL")
_Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Screen:
    """Says of the sections of one cubin whether they have to be read for the ``roots`` that are sought."""

    cubin: Cubin
    roots: frozenset[str]

    @staticmethod
    def is_trusted(cubin: Cubin) -> bool:
        """Whether the table of opcodes holds for the architecture of a cubin."""
        return cubin.architecture.number in SCANNED_ARCHITECTURES

    def takes(self, section: str) -> bool:
        """Whether a code section may have one of the opcodes, or something that has to be told of it."""
        code = self.cubin.code.get(section, memoryview(b""))
        if not code or len(code) % INSTRUCTION_BYTES:
            return True
        codes = opcode_numbers(code)
        if bool(_flags(self.roots)[codes].any()):
            return True
        return any(True for _ in self._unlisted_branches(section, codes))

    def _unlisted_branches(self, section: str, codes: NDArray[np.uint64]) -> Iterator[int]:
        """Indirect branches of which nothing says where they go, which a report has a note of."""
        places = np.flatnonzero(_flags(INDIRECT_BRANCHES, unknown=False)[codes])
        if not len(places):
            return
        notes = self.cubin.information.get(f".nv.info.{section.removeprefix('.text.')}", b"")
        targets = indirect_branch_targets(decode_attributes(notes))
        for place in places.tolist():
            if not targets.get(place * INSTRUCTION_BYTES):
                yield place


def opcode_numbers(code: bytes | memoryview) -> NDArray[np.uint64]:
    """The opcode of each instruction of some code, as a number."""
    words = np.frombuffer(code, dtype="<u8", count=len(code) // INSTRUCTION_BYTES * 2)
    numbers: NDArray[np.uint64] = words[::2] & np.uint64(CODE_MASK)
    return numbers


def opcode_counts(code: bytes | memoryview) -> dict[str, int]:
    """How many instructions of code in which every opcode is known load from and store to local memory."""
    numbers = opcode_numbers(code)
    return {root: int(_flags(frozenset({root}), unknown=False)[numbers].sum()) for root in COUNTED_ROOTS}


@lru_cache(maxsize=64)
def _flags(roots: frozenset[str], unknown: bool = True) -> _Flags:
    """For each number whether it is the opcode of one of the roots, or perhaps of one not known."""
    flags = np.zeros(CODE_MASK + 1, dtype=bool)
    if unknown:
        flags[:] = True
        flags[list(CODES)] = False
    flags[list(codes_of(roots))] = True
    return flags
