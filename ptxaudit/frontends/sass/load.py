"""A cubin whose disassembler runs already to :class:`ptxaudit.ir.function.Module` with control flow."""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache

from ptxaudit.errors import BinaryFault, ToolError
from ptxaudit.frontends.collection import collection_paused
from ptxaudit.frontends.demangle import demangle
from ptxaudit.frontends.sass.apart import sections_apart
from ptxaudit.frontends.sass.disassemble import (
    INSTRUCTION_BYTES,
    Disassembler,
    IncompleteListing,
    Section,
    end_of,
)
from ptxaudit.frontends.sass.elf import Cubin, FunctionSymbol, read_cubin
from ptxaudit.frontends.sass.info import Attribute, decode_attributes, indirect_branch_targets, launch_facts
from ptxaudit.frontends.sass.lower import Body, Lowering
from ptxaudit.frontends.sass.notes import CubinHeader
from ptxaudit.frontends.sass.sections import CODE, read_sections
from ptxaudit.frontends.sass.summary import is_needed, symbols_by_section
from ptxaudit.ir.function import Function, Language, Module, UnreadFunction


def lower_cubin(
    data: bytes,
    name: str,
    header: CubinHeader,
    run: Disassembler,
    wanted: Callable[[str], bool] | None = None,
) -> Module:
    """Lower every function of a cubin from what ``run``, a disassembler of ``data``, prints.

    Where that fails, the functions are disassembled apart, those that ``wanted`` says yes to.
    Raises :class:`BinaryFault` for a malformed file, :class:`ToolError` when the disassembler fails on every
    function.
    """
    cubin = read_cubin(data, name, header)
    unread: tuple[UnreadFunction, ...] = ()
    try:
        sections = run.sections()
    except IncompleteListing as error:
        if not error.whole:
            raise
        sections = tuple(error.whole.values())
        unread = tuple(_not_listed(data, cubin, name, run.sizes.keys() - error.whole.keys(), str(error)))
    except ToolError as error:
        groups = [one for one in symbols_by_section(data, name) if wanted is None or is_needed(one, wanted)]
        sections, unread = sections_apart(data, name, cubin.architecture, error, groups)
    lowering = Lowering(name, cubin.architecture)
    functions = lowered_functions(sections, cubin, name, lowering)
    return module_of(data, name, lowering, functions, unread)


def _not_listed(
    data: bytes, cubin: Cubin, name: str, sections: Collection[str], reason: str
) -> Iterator[UnreadFunction]:
    """The functions of sections that a listing lacks; of one without any it is the section's name."""
    table = read_sections(data, name)
    held = {table[group[0].section].name: group for group in symbols_by_section(data, name)}
    for section in sorted(sections):
        known = [(one.name, one.is_kernel) for one in held.get(section, ())]
        for function, is_kernel in known or [(section.removeprefix(CODE), True)]:
            yield UnreadFunction(function, demangle(function), cubin.architecture, is_kernel, reason)


def lowered_functions(
    sections: Iterable[Section], cubin: Cubin, name: str, lowering: Lowering
) -> list[Function]:
    """The functions of some sections of a cubin; raises :class:`BinaryFault`."""
    functions: list[Function] = []
    with collection_paused():
        for section in sections:
            functions.extend(lowering.function(body) for body in _bodies(section, cubin, name))
    return functions


def module_of(
    data: bytes,
    name: str,
    lowering: Lowering,
    functions: list[Function],
    unread: tuple[UnreadFunction, ...],
    others: Mapping[int, tuple[Function, ...]] | None = None,
) -> Module:
    """The module of functions that were lowered from a cubin, with the listing and notes that came of it."""
    return Module(
        name=name,
        language=Language.SASS,
        architecture=lowering.architecture,
        functions=tuple(functions),
        text="\n".join(lowering.lines) + "\n",
        notes=tuple(lowering.notes),
        sha256=hashlib.sha256(data).hexdigest(),
        unread=unread,
        ruled_out=others or {},
    )


