"""The picture of the control flow: all blocks and edges are in it, nothing overlaps, its time is bounded."""

from itertools import combinations, pairwise
from random import Random
from time import process_time

import pytest
from html_sample import SPLITK, SPLITK_NAME, sample_code

from ptxaudit.report.drawing import MOST_BLOCKS, draw_blocks
from ptxaudit.rules.code import CodeBlock, CodeText


def flow(*successors: tuple[int, ...], kinds: tuple[str, ...] = ()) -> CodeText:
    """A function of one instruction a block."""
    count = len(successors)
    return CodeText(
        language="ptx",
        listing="k.ptx",
        first=1,
        lines=("nop;",) * count,
        line_of=tuple(range(count)),
        synchronisation={0: kinds} if kinds else {},
        blocks=tuple(CodeBlock(f"line {i}", i, i + 1, targets) for i, targets in enumerate(successors)),
    )


@pytest.mark.parametrize(
    "text",
    [
        flow(()),
        flow((0,)),
        flow((1,), ()),
        flow((1, 2), (3,), (3,), ()),
        flow((1,), (2,), (1, 3), ()),
        flow((1, 3), (2,), (1, 0), ()),
        flow((), (), ()),
        *sample_code()[SPLITK, SPLITK_NAME].texts,
    ],
)
def test_every_block_and_edge_is_drawn_and_no_boxes_overlap(text: CodeText) -> None:
    picture = draw_blocks(text)
    assert picture is not None
    assert len(picture.boxes) == len(text.blocks)
    drawn = [(edge.source, edge.target) for edge in picture.edges]
    assert drawn == [(i, target) for i, block in enumerate(text.blocks) for target in block.successors]
    for one, two in combinations(picture.boxes, 2):
        apart = (
            one.x + one.width <= two.x
            or two.x + two.width <= one.x
            or one.y + one.height <= two.y
            or two.y + two.height <= one.y
        )
        assert apart
    for box in picture.boxes:
        assert 0 <= box.x < box.x + box.width <= picture.width
        assert 0 <= box.y < box.y + box.height <= picture.height
    for edge in picture.edges:
        source, target = picture.boxes[edge.source], picture.boxes[edge.target]
        for (x, y), box in ((edge.points[0], source), (edge.points[-1], target)):
            assert box.x - 1 <= x <= box.x + box.width + 1
            assert box.y - 1 <= y <= box.y + box.height + 1
        assert all(a == c or b == d for (a, b), (c, d) in pairwise(edge.points)), "right angles"


def test_a_box_says_what_its_block_synchronises() -> None:
    picture = draw_blocks(flow((), kinds=("mbarrier wait", "mbarrier wait", "fence", *"abcdef")))
    assert picture is not None
    assert picture.boxes[0].lines == (
        "line 0",
        "1 instruction",
        "mbarrier wait \N{MULTIPLICATION SIGN}2",
        "fence",
        "a",
        "b",
        "c",
        "and 3 more kinds",
    )


def test_what_could_not_be_read_is_not_drawn() -> None:
    random = Random(0)
    tangled = flow(*((random.randrange(1500), random.randrange(1500)) for _ in range(1500)))
    start = process_time()
    assert draw_blocks(tangled) is None
    assert draw_blocks(flow(*((i + 1,) for i in range(MOST_BLOCKS)), ())) is None
    assert draw_blocks(flow(*(tuple(range(100)) for _ in range(100)))) is None
    assert process_time() - start < 5
    assert draw_blocks(flow()) is None
