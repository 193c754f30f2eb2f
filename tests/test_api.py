"""The Python interface: everything that it takes, and the pytest plugin on top of it."""

import re
from collections import namedtuple
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ptxaudit
from ptxaudit.engine.image import ImageKind, KernelImage, Place
from ptxaudit.errors import UsageError
from ptxaudit.rules.model import AuditReport

pytest_plugins = ["pytester"]

KERNELS = Path(__file__).parents[1] / "fixtures" / "kernels" / "gemm_ring"
PTX, CUBIN = KERNELS / "gemm_ring_early_release.ptx", KERNELS / "gemm_ring_early_release.cubin"
RULE = "wgmma-stage-released-early"
Metadata = namedtuple("Metadata", ["name", "num_warps", "cluster_dims"])


def triton_kernel() -> Any:
    """What Triton's compiled kernels look like, as far as they are read."""
    return SimpleNamespace(
        asm={"ttir": "module {}", "ptx": PTX.read_text(), "cubin": CUBIN.read_bytes()},
        metadata=Metadata("gemm_ring", 4, (1, 1, 1)),
    )


def dsl_kernel() -> Any:
    return SimpleNamespace(function_name="gemm_ring", __ptx__=PTX.read_text(), __cubin__=CUBIN.read_bytes())


def found(report: AuditReport) -> set[str]:
    return {finding.rule for finding in report.findings}


@pytest.mark.parametrize(
    ("kernels", "inputs"),
    [
        (PTX, 1),
        (str(PTX), 1),
        (PTX.read_bytes(), 1),
        (KernelImage(Place(("mine",)), PTX.read_bytes(), ImageKind.PTX), 1),
        (SimpleNamespace(code=PTX.read_bytes(), code_type="ptx", name="mine"), 1),
        (SimpleNamespace(code=str(PTX), code_type="ptx"), 1),
    ],
)
def test_every_form_of_a_kernel_is_audited(kernels: object, inputs: int) -> None:
    report = ptxaudit.audit(kernels, select=[RULE])
    assert len(report.inputs) == inputs
    assert all(one.error is None for one in report.inputs)
    assert found(report) == {RULE}


@pytest.mark.parametrize("make", [triton_kernel, dsl_kernel])
def test_a_compiled_kernel_gives_both_languages(make: Any) -> None:
    report = ptxaudit.audit(make(), select=[RULE])
    assert sorted(one.kind for one in report.inputs) == ["cubin", "ptx"]
    assert found(report) == {RULE}


def test_several_at_once() -> None:
    report = ptxaudit.audit([KERNELS / "gemm_ring.ptx", PTX.read_bytes()], select=[RULE])
    assert [one.path for one in report.inputs] == [str(KERNELS / "gemm_ring.ptx"), "<bytes>"]
    assert {finding.input for finding in report.findings} == {"<bytes>"}


def test_an_input_that_cannot_be_read_is_in_the_report() -> None:
    (one,) = ptxaudit.audit("/no/such/file.ptx").inputs
    assert one.error is not None
    assert "no such file" in one.error


@pytest.mark.parametrize(
    ("kernels", "options", "complaint"),
    [
        (7, {}, "found int, expected a path"),
        (SimpleNamespace(code=b"", code_type="ltoir"), {}, "'ltoir'"),
        (PTX, {"select": ["no-such-rule"]}, "unknown rule"),
        (PTX, {"kernel": "("}, "expected a regular expression"),
        (PTX, {"kernel": "nothing"}, "found no function"),
    ],
)
def test_what_cannot_be_audited_is_refused(kernels: object, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)):
        ptxaudit.audit(kernels, **options)


def test_there_is_nothing_else_in_the_package() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = ptxaudit.no_such_name  # type: ignore[attr-defined]


def test_the_pytest_plugin_fails_a_test_with_the_findings_text(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        PTX = {str(PTX)!r}
        RULE = {RULE!r}

        def test_released_early(audit_kernels):
            audit_kernels(PTX, select=[RULE])

        def test_right(audit_kernels):
            report = audit_kernels(PTX.replace("_early_release", ""), select=[RULE])
            assert report.findings == ()

        def test_missing(audit_kernels):
            audit_kernels("missing.ptx")
        """
    )
    # An installed ptxaudit is loaded by its entry point, a checkout on the path is not.
    installed = "ptxaudit" in {one.name for one in entry_points(group="pytest11")}
    plugin = [] if installed else ["-p", "ptxaudit.integrations.pytest_plugin"]
    arguments = ["-p", "no:xdist", *plugin]
    result = pytester.runpytest_subprocess(*arguments)
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines([f"error[[]{RULE}[]]*", "*missing.ptx: no such file*"])
    assert "Traceback" not in result.stdout.str()


def test_the_pytest_plugin_goes_by_what_the_project_has_decided(pytester: pytest.Pytester) -> None:
    text = "fail-on = 'note'\n[[suppress]]\nrule = '{}'\nreason = 'known'\n"
    (pytester.path / "ptxaudit.toml").write_text(text.format(RULE))
    (pytester.path / "other.toml").write_text("fail-on = 'never'")
    pytester.makepyfile(
        f"""
        PTX = {str(PTX)!r}

        def test_known(audit_kernels):
            report = audit_kernels(PTX, select=[{RULE!r}])
            assert [one.suppressed for one in report.findings] == ["known"]

        def test_never(audit_kernels):
            audit_kernels(PTX, select=[{RULE!r}], config="other.toml")

        def test_by_hand(audit_kernels):
            audit_kernels(PTX, select=[{RULE!r}], config="other.toml", fail_on="error")
        """
    )
    installed = "ptxaudit" in {one.name for one in entry_points(group="pytest11")}
    plugin = [] if installed else ["-p", "ptxaudit.integrations.pytest_plugin"]
    result = pytester.runpytest_subprocess("-p", "no:xdist", *plugin)
    result.assert_outcomes(failed=1, passed=2)


def test_settings_hold_where_they_are_named(tmp_path: Path) -> None:
    settings = tmp_path / "ptxaudit.toml"
    settings.write_text(f"select = ['{RULE}']\n[severity]\n{RULE} = 'note'")
    (finding,) = ptxaudit.audit(PTX, config=settings).findings
    assert (finding.rule, finding.severity) == (RULE, "note")
    settings.write_text("selct = []")
    with pytest.raises(UsageError, match="selct"):
        ptxaudit.audit(PTX, config=settings)


def test_the_plugin_is_an_entry_point_of_pytest() -> None:
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    assert (
        'ptxaudit = "ptxaudit.integrations.pytest_plugin"' in text.partition("pytest11]")[2].partition("[")[0]
    )


def test_what_was_captured_can_be_audited(tmp_path: Path) -> None:
    with ptxaudit.capture(tmp_path) as kernels:
        (tmp_path / "compilers" / "cute" / "gemm_ring.ptx").write_bytes(PTX.read_bytes())
    report = ptxaudit.audit(kernels, select=[RULE])
    assert [one.path for one in report.inputs] == ["compilers/cute/gemm_ring.ptx"]
    assert found(report) == {RULE}
