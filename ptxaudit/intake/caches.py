"""Where compilers keep what they compiled.

The folders and the variables that move them are those of Triton 3.9 (``triton/knobs.py``), PyTorch 2.13
(``torch/_inductor/runtime/cache_dir_utils.py``), TileLang 0.1.15 (``tilelang/env.py``), the CuTe DSL 4.8
(``base_dsl/env_manager.py``, ``cache_helpers.py``) and FlashAttention-4 (``flash_attn/cute/cache_utils.py``).
"""

import getpass
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from ptxaudit.engine.image import BrokenImage, Place

_UNSAFE_IN_USER = re.compile(r'[\\/:*?"<>|]')


def cache_folders(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[BrokenImage, ...]]:
    """The folders of the caches with these names, and what is not there; any other name is a path."""
    folders: list[str] = []
    missing: list[BrokenImage] = []
    for name in names:
        if name not in _CACHES:
            if os.path.exists(name):  # False, too, for what the system does not look up
                folders.append(name)
            else:
                known = ", ".join(CACHE_NAMES)
                missing.append(_missing(name, f"no such folder, expected one or a cache's name ({known})"))
            continue
        places = _CACHES[name]()
        found = [str(folder) for folder in places if os.path.isdir(folder)]
        if not found:
            expected = " or ".join(str(folder) for folder in places) or "named by its variable"
            missing.append(_missing(name, f"found no folder {expected}, expected one"))
        folders += found
    return tuple(dict.fromkeys(folders)), tuple(missing)


def _missing(name: str, reason: str) -> BrokenImage:
    place = Place((name,))
    return BrokenImage(place, f"--cache {place}: {reason}")


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
