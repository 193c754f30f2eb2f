"""The ``nvdisasm -json`` driver: raw instructions of every code section of a cubin."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ptxaudit.errors import ToolError
from ptxaudit.frontends.sass.own_names import for_nvdisasm, with_reported_names
from ptxaudit.frontends.sass.sections import code_sizes
from ptxaudit.frontends.sass.tools import ToolRun

INSTRUCTION_BYTES = 16
# So many functions are asked for at once: their numbers have to fit into an argument of a command.
MOST_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Section:
    """The instructions of one code section as nvdisasm names them, ``INSTRUCTION_BYTES`` apart.

    ``instructions`` are the JSON objects: ``opcode``, ``operands``, ``predicate``, each but the first
    only where there is one.
    """

    name: str
    start: int
    instructions: list[dict[str, Any]]


class IncompleteListing(ToolError):
    """A listing lacks code of the cubin; ``whole`` are the sections that are there with all of theirs."""

    def __init__(self, message: str, whole: Mapping[str, Section]) -> None:
        super().__init__(message)
        self.whole = whole


class Disassembler(ToolRun):
    """nvdisasm running on a cubin, or on the sections of the functions with these indices."""

    def __init__(self, data: bytes, file: str, symbols: Collection[int] | None) -> None:
        restricted = [] if symbols is None else ["-fun", ",".join(map(str, symbols))]
        super().__init__("nvdisasm", ["-json", *restricted], for_nvdisasm(data, file, symbols), file)
        self._data = data
        self._symbols = symbols

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The bytes of code that are to be listed, by section."""
        return code_sizes(self._data, self.name, self._symbols)

    def output(self) -> bytes:
        """What it printed, with names as reports have them; raises :class:`ToolError`."""
        return with_reported_names(super().output())

    def sections(self) -> tuple[Section, ...]:
        """The sections, each once: a copy is listed under the name of what it is a copy of.

        Raises :class:`IncompleteListing` where some are not there with all their bytes: what nvdisasm passes
        over without a word, as it does malformed ones, would not be audited, and nobody would know.
        """
        listed = {section.name: section for section in parse_listing(self.output(), self.name)}
        whole = {name: one for name, one in listed.items() if end_of(one) == self.sizes.get(name)}
        for name, expected in self.sizes.items():
            if name not in whole:
                found = end_of(listed[name]) if name in listed else 0
                told = f"nvdisasm lists {found:#x} bytes of {name}, expected {expected:#x}"
                raise IncompleteListing(f"{self.name}: {told}", whole)
        return tuple(whole.values())


def start_nvdisasm(data: bytes, file: str, symbols: Collection[int] | None = None) -> Disassembler:
    """A disassembler that runs on a cubin, or on the sections of the functions with these indices.

    The header must have been checked; raises :class:`BinaryFault` for malformed section or symbol tables.
    """
    return Disassembler(data, file, symbols)


def disassembled(data: bytes, file: str, symbols: Collection[int]) -> tuple[Section, ...]:
    """The sections of the functions with these indices; raises :class:`ToolError`."""
    with start_nvdisasm(data, file, symbols) as run:
        return run.sections()


def parse_listing(output: bytes, file: str) -> tuple[Section, ...]:
    """The sections in what ``nvdisasm -json`` printed; raises :class:`ToolError` when it is no such text."""
    try:
        return tuple(_sections(json.loads(output)[1]))
    except (ValueError, OverflowError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ToolError(
            f"{file}: found output of nvdisasm that cannot be read ({error}), expected its JSON listing"
        ) from error


def _sections(entries: Iterable[dict[str, Any]]) -> Iterator[Section]:
    """The sections: nvdisasm before 13.5 has an entry of its own for each further function of one.

    The first entry of a section then states the length of all of it, and the next begins where its
    instructions end.
    """
    section: Section | None = None
    end = 0
    for entry in entries:
        start, length, instructions = int(entry["start"]), int(entry["length"]), _instructions(entry)
        if section is not None and start == end_of(section) and start + length <= end:
            section.instructions.extend(instructions)
            continue
        if section is not None:
            yield section
        section, end = Section(f".text.{entry['function-name']}", start, instructions), start + length
    if section is not None:
        yield section


def end_of(section: Section) -> int:
    """Where the instructions of a section end, in bytes from its begin."""
    return section.start + INSTRUCTION_BYTES * len(section.instructions)


def _instructions(entry: dict[str, Any]) -> list[dict[str, Any]]:
    instructions: list[dict[str, Any]] = entry["sass-instructions"]
    if not isinstance(instructions, list):
        raise TypeError("instructions that are no list")
    for one in instructions:
        parts = one["opcode"], one.get("operands", ""), one.get("predicate", "")
        if not (isinstance(parts[0], str) and isinstance(parts[1], str) and isinstance(parts[2], str)):
            raise ValueError(f"an instruction of {parts}")
    return instructions
