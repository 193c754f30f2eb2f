"""Results of earlier audits: the same as those of a new one, and used only where everything is the same."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from audit_support import KERNEL, tiny_registry

from ptxaudit.engine import image_audit as audit_module
from ptxaudit.engine import recall as recall_module
from ptxaudit.engine import serialization
from ptxaudit.engine.audit import AuditOptions, AuditRun, audit
from ptxaudit.engine.function_audit import InternalError
from ptxaudit.engine.image import ImageKind, KernelImage, Place, image_of
from ptxaudit.engine.launches import NamedLaunch
from ptxaudit.engine.recall import Recall
from ptxaudit.engine.registry import load_registry, select_rules
from ptxaudit.engine.results import ImageResult
from ptxaudit.engine.store import ResultStore
from ptxaudit.engine.thresholds import SetThresholds
from ptxaudit.engine.units import Task
from ptxaudit.intake.fatbins import WalkOptions
from ptxaudit.intake.sources import find_images
from ptxaudit.ir.launch import Launch
from ptxaudit.report import json_report, text
from ptxaudit.rules.code import FunctionCode
from ptxaudit.rules.model import CommentedSource, FunctionReport, InputReport
from ptxaudit.source import LocationKind

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
RULES = select_rules(load_registry())
OPTIONS = AuditOptions(RULES, jobs=1, assemble=True, listings=True)
FOUND = FIXTURES / "correctness" / "named-barrier-count-mismatch" / "fewer_participants.ptx"
SMALL = [FOUND, FIXTURES / "cubin" / "mailbox.ptx", FIXTURES / "cubin" / "mailbox.sm_90a.cubin"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ResultStore]:
    made = ResultStore(tmp_path / "store")
    yield made
    made.close()


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the images that are really audited from here on."""
    names: list[str] = []
    really = audit_module.audit_images

    def audit_images(images: tuple[KernelImage, ...], options: AuditOptions) -> tuple[ImageResult, ...]:
        names.extend(image.name for image in images)
        return really(images, options)

    monkeypatch.setattr(audit_module, "audit_images", audit_images)
    return names


def run(paths: list[str], recall: Recall | None, options: AuditOptions = OPTIONS) -> AuditRun:
    return audit(find_images(paths, WalkOptions()), options, recall=recall)


def shown(run: AuditRun) -> tuple[Any, ...]:
    """All that reports are made of."""
    return json_report.render(run.report), text.render(run.report), run.report, run.remarks


def test_results_are_the_same_with_and_without_a_store(store: ResultStore, audited: list[str]) -> None:
    paths = [str(path) for path in SMALL]
    without = run(paths, None)
    number = len(audited)
    first = run(paths, Recall(store, OPTIONS))
    assert len(audited) == 2 * number > 2
    second = run(paths, Recall(store, OPTIONS))
    assert len(audited) == 2 * number, "the second run audited something"
    assert shown(without) == shown(first) == shown(second)
    assert without.report.findings and without.report.listings
    assert any(function.join for function in without.report.functions)


def test_a_file_that_moved_is_known_under_its_new_name(
    store: ResultStore, audited: list[str], tmp_path: Path
) -> None:
    folders = [tmp_path / "a", tmp_path / "elsewhere" / "b"]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / FOUND.name).write_bytes(FOUND.read_bytes())
    run([str(folders[0])], Recall(store, OPTIONS))
    number = len(audited)
    moved = run([str(folders[1])], Recall(store, OPTIONS))
    assert len(audited) == number
    assert shown(moved) == shown(run([str(folders[1])], None))
    assert str(folders[0]) not in json_report.render(moved.report)


