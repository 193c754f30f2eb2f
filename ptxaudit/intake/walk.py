"""Finds every kernel image in a stream, whatever it is nested in, one at a time.

The walk goes by content: zip, archive, host ELF, fatbin, cubin, PTX, one inside the other. An image is
handed out when it is read and nothing of it is kept, so a walk takes the memory of its largest image. What
cannot be read is handed out as a :class:`BrokenImage` in its place, and the walk goes on behind it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import BinaryIO

from ptxaudit.engine.image import Found, ImageKind, KernelImage, Place
from ptxaudit.engine.launches import NamedLaunch
from ptxaudit.errors import BinaryFault, InputError, system_reason
from ptxaudit.frontends.containers.archive import archive_members
from ptxaudit.frontends.containers.content import PROBE_BYTES, Content, recognise
from ptxaudit.frontends.containers.host_elf import HostSection, host_sections
from ptxaudit.frontends.containers.scan import Embedded, scan
from ptxaudit.frontends.containers.streams import read_at, read_exactly, size_of, window
from ptxaudit.frontends.containers.zips import ZipReader
from ptxaudit.intake.fatbins import WalkOptions, broken, fatbin_images
from ptxaudit.intake.spending import Spending, SpentError
from ptxaudit.limits import limits

LINKED_SECTION = ".nv_fatbin"
RELOCATABLE_SECTION = "__nv_relfatbin"
_ARTICLES = {Content.UNKNOWN: "a file", Content.ARCHIVE: "an archive", Content.MLIR: "an MLIR bytecode file"}
IMAGE_SUFFIXES = {".ptx": ImageKind.PTX, ".cubin": ImageKind.CUBIN}


@dataclass(frozen=True, slots=True)
class Part:
    """A file, or a member of one, that is read: its stream, where it is, and what is asked for.

    ``named``: a user named it, so that not to hold a kernel is a fault; a file that happens to lie in a
    directory or an archive need not hold any. ``launches`` go with every image in it. ``fatbins`` counts the
    fatbins met in it, by what a place calls them, ``spending`` what the file that it is in has cost.
    """

    stream: BinaryIO
    place: Place
    options: WalkOptions
    named: bool = True
    launches: tuple[NamedLaunch, ...] = ()
    fatbins: Counter[str] = field(default_factory=Counter)
    spending: Spending = field(default_factory=Spending)

    def image(self, place: Place, data: bytes, kind: ImageKind) -> KernelImage:
        """An image in it that is no fatbin's entry."""
        return KernelImage(place, data, kind, None, _unit(place), self.launches)

    def member(self, stream: BinaryIO, name: str) -> "Part":
        """A file inside it."""
        place = self.place.inside(name)
        return replace(self, stream=stream, place=place, named=False, fatbins=Counter())


def walk(part: Part) -> Iterator[Found]:
    """Every image in a file, or what is wrong with it."""
    place = part.place
    try:
        deepest = limits().nesting
        if len(place.parts) > deepest:
            raise InputError(f"{place}: found a file {deepest} deep in others, expected fewer (nesting)")
        if len(place.parts) == 1:
            part.spending.size = size_of(part.stream)
        head = read_at(part.stream, 0, PROBE_BYTES)
        content = _content(head, part)
        found = None
        for found in _READERS[content](part):
            yield found
        if found is None and part.named:
            name = _ARTICLES.get(content, f"a {content}")
            yield broken(place, f"{place}: found {name} without kernels, expected PTX or cubins in it")
    except SpentError as error:
        if len(place.parts) > 1:
            raise  # nothing more of the file is read
        yield broken(place, str(error))
    except InputError as error:
        yield broken(place, str(error))
    except OSError as error:
        yield broken(place, f"{place}: {system_reason(error)}")
    except Exception as error:  # what a library lets through costs this file only
        fault = f"{type(error).__name__}: {error}"
        yield broken(place, f"{place}: found something that cannot be read ({fault}), expected a whole file")


def _content(head: bytes, part: Part) -> Content:
    """What a file is. What begins like nothing known is an image if it is named like one."""
    content = recognise(head)
    if content is not Content.UNKNOWN:
        return content
    suffix = PurePosixPath(part.place.parts[-1]).suffix
    if suffix in IMAGE_SUFFIXES:
        return Content(IMAGE_SUFFIXES[suffix].value)
    # The PTX front end says what is wrong with a text; a binary without a known beginning is searched.
    return Content.PTX if part.named and b"\0" not in head else Content.UNKNOWN


def _unit(place: Place) -> str:
    """What ``kernel.ptx`` and ``kernel.cubin`` beside each other share."""
    name = str(place)
    for suffix in IMAGE_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def _require_size(size: int, place: Place) -> None:
    most = limits().image_bytes
    if size > most:
        raise InputError(f"{place}: found {size} bytes of code, expected at most {most} (image-megabytes)")


