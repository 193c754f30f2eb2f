"""Zip files and wheels: members as seekable streams, decompressed as they are read, nothing on disk.

What a member claims is checked before it is read and again while it is: no member may be larger than its
compressed size allows (deflate cannot exceed 1032:1), none may decompress to less or more than stated.
"""

import io
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ptxaudit.errors import BinaryFault
from ptxaudit.frontends.containers.compression import UNCHECKED_BYTES
from ptxaudit.frontends.containers.streams import ForwardStream
from ptxaudit.limits import limits

_ENCRYPTED = 0x1
# What zipfile and the decompressors below it raise for files that are not what they say.
_FAULTS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError)


@dataclass(frozen=True, slots=True)
class ZipMember:
    """A member that is a file; ``size`` is what the directory states, in bytes."""

    name: str
    size: int
    information: zipfile.ZipInfo


class ZipReader:
    """A zip file in a seekable stream; raises :class:`BinaryFault` when it has no readable directory."""

    def __init__(self, stream: BinaryIO, file: str) -> None:
        self._file = file
        try:
            self._zip = zipfile.ZipFile(stream)
        except _FAULTS as error:
            raise BinaryFault(file, None, f"a broken zip file ({error})", "a zip directory") from error

    def members(self) -> Iterator[ZipMember]:
        """All files in it, in the order of the directory."""
        for information in self._zip.infolist():
            # Not by is_dir, which fails on a member without a name.
            if not information.filename.endswith("/"):
                yield ZipMember(information.filename, information.file_size, information)

    def open(self, member: ZipMember, file: str) -> BinaryIO:
        """A member as a seekable stream; ``file`` names it in the :class:`BinaryFault` this may raise."""
        information = member.information
        if information.flag_bits & _ENCRYPTED:
            raise BinaryFault(file, None, "an encrypted zip member", "one that can be read")
        stored = max(1, information.compress_size)
        ratio = limits().unpacked_ratio
        if member.size > UNCHECKED_BYTES and member.size > ratio * stored:
            found = f"a zip member of {stored} bytes that claims to hold {member.size}"
            raise BinaryFault(file, None, found, f"at most {ratio} times its size (unpacked-ratio)")
        stream = ForwardStream(lambda: _opened(self._zip, information), member.size, file, _FAULTS)
        if member.size > UNCHECKED_BYTES:
            return io.BufferedReader(stream)
        # Reading a small one at once also checks it: its size and its checksum.
        with stream:
            return io.BytesIO(stream.readall())


def _opened(archive: zipfile.ZipFile, information: zipfile.ZipInfo) -> BinaryIO:
    return archive.open(information)  # type: ignore[return-value]
