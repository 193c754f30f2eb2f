"""Assembling PTX: what comes out, and one clear line when it does not work."""

from pathlib import Path

import pytest

from ptxaudit.arch import Architecture
from ptxaudit.errors import ToolError
from ptxaudit.frontends import libraries
from ptxaudit.frontends.sass import assemble
from ptxaudit.frontends.sass.assemble import Assembled, MissingAssembler, start_assembler
from ptxaudit.frontends.sass.elf import read_debug_lines, read_header

HOPPER = Architecture(90, "a")
KERNEL = """\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry kernel() {
 bar.sync 0;
 BODY
 ret;
}
"""


def assembled(text: str, architecture: Architecture = HOPPER) -> Assembled:
    assembly = start_assembler(text.encode(), "kernel.ptx", architecture)
    with assembly.run:
        return assembly.result()


def without_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Path:
        raise ToolError(f"found no {name}")

    monkeypatch.setattr(assemble, "find_tool", missing)


@pytest.fixture(params=["ptxas", "nvJitLink"])
def assembler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "nvJitLink":
        pytest.importorskip("cuda.bindings.nvjitlink")
        without_ptxas(monkeypatch)
    else:
        try:
            assemble.find_tool("ptxas")
        except ToolError:
            pytest.skip("ptxas is not installed")
    return str(request.param)


def test_a_cubin_comes_with_line_information(assembler: str) -> None:
    made = assembled(KERNEL.replace("BODY", ""))
    assert made.tool.startswith(assembler)
    assert read_header(made.cubin, "k").architecture_number == 90
    lines = read_debug_lines(made.cubin, "k")
    assert {row.line for row in lines.ptx[".text.kernel"]} >= {5, 7}
    assert lines.ptx_text is not None and "bar.sync 0;" in lines.ptx_text


def test_an_error_is_one_line_with_its_place(assembler: str) -> None:
    with pytest.raises(ToolError, match=rf"^kernel\.ptx:6: {assembler} [\d.]+: Unknown modifier '\.bar'$"):
        assembled(KERNEL.replace("BODY", "foo.bar;"))


def test_a_version_from_the_future_is_one_line(assembler: str) -> None:
    with pytest.raises(ToolError, match=r"^kernel\.ptx:1: .*Unsupported \.version 99\.0"):
        assembled(KERNEL.replace("8.0", "99.0"))


def test_an_architecture_that_is_not_known_is_one_line(assembler: str) -> None:
    with pytest.raises(ToolError, match=r"^kernel\.ptx: [^\n]*sm_20") as error:
        assembled(KERNEL.replace("sm_90a", "sm_20"), Architecture(20))
    assert assembler in str(error.value)


def test_a_function_that_is_elsewhere_is_left_to_the_linker() -> None:
    text = KERNEL.replace(".visible", ".extern .func other();\n.visible").replace("BODY", "call other;")
    assert assembled(text).tool.endswith(" -c")


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for body in ("", "foo.bar;", "call other;"):
        try:
            assembled(KERNEL.replace("BODY", body))
        except ToolError:
            assert body
    assert list(tmp_path.iterdir()) == []


def test_no_assembler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    without_ptxas(monkeypatch)
    monkeypatch.setattr(libraries, "is_bound", lambda library: False)
    with pytest.raises(MissingAssembler, match=r"expected one: pip install nvidia-cuda-nvcc"):
        start_assembler(b"", "kernel.ptx", HOPPER)
