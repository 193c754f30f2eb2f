"""What a PTX text holds is told from its directives, not from its comments and strings."""

import pytest
from audit_support import KERNEL

from ptxaudit.arch import Architecture
from ptxaudit.engine.inputs import load_module
from ptxaudit.frontends.ptx_summary import summarise_ptx

TEXT = """\
//
// .entry commented
.version 8.8
.target sm_100f, debug
.address_size 64
/* .entry blocked
   .func also_blocked */
.extern .func  (.param .b32 result) vprintf (.param .b64 format);
.weak .func plain(.param .b32 x) { ret; }
.file 1 "dir/.entry quoted.cu"
.visible .entry
  _Z3addPf(.param .u64 a) { ret; } // .entry trailing
.entry second$1(){ ret; }
"""


def test_functions_and_target() -> None:
    summary = summarise_ptx(TEXT.encode())
    assert summary.architecture == Architecture(100, "f")
    assert summary.kernels == ("_Z3addPf", "second$1")
    assert summary.functions == ("vprintf", "plain")


def test_the_summary_agrees_with_the_parser() -> None:
    module = load_module("k.ptx", KERNEL.encode())
    summary = summarise_ptx(KERNEL.encode())
    assert summary.kernels == tuple(function.name for function in module.functions)
    assert summary.architecture == module.architecture


@pytest.mark.parametrize("content", [b"", b"\xff\xfe.entry", b".target gfx90", b".target"])
def test_what_is_no_ptx_has_an_empty_summary(content: bytes) -> None:
    summary = summarise_ptx(content)
    assert (summary.architecture, summary.kernels, summary.functions) == (None, (), ())
