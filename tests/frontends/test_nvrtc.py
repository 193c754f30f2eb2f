"""CUDA C++ to PTX: options as a compiler's, errors in one line."""

from pathlib import Path

import pytest

from ptxaudit.arch import Architecture
from ptxaudit.errors import ToolError, UsageError
from ptxaudit.frontends import libraries
from ptxaudit.frontends.nvrtc import CompileError, CompileOptions, compile_source
from ptxaudit.frontends.ptx import load_ptx
from ptxaudit.source import SourceText

pytest.importorskip("cuda.bindings.nvrtc")

SOURCE = """\
#include "own.h"
#include <cstdint>
#include <stdio.h>
#include <cuda/std/type_traits>
extern "C" __global__ void kernel(uint32_t* out) {
  static_assert(std::is_same<int, int>::value);
  out[threadIdx.x] = COUNT + own();
}
"""


def compiled(folder: Path, text: str, **options: object) -> str:
    path = folder / "kernel.cu"
    path.write_text(text)
    given = CompileOptions(**options)  # type: ignore[arg-type]
    return compile_source(path.read_bytes(), path, "kernel.cu", given)


def test_a_kernel_with_headers_and_macros(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "own.h").write_text("#pragma once\ninline int own() { return 4; }\n")
    text = SOURCE.replace("cuda/std/type_traits", "type_traits")
    ptx = compiled(tmp_path, text, includes=(str(tmp_path / "include"),), defines=("COUNT=3",))
    (function,) = load_ptx(SourceText("k", ptx)).functions
    assert (function.name, function.architecture.name) == ("kernel", "sm_90a")
    assert any(" 7;" in one.text or ", 7" in one.text for one in function.instructions)
    assert 7 in {line.outermost.line for line in function.source_lines.values()}


def test_headers_beside_the_source_are_found(tmp_path: Path) -> None:
    (tmp_path / "own.h").write_text("inline __device__ int own() { return 4; }\n")
    assert ".entry kernel" in compiled(tmp_path, SOURCE.replace("<cuda/std/", "<"), defines=("COUNT=3",))


def test_architecture_and_standard_are_passed_on(tmp_path: Path) -> None:
    text = "#if __cplusplus < 202002L || __CUDA_ARCH__ != 1000\n#error no\n#endif\n__global__ void k() {}"
    ptx = compiled(tmp_path, text, standard="c++20", architecture=Architecture(100, "a"))
    assert ".target sm_100a" in ptx


def test_an_error_is_one_line_with_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r'^kernel\.cu:2: error: identifier "x" is undefined$') as error:
        compiled(tmp_path, "__global__ void k() {\n x = 1;\n}")
    assert "1 error detected" in error.value.log


def test_an_error_in_a_header_names_both(tmp_path: Path) -> None:
    (tmp_path / "own.h").write_text("\n#error broken\n")
    with pytest.raises(CompileError, match=r"^kernel\.cu: .*own\.h:2: error: #error directive: broken"):
        compiled(tmp_path, '#include "own.h"\n')


@pytest.mark.parametrize("body", ["k<<<1, 1>>>();", "cudaDeviceReset();"])
def test_host_code_is_told_how_to_step_aside(tmp_path: Path, body: str) -> None:
    text = f"__global__ void k() {{}}\nint main() {{ {body} return 0; }}\n"
    with pytest.raises(CompileError, match=r"kernel\.cu:2: error: .*#ifndef __CUDACC_RTC__"):
        compiled(tmp_path, text)


def test_a_wrong_option_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^NVRTC refuses to compile kernel\.cu as asked: [^\n]*std"):
        compiled(tmp_path, "", standard="c++99")


def test_an_empty_log_leaves_the_bytes_of_python_alone(tmp_path: Path) -> None:
    compiled(tmp_path, "__global__ void k() {}")
    assert [bytes([number])[0] for number in range(256)] == list(range(256))


def test_without_nvrtc_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "is_bound", lambda library: False)
    with pytest.raises(ToolError, match="pip install cuda-bindings"):
        compiled(tmp_path, "")
