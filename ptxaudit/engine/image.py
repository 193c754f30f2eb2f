"""What a kernel image is: one PTX text or cubin, where it was found, and what is known of its launch.

An image is what :mod:`ptxaudit.intake` finds and the audit reads. Its identity is the SHA-256 of its
content: the same kernel in ten wheels is one image with ten places. Images that came from one compilation
(a fatbin's PTX and cubins, the ``.ptx`` and ``.cubin`` of one cache entry) share a ``unit``, so that PTX and
SASS of one kernel can be joined.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from ptxaudit.arch import Architecture
from ptxaudit.engine.launches import NamedLaunch
from ptxaudit.frontends.containers.content import ELF_MAGIC
from ptxaudit.frontends.sass.disassemble import Disassembler, Section
from ptxaudit.printable import printable

SEPARATOR = "!"


class ImageKind(StrEnum):
    """The language of an image."""

    PTX = "ptx"
    CUBIN = "cubin"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an image is: a file's path, then the members one inside the other.

    ``str(place)`` names it in every report, on one line: ``pkg.whl!pkg/lib.so!fatbin 3 sm_90a``. ``parts``
    are the names as they are.
    """

    parts: tuple[str, ...]

    def inside(self, member: str) -> "Place":
        """The place of a member of what is here."""
        return Place((*self.parts, member))

    @property
    def container(self) -> "Place":
        """What this is a member of; a file is its own container."""
        return Place(self.parts[:-1]) if len(self.parts) > 1 else self

    def __str__(self) -> str:
        return printable(SEPARATOR.join(self.parts))


@dataclass(frozen=True)
class KernelImage:
    """One PTX text or cubin in memory.

    ``architecture`` is what the container says (a fatbin's header, a cache's metadata), ``None`` where only
    the content knows. ``unit`` is equal for images of one compilation, ``None`` when nothing says which
    belong together; such images come one after the other. ``launches`` are launch facts that came with
    the image; what the code itself states and what ``--launch`` says go before them. ``started`` is a
    disassembler that runs on the content already, ``listing`` what one printed of the sections that are to be
    read. ``source`` is the file that it was compiled from by this
    program, whose lines findings are then about.
    """

    place: Place
    content: bytes
    kind: ImageKind
    architecture: Architecture | None = None
    unit: str | None = None
    launches: tuple[NamedLaunch, ...] = ()
    started: Disassembler | None = field(default=None, compare=False)
    listing: Mapping[str, Section] | None = field(default=None, compare=False)
    source: str | None = None
    file: str | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """What reports call it."""
        return str(self.place)

    @property
    def folder(self) -> Path:
        """Where the file is that it was found in: what its compiler wrote may lie there, too."""
        return Path(self.file or self.place.parts[0]).parent

    @cached_property
    def sha256(self) -> str:
        """The identity of the content, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True, slots=True)
class BrokenImage:
    """A file or a member of one that cannot be read; ``message`` is one line that names it.

    ``kind`` is what it is as far as that could be told, ``sha256`` that of what could be read, if anything,
    ``notes`` are further texts, such as what a compiler said.
    """

    place: Place
    message: str
    kind: str = "unknown"
    sha256: str = ""
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What reports call it."""
        return str(self.place)


@dataclass(frozen=True, slots=True)
class PassedOver:
    """An image that was not read, because its container says that it is not for what is asked."""

    place: Place


Found = KernelImage | BrokenImage | PassedOver


def image_of(name: str, content: bytes) -> KernelImage:
    """An image of which only its content is known; what is no cubin is taken for PTX."""
    kind = ImageKind.CUBIN if content.startswith(ELF_MAGIC) else ImageKind.PTX
    return KernelImage(Place((name,)), content, kind)
