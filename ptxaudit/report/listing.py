"""What ``audit --list`` shows: kernels under the image that they are in, as text and as JSON."""

import json

from ptxaudit import __version__
from ptxaudit.engine.listing import ListedImage, Listing
from ptxaudit.printable import log_line
from ptxaudit.words import counted

SCHEMA_VERSION = "1.0"


def image(one: ListedImage) -> str:
    """An image with its kernels, each name as a person reads it, then as it stands in the file."""
    lines = [f"{one.place}: {one.kind} {one.architecture or '(no architecture)'}"]
    for kernel in one.kernels:
        mangled = "" if kernel.name == kernel.demangled else f"  {kernel.name}"
        lines.append(f"  {kernel.demangled}{mangled}")
    return "\n".join(map(log_line, lines if one.kernels else [f"{lines[0]}, no kernels"]))


def summary(listing: Listing) -> str:
    """One line of counts."""
    kernels = sum(len(one.kernels) for one in listing.images)
    cubins = sum(one.kind == "cubin" for one in listing.images)
    parts = [
        f"{counted(kernels, 'kernel')} in {counted(cubins, 'cubin')} "
        f"and {counted(len(listing.images) - cubins, 'PTX text')}"
    ]
    parts += [f"{counted(listing.passed_over, 'image')} passed over"] if listing.passed_over else []
    parts += [f"{counted(len(listing.errors), 'part')} could not be read"] if listing.errors else []
    return "; ".join(parts)


def render(listing: Listing) -> str:
    """The listing as JSON text."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "ptxaudit", "version": __version__},
        "images": [_image(one) for one in listing.images],
        "passed_over": listing.passed_over,
        "errors": listing.errors,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _image(one: ListedImage) -> dict[str, object]:
    return {
        "place": one.place,
        "kind": one.kind,
        "arch": one.architecture,
        "sha256": one.sha256,
        "size": one.size,
        "kernels": [{"name": kernel.name, "demangled": kernel.demangled} for kernel in one.kernels],
    }
