import random

import pytest

from k25serve.bench.engine_sim.draw import draw_answer
from k25serve.bench.engine_sim.settings import SimOptions, SimSettings


def draw(settings=None, options=None, max_tokens=1000, seed=0):
    return draw_answer(settings or SimSettings(), options or SimOptions(), 7, max_tokens, random.Random(seed))


def test_given_acceptance_is_followed_and_ends_the_answer():
    answer = draw(options=SimOptions(accepted=(3, 0, 2)))
    assert [step.tokens for step in answer.steps] == [1, 4, 1, 3]
    assert answer.completion_tokens == 9
    assert answer.histogram == [1, 0, 1, 1]
    assert answer.finish_reason == "stop"


def test_max_tokens_cuts_the_last_step_and_its_acceptance():
    answer = draw(options=SimOptions(accepted=(3, 3)), max_tokens=7)
    assert [step.tokens for step in answer.steps] == [1, 4, 2]
    assert answer.accepted == (3, 1)
    assert answer.finish_reason == "length"


def test_one_token_takes_no_verify_step():
    answer = draw(max_tokens=1)
    assert (answer.completion_tokens, answer.accepted, answer.histogram) == (1, (), [])


@pytest.mark.parametrize("probability", [0.0, 0.6, 1.0])
def test_drawn_acceptance_has_the_set_distribution(probability):
    answer = draw(SimSettings(accept_probability=probability, num_draft_tokens=3), max_tokens=20_000)
    mean = sum(answer.accepted) / len(answer.accepted)
    expected = sum(probability**i for i in (1, 2, 3))
    assert mean == pytest.approx(expected, abs=0.05)


def test_drawn_times_have_the_set_mean_and_spread():
    answer = draw(SimSettings(step_s=0.02, step_cv=0.5, num_draft_tokens=0, prefill_s=0.3), max_tokens=20_000)
    seconds = [step.seconds for step in answer.steps[1:]]
    mean = sum(seconds) / len(seconds)
    deviation = (sum((s - mean) ** 2 for s in seconds) / len(seconds)) ** 0.5
    assert answer.steps[0].seconds == 0.3
    assert mean == pytest.approx(0.02, rel=0.03)
    assert deviation / mean == pytest.approx(0.5, rel=0.06)
    assert answer.accepted == ()


def test_the_same_seed_gives_the_same_answer():
    assert draw(seed=5) == draw(seed=5)
    assert draw(seed=5) != draw(seed=6)


def test_given_pieces_and_a_giant_first_step():
    answer = draw(options=SimOptions(pieces=("修", "改"), giant_bytes=1000), max_tokens=9)
    assert len(answer.steps[0].text.encode()) == 1000
    assert answer.steps[0].text.startswith("修x")
    assert answer.steps[1].text == "改"