def ruled_out(
    section: str, cubin: Cubin, lowering: Lowering, counts: Callable[[memoryview], Mapping[str, int]]
) -> list[Function]:
    """The functions of a section that is not read, without their code; their lines are left empty.

    ``counts`` tells of code how many instructions of the roots that reports count it has.
    """
    code = cubin.code[section]
    functions: list[Function] = []
    for symbol, end in _extents(section, 0, len(code), cubin):
        body = _body(symbol, Section(section, 0, []), end, cubin)
        lowering.pass_over(body.name, (end - symbol.start) // INSTRUCTION_BYTES)
        functions.append(
            Function(
                body.name,
                body.demangled,
                Language.SASS,
                lowering.architecture,
                body.is_entry,
                (),
                (),
                body.facts,
                opcode_counts=counts(code[symbol.start : end]),
            )
        )
    return functions


def _bodies(section: Section, cubin: Cubin, file: str) -> list[Body]:
    """Split a section's code at its function symbols; helpers that share it become functions of their own."""
    size = end_of(section)
    expected = len(cubin.code[section.name]) if section.name in cubin.code else size
    if size != expected:
        raise BinaryFault(file, None, f"{size:#x} bytes disassembled", f"{expected:#x} in {section.name}")
    extents = _extents(section.name, section.start, size, cubin)
    return [_body(symbol, section, end, cubin) for symbol, end in extents]


def _extents(section: str, first: int, size: int, cubin: Cubin) -> list[tuple[FunctionSymbol, int]]:
    """The functions of a section whose code begins at ``first``, each with where it ends."""
    # They are in the order of their sections.
    begin = bisect_left(cubin.functions, section, key=_section)
    symbols = cubin.functions[begin : bisect_right(cubin.functions, section, key=_section)]
    starts = {symbol.start: symbol for symbol in reversed(symbols)}
    if first not in starts:
        whole = section.removeprefix(".text.")
        starts[first] = FunctionSymbol(whole, section, first, size, True, -1)
    ordered = sorted(starts)
    ends = zip(ordered, [*ordered[1:], size], strict=True)
    return [(starts[start], end) for start, end in ends if start < end]


def _section(symbol: FunctionSymbol) -> str:
    return symbol.section


def _constants(cubin: Cubin, holder: str) -> dict[int, bytes]:
    """The constant banks of a kernel that the compiler filled; the launch fills bank 0."""
    banks: dict[int, bytes] = {}
    for name, content in cubin.constants.items():
        number, _, owner = name.removeprefix(".nv.constant").partition(".")
        if number.isdigit() and int(number) > 0 and owner == holder:
            banks[int(number)] = content
    return banks


@lru_cache(maxsize=2)
def _by_symbol(content: bytes) -> dict[int, list[Attribute]]:
    """The attributes of a whole cubin by the symbol that they are of: a library has thousands of each."""
    found: dict[int, list[Attribute]] = {}
    for attribute in decode_attributes(content):
        if attribute.words:
            found.setdefault(attribute.words[0], []).append(attribute)
    return found


def _body(symbol: FunctionSymbol, section: Section, end: int, cubin: Cubin) -> Body:
    first = (symbol.start - section.start) // INSTRUCTION_BYTES
    last = (end - section.start) // INSTRUCTION_BYTES
    holder = section.name.removeprefix(".text.")
    of_section = decode_attributes(cubin.information.get(f".nv.info.{holder}", b""))
    own = of_section if symbol.name == holder else ()
    common = _by_symbol(cubin.information.get(".nv.info", b"")).get(symbol.index, ())
    return Body(
        name=symbol.name,
        demangled=demangle(symbol.name),
        is_entry=symbol.is_entry,
        start=symbol.start,
        raw=section.instructions[first:last],
        code=cubin.code.get(section.name, memoryview(b""))[symbol.start : end],
        constants=_constants(cubin, holder),
        indirect_targets=indirect_branch_targets(of_section),
        facts=launch_facts(own, common, symbol.index),
    )
