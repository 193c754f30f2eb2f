"""Which images are audited together: a PTX text and the cubin of the same compilation.

Images of one unit (a fatbin's entries, a cache entry's files, ``kernel.ptx`` beside ``kernel.cubin``) come
one after the other. Two files of one folder that follow each other are taken together too when they are the
same kernels for the same architecture. A unit is held in memory until it ends, as long as it is small.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from ptxaudit.engine.image import ImageKind, KernelImage
from ptxaudit.engine.results import ImageResult
from ptxaudit.engine.summary import ImageSummary, summarise
from ptxaudit.errors import InputError

_LARGEST_UNIT = 1 << 25


@dataclass(frozen=True, slots=True)
class Task:
    """One image, or a PTX text and a cubin that are joined.

    ``names`` are the real names of images that are audited under others.
    """

    images: tuple[KernelImage, ...]
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the first image is called."""
        name = self.images[0].name
        return self.names.get(name, name)

    @property
    def size(self) -> int:
        """Bytes of content."""
        return sum(len(image.content) for image in self.images)


Work = tuple[Task, ...]
"""What is done in one go: a task, or several that are best disassembled together."""


def tasks_of(images: Iterable[KernelImage | ImageResult]) -> Iterator[Task | ImageResult]:
    """The images as tasks, in their order: a cubin and PTX that are joined where the first of them was."""
    held: list[KernelImage | ImageResult] = []
    for image in images:
        if held and not _belongs(image, held):
            yield from _paired(held)
            held = []
        held.append(image)
    yield from _paired(held)


def _belongs(image: KernelImage | ImageResult, held: list[KernelImage | ImageResult]) -> bool:
    if isinstance(image, ImageResult):
        return False
    before = [one for one in held if isinstance(one, KernelImage)]
    if not before or sum(len(one.content) for one in before) + len(image.content) > _LARGEST_UNIT:
        return False
    last = before[-1]
    if last.unit is not None and last.unit == image.unit:
        return True
    return len(held) == 1 and last.kind is not image.kind and _folder(last) == _folder(image) is not None


def _folder(image: KernelImage) -> PurePath | None:
    parts = image.place.parts
    return PurePath(parts[0]).parent if len(parts) == 1 else None


def _paired(held: list[KernelImage | ImageResult]) -> Iterator[Task | ImageResult]:
    """Each PTX text with the first cubin of the same architecture that shares a kernel with it."""
    images = [one for one in held if isinstance(one, KernelImage)]
    if {one.kind for one in images} != set(ImageKind):
        yield from (one if isinstance(one, ImageResult) else Task((one,)) for one in held)
        return
    summaries = {id(one): _summary(one) for one in images}
    partner: dict[int, KernelImage] = {}
    for ptx in (one for one in images if one.kind is ImageKind.PTX):
        for sass in (one for one in images if one.kind is ImageKind.CUBIN and id(one) not in partner):
            if _match(summaries[id(ptx)], summaries[id(sass)]):
                partner[id(ptx)], partner[id(sass)] = sass, ptx
                break
    done: set[int] = set()
    for one in held:
        if isinstance(one, ImageResult):
            yield one
        elif id(one) not in done:
            other = partner.get(id(one))
            done |= {id(one), id(other)}
            yield Task((one,) if other is None else (one, other))


def _summary(image: KernelImage) -> ImageSummary | None:
    try:
        return summarise(image)
    except InputError:
        return None  # the audit says what is wrong with it


def _match(ptx: ImageSummary | None, sass: ImageSummary | None) -> bool:
    if ptx is None or sass is None or ptx.architecture is None or sass.architecture is None:
        return False
    same = ptx.architecture.number == sass.architecture.number
    return same and not set(ptx.kernels).isdisjoint(sass.kernels)
