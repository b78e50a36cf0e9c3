"""What the statistics promise, held against simulated traffic request by request: load that has a memory, sessions
that differ, noise that both arms share, and somebody who looks after every minute."""

import statistics

import pytest
from live_traffic.traffic import minutes, settings

from k25serve.server.gateway.experiment.comparison import Comparison

LEVEL = 0.05
MINUTES = 192


def compare(seed, effect=0.0):
    given = settings()
    comparison = Comparison(len(given.covariates), LEVEL)
    rows = minutes(seed, MINUTES, given, effect)
    for (at, _, control), (_, _, arm) in zip(rows[::2], rows[1::2], strict=True):
        comparison.minute(at, control.sums["tpot"], arm.sums["tpot"])
    return comparison


def width(levels):
    low, high = levels.interval(LEVEL)
    return high - low


@pytest.fixture(scope="module")
def equal_arms():
    return [compare(seed) for seed in range(400)]


def test_a_look_after_every_minute_finds_nothing_between_equal_arms(equal_arms):
    assert sum(one.found_at is not None for one in equal_arms) <= 29


def test_equal_covariates_narrow_the_interval(equal_arms):
    ratios = [width(one.adjusted) / width(one.raw) for one in equal_arms]
    assert statistics.median(ratios) < 0.6
    assert sum(ratio < 1 for ratio in ratios) >= 390


def test_the_interval_holds_the_truth(equal_arms):
    missed = sum(not low <= 0 <= high for low, high in (one.adjusted.interval(LEVEL) for one in equal_arms))
    assert missed <= 29


def test_a_difference_of_five_per_cent_is_found_with_the_power_that_is_told(equal_arms):
    told = statistics.median(one.adjusted.detectable(LEVEL) for one in equal_arms)
    assert 0.03 < told < 0.05
    found = [compare(1000 + seed, 0.05) for seed in range(80)]
    # 0.8 and more of 80, less three standard errors.
    assert sum(one.found_at is not None for one in found) >= 80 * 0.8 - 3 * (80 * 0.8 * 0.2) ** 0.5
    assert statistics.median(one.adjusted.mean for one in found) == pytest.approx(0.05, abs=0.006)
    faster = [compare(2000 + seed, -0.1) for seed in range(20)]
    assert sum(one.found_at is not None and one.adjusted.interval(LEVEL)[1] < 0 for one in faster) >= 18
