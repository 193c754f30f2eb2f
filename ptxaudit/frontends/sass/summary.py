"""What a cubin holds, without disassembling it: its architecture, the names of its functions, its size.

A listing of a library asks this of each of a thousand cubins; :mod:`ptxaudit.frontends.sass.elf` reads all
that an audit needs.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ptxaudit.arch import Architecture
from ptxaudit.frontends.sass.disassemble import MOST_AT_ONCE
from ptxaudit.frontends.sass.elf import read_header
from ptxaudit.frontends.sass.notes import COMPATIBILITY, TOOLKIT_NOTE, assembler_options, target_suffix
from ptxaudit.frontends.sass.sections import (
    HEADER,
    SECTION,
    WITHOUT_CONTENT,
    Symbol,
    content_of,
    distinct_symbols,
    is_plain,
    read_sections,
)


@dataclass(frozen=True, slots=True)
class CubinSummary:
    """``kernels`` can be launched; ``functions`` are the others. Names are as they stand in the file."""

    architecture: Architecture
    kernels: tuple[str, ...]
    functions: tuple[str, ...]


def summarise_cubin(data: bytes, file: str) -> CubinSummary:
    """The summary of a whole cubin; raises :class:`BinaryFault` for a malformed file."""
    header = read_header(data, file)
    sections = read_sections(data, file)
    named = {section.name: section for section in sections}
    options = assembler_options(content_of(data, named.get(TOOLKIT_NOTE)))
    suffix = target_suffix(header, options, content_of(data, named.get(COMPATIBILITY)))
    symbols = list(distinct_symbols(data, sections, file))
    return CubinSummary(
        Architecture(header.architecture_number, suffix),
        tuple(one.name for one in symbols if one.is_kernel),
        tuple(one.name for one in symbols if not one.is_kernel),
    )


def symbols_to_read(data: bytes, file: str, takes: Callable[[str], bool]) -> tuple[int, ...] | None:
    """Indices of the symbols to disassemble for the functions that ``takes`` says yes to.

    Sections without a kernel are read too: a kernel may call what is in them. ``None`` when that is all of
    the cubin, or more than a command line holds, and where its tables do not tell. Raises
    :class:`BinaryFault` for a malformed file.
    """
    read_header(data, file)
    if not is_plain(data, file):
        return None
    held = symbols_by_section(data, file)
    chosen = [symbols for symbols in held if is_needed(symbols, takes)]
    if len(chosen) == len(held) or len(chosen) > MOST_AT_ONCE:
        return None
    return tuple(symbols[0].index for symbols in chosen)


def symbols_by_section(data: bytes, file: str) -> list[list[Symbol]]:
    """The functions that share a section, for each section that has some and is no copy of another.

    Raises :class:`BinaryFault`.
    """
    held: dict[int, list[Symbol]] = {}
    for symbol in distinct_symbols(data, read_sections(data, file), file):
        held.setdefault(symbol.section, []).append(symbol)
    return list(held.values())


def is_needed(symbols: list[Symbol], takes: Callable[[str], bool]) -> bool:
    """Whether a section is read for the functions that ``takes`` says yes to: it may hold what they call."""
    return not any(one.is_kernel for one in symbols) or any(takes(one.name) for one in symbols)


def cubin_extent(read: Callable[[int, int], bytes], most: int) -> int | None:
    """How many bytes an ELF file takes that is somewhere in a larger one, at most ``most``.

    ``read`` gives bytes by offset from the ELF header and size. ``None`` when the header is not that of a
    whole 64-bit little-endian ELF file.
    """
    head = read(0, HEADER.size)
    if len(head) < HEADER.size or head[:6] != b"\x7fELF\x02\x01":
        return None
    fields = HEADER.unpack(head)
    programs, table, program_size, program_count = fields[5], fields[6], fields[9], fields[10]
    entry_size, entries = fields[11], fields[12]
    ends = [HEADER.size, programs + program_size * program_count, table + entry_size * entries]
    if entry_size != SECTION.size or table + entry_size * entries > most:
        return None
    content = read(table, entry_size * entries)
    for _, kind, _, _, offset, size, *_ in SECTION.iter_unpack(content[: entries * SECTION.size]):
        if kind not in WITHOUT_CONTENT:
            ends.append(offset + size)
    extent = max(ends)
    return extent if extent <= most else None