def test_a_bad_input_says_the_same_and_is_read_again(
    store: ResultStore, audited: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "bad.ptx"
    path.write_text(KERNEL.replace("bar.sync 0;", "bar.sync 0"))
    for _ in range(2):
        assert shown(run([str(path)], Recall(store, OPTIONS))) == shown(run([str(path)], None))
    assert len(audited) == 4


OTHERS: dict[str, Callable[[AuditOptions, KernelImage], tuple[AuditOptions, KernelImage]]] = {
    "rules": lambda options, image: (replace(options, rules=options.rules[1:]), image),
    "strict": lambda options, image: (replace(options, strict=True), image),
    "assemble": lambda options, image: (replace(options, assemble=False), image),
    "listings": lambda options, image: (replace(options, listings=False), image),
    "thresholds": lambda options, image: (
        replace(options, thresholds=SetThresholds({"gpu-membar-in-hot-loop": {"least-cycles": 1}})),
        image,
    ),
    "launch": lambda options, image: (
        replace(options, launches=(NamedLaunch.of("kernel", Launch(block=(64, 1, 1))),)),
        image,
    ),
    "launch of the image": lambda options, image: (
        options,
        replace(image, launches=(NamedLaunch.of("kernel", Launch(block=(64, 1, 1))),)),
    ),
    "content": lambda options, image: (options, replace(image, content=image.content + b"\n")),
    "kind": lambda options, image: (options, replace(image, kind=ImageKind.CUBIN)),
    "in a container": lambda options, image: (options, replace(image, place=Place(("a.zip", "kernel.ptx")))),
    "a source": lambda options, image: (options, replace(image, source="kernel.cu")),
}


def keep(store: ResultStore, options: AuditOptions, image: KernelImage, result: ImageResult) -> None:
    recall = Recall(store, options)
    recall.kept(recall.prepared(Task((image,))), (result,))


def result_of(image: KernelImage, **changes: Any) -> ImageResult:
    made = ImageResult(InputReport(image.name, image.kind.value, image.sha256), matched=True)
    return replace(made, **changes)


@pytest.mark.parametrize("other", OTHERS)
def test_what_an_audit_rests_on_is_part_of_its_key(other: str, store: ResultStore) -> None:
    image = image_of("kernel.ptx", KERNEL.encode())
    keep(store, OPTIONS, image, result_of(image))
    assert Recall(store, OPTIONS).known((image,)) == (result_of(image),)
    options, image = OTHERS[other](OPTIONS, image)
    assert Recall(store, options).known((image,)) is None


@pytest.mark.parametrize("part", ["own_code", "_versions", "_tool_identity"])
def test_the_program_is_part_of_the_key(
    part: str, store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = image_of("kernel.ptx", KERNEL.encode())
    keep(store, OPTIONS, image, result_of(image))
    monkeypatch.setattr(recall_module, part, lambda *arguments: "another")
    assert Recall(store, OPTIONS).known((image,)) is None


def test_own_code_covers_code_tables_and_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "checks" / "__pycache__").mkdir(parents=True)
    (tmp_path / "checks" / "one.py").write_text("a = 1")
    monkeypatch.setattr(recall_module, "_PACKAGE", tmp_path)
    seen = [recall_module.own_code.__wrapped__()]
    (tmp_path / "checks" / "__pycache__" / "one.pyc").write_text("")
    assert recall_module.own_code.__wrapped__() == seen[0]
    (tmp_path / "checks" / "one.py").write_text("a = 2")
    seen.append(recall_module.own_code.__wrapped__())
    (tmp_path / "checks" / "table.json").write_text("{}")
    seen.append(recall_module.own_code.__wrapped__())
    monkeypatch.setattr(recall_module, "patterns_root", lambda: tmp_path / "checks")
    seen.append(recall_module.own_code.__wrapped__())
    assert len(set(seen)) == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"internal_errors": (InternalError("fault", "trace"),)},
        {"disturbed": True},
        {"timings": {recall_module.Stage.EXECUTION: 299.0}},
        {"report": InputReport("x", "ptx", "0" * 64, error="cannot be read")},
        {"functions": (FunctionReport("k", "k", "x", "sm_90", "ptx", {}, incomplete="too large"),)},
    ],
    ids=["fault", "tool", "time", "input", "limit"],
)
def test_what_may_come_out_differently_is_not_kept(changes: dict[str, Any], store: ResultStore) -> None:
    image = image_of("kernel.ptx", KERNEL.encode())
    keep(store, OPTIONS, image, result_of(image, **changes))
    assert Recall(store, OPTIONS).known((image,)) is None


