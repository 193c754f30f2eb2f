"""Finds ptxas for the tests that assemble."""

import shutil
import sysconfig
from functools import cache
from pathlib import Path


@cache
def ptxas() -> Path | None:
    """ptxas of the nvidia-cuda-nvcc wheel, else of the PATH, else ``None``."""
    site = Path(sysconfig.get_path("purelib")) / "nvidia"
    found = sorted(site.glob("**/bin/ptxas")) if site.is_dir() else []
    on_path = shutil.which("ptxas")
    return found[-1] if found else (Path(on_path) if on_path else None)
