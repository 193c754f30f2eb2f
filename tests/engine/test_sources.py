"""Sources that code names: looked up beside it, and never anything that is no source."""

import os
from pathlib import Path

import pytest
from audit_support import KERNEL

from ptxaudit.engine.audit import AuditOptions, audit
from ptxaudit.engine.recall import Recall
from ptxaudit.engine.registry import load_registry, select_rules
from ptxaudit.engine.sources import consulted, found_name, source_text, sources_beside
from ptxaudit.engine.store import ResultStore
from ptxaudit.intake.fatbins import WalkOptions
from ptxaudit.intake.sources import find_images
from ptxaudit.rules.model import AuditReport

LINE = "__global__ void kernel() { __syncthreads(); }"
NAMED = KERNEL.replace("    @%p1 bra", "    .loc 1 1 3\n    @%p1 bra").replace(
    "    bar.sync 0;", "    .loc 1 1 3\n    bar.sync 0;"
)
RULES = select_rules(load_registry(), ["divergent-barrier"])


def written(path: Path, text: str = LINE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a build folder."""
    folder = tmp_path / "project"
    (folder / "build" / "ptx").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("where", ["build/ptx/k.cu", "build/k.cu", "k.cu"])
def test_a_relative_name_is_looked_up_beside_the_image_and_above_it(where: str) -> None:
    written(Path(where))
    with sources_beside(Path("build/ptx")):
        assert (found_name("k.cu"), source_text("k.cu", 1)) == (where, LINE)
        assert (found_name(where), source_text(where, 1)) == (where, LINE)


def test_the_nearest_source_is_the_one() -> None:
    written(Path("k.cu"), "far")
    written(Path("build/ptx/k.cu"), "near")
    with sources_beside(Path("build/ptx")):
        assert source_text("k.cu", 1) == "near"
    assert source_text("k.cu", 1) == "far"


def test_nothing_above_the_working_directory_is_looked_up(project: Path) -> None:
    written(project.parent / "k.cu")
    with sources_beside(Path("build/ptx")):
        assert (found_name("k.cu"), source_text("k.cu", 1)) == ("k.cu", "")


def test_an_image_elsewhere_has_its_sources_in_its_project_or_in_the_working_directory(
    tmp_path: Path,
) -> None:
    beside = written(tmp_path / "other" / "csrc" / "k.cu")
    written(Path("mine.cu"))
    folder = tmp_path / "other" / "build" / "ptx"
    folder.mkdir(parents=True)
    with sources_beside(folder):
        assert source_text("csrc/k.cu", 1) == LINE
        assert found_name("csrc/k.cu") == str(beside)
        assert source_text("mine.cu", 1) == LINE


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../../../../../../../../etc/passwd", "/dev/stdin", "/proc/1"]
)
def test_what_is_not_named_like_a_source_is_not_read(name: str) -> None:
    with sources_beside(Path("build")):
        assert source_text(name, 1) == ""


def test_what_only_a_link_or_a_name_makes_a_source_is_not_read() -> None:
    secret = written(Path("secret"), "the secret")
    Path("link.cu").symlink_to(secret)
    Path("circle.cu").symlink_to("circle.cu")
    Path("folder.cu").mkdir()
    os.mkfifo("pipe.cu")
    Path("binary.cu").write_bytes(b"the secret\n\0\1")
    for name in ("link.cu", "circle.cu", "folder.cu", "pipe.cu", "binary.cu", "long" * 2000 + ".cu", "\0.cu"):
        assert source_text(name, 1) == "", name


def test_a_link_to_a_source_is_one() -> None:
    Path("link.cu").symlink_to(written(Path("csrc/k.cu")))
    assert source_text("link.cu", 1) == LINE


def report_of(folder: Path, recall: Recall | None = None) -> AuditReport:
    return audit(find_images([str(folder)], WalkOptions()), OPTIONS, recall=recall).report


OPTIONS = AuditOptions(RULES, jobs=1)


def source_of(report: AuditReport) -> tuple[str, str]:
    place = report.findings[0].primary.twins[0]
    return place.location.file, place.text


def test_a_finding_shows_the_line_of_the_source_beside_the_ptx(tmp_path: Path) -> None:
    divergent = NAMED.replace(
        "setp.eq.s32 %p1, %r1, 0;", "mov.u32 %r2, %tid.x;\n    setp.eq.s32 %p1, %r2, 0;"
    )
    text = divergent.replace("bar.sync 0", "barrier.sync.aligned 0") + '.file 1 "k.cu"\n'
    for name in ("one", "two"):
        written(tmp_path / name / "k.ptx", text)
    first = written(tmp_path / "one" / "k.cu")
    assert source_of(report_of(tmp_path / "one")) == (str(first), LINE)
    store = ResultStore(tmp_path / "store")
    recall = Recall(store, OPTIONS)
    assert source_of(report_of(tmp_path / "one", recall)) == (str(first), LINE)
    assert source_of(report_of(tmp_path / "two", recall)) == ("k.cu", ""), "of a copy that has no source"
    second = written(tmp_path / "two" / "k.cu", "__global__ void other();")
    assert source_of(report_of(tmp_path / "two", recall)) == (str(second), "__global__ void other();")
    store.close()


def test_what_was_looked_for_is_told_once() -> None:
    consulted()
    with sources_beside(Path("build")):
        source_text("k.cu", 1)
        assert list(consulted()) == ["k.cu"]
        assert not consulted()