def test_rules_from_elsewhere_are_not_kept(store: ResultStore, tmp_path: Path) -> None:
    rules = tuple(tiny_registry(tmp_path).values())[:1]
    image = image_of("kernel.ptx", KERNEL.encode())
    options = replace(OPTIONS, rules=rules)
    keep(store, options, image, result_of(image))
    assert Recall(store, options).known((image,)) is None


def test_a_source_that_is_quoted_is_compared(
    store: ResultStore, audited: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kernel.cu").write_text("first\n" * 9)
    content = FOUND.read_text().replace(".visible", '.file 1 "kernel.cu"\n.visible', 1)
    before, _, after = content.partition("bar.sync")
    Path("kernel.ptx").write_text(f"{before}.loc 1 7 0\n  bar.sync{after}")

    def quoted() -> tuple[str, int]:
        audited.clear()
        result = run(["kernel.ptx"], Recall(store, OPTIONS))
        assert shown(result) == shown(run(["kernel.ptx"], None))
        places = [twin for one in result.report.findings for twin in one.primary.twins]
        return next(p.text for p in places if p.location.kind is LocationKind.SOURCE), len(audited) - 1

    assert quoted() == ("first", 1)
    assert quoted() == ("first", 0)
    Path("kernel.cu").write_text("second\n" * 9)
    assert quoted() == ("second", 1)
    assert quoted() == ("second", 0)
    (tmp_path / "below").mkdir()
    for path in ("kernel.cu", "kernel.ptx"):
        Path("below", path).write_text(Path(path).read_text())
    monkeypatch.chdir("below")
    assert quoted() == ("second", 1)


def pack(code: FunctionCode) -> bytes:
    return repr(code).encode()


def test_packed_code_is_kept_under_the_name_that_it_has(
    store: ResultStore, audited: list[str], tmp_path: Path
) -> None:
    options = replace(OPTIONS, pack=pack)
    for path, number in ((FOUND, 1), (FOUND, 0), (tmp_path / "other.ptx", 1)):
        path.exists() or path.write_bytes(FOUND.read_bytes())
        audited.clear()
        found = run([str(path)], Recall(store, options), options)
        assert len(audited) == number
        assert found.report.code == run([str(path)], None, options).report.code != {}


NO_RESULTS = [
    b"",
    b"no JSON",
    b'"text"',
    b"[]",
    b'["t",1]',
    b'["t",{"ImageResult":1}]',
    b'["os.system","touch taken"]',
    b'["ImageResult",null]',
    b'["t",["Severity","NONE"]]',
    b'["t",["b","!"],["d",1]]',
    b"[" * 100_000,
    b"[" + b"[],[]," * (1 << 20) + b"[]]",
    b'["t",' + b'"ab",' * (1 << 22) + b'"ab"]',
]


@pytest.mark.parametrize("content", NO_RESULTS, ids=range(len(NO_RESULTS)))
def test_what_is_no_result_is_not_taken(content: bytes, store: ResultStore) -> None:
    image = image_of("kernel.ptx", KERNEL.encode())
    recall = Recall(store, OPTIONS)
    key = recall._key((image,))
    assert key is not None
    store.put(key, content)
    assert recall.known((image,)) is None


def test_values_of_results_come_back_as_they_were() -> None:
    source = CommentedSource("a.cu", "text \ud800\0\n", frozenset({3, 1}))
    found = (ImageResult(None, code={"name": b"\0\xff"}, sources={"a": source}, listings={"x": "<x>"}),)
    content = serialization.to_bytes(found)
    assert content is not None
    assert serialization.from_bytes(content, str) == found
    assert serialization.from_bytes(content, str.upper)[0].listings == {"X": "<X>"}


def test_results_that_cannot_be_read_back_are_not_kept() -> None:
    many = {str(number): "[]" * 100 for number in range(30_000)}
    assert serialization.to_bytes((ImageResult(None, listings=many),)) is None
    assert (
        serialization.to_bytes((ImageResult(None, listings={"long": "x" * serialization.MOST_BYTES}),))
        is None
    )
    assert serialization.to_bytes((ImageResult(None, listings={"other": object()}),)) is None  # type: ignore[dict-item]
