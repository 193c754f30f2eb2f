"""Writes a report so that a reader never sees half of one."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ptxaudit.errors import UsageError, system_reason

_SPELT = "backslashreplace"


def write_report(path: Path, text: str | Iterable[str]) -> None:
    """Write a text, or its pieces, to ``path``: whole or not at all, through a temporary file beside it.

    Something that is no regular file (``/dev/stdout``, a pipe) is written in place. A lone surrogate, which
    is no text, is spelt (``\\udc80``). Raises :class:`UsageError` when the place cannot be written.
    """
    pieces = (text,) if isinstance(text, str) else text
    try:
        if path.exists() and not path.is_file():
            with path.open("w", encoding="utf-8", errors=_SPELT) as stream:
                stream.writelines(pieces)
        else:
            _replace(Path(os.path.realpath(path)), pieces)
    except OSError as error:
        reason = system_reason(error)
        raise UsageError(f"{path}: {reason}, expected a file that can be written") from error


def _replace(path: Path, pieces: Iterable[str]) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors=_SPELT) as stream:
            stream.writelines(pieces)
        # mkstemp makes the file private; a report has the permissions of any new file.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
