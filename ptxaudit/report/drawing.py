"""The control-flow graph as a picture: boxes with what their blocks synchronise, routed edges, in pixels.

The layout is graphlay's: layered, top to bottom, with right-angled edges that keep clear of the boxes. It
is deterministic and takes some milliseconds, so that it is made with the page. Widths are estimates for a
monospaced face, since a page that loads nothing cannot know its reader's fonts.
"""

from collections import Counter
from dataclasses import dataclass

import graphlay

from ptxaudit.rules.code import CodeBlock, CodeText
from ptxaudit.words import counted

MOST_BLOCKS = 3000
# Blocks have one or two successors, and a few jump tables many.
_EDGES_PER_BLOCK, _MORE_EDGES = 3, 500
# How hard the layout tries, with the bends and passages of edges that it may then have to place. Kernels have
# some hundreds; it takes seconds for thousands, which only code that was made to be tangled has.
_EFFORTS = (("balanced", 2500), ("fast", 6000))
_FONT_SIZE = 11
_CHARACTER = _FONT_SIZE * 0.61
_LINE = 15
_PADDING = 8
_LONGEST = 40
_MOST_KINDS = 6
_MARGIN = 12
_OPTIONS = {
    "direction": "topbottom",
    "spacing": {"layer_gap": 26, "node_gap": 22, "dummy_gap": 12, "port_gap": 12, "stub": 8},
}


@dataclass(frozen=True, slots=True)
class BlockBox:
    """A block's box: left, top, width, height, and its lines of text, the first of which is its heading."""

    x: int
    y: int
    width: int
    height: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FlowEdge:
    """An edge from one block to another along ``points``."""

    source: int
    target: int
    points: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A laid-out graph; ``boxes`` are by block."""

    width: int
    height: int
    boxes: tuple[BlockBox, ...]
    edges: tuple[FlowEdge, ...]


def draw_blocks(text: CodeText) -> Picture | None:
    """The picture of a function's blocks; ``None`` where they are too many or too tangled for one that could
    be read."""
    edge_count = sum(len(block.successors) for block in text.blocks)
    if (
        not 0 < len(text.blocks) <= MOST_BLOCKS
        or edge_count > _EDGES_PER_BLOCK * len(text.blocks) + _MORE_EDGES
    ):
        return None
    labels = [_label(block, text) for block in text.blocks]
    graph = graphlay.Graph()
    for number, lines in enumerate(labels):
        width = max(map(len, lines)) * _CHARACTER + 2 * _PADDING
        graph.node(number, width=round(width), height=_LINE * len(lines) + _PADDING)
    ends = [(number, target) for number, block in enumerate(text.blocks) for target in block.successors]
    for source, target in ends:
        # The way straight on is kept straight.
        graph.edge(source, target, weight=3.0 if target == source + 1 else 1.0)
    layout = _laid_out(graph)
    if layout is None:
        return None
    left, top = (layout.bounds["min"][axis] - _MARGIN for axis in "xy")
    boxes = tuple(
        _box(node["center"], node["size"], left, top, lines)
        for node, lines in zip(layout.nodes, labels, strict=True)
    )
    edges = tuple(
        FlowEdge(source, target, _points(edge["points"], left, top))
        for (source, target), edge in zip(ends, layout.edges, strict=True)
    )
    high = layout.bounds["max"]
    return Picture(round(high["x"] - left + _MARGIN), round(high["y"] - top + _MARGIN), boxes, edges)


def _laid_out(graph: graphlay.Graph) -> graphlay.Layout | None:
    for effort, most in _EFFORTS:
        try:
            return graphlay.layout(
                graph, options={**_OPTIONS, "effort": effort, "limits": {"max_dummies": most}}
            )
        except graphlay.GraphlayError:
            continue
    return None


def _label(block: CodeBlock, text: CodeText) -> tuple[str, ...]:
    """The block's name, how long it is, and the kinds of synchronisation in it in their order."""
    kinds: Counter[str] = Counter()
    for index in range(block.start, block.end):
        kinds.update(text.synchronisation.get(index, ()))
    size = block.end - block.start
    lines = [block.name, counted(size, "instruction")]
    lines += [
        kind if number == 1 else f"{kind} \N{MULTIPLICATION SIGN}{number}" for kind, number in kinds.items()
    ]
    if len(lines) > _MOST_KINDS + 2:
        left_out = len(lines) - _MOST_KINDS - 1
        lines[_MOST_KINDS + 1 :] = [f"and {left_out} more kinds"]
    return tuple(
        line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}" for line in lines
    )


def _box(
    centre: dict[str, float], size: dict[str, float], left: float, top: float, lines: tuple[str, ...]
) -> BlockBox:
    width, height = size["width"], size["height"]
    x, y = centre["x"] - width / 2 - left, centre["y"] - height / 2 - top
    return BlockBox(round(x), round(y), round(width), round(height), lines)


def _points(points: list[dict[str, float]], left: float, top: float) -> tuple[tuple[int, int], ...]:
    return tuple((round(point["x"] - left), round(point["y"] - top)) for point in points)
