"""Listing the kernels of images without an audit."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ptxaudit.engine.image import BrokenImage, Found, KernelImage
from ptxaudit.engine.selection import Selection
from ptxaudit.engine.summary import ImageSummary, summarise
from ptxaudit.errors import InputError
from ptxaudit.frontends.demangle import demangle


@dataclass(frozen=True, slots=True)
class ListedKernel:
    """A kernel's name in the file and as a person reads it."""

    name: str
    demangled: str


@dataclass(frozen=True, slots=True)
class ListedImage:
    """An image and its kernels; ``architecture`` is empty where the image names none, ``size`` in bytes."""

    place: str
    kind: str
    architecture: str
    sha256: str
    size: int
    kernels: tuple[ListedKernel, ...]


@dataclass(slots=True)
class Listing:
    """All images that hold what is asked for, how many do not, and what could not be read."""

    images: list[ListedImage] = field(default_factory=list)
    passed_over: int = 0
    errors: list[str] = field(default_factory=list)


def list_images(
    images: Iterable[Found], selection: Selection, show: Callable[[ListedImage], None]
) -> Listing:
    """List images as they come; ``show`` is called with each."""
    listing = Listing()
    for found in images:
        if isinstance(found, BrokenImage):
            listing.errors.append(found.message)
        elif isinstance(found, KernelImage):
            _add(found, selection, listing, show)
        else:
            listing.passed_over += 1
    return listing


def _add(
    image: KernelImage, selection: Selection, listing: Listing, show: Callable[[ListedImage], None]
) -> None:
    try:
        summary = summarise(image)
    except InputError as error:
        listing.errors.append(str(error))
        return
    kernels = _kernels(summary, selection)
    if kernels is None:
        listing.passed_over += 1
        return
    architecture = "" if summary.architecture is None else summary.architecture.name
    size = len(image.content)
    listed = ListedImage(image.name, image.kind.value, architecture, image.sha256, size, kernels)
    listing.images.append(listed)
    show(listed)


def _kernels(summary: ImageSummary, selection: Selection) -> tuple[ListedKernel, ...] | None:
    """The kernels asked for; ``None`` when the image has nothing that is."""
    if summary.architecture is not None and not selection.takes_architecture(summary.architecture):
        return None
    names = [name for name in summary.kernels if selection.takes_name(name)]
    if selection.kernel is not None and not names:
        return None
    return tuple(ListedKernel(name, demangle(name)) for name in names)
