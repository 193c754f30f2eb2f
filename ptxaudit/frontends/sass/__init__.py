"""SASS front end: a cubin to :class:`ptxaudit.ir.function.Module` with control flow."""

from collections.abc import Callable, Mapping

from ptxaudit.arch import Architecture, require_sass_support
from ptxaudit.frontends.sass.disassemble import Disassembler, Section, start_nvdisasm
from ptxaudit.frontends.sass.elf import read_header
from ptxaudit.frontends.sass.summary import symbols_to_read
from ptxaudit.ir.function import Module
from ptxaudit.stopwatch import STOPWATCH, Stage

__all__ = ["load_cubin", "start_disassembler"]


def start_disassembler(data: bytes, name: str, wanted: Callable[[str], bool] | None = None) -> Disassembler:
    """A disassembler that runs on a cubin; see :func:`load_cubin` for the errors and for ``wanted``."""
    header = read_header(data, name)
    require_sass_support(Architecture(header.architecture_number), name)
    symbols = None if wanted is None else symbols_to_read(data, name, wanted)
    return start_nvdisasm(data, name, symbols)


@STOPWATCH.stage(Stage.FRONT_END)
def load_cubin(
    data: bytes,
    name: str,
    started: Disassembler | None = None,
    wanted: Callable[[str], bool] | None = None,
    sought: frozenset[str] | None = None,
    listing: Mapping[str, Section] | None = None,
) -> Module:
    """Disassemble and lower the functions of a cubin; ``name`` is what messages and locations call it.

    ``wanted`` says yes to the (mangled) names of the functions that are needed; what they may call is read
    too, and what shares their sections. All are read without it.
    Where root mnemonics are ``sought``, functions that have none of them are ``ruled_out`` and not read.
    A ``listing`` has the sections that are to be read, by name, where they are disassembled already.
    Where the disassembler fails it is asked for the functions apart; those that it fails on are ``unread``.
    ``started`` is what :func:`start_disassembler` gave for the same cubin; it is ended here.
    Raises :class:`BinaryFault` for a malformed file, :class:`UnsupportedArchitecture` for SASS of an
    architecture whose tables are missing, :class:`ToolError` when nvdisasm is missing, old or fails
    on all functions.
    """
    if listing is not None:
        from ptxaudit.frontends.sass.screened import lower_listing

        require_sass_support(Architecture(read_header(data, name).architecture_number), name)
        return lower_listing(data, name, listing, wanted)
    if sought is not None and started is None:
        from ptxaudit.frontends.sass.screened import load_screened

        screened = load_screened(data, name, sought, wanted)
        if screened is not None:
            return screened
    with started or start_disassembler(data, name, wanted) as run:
        # What lowering needs (graphs, tables) is loaded while the disassembler works.
        from ptxaudit.frontends.sass.load import lower_cubin

        return lower_cubin(data, name, read_header(data, name), run, wanted)
