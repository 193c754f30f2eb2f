"""The assembled fixtures, loaded once."""

from functools import cache
from pathlib import Path

import pytest

from ptxaudit.errors import ToolError
from ptxaudit.frontends.sass import load_cubin
from ptxaudit.frontends.sass.tools import find_tool
from ptxaudit.ir.function import Function, Module

FOLDER = Path(__file__).parents[3] / "fixtures" / "cubin"


def _has_disassembler() -> bool:
    try:
        find_tool("nvdisasm")
    except ToolError:
        return False
    return True


needs_nvdisasm = pytest.mark.skipif(not _has_disassembler(), reason="needs nvdisasm")


def fixture_path(stem: str) -> Path:
    (path,) = FOLDER.glob(f"{stem}.*.cubin")
    return path


@cache
def load_fixture(stem: str) -> Module:
    path = fixture_path(stem)
    return load_cubin(path.read_bytes(), path.name)


def function_named(module: Module, name: str) -> Function:
    (function,) = [function for function in module.functions if function.name == name]
    return function
