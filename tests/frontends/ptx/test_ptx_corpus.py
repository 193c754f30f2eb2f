"""Real kernels: built ones from the folder PTXAUDIT_CORPUS, cases from PTXAUDIT_CASES, shipped fixtures."""

import os
from pathlib import Path

import pytest
from annotations import kernels_in

from ptxaudit.frontends.ptx import load_ptx, parse_ptx, print_ptx
from ptxaudit.source import SourceText

FIXTURES = Path(__file__).parents[3] / "fixtures"


def kernels() -> list[Path]:
    folders = [os.environ.get(name) for name in ("PTXAUDIT_CORPUS", "PTXAUDIT_CASES")]
    roots = [Path(folder) for folder in folders if folder] + [FIXTURES]
    return [path for root in roots for path in kernels_in(root)]


@pytest.mark.parametrize("path", kernels(), ids=lambda path: path.name)
def test_kernel_is_read_whole(path):
    source = SourceText(path.name, path.read_text())
    module = load_ptx(source)
    assert module.functions
    assert module.notes == ()
    for function in module.functions:
        assert function.instructions
        assert [block.start for block in function.blocks[1:]] == [block.end for block in function.blocks[:-1]]
        assert function.blocks[-1].end == len(function.instructions)


@pytest.mark.parametrize("path", kernels(), ids=lambda path: path.name)
def test_kernel_prints_to_the_same_tree(path):
    tree = parse_ptx(SourceText(path.name, path.read_text()))
    assert parse_ptx(SourceText(path.name, print_ptx(tree))) == tree
    assert parse_ptx(SourceText(path.name, path.read_text()), fast=False) == tree
