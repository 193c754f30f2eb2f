"""Reads off the disassembler which opcode numbers each SASS root has: the table of ``isa/sass/codes.py``.

    python tests/scripts/sass_codes.py FOLDER_OR_CUBIN...

prints the table with what is new in these cubins; PTX is assembled first, for the target that it names.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from ptxaudit.arch import parse_architecture
from ptxaudit.errors import InputError
from ptxaudit.frontends.sass.assemble import start_assembler
from ptxaudit.frontends.sass.disassemble import parse_listing, start_nvdisasm
from ptxaudit.frontends.sass.elf import read_cubin, read_header
from ptxaudit.frontends.sass.screen import opcode_numbers
from ptxaudit.isa.sass.codes import CODES

WIDTH = 104


def observed(data: bytes, name: str) -> Iterator[tuple[int, str]]:
    """The number of each instruction of a cubin with the root that nvdisasm prints for it."""
    cubin = read_cubin(data, name, read_header(data, name))
    with start_nvdisasm(data, name) as run:
        for section in parse_listing(run.output(), name):
            numbers = opcode_numbers(cubin.code[section.name])[section.start // 16 :]
            roots = (one["opcode"].partition(".")[0] for one in section.instructions)
            yield from zip(numbers.tolist(), roots, strict=True)


def cubin_of(path: Path) -> bytes:
    """A cubin, or what PTX is assembled to."""
    data = path.read_bytes()
    if path.suffix != ".ptx":
        return data
    target = next(line.split()[1] for line in data.decode().splitlines() if line.startswith(".target"))
    assembly = start_assembler(data, str(path), parse_architecture(target.strip(",")))
    with assembly.run:
        return assembly.result().cubin


def table(roots: Mapping[int, set[str]]) -> Iterator[str]:
    """The lines of the table, by root."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for number, several in roots.items():
        for root in several:
            numbers[root].add(number)
    for root in sorted(numbers):
        yield " ".join([root, *(f"{number:03x}" for number in sorted(numbers[root]))])


def main(arguments: list[str]) -> None:
    """Print the table that is there with what the inputs add."""
    roots: dict[int, set[str]] = defaultdict(set)
    for number, known in CODES.items():
        roots[number] |= known
    for argument in map(Path, arguments):
        paths = sorted(argument.rglob("*")) if argument.is_dir() else [argument]
        for path in (one for one in paths if one.suffix in (".cubin", ".ptx")):
            try:
                for number, root in observed(cubin_of(path), str(path)):
                    roots[number].add(root)
            except InputError as error:
                print(error, file=sys.stderr)
    for line in table(roots):
        assert len(line) <= WIDTH, line
        print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
