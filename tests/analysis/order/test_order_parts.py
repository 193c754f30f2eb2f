"""The small parts of the order engine: decisions by intervals, memory contents, barriers, addresses."""

from collections.abc import Callable

import numpy as np
import pytest

from ptxaudit.analysis.order.address import (
    SHARED_START,
    SHARED_WINDOW,
    in_cta,
    is_shared_generic,
    shared_layout,
    split,
)
from ptxaudit.analysis.order.barriers import Mbarrier
from ptxaudit.analysis.order.decisions import Decisions
from ptxaudit.analysis.order.fragment import blend_truth, lane_bits
from ptxaudit.analysis.order.memory import SharedContents
from ptxaudit.ir.function import Variable
from ptxaudit.ir.values import Affine, Domain, Truth


def wants(outcome: bool) -> Callable[[], bool]:
    return lambda: outcome


class Unknowns:
    """A domain with decisions about two inputs, and comparisons of them with numbers."""

    def __init__(self, forced: dict[int, bool] | None = None) -> None:
        self.domain = Domain()
        self.decisions = Decisions(self.domain, forced)
        self.n: Affine = self.domain.source("n", "n", low=0)
        self.m: Affine = self.domain.source("m", "m", low=0)

    def is_(self, relation: str, number: int, value: Affine | None = None) -> Truth:
        return self.domain.compare(relation, self.n if value is None else value, number, 32, True)


def test_a_decision_narrows_what_follows() -> None:
    u = Unknowns()
    assert u.decisions.decide(u.is_("gt", 4), wants(True), 1) is True
    assert u.decisions.settled(u.is_("gt", 3)) is True
    assert u.decisions.settled(u.is_("le", 4)) is False
    assert u.decisions.settled(u.is_("gt", 5)) is None
    assert [d.site for d in u.decisions.taken] == [1]


def test_what_the_range_of_an_input_settles_is_no_decision() -> None:
    u = Unknowns()
    assert u.decisions.decide(u.is_("ge", 0), wants(False), 1) is True
    assert u.decisions.taken == []


def test_bounds_that_meet_pin_a_value() -> None:
    u = Unknowns()
    u.decisions.decide(u.is_("ge", 7), wants(True), 1)
    u.decisions.decide(u.is_("le", 7), wants(True), 2)
    assert u.decisions.settled(u.is_("eq", 7)) is True
    assert u.decisions.pinned(u.n) == 7
    assert u.decisions.pinned(u.m) is None


def test_excluded_points_at_the_end_of_a_range_move_it() -> None:
    u = Unknowns()
    for number in (0, 1, 2):
        assert u.decisions.decide(u.is_("eq", number), wants(False), number) is False
    assert u.decisions.settled(u.is_("ge", 3)) is True


def test_multiples_share_the_range_of_what_they_are_multiples_of() -> None:
    u = Unknowns()
    four = u.domain.multiply(u.n, 4, 64)
    assert isinstance(four, Affine)
    u.decisions.decide(u.is_("gt", 2), wants(True), 1)
    assert u.decisions.settled(u.domain.compare("ge", four, 12, 64, True)) is True
    assert u.decisions.settled(u.domain.compare("eq", four, 13, 64, True)) is False


def test_another_input_is_not_concerned() -> None:
    u = Unknowns()
    u.decisions.decide(u.is_("gt", 4), wants(True), 1)
    assert u.decisions.settled(u.is_("gt", 4, u.m)) is None


def test_a_sum_is_known_when_its_inputs_are() -> None:
    u = Unknowns()
    both = u.domain.add(u.n, u.m, 64)
    assert isinstance(both, Affine)
    u.decisions.decide(u.is_("eq", 3), wants(True), 1)
    u.decisions.decide(u.is_("eq", 5, u.m), wants(True), 2)
    assert u.decisions.settled(u.domain.compare("eq", both, 8, 64, True)) is True


def test_forced_outcomes_go_by_ordinal() -> None:
    u = Unknowns(forced={1: False})
    assert u.decisions.decide(u.is_("gt", 4), wants(True), 1) is True
    assert u.decisions.decide(u.is_("gt", 4, u.m), wants(True), 2) is False
    assert [d.outcome for d in u.decisions.taken] == [True, False]


@pytest.mark.parametrize(("operator", "wanted"), [("and", True), ("and", False), ("or", True), ("or", False)])
def test_parts_are_decided_so_that_the_whole_comes_out(operator: str, wanted: bool) -> None:
    u = Unknowns()
    whole = u.domain.combine(operator, u.is_("gt", 4), u.is_("gt", 9, u.m))
    assert u.decisions.decide(whole, wants(wanted), 1) is wanted
    assert u.decisions.settled(whole) is wanted


def test_only_decisions_about_one_input_are_certain_to_be_possible() -> None:
    u = Unknowns()
    u.decisions.decide(u.is_("gt", 4), wants(True), 1)
    product = u.domain.opaque("times", u.n, u.m)
    u.decisions.decide(u.domain.compare("gt", product, 9, 64, True), wants(True), 2)
    assert [d.possible for d in u.decisions.taken] == [True, False]


