import random

import pytest

from k25serve.server.gateway.experiment.comparison import LONGEST, SESSIONS, Comparison
from k25serve.server.gateway.experiment.cuped import Slopes
from k25serve.server.gateway.experiment.sums import Sums


def minute(rng, slopes, shift=0.0, n=50, spread=(1.0, 1.0, 1.0)):
    sums = Sums()
    for _ in range(n):
        x = [rng.gauss(0, s) for s in spread]
        sums.add(shift + sum(a * b for a, b in zip(slopes, x, strict=True)) + rng.gauss(0, 0.01), x)
    return sums


def test_slopes_are_found_whatever_the_minutes_level():
    rng, slopes = random.Random(0), Slopes(3)
    for shift in (0.0, 5.0, -3.0):
        slopes.add(minute(rng, (1.0, -2.0, 0.5), shift))
    assert slopes.fit() == pytest.approx([1.0, -2.0, 0.5], abs=0.01)


def test_a_covariate_that_does_not_vary_has_no_slope_and_few_sessions_give_none():
    rng, slopes = random.Random(0), Slopes(3)
    slopes.add(minute(rng, (1.0, 0.0, 0.5), n=30))
    assert slopes.fit() == [0.0, 0.0, 0.0]
    for _ in range(3):
        slopes.add(minute(rng, (1.0, 0.0, 0.5), spread=(1.0, 0.0, 1.0)))
    assert slopes.fit() == pytest.approx([1.0, 0.0, 0.5], abs=0.01)


def test_covariates_that_move_together_share_a_slope():
    rng, slopes, sums = random.Random(0), Slopes(2), Sums()
    for _ in range(200):
        x = rng.gauss(0, 1)
        sums.add(3 * x, [x, x])
    slopes.add(sums)
    assert sum(slopes.fit()) == pytest.approx(3.0, abs=0.01)


def test_a_session_goes_out_as_it_came_in():
    sums = Sums()
    sums.add(1.0, [2.0, 3.0])
    sums.add(7.0, [5.0, 11.0])
    sums.add(7.0, [5.0, 11.0], -1)
    assert (sums.n, sums.y, sums.x, sums.xy, sums.xx) == (1, 1.0, [2.0, 3.0], [2.0, 3.0], [4.0, 6.0, 9.0])


def sessions(n, y=0.0):
    sums = Sums()
    for _ in range(n):
        sums.add(y, [0.0])
    return sums


def test_quiet_minutes_make_one_block_and_a_lonely_arm_makes_none():
    comparison = Comparison(1, 0.05)
    for at in range(SESSIONS):
        assert comparison.raw.n == 0
        comparison.minute(at, sessions(1), sessions(1, 0.5))
    assert (comparison.raw.n, comparison.raw.mean) == (1, 0.5)
    comparison.minute(100, sessions(9, 100.0), Sums())
    comparison.minute(100 + LONGEST, sessions(SESSIONS), sessions(SESSIONS, 0.5))
    assert (comparison.raw.n, comparison.raw.mean) == (2, 0.5)
