"""What an image holds, told without an audit: enough to list it, and to pass over what is not asked for."""

from dataclasses import dataclass

from ptxaudit.arch import Architecture
from ptxaudit.engine.image import ImageKind, KernelImage
from ptxaudit.engine.selection import Selection


@dataclass(frozen=True, slots=True)
class ImageSummary:
    """The architecture, and the mangled names of the kernels and of the other functions.

    ``architecture`` is ``None`` for a text that names none.
    """

    architecture: Architecture | None
    kernels: tuple[str, ...]
    functions: tuple[str, ...]


def summarise(image: KernelImage) -> ImageSummary:
    """The summary of an image; raises :class:`ptxaudit.errors.BinaryFault` for a malformed cubin."""
    if image.kind is ImageKind.CUBIN:
        from ptxaudit.frontends.sass.summary import summarise_cubin

        cubin = summarise_cubin(image.content, image.name)
        architecture = refined(cubin.architecture, image.architecture)
        return ImageSummary(architecture, cubin.kernels, cubin.functions)
    from ptxaudit.frontends.ptx_summary import summarise_ptx

    ptx = summarise_ptx(image.content)
    return ImageSummary(ptx.architecture or image.architecture, ptx.kernels, ptx.functions)


def refined(own: Architecture, stated: Architecture | None) -> Architecture:
    """What the code says of its target, with the suffix that its container states where the code has none."""
    if stated is None or own.suffix or own.number != stated.number:
        return own
    return stated


def is_asked_for(summary: ImageSummary, selection: Selection) -> bool:
    """Whether any function of an image is selected. An unknown architecture is left for the audit to say."""
    if summary.architecture is not None and not selection.takes_architecture(summary.architecture):
        return False
    return selection.kernel is None or any(
        selection.takes_name(name) for name in (*summary.kernels, *summary.functions)
    )
