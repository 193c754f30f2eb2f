"""From an image to a module: the front end for its language, and what is said of one that is neither."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ptxaudit.arch import Architecture
from ptxaudit.engine.image import KernelImage
from ptxaudit.engine.summary import refined
from ptxaudit.errors import BinaryFault, InputError, SyntaxFault
from ptxaudit.frontends.containers.content import (
    ELF_MAGIC,
    EM_CUDA,
    MACHINE_OFFSET,
    elf_machine,
    first_token,
)
from ptxaudit.frontends.sass import load_cubin
from ptxaudit.frontends.sass.disassemble import Disassembler, Section
from ptxaudit.ir.function import Function, Module
from ptxaudit.source import SourceText

if TYPE_CHECKING:
    from ptxaudit.frontends.sass.parts import Part


def load_image(
    image: KernelImage,
    wanted: Callable[[str], bool] | None = None,
    sought: frozenset[str] | None = None,
) -> Module:
    """Read an image by the front end for its content; raises :class:`InputError` in one line.

    Of a cubin only the functions that ``wanted`` says yes to need be read, and of these only those that may
    have one of the root mnemonics ``sought``, if any are named.
    """
    module = load_module(image.name, image.content, image.started, wanted, sought, image.listing)
    return module if image.architecture is None else _targeted(module, image.architecture)


def load_parts(
    image: KernelImage,
    wanted: Callable[[str], bool] | None = None,
    sought: frozenset[str] | None = None,
) -> "Iterator[Part]":
    """Read a large cubin part by part; otherwise as :func:`load_image`."""
    from ptxaudit.frontends.sass import parts

    for part in parts.load_parts(image.content, image.name, wanted, sought):
        if image.architecture is None:
            yield part
        else:
            yield replace(part, module=_targeted(part.module, image.architecture))


def load_module(
    name: str,
    data: bytes,
    started: Disassembler | None = None,
    wanted: Callable[[str], bool] | None = None,
    sought: frozenset[str] | None = None,
    listing: Mapping[str, Section] | None = None,
) -> Module:
    """Read one PTX text or cubin, a cubin from its ``started`` disassembler or its ``listing`` if any.

    ``wanted`` and ``sought`` are as for :func:`load_image`.
    Raises :class:`InputError` in one line.
    """
    if not data.strip():
        raise InputError(f"{name}: found an empty file, expected PTX or a cubin")
    if data.startswith(ELF_MAGIC):
        machine = elf_machine(data)
        if machine is None:
            raise BinaryFault(name, len(data), "the end of the file", "a whole ELF header")
        if machine != EM_CUDA:
            raise BinaryFault(name, MACHINE_OFFSET, f"ELF machine {machine}", f"a cubin's ({EM_CUDA})")
        return load_cubin(data, name, started, wanted, sought, listing)
    # An audit of cubins does without the PTX front end.
    from ptxaudit.frontends.ptx import load_ptx

    return load_ptx(_ptx_text(name, data))


def _targeted(module: Module, stated: Architecture) -> Module:
    """The module with the target's suffix that its container states, where the code itself has none."""
    target = refined(module.architecture, stated)
    if target == module.architecture:
        return module

    def targeted(functions: tuple[Function, ...]) -> tuple[Function, ...]:
        return tuple(replace(one, architecture=target) for one in functions)

    others = {place: targeted(several) for place, several in module.ruled_out.items()}
    return replace(module, architecture=target, functions=targeted(module.functions), ruled_out=others)


def _ptx_text(name: str, data: bytes) -> SourceText:
    try:
        text = data.rstrip(b"\0").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"byte {data[error.start]:#04x}"
        raise BinaryFault(name, error.start, found, "PTX (UTF-8 text) or a cubin (ELF)") from error
    source = SourceText(name, text)
    token, offset = first_token(text)
    if token != ".version":
        found = repr(token) if token else "the end of the file"
        raise SyntaxFault(source, offset, found, "PTX beginning with .version, or a cubin")
    return source
