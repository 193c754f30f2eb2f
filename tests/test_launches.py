"""Launch descriptions: what they say reaches the order engine, and what is wrong in them is named."""

from pathlib import Path

import pytest
from audit_support import run_cli

from ptxaudit.analysis.context import FunctionAnalysis
from ptxaudit.analysis.order.explore import order_of
from ptxaudit.analysis.order.roles import roles_of
from ptxaudit.engine.launches import launch_of, read_launches, without_effect
from ptxaudit.errors import UsageError
from ptxaudit.frontends.ptx import load_ptx
from ptxaudit.frontends.sass import load_cubin
from ptxaudit.ir.launch import Launch
from ptxaudit.source import SourceText

KERNEL = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry two_halves(.param .u32 trips)
{
    .reg .pred %p;
    .reg .b32 %r<4>;
    .shared .align 4 .b8 buffer[4096];
    ld.param.u32 %r2, [trips];
    mov.u32 %r0, %tid.x;
    shr.u32 %r1, %r0, 5;
    setp.ge.u32 %p, %r1, %r2;
    @%p bra DONE;
    shl.b32 %r3, %r0, 2;
    st.shared.u32 [%r3], %r0;
DONE:
    ret;
}
"""


def analysed(tmp_path: Path, text: str) -> FunctionAnalysis:
    file = tmp_path / "launch.toml"
    file.write_text(text)
    module = load_ptx(SourceText("two_halves.ptx", KERNEL))
    function = module.functions[0]
    return FunctionAnalysis(function, module, launch_of(read_launches(file), function.name, function.name))


def test_block_size_and_arguments_decide_the_roles(tmp_path: Path) -> None:
    analysis = analysed(tmp_path, "[[launch]]\nblock = [192]\n[launch.arguments]\n0 = 4\n")
    report = order_of(analysis)
    assert report.shape is not None and report.shape.threads == 192
    assert report.assumptions == []
    assert not report.executions[0].decisions
    assert [role.name for role in roles_of(report)] == ["warps 0-3"]


def test_the_first_launch_that_matches_is_taken(tmp_path: Path) -> None:
    text = '[[launch]]\nkernel = "other"\nblock = [32]\n[[launch]]\nkernel = "two_.*"\nblock = [64, 2]\n'
    report = order_of(analysed(tmp_path, text))
    assert report.shape is not None and report.shape.block == (64, 2, 1)


def test_without_a_launch_the_block_size_is_an_assumption() -> None:
    module = load_ptx(SourceText("two_halves.ptx", KERNEL))
    report = order_of(FunctionAnalysis(module.functions[0], module))
    assert any("block size" in assumption for assumption in report.assumptions)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[[launch]]\nblok = [32]\n", "blok"),
        ("[[launch]]\nblock = [0]\n", "launch.0.block.0"),
        ("[[launch]]\nblock = 32\n", "launch.0.block"),
        ("[[launch]]\n[launch.arguments]\nx = 1\n", "x"),
        ('[[launch]]\nkernel = "("\n', "regular expression"),
        ("block = [32]\n", "launch"),
        ("[[", "TOML"),
    ],
)
def test_a_wrong_description_names_the_key(tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "launch.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as raised:
        read_launches(file)
    assert place in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--launch"):
        read_launches(tmp_path / "none.toml")


MIRROR = """\
extern "C" __global__ void mirror(const float* in, float* out) {
  __shared__ float tile[256];
  tile[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = tile[255 - threadIdx.x];
}
"""


def mirrored(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], text: str, *options: str
) -> tuple[int, str]:
    """The exit code and the text of an audit of a missing barrier that 128 threads do not show."""
    Path("mirror.cu").write_text(text)
    code = run_cli(monkeypatch, "audit", "mirror.cu", "--select", "shared-memory-race", *options)
    return code, capfd.readouterr().out


def test_a_violation_that_another_block_shows_says_which_block_was_assumed_and_how_to_state_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    monkeypatch.chdir(tmp_path)
    code, shown = mirrored(monkeypatch, capfd, MIRROR)
    assert code == 0
    assert "128 threads were assumed and show no violation, 256 show one; state it (--launch FILE" in shown
    _, shown = mirrored(monkeypatch, capfd, MIRROR, "--strict")
    assert "skeleton (256 threads a CTA" in shown, "the block is that of the run that shows it"
    assert "assumes: the block size is not stated (--launch can state it); 256 threads show it" in shown
    Path("launch.toml").write_text("[[launch]]\nblock = [256]\n")
    code, shown = mirrored(monkeypatch, capfd, MIRROR, "--launch", "launch.toml")
    assert (code, "error[shared-memory-race]" in shown, "assume" in shown) == (1, True, False)
    code, shown = mirrored(
        monkeypatch, capfd, MIRROR.replace("void mirror", "void __launch_bounds__(256) mirror")
    )
    assert (code, "error[shared-memory-race]" in shown) == (1, True)


def test_a_launch_that_nothing_has_or_that_the_code_overrides_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    stated = KERNEL.replace("(.param .u32 trips)\n", "(.param .u32 trips)\n.reqntid 128, 1, 1\n")
    (tmp_path / "kernel.ptx").write_text(stated)
    tables = ("gem.*", "block = [32]"), ("two_.*", "block = [64]"), ("two", "block = [32]")
    texts = (f'[[launch]]\nkernel = "{kernel}"\n{said}\n' for kernel, said in tables)
    (tmp_path / "launch.toml").write_text("\n".join(texts))
    options = ("--launch", "launch.toml", "--select", "divergent-barrier")
    assert run_cli(monkeypatch, "audit", "kernel.ptx", *options) == 0
    shown = capfd.readouterr().out
    assert "launch.toml [[launch]] 1 (kernel = 'gem.*') is of no kernel" in shown
    assert "[[launch]] 2" not in shown
    assert "launch.toml [[launch]] 3 (kernel = 'two') is of no kernel" in shown
    assert "two_halves: the launch description says block 64x1x1, the code 128x1x1, which is taken" in shown


@pytest.mark.parametrize(
    ("launch", "said"),
    [
        (Launch(), []),
        (Launch(arguments={0: 4}), []),
        (
            Launch(arguments={0: 4, 9: 1, 7: 2}),
            ["the launch description gives arguments 7, 9, and the kernel has {}: without effect"],
        ),
    ],
)
def test_arguments_of_parameters_that_there_are_not_are_said(launch: Launch, said: list[str]) -> None:
    module = load_ptx(SourceText("two_halves.ptx", KERNEL))
    (function,) = module.functions
    number = len(function.parameters)
    has = f"{number} parameter{'' if number == 1 else 's'}, the first is 0"
    assert list(without_effect(launch, function)) == [line.format(has) for line in said]


def test_arguments_that_sass_does_not_take_are_said() -> None:
    path = Path(__file__).parent.parent / "fixtures" / "cubin" / "mailbox.sm_90a.cubin"
    (function,) = load_cubin(path.read_bytes(), path.name).functions
    (line,) = without_effect(Launch(arguments={0: 4}), function)
    assert "have no effect on SASS" in line
