"""Launch facts beside a kernel: by Triton's JSON, by TileLang's host code; anything else gives none."""

import json
from pathlib import Path
from typing import Any

import pytest

from ptxaudit.intake.metadata import launches_beside
from ptxaudit.ir.launch import Launch

# What Triton 3.9 writes, without the keys that play no part.
TRITON: dict[str, Any] = {
    "hash": "40b16520",
    "target": {"backend": "cuda", "arch": 90, "warp_size": 32},
    "num_warps": 8,
    "num_ctas": 2,
    "warp_size": 32,
    "launch_pdl": False,
    "shared": 98304,
    "name": "matmul",
}

# The lines of TileLang 0.1.15's host code that matter, for a kernel with two parameters.
DEVICE = """\
extern "C" __global__ void main_kernel(const half_t* __restrict__ A, float* C);
extern "C" __global__ void __launch_bounds__(256, 1) main_kernel(const half_t* __restrict__ A, float* C) {
"""
ARGUMENT = "  (((TVMFFIAny*)stack_ffi_any)[{}].v_int64) = {};\n"


def host(*arguments: str, count: int | None = None) -> str:
    lines = [
        "  if (TVMFFIFunctionCall(__tvm_create_packed, (TVMFFIAny*) stack_ffi_any, 3, &r) != 0) {\n",
        "  (((TVMFFIAny*)stack_ffi_any)[0].v_int64) = 0;\n",
        "  (((TVMFFIAny*)stack_ffi_any)[0].v_ptr) = A;\n",
        "  (((TVMFFIAny*)stack_ffi_any)[1].v_ptr) = C;\n",
        *(ARGUMENT.format(number, text) for number, text in enumerate(arguments, 2)),
    ]
    total = 2 + len(arguments) if count is None else count
    lines.append(
        f"  if (TVMFFIFunctionCall(main_kernel_packed, (TVMFFIAny*) stack_ffi_any, {total}, &r) != 0) {{\n"
    )
    return "".join(lines)


def integers(*values: int) -> list[str]:
    return [f"((int64_t){value})" for value in values]


def triton_launch(folder: Path, **changes: Any) -> list[Launch]:
    (folder / "matmul.json").write_text(json.dumps({**TRITON, **changes}))
    return [one.launch for one in launches_beside(folder / "matmul.cubin")]


def test_triton(tmp_path: Path) -> None:
    assert triton_launch(tmp_path) == [Launch(block=(256, 1, 1), cluster=(2, 1, 1), dynamic_shared=98304)]
    (named,) = launches_beside(tmp_path / "matmul.ptx")
    assert named.kernel.search("matmul")
    assert not named.kernel.search("matmul_2")
    assert launches_beside(tmp_path / "other.ptx") == ()


def test_triton_2_states_three_extents_of_a_cluster(tmp_path: Path) -> None:
    assert triton_launch(tmp_path, cluster_dims=[1, 4, 1])[0].cluster == (1, 4, 1)


@pytest.mark.parametrize(
    ("changes", "launch"),
    [
        ({"num_warps": 64}, Launch(None, (2, 1, 1), None, 98304)),
        ({"num_ctas": 64}, Launch((256, 1, 1), None, None, 98304)),
        ({"shared": -1}, Launch((256, 1, 1), (2, 1, 1))),
    ],
)
def test_what_no_launch_can_be_is_not_taken(tmp_path: Path, changes: dict[str, Any], launch: Launch) -> None:
    assert triton_launch(tmp_path, **changes) == [launch]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", '{"name": "k"}', '{"name": 1, "num_warps": 4, "shared": 0}', "\udc80"]
)
def test_any_other_json_gives_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "matmul.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    assert launches_beside(tmp_path / "matmul.ptx") == ()


@pytest.mark.parametrize(
    ("text", "launch"),
    [
        (host(*integers(8, 4, 256, 1, 1, 49152)), Launch((256, 1, 1), None, (8, 4, 1), 49152)),
        (host(*integers(8, 128, 2, 1)), Launch((128, 2, 1), None, (8, 1, 1), None)),
        (host("((int64_t)((n + 127) / 128))", *integers(256, 1, 1, 64)), Launch((256, 1, 1), None, None, 64)),
        (host(*integers(8, 4, 128, 1, 1, 64)), None),
        (host(*integers(8)), None),
        (host("((int64_t)threads)", *integers(1, 1)), None),
        (host(*integers(8, 4, 256, 1, 1), count=1 << 40), None),
        ("", None),
    ],
)
def test_tilelang(tmp_path: Path, text: str, launch: Launch | None) -> None:
    (tmp_path / "device_kernel.cu").write_text(DEVICE)
    (tmp_path / "host_kernel.cu").write_text(text)
    assert [one.launch for one in launches_beside(tmp_path / "executable.so")] == ([launch] if launch else [])
