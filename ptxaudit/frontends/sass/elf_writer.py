"""ELF files that are made for nvdisasm, out of the header and the sections of cubins."""

from collections.abc import Iterable, Sequence
from typing import Any

from ptxaudit.frontends.sass.sections import HEADER, SECTION, WITHOUT_CONTENT

_ALIGNMENT = 128  # that of code


def elf_file(header: Sequence[Any], parts: Iterable[tuple[Sequence[int], bytes | bytearray]]) -> bytes:
    """A file of sections, each by the fields of its entry in the section table and its content.

    Where they stand in the file and how long they are is filled in, as is where the section table stands;
    there are no segments. The fields are those of :data:`HEADER` and :data:`SECTION`.
    """
    file = bytearray(HEADER.size)
    entries: list[bytes] = []
    for fields, content in parts:
        file += bytes(-len(file) % _ALIGNMENT)
        offset, size = len(file), fields[5]
        if fields[1] not in WITHOUT_CONTENT:
            size = len(content)
            file += content
        entries.append(SECTION.pack(*fields[:4], offset, size, *fields[6:]))
    file += bytes(-len(file) % _ALIGNMENT)
    own = list(header)
    own[5:7] = 0, len(file)  # e_phoff, e_shoff
    own[9:11] = 0, 0  # e_phentsize, e_phnum
    HEADER.pack_into(file, 0, *own)
    return bytes(file) + b"".join(entries)
