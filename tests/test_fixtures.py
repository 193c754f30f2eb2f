"""Every fixture says what is due, and gets exactly that."""

import re
import subprocess
from pathlib import Path

import pytest
from annotations import Annotation, disagreements, kernels_in, parse_ptx, read_annotations
from audit_support import KERNEL, audit_text, tiny_registry
from tools_support import ptxas

from ptxaudit.engine.audit import AuditOptions, audit
from ptxaudit.engine.image import image_of
from ptxaudit.engine.registry import load_registry

ROOT = Path(__file__).parent.parent / "fixtures"
FOLDERS = [ROOT / "correctness", ROOT / "performance"]
FIXTURES = sorted(
    path for folder in FOLDERS for path in folder.glob("*/*") if path.suffix in (".ptx", ".cubin")
)
KERNELS = sorted(path for path in (ROOT / "kernels").rglob("*") if path.suffix in (".ptx", ".cubin"))
PTX_FIXTURES = kernels_in(ROOT)
REGISTRY = load_registry()


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FIXTURES, ids=name)
def test_fixture_gets_what_it_says(path: Path) -> None:
    annotations = read_annotations(path)
    run = audit((image_of(str(path), path.read_bytes()),), AuditOptions(tuple(REGISTRY.values())))
    assert run.internal_errors == ()
    assert [one.error for one in run.report.inputs] == [None]
    assert {annotation.rule for annotation in annotations} <= set(REGISTRY)
    assert disagreements(annotations, run.report, path.parent.name) == []


@pytest.mark.parametrize("path", KERNELS, ids=name)
def test_kernel_gets_what_it_says_and_nothing_else(path: Path) -> None:
    annotations = read_annotations(path)
    run = audit((image_of(str(path), path.read_bytes()),), AuditOptions(tuple(REGISTRY.values())))
    assert run.internal_errors == ()
    assert [one.error for one in run.report.inputs] == [None]
    assert disagreements(annotations, run.report, *REGISTRY) == []


@pytest.mark.parametrize("rule_id", REGISTRY)
def test_rule_has_fixtures_of_both_kinds(rule_id: str) -> None:
    own = [path for path in FIXTURES if path.parent.name == rule_id]
    kinds = {one.kind for path in own for one in read_annotations(path) if one.rule == rule_id}
    assert "expect" in kinds, f"no fixture shows {rule_id}"
    silent = [path for path in own if not any(one.kind == "expect" for one in read_annotations(path))]
    assert "ok" in kinds or silent, f"no fixture shows where {rule_id} must be silent"


@pytest.mark.parametrize("path", PTX_FIXTURES, ids=name)
def test_fixture_assembles(path: Path, tmp_path: Path) -> None:
    tool = ptxas()
    if tool is None:
        pytest.skip("ptxas is not installed")
    target = re.search(r"^\s*\.target\s+(sm_\w+)", path.read_text(), re.MULTILINE)
    assert target is not None
    command = [str(tool), f"-arch={target[1]}", "-o", str(tmp_path / "out.cubin"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_annotations_are_read() -> None:
    text = """\
    // expect: one-rule
    // ok: other-rule
    // some comment
    first;  // todo-expect: third-rule, fourth-rule
    second; // nothing
    // unknown: fifth-rule
"""
    assert parse_ptx(text) == [
        Annotation("expect", "one-rule", 4),
        Annotation("ok", "other-rule", 4),
        Annotation("todo-expect", "third-rule", 4),
        Annotation("todo-expect", "fourth-rule", 4),
        Annotation("unknown", "fifth-rule", None),
    ]


@pytest.mark.parametrize(
    "text",
    ["x; // expect one-rule", "x; // todo-ok: one-rule", "x;\n// expect: one-rule", "x; // ok: two words"],
)
def test_misspelt_annotation_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"annotation|expected one of"):
        parse_ptx(text)


@pytest.mark.parametrize(
    ("line", "replacement", "problem"),
    [
        (None, "", "not annotated: tiny-rule at kernel.ptx:17"),
        ("bar.sync 0;", "bar.sync 0; // expect: tiny-rule", None),
        ("bar.sync 0;", "bar.sync 0; // ok: tiny-rule", "false alarm"),
        ("bar.sync 0;", "bar.sync 0; // todo-expect: tiny-rule", "now found"),
        ("ret;", "ret; // expect: tiny-rule", "missing"),
        ("ret;", "ret; // unknown: tiny-rule", "annotated as unknown"),
        ("ret;", "ret; // ok: tiny-undecided", "tiny-undecided is unknown"),
    ],
)
def test_runner_is_exact_both_ways(
    tmp_path: Path, line: str | None, replacement: str, problem: str | None
) -> None:
    text = KERNEL if line is None else KERNEL.replace(line, replacement)
    registry = tiny_registry(tmp_path)
    run = audit_text(text, (registry["tiny-rule"], registry["tiny-undecided"]))
    problems = disagreements(parse_ptx(text), run.report, "tiny-rule")
    if problem is None:
        assert problems == []
    else:
        assert any(problem in one for one in problems), problems


def test_sidecar_of_a_cubin_is_read(tmp_path: Path) -> None:
    cubin = tmp_path / "k.cubin"
    lines = ["# why", "0x1a0 expect: one-rule", "f+0x20 ok: one-rule", "unknown: two-rule"]
    (tmp_path / "k.expect").write_text("\n".join(lines))
    assert read_annotations(cubin) == [
        Annotation("expect", "one-rule", 0x1A0),
        Annotation("ok", "one-rule", 0x20, "f"),
        Annotation("unknown", "two-rule", None),
    ]
    (tmp_path / "k.expect").write_text("expect: one-rule\n")
    with pytest.raises(ValueError, match="misspelt"):
        read_annotations(cubin)
