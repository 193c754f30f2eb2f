"""Whether the kernels that are found in libraries are those that cuobjdump finds.

usage: container_agreement.py FILE...   (fatbins, host ELF files; a wheel is unpacked by hand for cuobjdump)

Compares, image by image in the order of the file, the kind and the architecture with ``cuobjdump -symbols``
(which unlike ``-lelf`` names the ``f`` of family builds), the kernels of each cubin with its ``ENTRY``
symbols, and the numbers with ``-lelf`` and ``-lptx``. Prints a line for each file; exits 1 on a difference.
"""

import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from ptxaudit.engine.image import ImageKind, KernelImage
from ptxaudit.engine.summary import summarise
from ptxaudit.frontends.sass.tools import find_tool
from ptxaudit.intake.fatbins import WalkOptions
from ptxaudit.intake.sources import find_images

Image = tuple[str, str, tuple[str, ...]]
_HEADING = re.compile(r"^Fatbin (elf|ptx) code:\n=+\narch = (\S+)\n", re.MULTILINE)
_ENTRY = re.compile(r"^FUNC +\w+ +\w+ +ENTRY +(\S+)$", re.MULTILINE)


def by_cuobjdump(path: Path) -> list[Image]:
    """Kind, architecture and kernels of each image; the kernels of a PTX text are not told."""
    text = dumped(path, "-symbols")
    headings = list(_HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    return [
        (heading[1], heading[2], tuple(sorted(set(_ENTRY.findall(text, heading.end(), end)))))
        for heading, end in zip(headings, ends, strict=False)
    ]


def dumped(path: Path, option: str) -> str:
    """What cuobjdump says."""
    command = [find_tool("cuobjdump"), option, path]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def by_own_reading(path: Path) -> list[Image]:
    """The same by the container readers."""
    found: list[Image] = []
    for image in find_images([str(path)], WalkOptions()):
        if isinstance(image, KernelImage):
            summary = summarise(image)
            assert summary.architecture is not None
            is_cubin = image.kind is ImageKind.CUBIN
            kernels = tuple(sorted(set(summary.kernels))) if is_cubin else ()
            found.append(("elf" if is_cubin else "ptx", summary.architecture.name, kernels))
    return found


def main(paths: list[str]) -> int:
    """Compare each file; the number of files that differ."""
    different = 0
    for path in map(Path, paths):
        started = time.perf_counter()
        own = by_own_reading(path)
        between = time.perf_counter()
        theirs = by_cuobjdump(path)
        ended = time.perf_counter()
        kinds = Counter(kind for kind, _, _ in own)
        listed = {
            "elf": len(dumped(path, "-lelf").splitlines()),
            "ptx": len(dumped(path, "-lptx").splitlines()),
        }
        same = own == theirs and all(kinds[kind] == number for kind, number in listed.items())
        different += not same
        kernels = sum(len(names) for _, _, names in own)
        print(
            f"{path.name}: {kinds['elf']} cubins, {kinds['ptx']} PTX texts, {kernels} kernels in cubins; "
            f"{'agree' if same else 'DIFFER'}; {between - started:.1f} s, cuobjdump {ended - between:.1f} s"
        )
        for mine, other in zip(own, theirs, strict=False):
            if mine != other:
                print(f"  first difference: {mine[:2]} and {other[:2]}, {set(mine[2]) ^ set(other[2])}")
                break
    return different


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
