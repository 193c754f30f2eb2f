"""From arguments to modules: expands directories, tells an input's kind by content, calls a front end."""

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from ptxaudit.errors import BinaryFault, InputError, PtxauditError, SyntaxFault
from ptxaudit.frontends.sass import load_cubin, start_disassembler
from ptxaudit.frontends.sass.tools import ToolRun
from ptxaudit.ir.function import Module
from ptxaudit.source import SourceText

STDIN = "-"
STDIN_NAME = "<stdin>"
_SUFFIXES = (".ptx", ".cubin")
_ELF_MAGIC = b"\x7fELF"
_FATBIN_MAGIC = b"\x50\xed\x55\xba"
_EM_CUDA = 190
_MACHINE_OFFSET = 18
_PROBE_BYTES = 4096


class InputKind(StrEnum):
    """What an input is, told by its content."""

    PTX = "ptx"
    CUBIN = "cubin"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class InputSource:
    """An input to read: a file, or standard input with its ``data`` already read.

    ``started`` is a disassembler that runs on it already.
    """

    name: str
    path: Path | None
    data: bytes | None = None
    fault: str | None = None
    started: ToolRun | None = None

    def read(self) -> bytes:
        """The bytes. Raises :class:`InputError` when there are none to be had."""
        if self.fault is not None:
            raise InputError(self.fault)
        if self.data is not None:
            return self.data
        if self.path is None:
            raise InputError(f"{self.name}: found nothing to read, expected a file")
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise InputError(f"{self.name}: {(error.strerror or str(error)).lower()}") from error


def expand_inputs(arguments: Iterable[str]) -> tuple[InputSource, ...]:
    """The inputs that the arguments name, each file once, in the order given (directories sorted).

    A directory stands for the files below it that are named ``.ptx`` or ``.cubin`` or whose content is a
    cubin or PTX; hidden directories and links to directories are left out. A directory without any is an
    input that cannot be read.
    """
    sources: list[InputSource] = []
    seen: set[Path] = set()
    for argument in arguments:
        for source in _expand(argument):
            key = Path(source.name if source.path is None else source.path).resolve()
            if key not in seen:
                seen.add(key)
                sources.append(source)
    return tuple(sources)


def _expand(argument: str) -> Iterator[InputSource]:
    if argument == STDIN:
        yield InputSource(STDIN_NAME, None, sys.stdin.buffer.read())
        return
    path = Path(argument)
    if not path.is_dir():
        yield InputSource(argument, path)
        return
    files = list(_kernel_files(path))
    if not files:
        fault = f"{argument}: found a directory without kernels, expected .ptx or .cubin files"
        yield InputSource(argument, path, fault=fault)
    for file in files:
        yield InputSource(str(file), file)


def _kernel_files(directory: Path) -> Iterator[Path]:
    for folder, subfolders, names in os.walk(directory):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder) / name
            if path.suffix in _SUFFIXES or _looks_like_kernel(path):
                yield path


def _looks_like_kernel(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        with path.open("rb") as stream:
            head = stream.read(_PROBE_BYTES)
    except OSError:
        return False
    return sniff(head) is not InputKind.UNKNOWN


def sniff(data: bytes) -> InputKind:
    """Tell a cubin by its ELF header (machine EM_CUDA) and PTX by a leading ``.version`` directive."""
    if data.startswith(_ELF_MAGIC):
        return InputKind.CUBIN if _elf_machine(data) == _EM_CUDA else InputKind.UNKNOWN
    text = data[:_PROBE_BYTES].decode("utf-8", errors="replace").lstrip("\ufeff")
    token, _ = _first_token(text)
    return InputKind.PTX if token == ".version" else InputKind.UNKNOWN


def _elf_machine(data: bytes) -> int | None:
    field = data[_MACHINE_OFFSET : _MACHINE_OFFSET + 2]
    return int.from_bytes(field, "little") if len(field) == 2 else None


def _first_token(text: str) -> tuple[str, int]:
    """The first blank-separated word that is no comment, and its offset."""
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
        elif text.startswith("//", position):
            end = text.find("\n", position)
            position = len(text) if end < 0 else end + 1
        elif text.startswith("/*", position):
            end = text.find("*/", position)
            position = len(text) if end < 0 else end + 2
        else:
            return text[position : position + 64].split(maxsplit=1)[0], position
    return "", len(text)


@contextlib.contextmanager
def started_early(sources: tuple[InputSource, ...]) -> Iterator[tuple[InputSource, ...]]:
    """The sources, a lone cubin with its disassembler running.

    For a single cubin most of an audit's time is the disassembler's; it shares that with the loading of the
    analyses when it starts first. What is wrong with the input is left for the audit to say.
    """
    run: ToolRun | None = None
    if len(sources) == 1:
        with contextlib.suppress(PtxauditError):
            data = sources[0].read()
            if sniff(data) is InputKind.CUBIN:
                run = start_disassembler(data, sources[0].name)
                sources = (replace(sources[0], data=data, started=run),)
    if run is None:
        yield sources
        return
    with run:
        yield sources


def load_module(name: str, data: bytes, started: ToolRun | None = None) -> tuple[InputKind, Module]:
    """Read one input by the front end for its content, a cubin from its ``started`` disassembler if any.

    Raises :class:`InputError` in one line.
    """
    if not data.strip():
        raise InputError(f"{name}: found an empty file, expected PTX or a cubin")
    if data.startswith(_ELF_MAGIC):
        machine = _elf_machine(data)
        if machine is None:
            raise BinaryFault(name, len(data), "the end of the file", "a whole ELF header")
        if machine != _EM_CUDA:
            raise BinaryFault(name, _MACHINE_OFFSET, f"ELF machine {machine}", f"a cubin's ({_EM_CUDA})")
        return InputKind.CUBIN, load_cubin(data, name, started)
    if data.startswith(_FATBIN_MAGIC):
        raise BinaryFault(name, 0, "a fatbin", "PTX or a cubin")
    # An audit of cubins does without the PTX front end.
    from ptxaudit.frontends.ptx import load_ptx

    return InputKind.PTX, load_ptx(_ptx_text(name, data))


def _ptx_text(name: str, data: bytes) -> SourceText:
    try:
        text = data.rstrip(b"\0").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"byte {data[error.start]:#04x}"
        raise BinaryFault(name, error.start, found, "PTX (UTF-8 text) or a cubin (ELF)") from error
    source = SourceText(name, text)
    token, offset = _first_token(text)
    if token != ".version":
        found = repr(token) if token else "the end of the file"
        raise SyntaxFault(source, offset, found, "PTX beginning with .version, or a cubin")
    return source


def digest(data: bytes) -> str:
    """The SHA-256 of an input, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
