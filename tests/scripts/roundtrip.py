"""Prove the PTX printer on built kernels: original and printed text must assemble to the same SASS.

``python tests/scripts/roundtrip.py DIRECTORY [--ptxas PATH]``. For every ``*.ptx`` below the directory
both texts are assembled, and the bytes of all ``.text.*`` sections compared. PTX that ptxas itself refuses
(newer than it knows, or faulty) is reported as skipped. Exit code 1 if any kernel differs.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.elffile import ELFFile

from ptxaudit.errors import InputError
from ptxaudit.frontends.ptx import parse_ptx, print_ptx
from ptxaudit.source import SourceText


def main() -> int:
    """Compare every kernel below the given directory and print a line for each and a count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--ptxas", type=Path, default=None)
    arguments = parser.parse_args()
    ptxas = arguments.ptxas or find_ptxas()
    if ptxas is None:
        print("found no ptxas, expected the package nvidia-cuda-nvcc or --ptxas PATH")
        return 2
    counts: Counter[str] = Counter()
    for path in sorted(arguments.directory.rglob("*.ptx")):
        outcome, detail = compare(ptxas, path)
        counts[outcome] += 1
        print(f"{outcome:8} {path.name} {detail}".rstrip(), flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()))
    return 1 if counts["DIFFERS"] or counts["REFUSED"] else 0


def find_ptxas() -> Path | None:
    """The ptxas of the installed wheel, else the one on the path."""
    for root in map(Path, sys.path):
        for candidate in root.glob("nvidia/cu*/bin/ptxas"):
            return candidate
    found = shutil.which("ptxas")
    return Path(found) if found else None


def compare(ptxas: Path, path: Path) -> tuple[str, str]:
    """``same``, ``DIFFERS``, ``REFUSED`` (only the printed text fails to assemble) or ``skipped``."""
    original = path.read_text()
    try:
        module = parse_ptx(SourceText(path.name, original))
    except InputError as error:
        return "REFUSED", str(error)
    target = module.target.options[0]
    try:
        expected = assemble(ptxas, target, original)
    except AssemblyError as error:
        return "skipped", f"ptxas refuses the original: {error}"
    try:
        actual = assemble(ptxas, target, print_ptx(module))
    except AssemblyError as error:
        return "REFUSED", str(error)
    if not expected:
        return "skipped", "no code"
    return ("same", f"{len(expected)} sections") if expected == actual else ("DIFFERS", "")


class AssemblyError(Exception):
    """ptxas refused a text; the first line of its message."""


def assemble(ptxas: Path, target: str, text: str) -> dict[str, bytes]:
    """The bytes of each ``.text.*`` section of the assembled text."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "kernel.ptx")
        output = Path(directory, "kernel.cubin")
        source.write_text(text)
        command = [str(ptxas), f"-arch={target}", str(source), "-o", str(output)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            message = (result.stderr or result.stdout).strip()
            raise AssemblyError(message.splitlines()[0] if message else f"exit {result.returncode}")
        return dict(text_sections(output))


def text_sections(cubin: Path) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the code sections."""
    with cubin.open("rb") as stream:
        for section in ELFFile(stream).iter_sections():
            if section.name.startswith(".text."):
                yield section.name, section.data()


if __name__ == "__main__":
    sys.exit(main())
