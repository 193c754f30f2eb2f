"""How much code in a wheel or directory is the same: ``equal_code.py WHEEL_OR_DIRECTORY``.

Counts the functions of all cubins, those of at least 64 instructions apart, by their bytes and by their bytes
without the word that holds immediates and constant offsets, and prints how many an audit could leave out if
it did each only once.
"""

import argparse
from collections import Counter
from hashlib import blake2b

import numpy as np

from ptxaudit.engine.image import ImageKind, KernelImage
from ptxaudit.frontends.sass.sections import content_of, read_sections
from ptxaudit.intake.fatbins import WalkOptions
from ptxaudit.intake.sources import find_images

_SMALL = 64
_INSTRUCTION_BYTES = 16


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("inputs", nargs="+")
    counts: dict[str, Counter[bytes]] = {"bytes": Counter(), "without immediates": Counter()}
    small = 0
    for image in find_images(parser.parse_args().inputs, WalkOptions()):
        if not isinstance(image, KernelImage) or image.kind is not ImageKind.CUBIN:
            continue
        for section in read_sections(image.content, image.name):
            if not section.name.startswith(".text."):
                continue
            code = content_of(image.content, section)
            if len(code) < _SMALL * _INSTRUCTION_BYTES:
                small += 1
                continue
            words = np.frombuffer(code, dtype="<u4").reshape(-1, 4).copy()
            words[:, 1] = 0
            counts["bytes"][blake2b(code).digest()] += 1
            counts["without immediates"][blake2b(words.tobytes()).digest()] += 1
    print(f"{small} functions of fewer than {_SMALL} instructions")
    for name, found in counts.items():
        again = found.total() - len(found)
        share = again / max(1, found.total())
        print(f"{found.total()} others, {len(found)} different by {name}: {again} again ({share:.1%})")


if __name__ == "__main__":
    main()
