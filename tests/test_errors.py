"""Errors as they come from a worker process."""

import pickle

import pytest

from ptxaudit.errors import BinaryFault, PtxauditError, SyntaxFault, ToolError, UnsupportedArchitecture
from ptxaudit.source import SourceText

ERRORS = [
    SyntaxFault(SourceText("a.ptx", "ret\nret;"), 4, "'ret'", "a semicolon"),
    BinaryFault("a.cubin", 16, "an ELF file of 32 bits", "one of 64"),
    BinaryFault("a.cubin", None, "nothing", "a cubin"),
    UnsupportedArchitecture("found sm_52, expected sm_80 or later", is_older=True),
    ToolError("found no nvdisasm"),
]


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_an_error_comes_whole_from_another_process(error: PtxauditError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
