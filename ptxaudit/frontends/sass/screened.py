"""A cubin of which only those functions are read that may have an instruction that is looked for."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from ptxaudit.arch import Architecture, require_sass_support
from ptxaudit.errors import ToolError
from ptxaudit.frontends.sass.apart import sections_apart
from ptxaudit.frontends.sass.disassemble import MOST_AT_ONCE, Section, disassembled
from ptxaudit.frontends.sass.elf import Cubin, read_cubin, read_header
from ptxaudit.frontends.sass.load import lowered_functions, module_of, ruled_out
from ptxaudit.frontends.sass.lower import Lowering
from ptxaudit.frontends.sass.screen import Screen, opcode_counts
from ptxaudit.frontends.sass.sections import Symbol, is_plain, read_sections
from ptxaudit.frontends.sass.size import carries_ptx
from ptxaudit.frontends.sass.summary import is_needed, symbols_by_section
from ptxaudit.ir.function import Function, Module, UnreadFunction
from ptxaudit.stopwatch import STOPWATCH, Stage

Group = list[Symbol]
"""The functions that share a section."""


def load_screened(
    data: bytes, name: str, sought: frozenset[str], wanted: Callable[[str], bool] | None
) -> Module | None:
    """The module of a cubin, read as far as it may have one of the root mnemonics ``sought``.

    ``None`` where all of it has to be read. ``wanted`` and the errors are as for
    :func:`ptxaudit.frontends.sass.load_cubin`.
    """
    header = read_header(data, name)
    require_sass_support(Architecture(header.architecture_number), name)
    cubin = read_cubin(data, name, header)
    chosen = sections_of_interest(data, name, cubin, sought, wanted)
    if chosen is None or len(chosen) > MOST_AT_ONCE:
        return None
    needed = _needed(data, name, wanted)
    if len(chosen) == len(needed):
        return None
    is_chosen = [group[0].section in chosen for _, group in needed]
    taken = [group for (_, group), is_read in zip(needed, is_chosen, strict=True) if is_read]
    sections, unread = _read(data, name, cubin, taken)
    order = [(section, is_read) for (section, _), is_read in zip(needed, is_chosen, strict=True)]
    lowering = Lowering(name, cubin.architecture)
    functions, others = lowered_in_order(order, sections, cubin, name, lowering)
    return module_of(data, name, lowering, functions, unread, others)


def lower_listing(
    data: bytes, name: str, listing: Mapping[str, Section], wanted: Callable[[str], bool] | None
) -> Module:
    """The module of a cubin of which the sections of interest have been disassembled."""
    cubin = read_cubin(data, name, read_header(data, name))
    order = [(section, section in listing) for section, _ in _needed(data, name, wanted)]
    lowering = Lowering(name, cubin.architecture)
    functions, others = lowered_in_order(order, listing.values(), cubin, name, lowering)
    return module_of(data, name, lowering, functions, (), others)


def sections_of_interest(
    data: bytes,
    name: str,
    cubin: Cubin,
    sought: frozenset[str] | None,
    wanted: Callable[[str], bool] | None,
) -> tuple[int, ...] | None:
    """The code sections to read for ``sought`` and ``wanted``, by index; ``None`` if tables do not tell."""
    if not is_plain(data, name):
        return None
    needed = _needed(data, name, wanted)
    if sought is None or not Screen.is_trusted(cubin):
        return tuple(group[0].section for _, group in needed)
    table = [one.name for one in read_sections(data, name)]
    taken = sections_to_read(Screen(cubin, sought), [group for _, group in needed], table)
    # The PTX that a cubin carries is of all functions, and is read where one of them has a finding.
    everything = bool(taken) and carries_ptx(data)
    return tuple(group[0].section for _, group in needed if everything or group[0].section in taken)


def _needed(data: bytes, name: str, wanted: Callable[[str], bool] | None) -> list[tuple[str, Group]]:
    """The code sections in their order, with the functions in them, that ``wanted`` leaves."""
    table = read_sections(data, name)
    groups = sorted(symbols_by_section(data, name), key=lambda group: group[0].section)
    return [(table[one[0].section].name, one) for one in groups if wanted is None or is_needed(one, wanted)]


@STOPWATCH.stage(Stage.SCANNING)
def sections_to_read(screen: Screen, groups: Iterable[Group], names: Sequence[str]) -> frozenset[int]:
    """Which sections have to be read; where any has, those without a kernel too, since it may call them."""
    groups = list(groups)
    taken = {one[0].section for one in groups if screen.takes(names[one[0].section])}
    if taken:
        taken |= {one[0].section for one in groups if not any(symbol.is_kernel for symbol in one)}
    return frozenset(taken)


def _read(
    data: bytes, name: str, cubin: Cubin, groups: list[Group]
) -> tuple[tuple[Section, ...], tuple[UnreadFunction, ...]]:
    if not groups:
        return (), ()
    try:
        return disassembled(data, name, [group[0].index for group in groups]), ()
    except ToolError as error:
        return sections_apart(data, name, cubin.architecture, error, groups)


def lowered_in_order(
    order: Iterable[tuple[str, bool]],
    sections: Iterable[Section],
    cubin: Cubin,
    name: str,
    lowering: Lowering,
) -> tuple[list[Function], dict[int, tuple[Function, ...]]]:
    """The functions of sections that were read, and those of the others by how many of these come before.

    ``order`` names the sections in the order of the cubin, each with whether it was to be read.
    """
    held = {section.name: section for section in sections}
    functions: list[Function] = []
    others: dict[int, tuple[Function, ...]] = {}
    for section, is_read in order:
        if not is_read:
            place = len(functions)
            others[place] = (*others.get(place, ()), *ruled_out(section, cubin, lowering, opcode_counts))
        elif section in held:
            functions += lowered_functions([held[section]], cubin, name, lowering)
    return functions, others
