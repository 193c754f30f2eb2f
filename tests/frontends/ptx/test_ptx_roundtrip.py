"""The printer on the shipped kernels: ptxas makes the same SASS of the printed text as of the original."""

import importlib.util
import sys
from pathlib import Path

import pytest
from annotations import kernels_in

from ptxaudit.frontends.ptx import printer

ROOT = Path(__file__).parents[3]
KERNELS = kernels_in(ROOT / "fixtures")


def load_script():
    spec = importlib.util.spec_from_file_location("roundtrip", ROOT / "tests" / "scripts" / "roundtrip.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


roundtrip = load_script()
PTXAS = roundtrip.find_ptxas()
needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="needs ptxas (nvidia-cuda-nvcc)")


@needs_ptxas
@pytest.mark.parametrize("path", KERNELS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_printed_fixture_assembles_to_the_same_code(path):
    outcome, detail = roundtrip.compare(PTXAS, path)
    assert outcome == "same", detail


@needs_ptxas
def test_the_comparison_notices_a_wrong_printer(tmp_path, monkeypatch):
    kernel = tmp_path / "kernel.ptx"
    kernel.write_text(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n"
        ".reg .b64 %rd<2>; ld.param.u64 %rd1, [p]; st.global.b32 [%rd1], 5; ret; }\n"
    )
    assert roundtrip.compare(PTXAS, kernel)[0] == "same"
    monkeypatch.setattr(roundtrip, "print_ptx", lambda tree: printer.print_ptx(tree).replace("5;", "6;"))
    assert roundtrip.compare(PTXAS, kernel)[0] == "DIFFERS"
    monkeypatch.setattr(roundtrip, "print_ptx", lambda tree: printer.print_ptx(tree).replace("ret", "rat"))
    assert roundtrip.compare(PTXAS, kernel)[0] == "REFUSED"
