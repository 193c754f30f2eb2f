"""A large cubin part by part, so that disassembler, listing and functions take a bounded amount of memory.

A part has whole sections, in the order of the cubin, so that all parts together are what the whole is. What
its functions call in other sections is read with it, to be looked up and nothing else.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ptxaudit.arch import Architecture, require_sass_support
from ptxaudit.errors import ToolError
from ptxaudit.frontends.sass import size
from ptxaudit.frontends.sass.apart import sections_apart
from ptxaudit.frontends.sass.disassemble import MOST_AT_ONCE, Section, disassembled, start_nvdisasm
from ptxaudit.frontends.sass.elf import Cubin, read_cubin, read_header
from ptxaudit.frontends.sass.load import lower_cubin, lowered_functions, module_of
from ptxaudit.frontends.sass.lower import Lowering
from ptxaudit.frontends.sass.screen import Screen
from ptxaudit.frontends.sass.screened import lowered_in_order, sections_to_read
from ptxaudit.frontends.sass.sections import Symbol, is_plain, read_sections
from ptxaudit.frontends.sass.summary import is_needed, symbols_by_section
from ptxaudit.ir.function import Function, Module, UnreadFunction
from ptxaudit.ir.operands import Symbol as SymbolOperand
from ptxaudit.stopwatch import STOPWATCH, Stage

_Group = list[Symbol]
# Of what parts call, listings of this part of a part's code are kept: an eighth.
_KEPT_SHARE = 8


@dataclass(frozen=True, slots=True)
class Part:
    """A module of which the first ``own`` functions are the part's; the others are what these may call."""

    module: Module
    own: int


def load_parts(
    data: bytes,
    name: str,
    wanted: Callable[[str], bool] | None = None,
    sought: frozenset[str] | None = None,
) -> Iterator[Part]:
    """The parts of a cubin, each of at most a megabyte of code that is read, or of one section.

    One whose tables do not tell what code it has is one part, however large.
    ``wanted``, ``sought`` and the errors are as for :func:`ptxaudit.frontends.sass.load_cubin`.
    """
    header = read_header(data, name)
    require_sass_support(Architecture(header.architecture_number), name)
    if not is_plain(data, name):
        with STOPWATCH.stage(Stage.FRONT_END), start_nvdisasm(data, name) as run:
            whole = lower_cubin(data, name, header, run, wanted)
        yield Part(whole, len(whole.functions))
        return
    reader = _Reader(data, name, read_cubin(data, name, header), wanted, sought)
    for groups in reader.parts():
        with STOPWATCH.stage(Stage.FRONT_END):
            part = reader.read(groups)
        yield part


class _Reader:
    def __init__(
        self,
        data: bytes,
        name: str,
        cubin: Cubin,
        wanted: Callable[[str], bool] | None,
        sought: frozenset[str] | None,
    ) -> None:
        self._data = data
        self._name = name
        self._cubin = cubin
        table = read_sections(data, name)
        self._sizes = [section.size for section in table]
        self._names = [section.name for section in table]
        groups = sorted(symbols_by_section(data, name), key=lambda group: group[0].section)
        self._groups = [one for one in groups if wanted is None or is_needed(one, wanted)]
        self._taken: frozenset[int] | None = None
        if sought is not None and Screen.is_trusted(cubin):
            self._taken = sections_to_read(Screen(cubin, sought), self._groups, self._names)
        self._holding: dict[str, _Group] = {}
        for group in groups:
            for symbol in group:
                self._holding.setdefault(symbol.name, group)
        self._lowering = Lowering(name, cubin.architecture)
        # Many parts call the same small functions.
        self._kept: dict[int, Section] = {}
        self._kept_bytes = 0

    def parts(self) -> Iterator[list[_Group]]:
        """The sections by parts."""
        part: list[_Group] = []
        held = 0
        for group in self._groups:
            own = self._sizes[group[0].section] if self._is_read(group) else 0
            if part and (held + own > size.LARGEST_PART or len(part) == MOST_AT_ONCE):
                yield part
                part, held = [], 0
            part.append(group)
            held += own
        if part:
            yield part

    def _is_read(self, group: _Group) -> bool:
        return self._taken is None or group[0].section in self._taken

    def read(self, groups: list[_Group]) -> Part:
        """A part with what it calls."""
        own = [group for group in groups if self._is_read(group)]
        sections, unread = self._disassembled(own) if own else ((), ())
        order = [(self._names[group[0].section], self._is_read(group)) for group in groups]
        functions, others = lowered_in_order(order, sections, self._cubin, self._name, self._lowering)
        called = self._called(functions, {group[0].section for group in own})
        lowered = [*functions, *called]
        module = module_of(self._data, self._name, self._lowering, lowered, unread, others)
        self._lowering.next_part()
        return Part(module, len(functions))

    def _disassembled(self, groups: list[_Group]) -> tuple[tuple[Section, ...], tuple[UnreadFunction, ...]]:
        try:
            return disassembled(self._data, self._name, [group[0].index for group in groups]), ()
        except ToolError as error:
            return sections_apart(self._data, self._name, self._cubin.architecture, error, groups)

    def _called(self, functions: list[Function], read: set[int]) -> list[Function]:
        """What functions call in sections that are not read, and what is called there."""
        found: list[Function] = []
        latest = functions
        while True:
            named = (self._holding.get(name) for one in latest for name in _called_names(one))
            missing = {group[0].section: group for group in named if group is not None}
            missing = {section: group for section, group in missing.items() if section not in read}
            if not missing:
                return found
            read |= missing.keys()
            sections = self._listed(missing)
            # Its lines and notes are those of the part that it belongs to.
            lowering = Lowering(self._name, self._cubin.architecture)
            latest = lowered_functions(sections, self._cubin, self._name, lowering)
            found += latest

    def _listed(self, groups: dict[int, _Group]) -> list[Section]:
        """The listings of sections by index, in the order of the cubin; some are kept for later parts."""
        asked = [group for place, group in groups.items() if place not in self._kept]
        sections, _ = self._disassembled(asked) if asked else ((), ())
        listed = {section.name: section for section in sections}
        found: list[Section] = []
        for place in sorted(groups):
            section = self._kept.get(place) or listed.get(self._names[place])
            if section is not None:
                found.append(section)
                self._keep(place, section)
        return found

    def _keep(self, place: int, section: Section) -> None:
        """Keep a listing for later parts while there is room for it."""
        held = self._kept_bytes + self._sizes[place]
        if place not in self._kept and held <= size.LARGEST_PART // _KEPT_SHARE:
            self._kept[place] = section
            self._kept_bytes = held


def _called_names(function: Function) -> Iterator[str]:
    for instruction in function.instructions:
        if instruction.opcode.startswith("CALL"):
            for operand in instruction.operands:
                if isinstance(operand, SymbolOperand):
                    yield operand.name
