"""The images of a fatbin: what is asked for is decompressed, the rest passed over by its header."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from ptxaudit.engine.image import BrokenImage, Found, ImageKind, KernelImage, PassedOver, Place
from ptxaudit.engine.launches import NamedLaunch
from ptxaudit.engine.selection import Selection
from ptxaudit.errors import BinaryFault
from ptxaudit.frontends.containers.content import PROBE_BYTES, Content, recognise
from ptxaudit.frontends.containers.fatbin import (
    KIND_CUBIN,
    KIND_PTX,
    Entry,
    entry_content,
    read_entries,
)
from ptxaudit.frontends.nvrtc import CompileOptions
from ptxaudit.frontends.sass.summary import cubin_extent
from ptxaudit.intake.spending import Spending


@dataclass(frozen=True, slots=True)
class WalkOptions:
    """``selection`` is what is asked for: only its architecture decides here.

    ``relocatable`` also takes code that is still to be linked, where the linked code is there too.
    ``compilation`` is how a source is compiled.
    """

    selection: Selection = field(default_factory=Selection)
    relocatable: bool = False
    compilation: CompileOptions = field(default_factory=CompileOptions)


def broken(place: Place, message: str, content: Content = Content.UNKNOWN) -> BrokenImage:
    """What cannot be read at a place."""
    return BrokenImage(place, message, content.value)


def fatbin_images(
    stream: BinaryIO,
    start: int,
    end: int,
    place: Place,
    options: WalkOptions,
    launches: tuple[NamedLaunch, ...],
    counted: tuple[str, Counter[str]],
    spending: Spending,
) -> Iterator[Found]:
    """The images between two offsets of the file at ``place``.

    ``counted`` is what the place calls them, ``fatbin``, and the counter that numbers them in the file,
    ``spending`` what the file has cost.
    """
    label, counter = counted
    current, names = -1, Counter[str]()
    for entry in read_entries(stream, start, end, str(place)):
        if isinstance(entry, BinaryFault):
            yield broken(place, str(entry), Content.FATBIN)
            continue
        if entry.container != current:
            current, names = entry.container, Counter()
            counter[label] += 1
        unit = f"{label} {counter[label]}"
        name = f"{unit} {_target(entry)}"
        names[name] += 1
        where = place.inside(name if names[name] == 1 else f"{name} #{names[name]}")
        spending.member(where, entry.size if entry.size > entry.stored else 0)
        yield from _image(stream, entry, where, str(place.inside(unit)), options, launches)


def _target(entry: Entry) -> str:
    """What an entry is for in NVIDIA's spelling: PTX is for a virtual architecture."""
    name = entry.architecture.name
    return name.replace("sm_", "compute_") if entry.kind == KIND_PTX else name


def _image(
    stream: BinaryIO,
    entry: Entry,
    place: Place,
    unit: str,
    options: WalkOptions,
    launches: tuple[NamedLaunch, ...],
) -> Iterator[Found]:
    if not options.selection.takes_architecture(entry.architecture):
        yield PassedOver(place)
        return
    try:
        content = entry_content(stream, entry, str(place))
    except BinaryFault as fault:
        yield broken(place, str(fault), _LANGUAGES.get(entry.kind, Content.UNKNOWN))
        return
    kind = _kind(entry, content)
    if kind is not None:
        data = _unpadded(kind, content)
        yield KernelImage(place, data, kind, entry.architecture, unit, launches)


def _kind(entry: Entry, content: bytes) -> ImageKind | None:
    """The language of an entry; ``None`` for one that holds no kernel (NVVM, LTO)."""
    known = _LANGUAGES.get(entry.kind) or recognise(content[:PROBE_BYTES])
    return ImageKind(known.value) if known in (Content.PTX, Content.CUBIN) else None


def _unpadded(kind: ImageKind, content: bytes) -> bytes:
    """The image without the padding of an entry, so that its identity is that of the file put in."""
    if kind is ImageKind.PTX:
        return content.rstrip(b"\0")
    size = cubin_extent(lambda offset, count: content[offset : offset + count], len(content))
    return content if size is None or size == len(content) else content[:size]


_LANGUAGES = {KIND_PTX: Content.PTX, KIND_CUBIN: Content.CUBIN}
