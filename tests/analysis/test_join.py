"""PTX joined to its SASS: exact by line tables, against nvdisasm; the other ways against the exact one."""

import re
import subprocess
from pathlib import Path

import pytest
from join_support import (
    NARROW,
    RIGHT,
    assembled,
    assembled_by,
    needs_ptxas,
    ptx_analyses,
    sass_analyses,
    without_lines,
)

from ptxaudit.analysis.join import (
    Join,
    JoinMethod,
    SassLines,
    join_functions,
    join_through,
    synchronisation,
)
from ptxaudit.arch import parse_architecture
from ptxaudit.frontends.sass.tools import find_tool
from ptxaudit.ir.events import L1Invalidate, MbarrierWait

pytestmark = needs_ptxas
FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
# One of each family of synchronisation.
SAMPLED = [
    "async-read-of-generic-write",
    "bulk-store-source-reused",
    "cp-async-not-drained",
    "mbarrier-wait-scope-too-narrow",
    "named-barrier-run-ahead",
    "pdl-wait-missing",
    "setmaxnreg-budget-mismatch",
    "tcgen05-fence-missing",
    "tmem-dealloc-before-join",
    "wgmma-stage-released-early",
    "release-wider-than-needed",
    "gpu-membar-in-hot-loop",
]
# What ptxas leaves no instruction of its own for, or notes under another line.
MAY_DROP = {
    "asynchronous access (wgmma group)",
    "fence",
    "mbarrier init fence",
    "memory barrier",
    "L1 invalidate",
    "tensor memory fence::after_thread_sync",
    "tensor memory fence::before_thread_sync",
    "tensor memory wait::ld",
    "tensor memory relinquish_alloc_permit",
    "warp barrier",
    "wgmma",
    "wgmma commit",
    "wgmma fence",
}


def sampled() -> list[Path]:
    return [next(iter(sorted(FIXTURES.glob(f"*/{rule}/*.ptx")))) for rule in SAMPLED]


def exchange(text: str = RIGHT) -> tuple[Join, dict[str, Join]]:
    """The exchange kernel joined exactly, and in the other ways."""
    ptx = ptx_analyses(text)["exchange"]
    sass, lines = sass_analyses(assembled(text))["exchange"]
    others = {
        "source": join_functions(ptx, sass, SassLines({}, lines.source)),
        "order": join_functions(ptx, sass, SassLines()),
    }
    return join_functions(ptx, sass, lines), others


def test_lines_are_those_that_nvdisasm_prints(tmp_path: Path) -> None:
    cubin = tmp_path / "k.cubin"
    cubin.write_bytes(assembled(RIGHT))
    command = [str(find_tool("nvdisasm")), "-gp", "-c", str(cubin)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ptx = ptx_analyses(RIGHT)["exchange"].function
    sass = sass_analyses(assembled(RIGHT))["exchange"][0].function
    begins = {one.location.line for one in ptx.instructions}
    join, _ = exchange()
    by_offset = {one.location.offset: one.index for one in sass.instructions}
    line, checked = 0, 0
    for text in listing.splitlines():
        if match := re.match(r'\s*//## File ".nv_debug_ptx_txt", line (\d+)', text):
            line = int(match[1])
        elif match := re.match(r"\s*/\*([0-9a-f]{4})\*/\s+\S", text):
            index = by_offset.get(int(match[1], 16))
            if index is not None and line in begins:
                assert ptx.instructions[join.ptx_of[index]].location.line == line, text
                checked += 1
    assert checked > 40


@pytest.mark.parametrize("path", sampled(), ids=lambda path: path.parent.name)
def test_synchronisation_of_the_ptx_is_in_the_sass_or_listed_as_dropped(path: Path) -> None:
    text = path.read_text()
    target = re.search(r"^\s*\.target\s+(sm_\w+)", text, re.MULTILINE)
    assert target is not None
    sides = sass_analyses(assembled(text, parse_architecture(target[1])))
    joined = 0
    for name, ptx in ptx_analyses(text).items():
        sass, lines = sides[name]
        join = join_functions(ptx, sass, lines)
        assert join.method is JoinMethod.LINE_TABLE
        dropped = {(one.index, one.kind) for one in join.dropped}
        for index, events in enumerate(ptx.events):
            shown = {k for one in join.sass_of.get(index, ()) for k in synchronisation(sass.events[one])}
            for kind in synchronisation(events):
                assert (kind in shown) != ((index, kind) in dropped), (ptx.function.instructions[index], kind)
                joined += kind in shown
        assert {kind for _, kind in dropped} <= MAY_DROP
        assert all(index in join.ptx_of for found in join.sass_of.values() for index in found)
    assert joined


def test_a_wait_is_joined_with_its_invalidate() -> None:
    ptx = ptx_analyses(RIGHT)["exchange"]
    sass, _ = sass_analyses(assembled(RIGHT))["exchange"]
    join, _ = exchange()
    (wait,) = [instruction.index for instruction, _ in ptx.occurrences(MbarrierWait)]
    events = [event for index in join.sass_of[wait] for event in sass.events[index]]
    assert any(isinstance(event, MbarrierWait) for event in events)
    assert any(isinstance(event, L1Invalidate) for event in events)


@pytest.mark.parametrize("text", [NARROW, RIGHT], ids=["narrow", "right"])
@pytest.mark.parametrize("way", ["source", "order"])
def test_the_other_ways_say_nothing_else_than_the_line_table(text: str, way: str) -> None:
    exact, others = exchange(text)
    join = others[way]
    assert join.method is {"source": JoinMethod.SOURCE_LINES, "order": JoinMethod.EVENT_ORDER}[way]
    assert len(join.ptx_of) >= 8
    assert {index: exact.ptx_of[index] for index in join.ptx_of} == join.ptx_of


def test_the_same_code_assembled_anew_gives_the_exact_join(tmp_path: Path) -> None:
    text = without_lines(RIGHT)
    ptx = ptx_analyses(text)["exchange"]
    again, lines = sass_analyses(assembled(text))["exchange"]
    sass, none = sass_analyses(assembled_by(tmp_path, text))["exchange"]
    assert none == SassLines()
    join = join_through(ptx, sass, again, lines)
    assert (join.method, join.ptx_of) == (JoinMethod.SAME_CODE, exchange(text)[0].ptx_of)


def test_other_code_is_joined_by_its_synchronisation(tmp_path: Path) -> None:
    ptx = ptx_analyses(RIGHT)["exchange"]
    again, lines = sass_analyses(assembled(RIGHT))["exchange"]
    cubin = assembled_by(tmp_path, RIGHT, "-O1", "-lineinfo")
    sass, own = sass_analyses(cubin)["exchange"]
    join = join_through(ptx, sass, again, lines)
    exact = join_functions(ptx, sass, own)
    assert join.method is JoinMethod.ASSEMBLED
    wrong = {i for i in join.ptx_of if join.ptx_of[i] != exact.ptx_of[i]}
    assert len(join.ptx_of) >= 6
    assert not wrong
