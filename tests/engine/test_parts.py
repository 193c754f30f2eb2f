"""A large cubin is audited part by part, with the same report as of the whole."""

import re
import subprocess
from pathlib import Path

import pytest
from tools_support import ptxas

from ptxaudit.engine.audit import AuditOptions, AuditRun, audit
from ptxaudit.engine.image import image_of
from ptxaudit.engine.registry import load_registry, select_rules
from ptxaudit.frontends.sass import parts, size
from ptxaudit.intake.fatbins import WalkOptions
from ptxaudit.intake.sources import find_images, started_early
from ptxaudit.rules.code import FunctionCode

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
RULES = select_rules(load_registry())
KERNELS = """\
.version 8.0
.target sm_90a
.address_size 64
.visible .func (.reg .b32 %out) helper(.reg .b32 %in);
.visible .func (.reg .b32 %out) synchronising(.reg .b32 %in);
""" + "".join(
    f"""
.visible .entry kernel_{number}(.param .u64 result)
{{
  .reg .b32 %r<4>;
  .reg .b64 %rd<3>;
  .shared .b32 word;
  ld.param.u64 %rd1, [result];
  mov.u32 %r1, %tid.x;
  st.shared.u32 [word], %r1;
  call (%r2), {("helper", "synchronising")[number % 2]}, (%r1);
  bar.sync 0;
  ld.shared.u32 %r3, [word];
  st.global.u32 [%rd1], %r3;
  ret;
}}
"""
    for number in range(4)
)
FUNCTIONS = """
.visible .func (.reg .b32 %out) helper(.reg .b32 %in)
{
  mad.lo.u32 %out, %in, %in, %in;
  ret;
}
.visible .func (.reg .b32 %out) synchronising(.reg .b32 %in)
{
  bar.sync 1;
  call (%out), helper, (%in);
  ret;
}
"""


@pytest.fixture
def cubin(tmp_path: Path) -> bytes:
    return assembled(tmp_path)


def assembled(tmp_path: Path, *options: str) -> bytes:
    tool = ptxas()
    if tool is None:
        pytest.skip("needs ptxas")
    (tmp_path / "k.ptx").write_text(KERNELS + FUNCTIONS)
    command = [str(tool), "-arch=sm_90a", *options, "-o", "k.cubin", "k.ptx"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return (tmp_path / "k.cubin").read_bytes()


def audited(data: bytes, **options: object) -> AuditRun:
    return audit((image_of("k.cubin", data),), AuditOptions(RULES, jobs=1, **options))  # type: ignore[arg-type]


def spelled(code: FunctionCode) -> bytes:
    return repr(code).encode()


@pytest.mark.parametrize(
    "options",
    [{}, {"count": True}, {"listings": False}, {"pack": spelled}],
    ids=["as it is", "counted", "without listings", "with code"],
)
def test_parts_give_what_the_whole_gives(
    cubin: bytes, monkeypatch: pytest.MonkeyPatch, options: dict[str, object]
) -> None:
    whole = audited(cubin, **options)
    assert len(whole.report.functions) == 10
    monkeypatch.setattr(size, "LARGEST_WHOLE", 0)
    for most in (1, 1 << 11, 1 << 20):
        monkeypatch.setattr(size, "LARGEST_PART", most)
        number = len(list(parts.load_parts(cubin, "k.cubin")))
        assert number == {1: 4, 1 << 11: 2, 1 << 20: 1}[most]
        assert audited(cubin, **options) == whole


CALLING = "performance/wgmma-serialized/call_between.sm_90a"


@pytest.mark.parametrize("name", ["cubin/dispatch.sm_90a", "cubin/indirect.sm_90", CALLING])
def test_real_cubins_in_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (FIXTURES / f"{name}.cubin").read_bytes()
    whole = audited(data)
    monkeypatch.setattr(size, "LARGEST_WHOLE", 0)
    monkeypatch.setattr(size, "LARGEST_PART", 1)
    assert audited(data) == whole


def test_a_kernel_that_is_asked_for_is_found_in_its_part(
    cubin: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = re.compile("^kernel_[12]$")
    whole = audited(cubin, kernel=pattern)
    monkeypatch.setattr(size, "LARGEST_WHOLE", 0)
    monkeypatch.setattr(size, "LARGEST_PART", 1)
    assert audited(cubin, kernel=pattern) == whole
    assert [one.name for one in whole.report.functions] == ["kernel_2", "kernel_1"]


def test_no_disassembler_of_the_whole_is_started_early(
    cubin: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(size, "LARGEST_WHOLE", 0)
    with started_early(find_images([str(tmp_path / "k.cubin")], WalkOptions())) as images:
        (image,) = images
        assert image.started is None  # type: ignore[union-attr]


def test_what_is_to_be_linked_or_carries_ptx_is_read_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(size, "LARGEST_WHOLE", 0)
    assert not size.is_read_in_parts(assembled(tmp_path, "-c"))
    data = assembled(tmp_path)
    assert size.is_read_in_parts(data)
    assert not size.is_read_in_parts(data + b".nv_debug_ptx_txt")
