"""Where two greedy outputs part, and what is told of it."""

import math

import pytest

from k25serve.bench.gpu.greedy import Answer, Parting, acceptance, compared, partings
from k25serve.bench.gpu.parity import _with_gaps

REFERENCE = Answer((1, 2, 3, 4), (0.5, 0.25, 2.0, 1.0), 0, 0)


def answer(*ids: int, steps: int = 0, accepted: int = 0) -> Answer:
    return Answer(ids, (), steps, accepted)


def test_equal_answers_do_not_part() -> None:
    assert partings([REFERENCE], [answer(1, 2, 3, 4)]) == []


def test_a_parting_has_the_references_gap_at_its_first_position() -> None:
    assert partings([REFERENCE, REFERENCE], [answer(1, 2, 3, 4), answer(1, 9, 3, 8)]) == [Parting(1, 1, 0.25)]


def test_a_reference_without_gaps_gives_nan() -> None:
    (found,) = partings([answer(1, 2)], [answer(1, 3)])
    assert math.isnan(found.gap)


def test_summary_counts_and_names_the_largest_gap() -> None:
    told = compared([REFERENCE] * 3, [answer(1, 2, 3, 4), answer(1, 2, 9, 4), answer(9, 2, 3, 4)])
    assert (told["prompts"], told["equal"], told["largest_gap"]) == (3, 1, 2.0)


def test_gaps_are_borrowed_only_as_far_as_both_texts_agree() -> None:
    (found,) = _with_gaps([answer(1, 2, 9, 4)], [REFERENCE])
    assert found.gaps == (0.5, 0.25, 2.0)


def test_accept_length_counts_the_targets_own_token() -> None:
    assert acceptance([answer(1, steps=4, accepted=6), answer(1, steps=2, accepted=0)])[
        "accept_length"
    ] == pytest.approx(2)
    assert acceptance([answer(1)])["accept_length"] == 1.0
