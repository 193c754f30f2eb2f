"""From the arguments of a command to kernel images: files, directories, standard input."""

import contextlib
import errno
import hashlib
import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from stat import S_ISREG

from ptxaudit.engine.image import BrokenImage, Found, ImageKind, KernelImage, Place
from ptxaudit.errors import InputError, PtxauditError, system_reason
from ptxaudit.frontends.containers.content import PROBE_BYTES, Content, recognise
from ptxaudit.frontends.sass import start_disassembler
from ptxaudit.frontends.sass.size import is_read_in_parts
from ptxaudit.intake.fatbins import WalkOptions, broken
from ptxaudit.intake.metadata import launches_beside
from ptxaudit.intake.walk import IMAGE_SUFFIXES, Part, walk

STDIN = "-"
STDIN_NAME = "<stdin>"
_BARE = "cuda-binaries"
SOURCE_SUFFIX = ".cu"
SOURCE_KIND = "cuda"


def find_images(
    arguments: Iterable[str], options: WalkOptions, barren: set[Path] | None = None
) -> Iterator[Found]:
    """Every image that the arguments name, each file once, in the order given (directories sorted).

    A directory stands for the files below it that are named ``.ptx`` or ``.cubin`` or whose content can
    hold kernels; hidden directories and links to directories are left out. A directory without any is an
    input that cannot be read. To ``barren`` it adds the files that were read and gave none.
    """
    seen: set[str] = set()
    barren = set() if barren is None else barren
    for argument in arguments:
        if argument == STDIN:
            yield from _standard_input(options)
        elif os.path.isdir(argument):  # False, too, for what the system does not look up: it is said later
            yield from _directory(Path(argument), argument, options, seen, barren)
        elif _is_new(Path(argument), seen):
            yield from _file(Path(argument), options, True, barren)


def input_files(arguments: Iterable[str]) -> Iterator[Path]:
    """The files that :func:`find_images` reads for these arguments, in its order; those that are there."""
    seen: set[str] = set()
    for argument in arguments:
        path = Path(argument)
        if os.path.isdir(argument):
            yield from (one for one in _files(path) if _may_hold_kernels(one) and _is_new(one, seen))
        elif os.path.isfile(argument) and _is_new(path, seen):
            yield path


def _is_new(path: Path, seen: set[str]) -> bool:
    # `resolve` does not bear links in a circle, of which opening the file tells.
    resolved = os.path.realpath(path)
    if resolved in seen:
        return False
    seen.add(resolved)
    return True


def _standard_input(options: WalkOptions) -> Iterator[Found]:
    stream = sys.stdin.buffer
    if stream.seekable():
        yield from walk(Part(stream, Place((STDIN_NAME,)), options))
        return
    # A container is not read from front to back. The copy has no name, so that nothing can be left of it.
    with tempfile.TemporaryFile(prefix="ptxaudit-") as copy:
        shutil.copyfileobj(stream, copy, 1 << 20)
        yield from walk(Part(copy, Place((STDIN_NAME,)), options))


def _file(path: Path, options: WalkOptions, named: bool, barren: set[Path]) -> Iterator[Found]:
    is_barren = True
    for found in _images_in(path, options, named):
        is_barren = False
        yield found
    if is_barren:
        barren.add(path)


def _images_in(path: Path, options: WalkOptions, named: bool) -> Iterator[Found]:
    place = Place((str(path),))
    if named and path.suffix == SOURCE_SUFFIX:
        yield _compiled(path, place, options)
        return
    try:
        stream = path.open("rb")
    except OSError as error:
        yield broken(place, f"{place}: {system_reason(error)}")
        return
    with stream:
        yield from walk(Part(stream, place, options, named, launches_beside(path)))


def _compiled(path: Path, place: Place, options: WalkOptions) -> Found:
    """The PTX of a CUDA C++ source, or what is wrong with that."""
    try:
        source = path.read_bytes()
    except OSError as error:
        return broken(place, f"{place}: {system_reason(error)}")
    # An audit of kernels that are compiled already does without the compiler.
    from ptxaudit.frontends.nvrtc import CompileError, compile_source

    identity = hashlib.sha256(source).hexdigest()
    try:
        ptx = compile_source(source, path, str(place), options.compilation)
    except CompileError as error:
        return BrokenImage(place, str(error), SOURCE_KIND, identity, (error.log.strip(),))
    except InputError as error:
        return BrokenImage(place, str(error), SOURCE_KIND, identity)
    return KernelImage(place.inside("ptx"), ptx.encode(), ImageKind.PTX, source=str(path))


def _directory(
    directory: Path, argument: str, options: WalkOptions, seen: set[str], barren: set[Path]
) -> Iterator[Found]:
    met = False
    unlisted: list[OSError] = []
    for path in _files(directory, unlisted.append):
        if not _may_hold_kernels(path):
            continue
        if not _is_new(path, seen):
            met = True
            continue
        for found in _file(path, options, False, barren):
            met = True
            yield found
    for fault in unlisted:
        place = Place((str(fault.filename),))
        yield broken(place, f"{place}: {system_reason(fault)}")
    if not met and not unlisted:
        place = Place((argument,))
        message = f"{argument}: found a directory without kernels, expected files that hold PTX or cubins"
        yield broken(place, message)


def _files(directory: Path, unlisted: Callable[[OSError], object] | None = None) -> Iterator[Path]:
    """Files in order, so that a kernel's PTX and cubin come one after the other.

    ``unlisted`` is told of folders below that the system does not list.
    """
    for folder, subfolders, names in os.walk(directory, onerror=unlisted):
        # TileLang keeps each cubin once more without its launch facts: those come last.
        subfolders[:] = sorted(
            (name for name in subfolders if not name.startswith(".")), key=lambda one: (one == _BARE, one)
        )
        for path in sorted((Path(folder) / name for name in names), key=lambda one: (one.stem, one.suffix)):
            if _is_file(path):
                yield path


def _is_file(path: Path) -> bool:
    """Whether it is a regular file, or may be one: where the system does not say, reading it tells why."""
    try:
        return S_ISREG(path.stat().st_mode)
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def _may_hold_kernels(path: Path) -> bool:
    """Whether to read a file at all; one that cannot be opened too, so that the report names it."""
    if path.suffix in IMAGE_SUFFIXES:
        return True
    try:
        with path.open("rb") as stream:
            return recognise(stream.read(PROBE_BYTES)) is not Content.UNKNOWN
    except OSError:
        return True


@contextlib.contextmanager
def started_early(
    images: Iterator[Found], is_unneeded: Callable[[KernelImage], bool] | None = None
) -> Iterator[Iterator[Found]]:
    """The images, a lone cubin with its disassembler running.

    For a single cubin most of an audit's time is the disassembler's; it shares that with the loading of the
    analyses when it starts first, unless ``is_unneeded`` says that it is not needed
    yet. What is wrong with the input is left for the audit to say.
    """
    first = next(images, None)
    if not isinstance(first, KernelImage) or first.kind is not ImageKind.CUBIN or len(first.place.parts) > 1:
        yield images if first is None else itertools.chain((first,), images)
        return
    second = next(images, None)
    run = None
    unneeded = is_read_in_parts(first.content) or (is_unneeded is not None and is_unneeded(first))
    if second is None and not unneeded:
        with contextlib.suppress(PtxauditError):
            run = start_disassembler(first.content, first.name)
    if run is None:
        yield itertools.chain((first,) if second is None else (first, second), images)
        return
    with run:
        yield iter((replace(first, started=run),))
