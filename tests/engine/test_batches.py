"""Small cubins are disassembled together, with the listing that each has alone."""

from pathlib import Path

import pytest
from damaged_cubins import with_second_code

from ptxaudit.engine.audit import AuditOptions, AuditRun, audit
from ptxaudit.engine.image import KernelImage, image_of
from ptxaudit.engine.registry import load_registry, select_rules
from ptxaudit.engine.results import ImageResult
from ptxaudit.engine.screening import batches
from ptxaudit.engine.units import Task
from ptxaudit.errors import ToolError
from ptxaudit.frontends.sass import batch
from ptxaudit.frontends.sass.disassemble import parse_listing, start_nvdisasm
from ptxaudit.frontends.sass.tools import ToolRun

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
CUBINS = sorted(path for path in FIXTURES.rglob("*.cubin") if "hostile" not in path.parts)[::3]
IMAGES = tuple(image_of(path.name, path.read_bytes()) for path in CUBINS)
POLL = select_rules(load_registry(), ["l1-invalidate-in-poll-loop"])


def audited(images: tuple[KernelImage, ...], **options: object) -> AuditRun:
    given = {"jobs": 1, "listings": False, **options}
    return audit(images, AuditOptions(POLL, **given))  # type: ignore[arg-type]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what the disassembler is started on."""
    started: list[str] = []
    really = ToolRun.__init__

    def counted(self: ToolRun, tool: str, options: list[str], data: bytes, name: str, *more: str) -> None:
        started.append(name)
        really(self, tool, options, data, name, *more)

    monkeypatch.setattr(ToolRun, "__init__", counted)
    return started


def test_together_they_read_as_alone() -> None:
    plans = [batch.planned(image.content, image.name, None, None) for image in IMAGES]
    chosen = [plan for plan in plans if plan is not None]
    assert len(chosen) > len(IMAGES) / 2
    listings = batch.disassembled_together(chosen)
    assert len(listings) > len(chosen) / 2
    for place, listing in listings.items():
        plan = chosen[place]
        with start_nvdisasm(plan.data, plan.name) as run:
            alone = parse_listing(run.output(), plan.name)
        assert list(listing.values()) == list(alone), plan.name


def test_calls_keep_the_names_of_what_they_call() -> None:
    images = [image for image in IMAGES for _ in range(2)]
    plans = [batch.planned(image.content, image.name, None, None) for image in images]
    for listing in batch.disassembled_together([plan for plan in plans if plan is not None]).values():
        for section in listing.values():
            assert not any("ptxaudit" in one.get("operands", "") for one in section.instructions)


def test_a_report_is_the_same_however_cubins_are_read(runs: list[str]) -> None:
    together = audited(IMAGES)
    assert 0 < len(runs) < len(IMAGES) / 2
    runs.clear()
    alone = audited(IMAGES, scan=False)
    assert len(runs) == len(IMAGES)
    assert together.report == alone.report
    assert together.internal_errors == alone.internal_errors == ()


def test_what_fails_together_is_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = audited(IMAGES)

    def failing(*arguments: object) -> ToolRun:
        raise ToolError("several cubins: nvdisasm failed")

    monkeypatch.setattr(batch, "start_nvdisasm", failing)
    assert audited(IMAGES).report == expected.report


@pytest.mark.parametrize("fault", [KeyError(15), ValueError("bad"), MemoryError()])
def test_a_fault_of_the_batch_is_of_no_cubin(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = audited(IMAGES)

    def failing(*arguments: object) -> bytes:
        raise fault

    monkeypatch.setattr(batch._Common, "file", failing)
    assert audited(IMAGES) == expected
    monkeypatch.setattr(batch, "read_cubin", failing)
    assert audited(IMAGES) == expected


@pytest.mark.parametrize("rename", [False, True])
def test_code_that_no_symbol_tells_of_is_read_alone(rename: bool) -> None:
    polling, good = (image for image in IMAGES if audited((image,)).report.findings), IMAGES[0]
    data = with_second_code(next(polling).content, rename, harmless=False)
    assert batch.planned(data, "odd.cubin", None, None) is None
    both = (image_of("odd.cubin", data), good, good)
    run = audited(both)
    assert run.internal_errors == () and not any(one.error for one in run.report.inputs)
    assert run.report == audited(both, scan=False).report
    assert "odd.cubin" in {one.input for one in run.report.findings}


def test_a_broken_cubin_takes_no_other_with_it() -> None:
    good, bad = IMAGES[0], image_of("bad.cubin", IMAGES[1].content[:300])
    report = audited((good, bad, *IMAGES[2:])).report
    assert [one.error is None for one in report.inputs] == [True, False, *[True] * (len(IMAGES) - 2)]


def test_an_illegal_instruction_takes_no_other_with_it() -> None:
    found = [image for image in IMAGES if audited((image,)).report.findings]
    data = bytearray(found[0].content)
    at = data.find(bytes.fromhex("8f79"))  # the CCTL.IVALL that the scan finds
    data[at : at + 16] = b"\xff" * 16
    broken = image_of("broken.cubin", bytes(data))
    report = audited((found[0], broken, *found[1:])).report
    assert {one.path for one in report.inputs if one.error is not None} == {"broken.cubin"}
    assert {one.input for one in report.findings} == {image.name for image in found}


def test_batches_are_small_at_first_and_keep_the_order() -> None:
    image = IMAGES[0]
    tasks = [Task((image,)) for _ in range(60)]
    known = ImageResult(None)
    given = [*tasks[:30], known, *tasks[30:]]
    work = list(batches(iter(given), AuditOptions(POLL), 1))
    assert [
        one for several in work for one in (several if isinstance(several, tuple) else [several])
    ] == given
    sizes = [len(one) for one in work if isinstance(one, tuple)]
    assert sizes == [4, 4, 16, 6, 16, 14]
    every = AuditOptions(select_rules(load_registry()))
    assert [len(one) for one in batches(iter(tasks), every, 1) if isinstance(one, tuple)] == [1] * 60
