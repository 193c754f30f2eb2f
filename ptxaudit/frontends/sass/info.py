"""The attribute records of ``.nv.info`` (and ``.nv.compat``), and the launch facts they state.

A record is a format byte, a code byte and a 16-bit value; in format 4 that value is the size of the
payload that follows. Codes are those that ``cuobjdump -elf`` names ``EIATTR_*``.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from ptxaudit.ir.function import LaunchFacts

_SIZED = 4
_UNKNOWN_SIZE = 0xFFFFFFFF


class Code(IntEnum):
    """The attributes that the front end understands (``EIATTR_`` and the name)."""

    MAX_THREADS = 0x05
    REQNTID = 0x10
    FRAME_SIZE = 0x11
    MIN_STACK_SIZE = 0x12
    KPARAM_INFO = 0x17
    MAXREG_COUNT = 0x1B
    EXIT_INSTR_OFFSETS = 0x1C
    REGCOUNT = 0x2F
    INDIRECT_BRANCH_TARGETS = 0x34
    NUM_MBARRIERS = 0x38
    MBARRIER_INSTR_OFFSETS = 0x39
    CTA_PER_CLUSTER = 0x3D
    EXPLICIT_CLUSTER = 0x3E
    MAX_CLUSTER_RANK = 0x3F
    NUM_BARRIERS = 0x4C
    TCGEN05_1CTA_USED = 0x51
    TCGEN05_2CTA_USED = 0x52
    REG_RECONFIG = 0x54
    PREEXIT_USED = 0x6D


@dataclass(frozen=True, slots=True)
class Attribute:
    """One record: ``number`` is the inline value, ``payload`` the bytes of a sized record."""

    code: int
    number: int
    payload: bytes = b""

    @property
    def words(self) -> tuple[int, ...]:
        """The payload as unsigned 32-bit words (a trailing part of a word is dropped)."""
        count = len(self.payload) // 4
        return struct.unpack_from(f"<{count}I", self.payload)


def decode_attributes(content: bytes) -> tuple[Attribute, ...]:
    """The records of a section; one that overruns the section ends the list."""
    records: list[Attribute] = []
    position = 0
    while position + 4 <= len(content):
        form, code, number = struct.unpack_from("<BBH", content, position)
        position += 4
        payload = content[position : position + number] if form == _SIZED else b""
        if form == _SIZED:
            position += number
            if len(payload) < number:
                break
        records.append(Attribute(code, number, payload))
    return tuple(records)


def indirect_branch_targets(attributes: Iterable[Attribute]) -> dict[int, tuple[int, ...]]:
    """Byte offsets that each indirect branch may go to, by the offset of the branch."""
    targets: dict[int, tuple[int, ...]] = {}
    for attribute in attributes:
        if attribute.code == Code.INDIRECT_BRANCH_TARGETS:
            targets.update(_branch_table(attribute.words))
    return targets


def _branch_table(words: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
    """Entries of a branch offset, a zero word, a count, and as many target offsets."""
    table: dict[int, tuple[int, ...]] = {}
    position = 0
    while position + 3 <= len(words):
        branch, _, count = words[position : position + 3]
        position += 3
        table[branch] = tuple(words[position : position + count])
        position += count
    return table


def launch_facts(own: Iterable[Attribute], common: Iterable[Attribute], symbol_index: int) -> LaunchFacts:
    """Facts of the function with ``symbol_index``: ``own`` from its section, ``common`` from ``.nv.info``.

    ``attributes`` of the result has ``named_barriers``, ``mbarriers``, ``mbarrier_instructions`` (byte
    offsets), ``exits`` (byte offsets), ``frame_bytes``, ``stack_bytes``, ``register_reconfiguration``,
    ``launches_dependents`` and ``tensor_pair``, each only where the cubin states it.
    """
    numbers: dict[int, int] = {}
    words: dict[int, tuple[int, ...]] = {}
    for attribute in own:
        numbers[attribute.code] = attribute.number
        words[attribute.code] = attribute.words
    shared = {a.code: a.words[1] for a in common if len(a.words) == 2 and a.words[0] == symbol_index}
    limit = numbers.get(Code.MAXREG_COUNT, 0)
    rank = words.get(Code.MAX_CLUSTER_RANK)
    return LaunchFacts(
        required_threads=_triple(words.get(Code.REQNTID)),
        maximum_threads=_triple(words.get(Code.MAX_THREADS)),
        cluster=_triple(words.get(Code.CTA_PER_CLUSTER)),
        explicit_cluster=Code.EXPLICIT_CLUSTER in numbers,
        maximum_cluster_rank=rank[0] if rank else None,
        maximum_registers=limit or None,
        registers=shared.get(Code.REGCOUNT),
        attributes=_other_facts(numbers, words, shared),
    )


def _triple(words: tuple[int, ...] | None) -> tuple[int, int, int] | None:
    return (words[0], words[1], words[2]) if words and len(words) >= 3 else None


def _other_facts(
    numbers: dict[int, int], words: dict[int, tuple[int, ...]], shared: dict[int, int]
) -> dict[str, object]:
    facts: dict[str, object] = {}
    for name, code in (("named_barriers", Code.NUM_BARRIERS), ("mbarriers", Code.NUM_MBARRIERS)):
        if code in numbers:
            facts[name] = numbers[code]
    for name, code in (("frame_bytes", Code.FRAME_SIZE), ("stack_bytes", Code.MIN_STACK_SIZE)):
        if shared.get(code, _UNKNOWN_SIZE) != _UNKNOWN_SIZE:
            facts[name] = shared[code]
    if Code.EXIT_INSTR_OFFSETS in words:
        facts["exits"] = words[Code.EXIT_INSTR_OFFSETS]
    if Code.MBARRIER_INSTR_OFFSETS in words:
        facts["mbarrier_instructions"] = words[Code.MBARRIER_INSTR_OFFSETS][::4]
    if Code.REG_RECONFIG in numbers:
        facts["register_reconfiguration"] = True
    if Code.PREEXIT_USED in numbers:
        facts["launches_dependents"] = bool(numbers[Code.PREEXIT_USED] & 0xFF)
    if Code.TCGEN05_1CTA_USED in numbers or Code.TCGEN05_2CTA_USED in numbers:
        facts["tensor_pair"] = Code.TCGEN05_2CTA_USED in numbers
    return facts