def test_lanes_that_differ_are_not_decided() -> None:
    u = Unknowns()
    assert u.decisions.decide(np.arange(32) < 4, wants(True), 1) is None
    assert u.decisions.taken == []


# Memory ------------------------------------------------------------------------------------------------


def test_a_load_gives_what_was_stored_there() -> None:
    memory = SharedContents()
    memory.store(0, 64, 4, 0x11223344)
    assert memory.load(0, 64, 4) == 0x11223344
    assert memory.load(1, 64, 4) is None
    assert memory.load(0, 68, 4) is None


def test_a_part_of_a_known_word_is_known() -> None:
    memory = SharedContents()
    memory.store(0, 64, 8, 0x1122334455667788)
    assert memory.load(0, 64, 4) == 0x55667788
    assert memory.load(0, 68, 4) == 0x11223344
    assert memory.load(0, 71, 1) == 0x11


def test_more_than_was_stored_is_not_known() -> None:
    memory = SharedContents()
    memory.store(0, 64, 4, 1)
    assert memory.load(0, 64, 8) is None


def test_an_overlapping_store_forgets_the_older_word() -> None:
    memory = SharedContents()
    memory.store(0, 64, 8, 5)
    memory.store(0, 68, 4, 7)
    assert memory.load(0, 64, 8) is None
    assert memory.load(0, 68, 4) == 7


@pytest.mark.parametrize(
    ("start", "size", "kept"), [(56, 8, True), (56, 9, False), (67, 1, False), (68, 4, True)]
)
def test_forgetting_a_range_drops_the_words_that_touch_it(start: int, size: int, kept: bool) -> None:
    memory = SharedContents()
    memory.store(0, 64, 4, 9)
    memory.forget(0, start, size)
    assert (memory.load(0, 64, 4) == 9) is kept


# Barrier objects -----------------------------------------------------------------------------------------


def test_a_phase_completes_when_arrivals_and_bytes_are_there() -> None:
    barrier = Mbarrier(2, 2)
    barrier.arrive(1)
    assert not barrier.is_complete(False)
    barrier.transactions += 64
    barrier.arrive(1)
    assert not barrier.is_complete(False)
    barrier.transactions -= 64
    assert barrier.is_complete(False)


def test_bytes_that_come_before_they_are_expected_do_not_complete_a_phase() -> None:
    barrier = Mbarrier(1, 1)
    barrier.transactions -= 16
    barrier.arrive(1)
    assert not barrier.is_complete(False)
    assert not barrier.is_complete(True)


def test_the_next_phase_expects_as_many_arrivals_again() -> None:
    barrier = Mbarrier(3, 3)
    barrier.arrive(3)
    barrier.advance()
    assert (barrier.phase, barrier.pending, barrier.arrivals) == (1, 3, 0)
    assert not barrier.is_complete(True)


def test_a_copy_of_unknown_size_completes_a_phase_only_at_rest() -> None:
    barrier = Mbarrier(1, 1)
    barrier.unsized, barrier.transactions = 1, 4096
    barrier.arrive(1)
    assert not barrier.is_complete(False)
    assert barrier.is_complete(True)
    barrier.advance()
    assert barrier.transactions == 0


def test_an_unknown_count_completes_a_phase_only_at_rest_and_after_an_arrival() -> None:
    barrier = Mbarrier(None)
    assert not barrier.is_complete(True)
    barrier.arrive(1)
    assert not barrier.is_complete(False)
    assert barrier.is_complete(True)


# Addresses and lanes -------------------------------------------------------------------------------------


def test_shared_variables_lie_one_after_the_other_and_dynamic_ones_behind() -> None:
    variables = (
        Variable("small", "shared", 4, 4, False),
        Variable("dynamic", "shared", None, 1024, True),
        Variable("tile", "shared", 256, 128, False),
        Variable("elsewhere", "global", 64, 8, False),
    )
    layout = shared_layout(variables)
    assert layout == {"small": SHARED_START, "tile": SHARED_START + 128, "dynamic": 0x800}


@pytest.mark.parametrize("window", [0, SHARED_WINDOW])
def test_an_address_tells_its_cta_and_offset(window: int) -> None:
    assert split(window | in_cta(3, 0x1234)) == (3, 0x1234)
    assert is_shared_generic(window | in_cta(3, 0x1234)) is (window != 0)


def test_lane_zero_is_the_lowest_bit() -> None:
    mask = np.zeros(32, dtype=np.bool_)
    mask[[0, 5, 31]] = True
    assert lane_bits(mask) == 1 | 1 << 5 | 1 << 31


def test_blended_truths_come_from_each_side_by_lane() -> None:
    lanes = np.arange(32) < 8
    mixed = blend_truth(Domain(), lanes, True, False)
    assert isinstance(mixed, np.ndarray)
    assert lane_bits(mixed) == 0xFF
    assert blend_truth(Domain(), lanes, True, True) is True
