"""The witness diagram: nothing overlaps, every arrow starts and ends at its steps."""

from html_sample import RELEASE, SCOPE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ptxaudit.report.sequence import Box, Diagram, lay_out
from ptxaudit.rules.model import Witness, WitnessEdge, WitnessStep


def _overlap(one: Box, two: Box) -> bool:
    return one.x < two.right and two.x < one.right and one.y < two.bottom and two.y < one.bottom


def _crosses(start: tuple[float, float], end: tuple[float, float], box: Box) -> bool:
    """Whether a level or upright segment runs through the inside of a box."""
    (x1, x2), (y1, y2) = sorted((start[0], end[0])), sorted((start[1], end[1]))
    return x1 < box.right and box.x < x2 + 1e-9 and y1 < box.bottom and box.y < y2 + 1e-9 and x2 > box.x


def _check(diagram: Diagram, witness: Witness) -> None:
    boxes = [step.box for step in diagram.steps]
    for index, box in enumerate(boxes):
        assert box.x >= 0 and box.right <= diagram.width
        assert box.bottom <= diagram.height
        assert not any(_overlap(box, other) for other in boxes[index + 1 :])
    assert [box.y for box in boxes] == sorted(box.y for box in boxes)
    edges = [edge for edge in witness.edges if edge.source != edge.target]
    assert len(diagram.arrows) == len(edges)
    for edge, arrow in zip(edges, diagram.arrows, strict=True):
        source, target = boxes[edge.source], boxes[edge.target]
        (start_x, start_y), (end_x, end_y) = arrow.points[0], arrow.points[-1]
        assert start_x in (source.x, source.right) and source.y < start_y < source.bottom
        assert end_x in (target.x, target.right) and target.y < end_y < target.bottom
        for first, second in zip(arrow.points, arrow.points[1:], strict=False):
            assert first[0] == second[0] or first[1] == second[1], "right angles only"
            assert not any(_crosses(first, second, box) for box in boxes)
        assert arrow.label_box.x >= 0 and arrow.label_box.right <= diagram.width
        assert not any(_overlap(arrow.label_box, box) for box in boxes)
        assert arrow.missing == edge.missing
    labels = [arrow.label_box for arrow in diagram.arrows]
    assert not any(_overlap(one, two) for index, one in enumerate(labels) for two in labels[index + 1 :])


def test_the_samples_are_laid_out_well():
    for finding in (SCOPE, RELEASE):
        assert finding.witness is not None
        diagram = lay_out(finding.witness)
        assert diagram is not None
        _check(diagram, finding.witness)


def test_lanes_are_in_order_of_first_appearance():
    assert RELEASE.witness is not None
    diagram = lay_out(RELEASE.witness)
    assert diagram is not None
    assert [lane.role for lane in diagram.lanes] == ["TMA", "warps 4-7", "tensor core", "warp 0"]
    assert [lane.box.x for lane in diagram.lanes] == sorted(lane.box.x for lane in diagram.lanes)
    for step in diagram.steps:
        assert step.box.x == diagram.lanes[step.lane].box.x
    assert diagram.steps[5].caption == "6 · iteration 4"
    assert [step.broken for step in diagram.steps] == [index in (6, 7) for index in range(8)]


def test_an_arrow_that_goes_back_up_ends_above_its_start():
    assert RELEASE.witness is not None
    diagram = lay_out(RELEASE.witness)
    assert diagram is not None
    missing = next(arrow for arrow in diagram.arrows if arrow.missing)
    assert missing.points[-1][1] < missing.points[0][1]


def test_the_layout_is_deterministic():
    assert SCOPE.witness is not None
    assert lay_out(SCOPE.witness) == lay_out(SCOPE.witness)


def test_a_witness_without_steps_has_no_picture():
    assert lay_out(Witness(())) is None


def test_edges_to_no_step_are_left_out():
    steps = (WitnessStep("a", "one"), WitnessStep("b", "two"))
    diagram = lay_out(
        Witness(steps, (WitnessEdge(0, 7, "x"), WitnessEdge(-1, 1, "y"), WitnessEdge(0, 1, "z")))
    )
    assert diagram is not None
    assert [arrow.label for arrow in diagram.arrows] == ["z"]


@st.composite
def _witnesses(draw: st.DrawFn) -> Witness:
    count = draw(st.integers(1, 9))
    text = st.text(st.characters(codec="ascii", exclude_categories=("Cc",)), max_size=70)
    steps = tuple(WitnessStep(draw(st.sampled_from("abcde")), draw(text)) for _ in range(count))
    place = st.integers(0, count - 1)
    edges = tuple(
        WitnessEdge(draw(place), draw(place), draw(text), draw(st.booleans()))
        for _ in range(draw(st.integers(0, 6)))
    )
    return Witness(steps, edges)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_witnesses())
def test_any_witness_is_laid_out_without_overlap(witness: Witness):
    diagram = lay_out(witness)
    assert diagram is not None
    _check(diagram, witness)
