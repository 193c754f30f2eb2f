"""What asks GPU compilers to keep the PTX and cubins that they emit, by environment variables.

Sources: Triton's ``knobs.py`` (``TRITON_CACHE_DIR``), the CuTe DSL's ``env_manager.py`` (``CUTE_DSL_KEEP``,
before 4.4 one switch each), torch's ``inductor/runtime/cache_dir_utils.py``, TileLang's ``env.py``.
"""

from pathlib import Path

COMPILERS_FOLDER = "compilers"


def compiler_environment(folder: Path) -> dict[str, str]:
    """Variables that give each compiler a fresh folder below ``folder`` for its PTX, cubins and metadata.

    A fresh cache makes every kernel be compiled, so that its PTX is there even when an older run had cached
    it; the program's own cache is left as it was.
    """
    root = folder / COMPILERS_FOLDER
    return {
        "TRITON_CACHE_DIR": str(root / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(root / "inductor"),
        "TILELANG_CACHE_DIR": str(root / "tilelang"),
        "CUTE_DSL_KEEP": "ptx,cubin",
        "CUTE_DSL_KEEP_PTX": "1",
        "CUTE_DSL_KEEP_CUBIN": "1",
        "CUTE_DSL_DUMP_DIR": str(root / "cute"),
    }


def make_compiler_folders(folder: Path) -> None:
    """Make the folders that compilers expect to exist."""
    (folder / COMPILERS_FOLDER / "cute").mkdir(parents=True, exist_ok=True)
