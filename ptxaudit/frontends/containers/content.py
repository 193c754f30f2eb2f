"""What a file is, told by how it begins: its name decides nothing."""

from enum import StrEnum

PROBE_BYTES = 4096
EM_CUDA = 190
ELF_MAGIC = b"\x7fELF"
FATBIN_MAGIC = b"\x50\xed\x55\xba"
ARCHIVE_MAGIC = b"!<arch>\n"
THIN_ARCHIVE_MAGIC = b"!<thin>\n"
_ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")
_MLIR_BYTECODE = b"ML\xefR"
_OTHER_PROGRAMS = (b"MZ", b"\xcf\xfa\xed\xfe", b"\xfe\xed\xfa\xcf", b"\xca\xfe\xba\xbe")
MACHINE_OFFSET = 18


class Content(StrEnum):
    """What a file is; the values are words for a report."""

    PTX = "ptx"
    CUBIN = "cubin"
    FATBIN = "fatbin"
    HOST_ELF = "host ELF"
    PROGRAM = "program"
    ARCHIVE = "archive"
    THIN_ARCHIVE = "thin archive"
    ZIP = "zip"
    MLIR = "MLIR bytecode file"
    UNKNOWN = "unknown"


def recognise(head: bytes) -> Content:
    """Tell a file by its first ``PROBE_BYTES`` bytes.

    A cubin is an ELF file for machine EM_CUDA, PTX begins with ``.version`` after comments. ``PROGRAM`` is
    an executable of another system (PE, Mach-O), which can hold the same fatbins, ``MLIR`` the bytecode that
    compilers keep a compiled module in.
    """
    if head.startswith(ELF_MAGIC):
        return Content.CUBIN if elf_machine(head) == EM_CUDA else Content.HOST_ELF
    for magic, content in _MAGICS:
        if head.startswith(magic):
            return content
    text = head[:PROBE_BYTES].decode("utf-8", errors="replace").lstrip("\ufeff")
    token, _ = first_token(text)
    return Content.PTX if token == ".version" else Content.UNKNOWN


_MAGICS: tuple[tuple[bytes, Content], ...] = (
    (FATBIN_MAGIC, Content.FATBIN),
    (ARCHIVE_MAGIC, Content.ARCHIVE),
    (THIN_ARCHIVE_MAGIC, Content.THIN_ARCHIVE),
    (_MLIR_BYTECODE, Content.MLIR),
    *((magic, Content.ZIP) for magic in _ZIP_MAGICS),
    *((magic, Content.PROGRAM) for magic in _OTHER_PROGRAMS),
)


def elf_machine(head: bytes) -> int | None:
    """The machine field of an ELF header, ``None`` where the file ends before it."""
    field = head[MACHINE_OFFSET : MACHINE_OFFSET + 2]
    return int.from_bytes(field, "little") if len(field) == 2 else None


def first_token(text: str) -> tuple[str, int]:
    """The first blank-separated word that is no comment, and its offset."""
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
        elif text.startswith("//", position):
            end = text.find("\n", position)
            position = len(text) if end < 0 else end + 1
        elif text.startswith("/*", position):
            end = text.find("*/", position)
            position = len(text) if end < 0 else end + 2
        else:
            return text[position : position + 64].split(maxsplit=1)[0], position
    return "", len(text)
