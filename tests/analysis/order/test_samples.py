"""Values that a sampled launch has, what the system keeps in shared memory, and values seen by some lanes."""

import numpy as np

from ptxaudit.analysis.order.reserved import initial_barrier, initial_word
from ptxaudit.analysis.order.samples import Sample
from ptxaudit.ir.values import LANE_INDEX, Affine, Domain


def test_neighbours_in_a_table_differ_by_its_step() -> None:
    sample = Sample((4,), 512)
    assert [sample.entry(address, 4) for address in (8, 12, 16)] == [1536, 2048, 2560]


def test_without_tables_memory_and_answers_stay_unknown() -> None:
    sample = Sample((4,))
    assert sample.entry(0, 4) is None
    assert sample.answer(1, 8) is None


def test_two_requests_are_granted() -> None:
    sample = Sample((4,), 4)
    assert [sample.answer(request, 8) for request in (1, 2, 3)] == [1, 1, 0]
    assert sample.answer(2, 0) == 2


def test_one_number_is_every_parameter_and_several_are_mixed_by_salt() -> None:
    assert {Sample((7,)).parameter(place) for place in range(0, 400, 4)} == {7}
    mixed = [tuple(Sample((1, 4), 4, salt).parameter(place) for place in range(0, 64, 4)) for salt in (1, 2)]
    assert set(mixed[0]) == {1, 4}
    assert mixed[0] != mixed[1]


def test_the_first_exchange_of_a_pair_goes_on() -> None:
    even, odd = initial_word(0, 0x60), initial_word(1, 0x60)
    phase = initial_barrier().phase
    assert (phase & 1) != even  # a wait for this parity passes at once
    assert (phase & 1) == odd


def test_lanes_see_their_part_of_a_blend() -> None:
    domain = Domain()
    low = LANE_INDEX < 2
    unknown = domain.atom("x", "x")
    blended = domain.blend(low, 16, unknown)
    assert domain.within(blended, low) == 16
    rest = domain.within(domain.add(blended, 8, 64), ~low)
    assert isinstance(rest, Affine)
    assert rest.terms == unknown.terms
    assert rest.offset == 8
    assert domain.within(blended, np.ones(32, dtype=bool)) is blended
