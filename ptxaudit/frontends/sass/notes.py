"""What a cubin notes about how it was built: the assembler, its options, the target's feature set."""

import re
import struct
from dataclasses import dataclass

from ptxaudit.frontends.sass.info import decode_attributes

TOOLKIT_NOTE = ".note.nv.tkinfo"
COMPATIBILITY = ".nv.compat"
_ACCELERATOR_TARGET = 0x09  # EICOMPAT_ATTR_CUDA_ACCELERATOR_TARGET in .nv.compat
_NOTE = struct.Struct("<III")
_TOOLKIT = struct.Struct("<6I")
_TARGET_OPTION = re.compile(r"\bsm_(\d{2,3})([af]?)\b")


@dataclass(frozen=True, slots=True)
class CubinHeader:
    """What the ELF header alone tells: the architecture's number, and whether it is the ``a`` target."""

    architecture_number: int
    accelerated: bool


def assembler_options(content: bytes) -> str:
    """The assembler's command-line options from ``.note.nv.tkinfo``; empty where there are none.

    The description is six 32-bit words (version, then offsets of object name, tool, version, branch and
    options into the strings that follow).
    """
    name_size, size = struct.unpack_from("<II", content) if len(content) >= _NOTE.size else (0, 0)
    start = _NOTE.size + (name_size + 3 & ~3)
    description = content[start : start + size]
    if len(description) < _TOOLKIT.size:
        return ""
    words = _TOOLKIT.unpack_from(description)
    strings = description[_TOOLKIT.size :]
    return strings[words[5] :].split(b"\0", 1)[0].decode("utf-8", "replace")


def target_suffix(header: CubinHeader, options: str, compatibility: bytes) -> str:
    """The feature set, ``a`` or ``f``: the assembler's options name it, other evidence only knows ``a``."""
    for number, suffix in _TARGET_OPTION.findall(options):
        if int(number) == header.architecture_number:
            return str(suffix)
    attributes = decode_attributes(compatibility)
    accelerated = any(a.code == _ACCELERATOR_TARGET and a.number == 1 for a in attributes)
    return "a" if header.accelerated or accelerated else ""
