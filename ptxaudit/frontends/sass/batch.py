"""Small cubins disassembled together: nvdisasm takes longer to start than to read one of them.

The code sections that are to be read are put into one ELF file, each under a name of its own, with symbols
for the functions in them, by which calls and returns are spelled. All else that a cubin holds is left out:
it does not show in the listing of code that no relocation applies to. Other cubins are read alone, and so is
each when anything fails on all together.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ptxaudit.frontends.sass.disassemble import Section, parse_listing, start_nvdisasm
from ptxaudit.frontends.sass.elf import read_cubin, read_header
from ptxaudit.frontends.sass.elf_writer import elf_file
from ptxaudit.frontends.sass.screened import sections_of_interest
from ptxaudit.frontends.sass.sections import (
    HEADER,
    REGISTERS,
    SECTION,
    SYMBOL,
    Symbol,
    code_symbols,
    read_sections,
    read_symbols,
)
from ptxaudit.frontends.sass.size import is_linked

_Part = tuple[tuple[int, ...], bytes | bytearray]
_IDENTITY = slice(0, 24)  # e_ident, e_type, e_machine, e_version
_FLAGS = slice(48, 52)  # e_flags
_SYMBOL_NAME = "ptxaudit_symbol_"
_SYMBOL_TOKEN = re.compile(rf"{_SYMBOL_NAME}(\d+)_".encode())
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.$@]+")
_GLOBAL_FUNCTION, _WEAK_FUNCTION, _KERNEL = 0x12, 0x22, 0x10  # st_info, st_other
_STRINGS, _SYMBOLS, _FIRST_CODE = 2, 3, 4  # sections of the common file; 1 are their names
_CODE_ALIGNMENT = 128


@dataclass(frozen=True, slots=True)
class Plan:
    """A cubin that can be read together with others, and the sections that are to be read of it, by index."""

    data: bytes
    name: str
    sections: tuple[int, ...]


def planned(
    data: bytes, name: str, sought: frozenset[str] | None, wanted: Callable[[str], bool] | None
) -> Plan | None:
    """What to read of a cubin; ``None`` for one that has to be read alone, for whatever reason.

    ``sought`` and ``wanted`` are as for :func:`ptxaudit.frontends.sass.load_cubin`.
    """
    if not is_linked(data):
        return None
    try:
        cubin = read_cubin(data, name, read_header(data, name))
        sections = sections_of_interest(data, name, cubin, sought, wanted)
        if sections is None or not _is_simple(data, name, frozenset(sections)):
            return None
    except Exception:
        return None  # reading it alone says what is wrong
    return Plan(data, name, sections)


def _is_simple(data: bytes, name: str, chosen: frozenset[int]) -> bool:
    """Whether functions are all that the code refers to, and each is known by its place."""
    table = read_sections(data, name)
    if any(one.size and one.name.startswith((".rel.text", ".rela.text")) for one in table):
        return False
    symbols = [one for one in read_symbols(data, table, name) if one.section in chosen]
    places = {(one.section, one.value) for one in symbols}
    named = {one.section for one in symbols if table[one.section].name == f".text.{one.name}"}
    return (
        len(places) == len(symbols)
        and named == chosen
        and code_symbols(data, table) == len(list(read_symbols(data, table, name)))
        and all(_PLAIN_NAME.fullmatch(one.name) for one in symbols)
    )


def disassembled_together(plans: Sequence[Plan]) -> dict[int, dict[str, Section]]:
    """The sections of cubins, by name, under the place of their plan; none of those that have to be read
    alone."""
    kinds: dict[bytes, list[int]] = {}
    listings: dict[int, dict[str, Section]] = {}
    for place, plan in enumerate(plans):
        if not plan.sections:
            listings[place] = {}
        else:
            kind = plan.data[_IDENTITY] + plan.data[_FLAGS]
            kinds.setdefault(kind, []).append(place)
    for places in kinds.values():
        if len(places) > 1:
            listings |= _listings([plans[place] for place in places], places)
    return listings


def _listings(plans: Sequence[Plan], places: Sequence[int]) -> dict[int, dict[str, Section]]:
    try:
        common = _Common(plans)
        with start_nvdisasm(common.file(), "several cubins") as run:
            sections = parse_listing(common.renamed(run.output()), "several cubins")
    except Exception:
        return {}  # a fault is of the cubin that has it when it is read alone
    if [section.name for section in sections] != [name for _, name in common.owners]:
        return {}
    listings: dict[int, dict[str, Section]] = {place: {} for place in places}
    for section, (plan, name) in zip(sections, common.owners, strict=True):
        listings[places[plan]][name] = section
    return listings


class _Common:
    """One ELF file of the code of several cubins; ``owners`` has the plan and the name of each section."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        self._plans = plans
        self._names = bytearray(b"\0")
        self._strings = bytearray(b"\0")
        self._symbols = bytearray(SYMBOL.size)
        self._spelled: list[str] = []
        self.owners: list[tuple[int, str]] = []

    def file(self) -> bytes:
        """The content of the file."""
        code = list(self._code())
        strings = (self._name(".strtab"), 3, 0, 0, 0, 0, 0, 0, 1, 0)
        symbols = (self._name(".symtab"), 2, 0, 0, 0, 0, _STRINGS, 1, 8, SYMBOL.size)
        names = (self._name(".shstrtab"), 3, 0, 0, 0, 0, 0, 0, 1, 0)
        parts: list[_Part] = [
            ((0,) * 10, b""),  # the ELF format's first entry is empty
            (names, self._names),
            (strings, self._strings),
            (symbols, self._symbols),
            *code,
        ]
        header = list(HEADER.unpack_from(self._plans[0].data))
        header[12:14] = len(parts), 1  # e_shnum, e_shstrndx
        return elf_file(header, parts)

    def renamed(self, output: bytes) -> bytes:
        """The listing with the functions called as in their cubins."""
        return _SYMBOL_TOKEN.sub(lambda match: self._spelled[int(match[1])].encode(), output)

    def _code(self) -> Iterator[_Part]:
        for number, plan in enumerate(self._plans):
            table = read_sections(plan.data, plan.name)
            first = HEADER.unpack_from(plan.data)[6]
            held: dict[int, list[Symbol]] = {}
            for symbol in read_symbols(plan.data, table, plan.name):
                held.setdefault(symbol.section, []).append(symbol)
            for index in plan.sections:
                section = table[index]
                fields = SECTION.unpack_from(plan.data, first + index * SECTION.size)
                place = _FIRST_CODE + len(self.owners)
                own = len(self._symbols) // SYMBOL.size
                name = 0
                for symbol in held[index]:
                    spelling = self._add(symbol, place)
                    # The disassembler finds the function of a section by its name.
                    if section.name == f".text.{symbol.name}":
                        name = self._name(f".text.{spelling}")
                self.owners.append((number, section.name))
                information = fields[7] & REGISTERS | own
                content = plan.data[section.offset : section.offset + section.size]
                yield (name, *fields[1:4], 0, 0, _SYMBOLS, information, _CODE_ALIGNMENT, 0), content

    def _add(self, symbol: Symbol, section: int) -> str:
        name, spelling = len(self._strings), f"{_SYMBOL_NAME}{len(self._spelled)}_"
        self._strings += f"{spelling}\0".encode()
        self._spelled.append(symbol.name)
        kind, other = (_GLOBAL_FUNCTION, _KERNEL) if symbol.is_kernel else (_WEAK_FUNCTION, 0)
        self._symbols += SYMBOL.pack(name, kind, other, section, symbol.value, symbol.size)
        return spelling

    def _name(self, name: str) -> int:
        offset = len(self._names)
        self._names += name.encode() + b"\0"
        return offset
