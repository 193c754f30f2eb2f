"""Lookup of PTX opcodes: the instruction an opcode names, its modifiers, and which operands it writes.

Property: a position in ``written`` or ``read_written`` may receive a register value; every other position is
only read. The answer depends on the opcode and the number of operands alone, so it over-approximates where
an optional operand before a destination makes positions ambiguous, and for unknown opcodes. A position that
holds a memory operand (``[a]``), an immediate or the sink ``_`` is never a written register, whatever is said
here: the caller masks these. Known limits: which modifiers go together and in which order is not checked;
byte and half-word selectors of video instructions belong to operands; ``call`` says nothing of its return
values.
"""

import itertools
from dataclasses import dataclass
from functools import lru_cache

from ptxaudit.isa.ptx.table import Form, Table, ptx_table


@dataclass(frozen=True, slots=True)
class InstructionForm:
    """What an opcode string means.

    ``name`` is the canonical instruction name (``mbarrier.try_wait``), or the first component of an unknown
    opcode; ``modifiers`` the components after the name, as spelled, without dots. ``written`` are the operand
    positions that are overwritten (``p|q`` is one position), ``read_written`` those that are read as well
    (accumulators). ``known`` is false if the table has not the name, or not one of the modifiers; these are
    then ``unknown_modifiers``, which is empty for an unknown name.
    """

    name: str
    modifiers: tuple[str, ...]
    written: tuple[int, ...]
    read_written: tuple[int, ...]
    unknown_modifiers: tuple[str, ...]
    known: bool


def _split_name(components: tuple[str, ...], table: Table) -> tuple[str, tuple[str, ...]] | None:
    """Canonical name and modifiers by the longest spelling in the table that starts the opcode."""
    for length in range(min(len(components), table.longest_spelling), 0, -1):
        found = table.spellings.get(components[:length])
        if found is not None:
            name, optional = found
            return name, optional + components[length:]
    return None


def _best_form(forms: tuple[Form, ...], modifiers: frozenset[str], operand_count: int) -> Form:
    """The form that the opcode spells: an accepting one, of fitting operand count, demanding the most."""

    def fitness(form: Form) -> tuple[bool, bool, int]:
        least, greatest = form.operand_range
        satisfied = sum(any(modifiers.issuperset(part) for part in choice) for choice in form.required)
        return form.accepts(modifiers), least <= operand_count <= greatest, satisfied

    return max(forms, key=fitness)


def _roles(form: Form, operand_count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Positions written, and read and written, under any choice of optional operands of that number."""
    least, greatest = form.operand_range
    optional = [index for index, operand in enumerate(form.operands) if operand.optional]
    left_out = min(max(greatest - operand_count, 0), greatest - least)
    written: set[int] = set()
    read_written: set[int] = set()
    for absent in itertools.combinations(optional, left_out):
        present = [operand for index, operand in enumerate(form.operands) if index not in absent]
        for position, operand in enumerate(present[:operand_count]):
            if operand.written:
                (read_written if operand.read else written).add(position)
    return tuple(sorted(written)), tuple(sorted(read_written))


@lru_cache(maxsize=16384)
def instruction_form(opcode: str, operand_count: int) -> InstructionForm:
    """Look up an opcode as spelled (``mbarrier.try_wait.parity.shared::cta.b64``) with its operand count.

    Operands are counted as the commas outside of brackets, braces and parentheses separate them. An unknown
    opcode, or one with an unknown modifier, may write operand 0 if it has two operands or more. Pure.
    """
    table = ptx_table()
    components = tuple(opcode.split("."))
    guess = (0,) if operand_count >= 2 else ()
    split = _split_name(components, table)
    if split is None:
        return InstructionForm(components[0], components[1:], guess, (), (), known=False)
    name, modifiers = split
    unknown = tuple(modifier for modifier in modifiers if modifier not in table.vocabularies[name])
    form = _best_form(table.forms[name], frozenset(modifiers) - frozenset(unknown), operand_count)
    written, read_written = _roles(form, operand_count)
    if unknown:
        written = tuple(sorted({*written, *guess} - {*read_written}))
    return InstructionForm(name, modifiers, written, read_written, unknown, known=not unknown)
