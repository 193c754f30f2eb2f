"""Where the data that travels with ptxaudit lies: ``patterns`` and ``templates``.

In an installed wheel they are under ``ptxaudit/_data``; in a checkout at the repository's top level.
"""

from pathlib import Path

from ptxaudit.errors import PtxauditError

_PACKAGE = Path(__file__).resolve().parent


def patterns_root() -> Path:
    """The directory of the pattern files. Raises :class:`PtxauditError` when it is missing."""
    return _data_directory("patterns")


def templates_root() -> Path:
    """The directory of the page's templates. Raises :class:`PtxauditError` when it is missing."""
    return _data_directory("templates")


def _data_directory(name: str) -> Path:
    # A checkout is told by its pyproject.toml, so that an unrelated site-packages/patterns is never taken.
    candidates = [_PACKAGE / "_data" / name]
    if (_PACKAGE.parent / "pyproject.toml").is_file():
        candidates.insert(0, _PACKAGE.parent / name)
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    raise PtxauditError(f"{_PACKAGE}: found no {name} directory, expected one (reinstall ptxaudit)")
