"""Where compilers keep what they compiled.

The folders and the variables that move them are those of Triton 3.9 (``triton/knobs.py``), PyTorch 2.13
(``torch/_inductor/runtime/cache_dir_utils.py``), TileLang 0.1.15 (``tilelang/env.py``), the CuTe DSL 4.8
(``base_dsl/env_manager.py``, ``cache_helpers.py``) and FlashAttention-4 (``flash_attn/cute/cache_utils.py``).
"""

import getpass
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ptxaudit.errors import UsageError

_UNSAFE_IN_USER = re.compile(r'[\\/:*?"<>|]')


def cache_folders(names: Iterable[str]) -> Iterator[str]:
    """The folders of the caches with these names; a name with a separator, or of a folder, is a path.

    Raises :class:`UsageError` for any other name, and for a cache that is nowhere.
    """
    for name in names:
        if name in _CACHES:
            yield from _existing(name, _CACHES[name]())
        elif Path(name).exists() or os.sep in name:
            yield name
        else:
            known = ", ".join(CACHE_NAMES)
            raise UsageError(f"--cache: found {name!r}, expected one of {known}, or a path")


def _existing(name: str, folders: list[Path]) -> Iterator[str]:
    found = [str(folder) for folder in folders if folder.is_dir()]
    if not found:
        places = " or ".join(str(folder) for folder in folders)
        raise UsageError(f"--cache {name}: found no folder {places or 'named by its variable'}, expected one")
    yield from dict.fromkeys(found)


def _from(variable: str) -> list[Path]:
    value = os.environ.get(variable)
    return [Path(value)] if value else []


def _triton() -> list[Path]:
    home = _from("TRITON_HOME") or [Path.home()]
    return _from("TRITON_CACHE_DIR") or [home[0] / ".triton" / "cache"]


def _inductor() -> list[Path]:
    default = Path(tempfile.gettempdir()) / f"torchinductor_{_UNSAFE_IN_USER.sub('_', getpass.getuser())}"
    # Its Triton kernels are below it unless Triton's own variable moves them.
    return (_from("TORCHINDUCTOR_CACHE_DIR") or [default]) + _from("TRITON_CACHE_DIR")


def _tilelang() -> list[Path]:
    return _from("TILELANG_CACHE_DIR") or [Path.home() / ".tilelang" / "cache"]


def _cute() -> list[Path]:
    """Dumps are where their variable says; the caches of compiled functions have a place of their own."""
    user = Path(tempfile.gettempdir()) / getpass.getuser()
    return [
        *_from("CUTE_DSL_DUMP_DIR"),
        *_from("CUTE_EXPERIMENTAL_DSL_DUMP_DIR"),
        *(_from("CUTE_DSL_CACHE_DIR") or [user / "cutlass_python_cache"]),
        *(_from("FLASH_ATTENTION_CUTE_DSL_CACHE_DIR") or [user / "flash_attention_cute_dsl_cache"]),
    ]


_CACHES: dict[str, Callable[[], list[Path]]] = {
    "triton": _triton,
    "inductor": _inductor,
    "tilelang": _tilelang,
    "cute": _cute,
}
CACHE_NAMES = tuple(_CACHES)