def _ptx(part: Part) -> Iterator[Found]:
    _require_size(size_of(part.stream), part.place)
    data = read_at(part.stream, 0, size_of(part.stream))
    yield part.image(part.place, data.rstrip(b"\0"), ImageKind.PTX)


def _cubin(part: Part) -> Iterator[Found]:
    _require_size(size_of(part.stream), part.place)
    yield part.image(part.place, read_at(part.stream, 0, size_of(part.stream)), ImageKind.CUBIN)


def _fatbin(part: Part) -> Iterator[Found]:
    yield from _entries(part, 0, size_of(part.stream), "fatbin")


def _entries(part: Part, start: int, end: int, label: str) -> Iterator[Found]:
    yield from fatbin_images(
        part.stream, start, end, part.place, part.options, part.launches, (label, part.fatbins), part.spending
    )


def _host_elf(part: Part) -> Iterator[Found]:
    """The sections with fatbins, and what else there is between them."""
    try:
        sections = host_sections(part.stream, str(part.place))
    except BinaryFault as fault:
        # A file that was cut short still has whole kernels in what is left.
        yield broken(part.place, str(fault), Content.HOST_ELF)
        sections = ()
    position = 0
    for section in _fatbin_sections(sections):
        yield from _embedded(part, position, section.offset)
        if section.name == LINKED_SECTION:
            yield from _entries(part, section.offset, section.offset + section.size, "fatbin")
        elif part.options.relocatable or not _has_linked(sections):
            yield from _entries(part, section.offset, section.offset + section.size, "relfatbin")
        position = section.offset + section.size
    yield from _embedded(part, position, size_of(part.stream))


def _fatbin_sections(sections: tuple[HostSection, ...]) -> Iterator[HostSection]:
    end = 0
    for section in sections:
        if section.name in (LINKED_SECTION, RELOCATABLE_SECTION) and section.offset >= end:
            yield section
            end = section.offset + section.size


def _has_linked(sections: tuple[HostSection, ...]) -> bool:
    return any(section.name == LINKED_SECTION for section in sections)


def _search(part: Part) -> Iterator[Found]:
    yield from _embedded(part, 0, size_of(part.stream))


def _search_if_named(part: Part) -> Iterator[Found]:
    if part.named:
        yield from _search(part)


def _embedded(part: Part, start: int, end: int) -> Iterator[Found]:
    """What stands between two offsets without a section of its own."""
    for found in scan(part.stream, start, end, str(part.place)):
        if not isinstance(found, Embedded):
            yield broken(part.place, str(found))
        elif found.content is Content.FATBIN:
            yield from _entries(part, found.offset, found.offset + found.size, "fatbin")
        else:
            place = part.place.inside(f"{found.content} at {found.offset:#x}")
            part.spending.member(place)
            _require_size(found.size, place)
            data = read_exactly(part.stream, found.offset, found.size, str(part.place), "an image")
            yield part.image(place, data, ImageKind(found.content.value))


def _archive(part: Part) -> Iterator[Found]:
    names: Counter[str] = Counter()
    for member in archive_members(part.stream, str(part.place)):
        if isinstance(member, BinaryFault):
            yield broken(part.place, str(member), Content.ARCHIVE)
            continue
        name = _counted(member.name, names)
        part.spending.member(part.place.inside(name))
        yield from walk(part.member(window(part.stream, member.offset, member.size), name))


def _thin_archive(part: Part) -> Iterator[Found]:
    raise InputError(f"{part.place}: found a thin archive, expected one that holds its members")


def _zip(part: Part) -> Iterator[Found]:
    reader = ZipReader(part.stream, str(part.place))
    names: Counter[str] = Counter()
    for member in reader.members():
        name = _counted(member.name, names)
        place = part.place.inside(name)
        part.spending.member(place, member.size)
        try:
            stream = reader.open(member, str(place))
        except BinaryFault as fault:
            yield broken(place, str(fault))
            continue
        with stream:
            yield from walk(part.member(stream, name))


def _counted(name: str, names: Counter[str]) -> str:
    """A member's name, with a number where the name comes again."""
    names[name] += 1
    return name if names[name] == 1 else f"{name} #{names[name]}"


_READERS: dict[Content, Callable[[Part], Iterator[Found]]] = {
    Content.PTX: _ptx,
    Content.CUBIN: _cubin,
    Content.FATBIN: _fatbin,
    Content.HOST_ELF: _host_elf,
    Content.PROGRAM: _search,
    Content.MLIR: _search,
    Content.ARCHIVE: _archive,
    Content.THIN_ARCHIVE: _thin_archive,
    Content.ZIP: _zip,
    Content.UNKNOWN: _search_if_named,
}
