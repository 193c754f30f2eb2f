"""Cubins that no compiler makes, made from one that a compiler did."""

from ptxaudit.frontends.sass.sections import HEADER, SECTION, read_sections

_PADDING = bytes.fromhex("18790000000000000000000000c00f00")  # NOP


def with_second_code(data: bytes, rename: bool = False, harmless: bool = True) -> bytes:
    """A cubin with one more section of code that no symbol tells of, as large as its first.

    It has the name of the first unless it is given another; its code is NOPs or that of the first.
    """
    table = read_sections(data, "a cubin")
    header = list(HEADER.unpack_from(data))
    rows = [list(SECTION.unpack_from(data, header[6] + place * SECTION.size)) for place in range(len(table))]
    place = next(place for place, one in enumerate(table) if one.name.startswith(".text."))
    code = data[table[place].offset : table[place].offset + table[place].size]
    content = bytearray(data + bytes(-len(data) % 128))
    row = list(rows[place])
    row[4] = len(content)
    content += _PADDING * (len(code) // len(_PADDING)) if harmless else code
    if rename:
        names = table[header[13]]
        row[0] = names.size
        rows[header[13]][4:6] = len(content), names.size + len(b".text.second\0")
        content += data[names.offset : names.offset + names.size] + b".text.second\0"
    content += bytes(-len(content) % 8)
    header[6], header[12] = len(content), len(rows) + 1
    HEADER.pack_into(content, 0, *header)
    return bytes(content) + b"".join(SECTION.pack(*one) for one in [*rows, row])
