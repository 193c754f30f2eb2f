"""The other language of an image: the SASS that PTX is assembled to, the PTX that a cubin carries.

A counterpart is evidence beside an image, never an image of its own: where it cannot be had, a note says
why and the image is audited alone.
"""

import contextlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ptxaudit.analysis.join import SassLines
from ptxaudit.arch import SASS_ARCHITECTURES, Architecture
from ptxaudit.engine.image import SEPARATOR, ImageKind, KernelImage
from ptxaudit.errors import InputError
from ptxaudit.frontends.sass.elf import DebugLines, LineRow, read_debug_lines
from ptxaudit.ir.function import Function, Module
from ptxaudit.source import SourceText


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The module in the other language, the line tables of whichever of the two is the cubin, and in words
    where it is from."""

    module: Module
    lines: DebugLines
    origin: str


class NoAssembler(InputError):
    """There is no assembler; said once for a whole audit."""


Pending = Callable[[], Counterpart]


@contextlib.contextmanager
def assembling(image: KernelImage) -> Iterator[Pending]:
    """Have PTX assembled while the caller goes on; what is yielded waits for the result.

    That raises :class:`InputError` in one line where there is none, :class:`NoAssembler` without an
    assembler.
    """
    # An audit of cubins does without these.
    from ptxaudit.frontends.ptx_summary import summarise_ptx
    from ptxaudit.frontends.sass.assemble import MissingAssembler, start_assembler

    target = summarise_ptx(image.content).architecture
    if target is None or target.number not in SASS_ARCHITECTURES:
        named = "no target" if target is None else target.name
        yield _refusing(InputError(f"SASS of {named} is not known"))
        return
    try:
        assembly = start_assembler(image.content, image.name, target)
    except MissingAssembler as error:
        yield _refusing(NoAssembler(str(error)))
        return
    with assembly.run:
        yield lambda: _assembled(image, target, assembly.result().cubin, assembly.result().tool)


def _refusing(error: InputError) -> Pending:
    def refuse() -> Counterpart:
        raise error

    return refuse


def _assembled(image: KernelImage, target: Architecture, cubin: bytes, tool: str) -> Counterpart:
    from ptxaudit.frontends.sass import load_cubin

    name = f"{image.name}{SEPARATOR}{target.name}"
    return Counterpart(load_cubin(cubin, name), read_debug_lines(cubin, name), f"assembled by {tool}")


def embedded(image: KernelImage) -> Counterpart | None:
    """The PTX that a cubin assembled with line information carries, if it does."""
    lines = read_debug_lines(image.content, image.name)
    if lines.ptx_text is None:
        return None
    from ptxaudit.frontends.ptx import load_ptx

    name = f"{image.name}{SEPARATOR}{ImageKind.PTX}"
    return Counterpart(load_ptx(SourceText(name, lines.ptx_text)), lines, "carried by the cubin")


@dataclass(frozen=True, slots=True)
class Reassembled:
    """A PTX text assembled anew, for its line tables."""

    module: Module
    lines: DebugLines
    tool: str


def given(
    ptx: KernelImage, ptx_text: str, sass: KernelImage, assemble: bool
) -> tuple[DebugLines, Reassembled | None]:
    """The line tables of a cubin that was given together with PTX.

    Its PTX lines are left out unless they are of this very text. Where there are none the PTX is assembled
    anew, if ``assemble`` and an assembler allow. Raises :class:`InputError` for malformed tables.
    """
    lines = read_debug_lines(sass.content, sass.name)
    if lines.ptx and lines.ptx_text is not None and same_ptx(ptx_text, lines.ptx_text):
        return lines, None
    lines = replace(lines, ptx={})
    if not assemble:
        return lines, None
    try:
        with assembling(ptx) as pending:
            made = pending()
    except InputError:
        return lines, None
    return lines, Reassembled(made.module, made.lines, made.origin)


def same_ptx(text: str, carried: str) -> bool:
    """Whether a cubin's PTX is this text, line for line, less comments and blanks."""
    ours, theirs = text.splitlines(), carried.splitlines()
    return len(ours) >= len(theirs) and all(
        _bare(one) == _bare(other) for one, other in zip(ours, theirs, strict=False) if other.strip()
    )


def _bare(line: str) -> str:
    return "".join(line.partition("//")[0].split())


def lines_of(function: Function, lines: DebugLines) -> SassLines:
    """The line tables by the indices of one function of a cubin."""
    section = f".text.{function.name}"
    ptx = _rows(function, lines.ptx.get(section, ()))
    source = _rows(function, lines.source.get(section, ()))
    return SassLines(
        {index: row.line for index, row in ptx.items()},
        {index: (row.file, row.line) for index, row in source.items()},
    )


def _rows(function: Function, rows: tuple[LineRow, ...]) -> dict[int, LineRow]:
    starts = [row.offset for row in rows]
    places = (
        (one.index, bisect_right(starts, one.location.offset or 0) - 1) for one in function.instructions
    )
    return {index: rows[place] for index, place in places if place >= 0}
