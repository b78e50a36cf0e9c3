"""The running estimate, against chances that are known."""

import random
from itertools import accumulate
from operator import mul

import pytest

from k25serve.patches.adaptive.acceptance import INERTIA, MOST_STEPS, TRUST_MEMORY, Acceptance


def verified(chances: list[float], steps: int, rows: int, rng: random.Random) -> list[int]:
    """Accepted drafts of each request."""
    counts = []
    for _ in range(rows):
        count = 0
        while count < steps and rng.random() < chances[count]:
            count += 1
        counts.append(count)
    return counts


def naive_tokens(chances: list[float], steps: int) -> float:
    return sum(accumulate(chances[:steps], mul, initial=1.0))


@pytest.mark.parametrize("rows", [1, 16])
@pytest.mark.parametrize("chances", [[0.9, 0.8, 0.7, 0.6], [0.5, 0.9, 0.1, 0.5], [0.05, 0.5, 0.5, 0.5]])
def test_it_finds_the_truth(chances: list[float], rows: int) -> None:
    rng, estimate = random.Random(rows), Acceptance([0.5] * 4)
    for _ in range(3000):
        estimate.observe(4, verified(chances, 4, rows, rng))
    for steps in range(5):
        assert estimate.tokens(steps) == pytest.approx(naive_tokens(chances, steps), rel=0.06)
        assert estimate.high(steps, 1.5) >= estimate.tokens(steps)


def test_what_a_deeper_step_saw_tells_shallower_ones() -> None:
    rng, deep, shallow = random.Random(3), Acceptance([0.5] * 3), Acceptance([0.5] * 3)
    for _ in range(2000):
        counts = verified([0.8, 0.6, 0.4], 3, 4, rng)
        deep.observe(3, counts)
        shallow.observe(1, [min(1, count) for count in counts])
    assert deep.tokens(1) == pytest.approx(shallow.tokens(1), abs=1e-9)
    # Nothing is known of the second and third: they are believed to be 0.5 still.
    assert shallow.tokens(3) == pytest.approx(1 + (shallow.tokens(1) - 1) * (1 + 0.5 + 0.25))


@pytest.mark.parametrize("before", [1, 64])
def test_it_follows_drift_within_its_memory(before: int) -> None:
    """In steps of the batch that runs now, whatever was learnt from larger ones."""
    rng, estimate = random.Random(5), Acceptance([0.5])
    for _ in range(2000):
        estimate.observe(1, verified([0.9], 1, before, rng))
    for _ in range(3 * MOST_STEPS):
        estimate.observe(1, verified([0.2], 1, 1, rng))
    assert estimate.tokens(1) == pytest.approx(1.2, abs=0.1)


def test_age_keeps_the_value_and_widens_the_doubt() -> None:
    estimate = Acceptance([0.5])
    estimate.observe(1, [1] * 300 + [0] * 700)
    value, narrow = estimate.tokens(1), estimate.high(1, 1.5)
    for _ in range(int(7 * TRUST_MEMORY)):
        estimate.observe(0, [0] * 8)
    assert estimate.tokens(1) == value
    assert narrow < value + 0.04
    assert estimate.high(1, 1.5) > value + 0.25


def test_a_few_observations_do_not_overturn_what_is_believed() -> None:
    estimate = Acceptance([0.8])
    estimate.observe(1, [0, 0])
    assert estimate.tokens(1) == pytest.approx(1 + 0.8 * INERTIA / (INERTIA + 2), rel=0.01)
