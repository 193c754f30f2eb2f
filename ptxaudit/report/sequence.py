"""The witness as a sequence diagram: a deterministic layout in pixels.

One column (lane) per role in order of first appearance, one row per step in the order of the schedule,
orders between steps as right-angled arrows. Vertical parts of arrows run in the gutters between lanes,
each on a track of its own; every arrow has a band of its own above the later of its two steps, where its
label stands. So no arrow crosses a box and no two labels share a place.

Widths are estimates for a monospaced face (0.61 em for a character), since a page that loads nothing
cannot know its reader's fonts.
"""

import textwrap
from dataclasses import dataclass

from ptxaudit.rules.model import Witness, WitnessEdge, WitnessStep
from ptxaudit.source import Location

FONT_SIZE = 12
CHARACTER = FONT_SIZE * 0.61
LINE = 16
BOX_WIDTH = 208
BOX_PADDING = 10
TRACK = 14
GUTTER = 26
ROW_GAP = 12
BAND = 24
HEAD = 36
MARGIN = 8
_COLUMNS = int((BOX_WIDTH - 2 * BOX_PADDING) // CHARACTER)


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle: left, top, width, height."""

    x: float
    y: float
    width: float
    height: float

    @property
    def centre_x(self) -> float:
        """Middle of the width."""
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        """Lower edge."""
        return self.y + self.height

    @property
    def right(self) -> float:
        """Right edge."""
        return self.x + self.width


@dataclass(frozen=True, slots=True)
class Lane:
    """A role: its heading and the line that its steps hang on."""

    role: str
    heading: tuple[str, ...]
    box: Box
    line_end: float


@dataclass(frozen=True, slots=True)
class StepBox:
    """A step: wrapped text, a small caption (order, iteration, place) and where it stands."""

    caption: str
    lines: tuple[str, ...]
    box: Box
    lane: int
    location: Location | None
    broken: bool


@dataclass(frozen=True, slots=True)
class Arrow:
    """An edge: its corner points, its label and the label's box."""

    points: tuple[tuple[float, float], ...]
    label: str
    label_box: Box
    missing: bool

    @property
    def path(self) -> str:
        """The points as SVG path data."""
        return "M" + " L".join(f"{x:g},{y:g}" for x, y in self.points)


@dataclass(frozen=True, slots=True)
class Diagram:
    """A laid-out witness."""

    width: float
    height: float
    lanes: tuple[Lane, ...]
    steps: tuple[StepBox, ...]
    arrows: tuple[Arrow, ...]


def lay_out(witness: Witness) -> Diagram | None:
    """Lay a witness out; ``None`` when it has no steps. Edges to steps that do not exist are left out."""
    if not witness.steps:
        return None
    count = len(witness.steps)
    edges = [
        edge
        for edge in witness.edges
        if 0 <= edge.source < count and 0 <= edge.target < count and edge.source != edge.target
    ]
    roles = list(dict.fromkeys(step.role for step in witness.steps))
    columns = [roles.index(step.role) for step in witness.steps]
    gutters = [_gutters(columns[edge.source], columns[edge.target]) for edge in edges]
    lane_x, tracks, width = _columns(len(roles), gutters)
    headings = [_wrap(role) for role in roles]
    width = max([width, *(len(edge.label) * CHARACTER + 10 + MARGIN for edge in edges)])
    head = max(HEAD, max(len(heading) for heading in headings) * LINE + 12)
    boxes, bands, bottom = _rows(witness.steps, columns, lane_x, edges, MARGIN + head)
    ports = _ports(edges, columns, boxes)
    broken = {index for edge in edges if edge.missing for index in (edge.source, edge.target)}
    lanes = tuple(
        Lane(role, heading, Box(x, MARGIN, BOX_WIDTH, head - 8), bottom)
        for role, heading, x in zip(roles, headings, lane_x, strict=True)
    )
    steps = tuple(
        StepBox(_caption(index, step), _wrap(step.text), boxes[index], columns[index], step.location,
                index in broken)
        for index, step in enumerate(witness.steps)
    )  # fmt: skip
    arrows = tuple(
        _arrow(edge, ports[index], gutters[index], tracks[index], bands[index], width)
        for index, edge in enumerate(edges)
    )
    return Diagram(width, bottom + MARGIN, lanes, steps, arrows)


def _caption(index: int, step: WitnessStep) -> str:
    parts = [str(index + 1)]
    if step.iteration is not None:
        parts.append(f"iteration {step.iteration}")
    if step.location is not None and step.location.offset is not None:
        parts.append(f"+{step.location.offset:#06x}")
    elif step.location is not None and step.location.line is not None:
        parts.append(f"line {step.location.line}")
    return " · ".join(parts)


def _wrap(text: str) -> tuple[str, ...]:
    return tuple(textwrap.wrap(text, _COLUMNS) or [""])


def _gutters(source: int, target: int) -> tuple[int, int]:
    """The gutters (0 is left of the first lane) that an arrow leaves into and comes from."""
    if source > target:
        return source, target + 1
    return source + 1, source + 1 if source == target else target


def _columns(
    lanes: int, gutters: list[tuple[int, int]]
) -> tuple[list[float], list[tuple[float, float]], float]:
    """The left edge of each lane, the track of each arrow in its two gutters, and the whole width."""
    used = [0] * (lanes + 1)
    places: list[tuple[int, int]] = []
    for source, target in gutters:
        first = used[source]
        used[source] += 1
        second = first
        if target != source:
            second = used[target]
            used[target] += 1
        places.append((first, second))
    starts: list[float] = []
    lane_x: list[float] = []
    x = float(MARGIN)
    for gutter, tracks in enumerate(used):
        starts.append(x)
        outer = gutter in (0, lanes)
        x += (0 if outer and not tracks else GUTTER) + TRACK * max(0, tracks - 1)
        if gutter < lanes:
            lane_x.append(x)
            x += BOX_WIDTH

    def at(gutter: int, track: int) -> float:
        return starts[gutter] + GUTTER / 2 + TRACK * track

    found = [
        (at(source, first), at(target, second))
        for (source, target), (first, second) in zip(gutters, places, strict=True)
    ]
    return lane_x, found, x + MARGIN


def _rows(
    steps: tuple[WitnessStep, ...],
    columns: list[int],
    lane_x: list[float],
    edges: list[WitnessEdge],
    top: float,
) -> tuple[list[Box], dict[int, float], float]:
    """The box of each step, the middle of each arrow's band, and the lower end."""
    boxes: list[Box] = []
    bands: dict[int, float] = {}
    y = top + ROW_GAP / 2
    for row, step in enumerate(steps):
        for index, edge in enumerate(edges):
            if max(edge.source, edge.target) == row:
                bands[index] = y + BAND / 2
                y += BAND
        height = (1 + len(_wrap(step.text))) * LINE + 12
        boxes.append(Box(lane_x[columns[row]], y, BOX_WIDTH, height))
        y += height + ROW_GAP
    return boxes, bands, y


def _ports(
    edges: list[WitnessEdge], columns: list[int], boxes: list[Box]
) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Where each arrow leaves and enters: ends on one side of a box are spread over its height."""
    sides: dict[tuple[int, bool], list[tuple[int, bool]]] = {}
    for index, edge in enumerate(edges):
        source, target = columns[edge.source], columns[edge.target]
        sides.setdefault((edge.source, source <= target), []).append((index, True))
        sides.setdefault((edge.target, source >= target), []).append((index, False))
    found: dict[tuple[int, bool], tuple[float, float]] = {}
    for (step, right), ends in sides.items():
        box = boxes[step]
        # An end that goes up takes a higher port than one that goes down, so that they do not cross.
        ends.sort(key=lambda end: (_other(edges[end[0]], step), end[0]))
        for position, end in enumerate(ends, 1):
            y = box.y + box.height * position / (len(ends) + 1)
            found[end] = (box.right if right else box.x, y)
    return [(found[index, True], found[index, False]) for index in range(len(edges))]


def _other(edge: WitnessEdge, step: int) -> int:
    return edge.target if edge.source == step else edge.source


def _arrow(
    edge: WitnessEdge,
    ports: tuple[tuple[float, float], tuple[float, float]],
    gutters: tuple[int, int],
    tracks: tuple[float, float],
    band: float,
    width: float,
) -> Arrow:
    (start_x, start_y), (end_x, end_y) = ports
    first, second = tracks
    points = [(start_x, start_y), (first, start_y)]
    if gutters[0] != gutters[1]:
        points += [(first, band), (second, band)]
    points += [(second, end_y), (end_x, end_y)]
    label_width = len(edge.label) * CHARACTER + 10
    centre = (first + second) / 2
    x = min(max(MARGIN / 2, centre - label_width / 2), max(MARGIN / 2, width - label_width - MARGIN / 2))
    return Arrow(tuple(points), edge.label, Box(x, band - 9, label_width, 18), edge.missing)
