"""What the tests of joining PTX and SASS share: the exchange kernel, assembled with and without lines."""

import subprocess
from functools import cache
from pathlib import Path

import pytest
from tools_support import ptxas

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.join import SassLines
from ptxaudit.arch import Architecture
from ptxaudit.engine.counterpart import lines_of
from ptxaudit.frontends.ptx import load_ptx
from ptxaudit.frontends.sass import load_cubin
from ptxaudit.frontends.sass.assemble import start_assembler
from ptxaudit.frontends.sass.elf import read_debug_lines
from ptxaudit.source import SourceText

FOLDER = Path(__file__).parent.parent / "fixtures" / "join"
SOURCE = FOLDER / "exchange.cu"
NARROW = (FOLDER / "exchange_narrow.ptx").read_text()
RIGHT = (FOLDER / "exchange_right.ptx").read_text()
HOPPER = Architecture(90, "a")
needs_ptxas = pytest.mark.skipif(ptxas() is None, reason="ptxas is not installed")


@cache
def assembled(text: str, architecture: Architecture = HOPPER) -> bytes:
    """A cubin with line information."""
    assembly = start_assembler(text.encode(), "kernel.ptx", architecture)
    with assembly.run:
        return assembly.result().cubin


def assembled_by(folder: Path, text: str, *options: str) -> bytes:
    """What ptxas makes of PTX for sm_90a with these options."""
    (folder / "in.ptx").write_text(text)
    command = [str(ptxas()), "-arch=sm_90a", *options, "-o", "out.cubin", "in.ptx"]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / "out.cubin").read_bytes()


def without_lines(text: str) -> str:
    """PTX that names no source; ptxas writes no line tables for it unless told to."""
    kept = (line for line in text.splitlines() if not line.strip().startswith((".loc", ".file")))
    return "\n".join(kept).split("\t.section")[0] + "\n"


def ptx_analyses(text: str) -> dict[str, FunctionAnalysis]:
    module = load_ptx(SourceText("kernel.ptx", text))
    return {one.name: FunctionAnalysis(one, module) for one in module.functions}


def sass_analyses(cubin: bytes) -> dict[str, tuple[FunctionAnalysis, SassLines]]:
    module = load_cubin(cubin, "kernel.cubin")
    lines = read_debug_lines(cubin, "kernel.cubin")
    return {one.name: (FunctionAnalysis(one, module), lines_of(one, lines)) for one in module.functions}
