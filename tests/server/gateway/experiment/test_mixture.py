import math
import random

import pytest
from scipy import integrate, stats

from k25serve.server.gateway.experiment.mixture import detectable, half_width, p_value
from k25serve.server.gateway.experiment.running import Running


def running(values):
    sample = Running()
    for value in values:
        sample.add(value)
    return sample


def normal(seed, n, mean=0.0):
    rng = random.Random(seed)
    return [rng.gauss(mean, 2.0) for _ in range(n)]


def test_mean_and_variance_are_those_of_the_numbers():
    values = [1e9 + value for value in normal(0, 50)]
    sample = running(values)
    assert sample.mean == pytest.approx(math.fsum(values) / 50)
    assert sample.variance == pytest.approx(stats.tvar(values))


@pytest.mark.parametrize("mean", [0.3, 1.0, -1.5])
@pytest.mark.parametrize("n", [2, 5, 30])
def test_it_is_the_ratio_of_the_t_statistics_densities(n, mean):
    """Under a normal mixture of effects: t is noncentral, its noncentrality normal with variance n * prior."""
    prior, sample = 0.2, running(normal(n, n, mean))
    t = sample.mean / math.sqrt(sample.variance / n)
    deviation = math.sqrt(n * prior)

    def weighted(effect):
        return stats.nct.pdf(t, n - 1, effect) * stats.norm.pdf(effect, scale=deviation)

    mixed, _ = integrate.quad(weighted, -8 * deviation, 8 * deviation, limit=200)
    assert p_value(sample, prior) == pytest.approx(min(1.0, stats.t.pdf(t, n - 1) / mixed), rel=1e-4)


@pytest.mark.parametrize("n", [10, 100])
def test_the_interval_ends_where_p_is_alpha(n):
    sample = running(normal(3, n))
    width = half_width(sample, 0.1, 0.05)
    at_the_edge = running([value - sample.mean + width for value in normal(3, n)])
    assert p_value(at_the_edge, 0.1) == pytest.approx(0.05)


def test_too_small_a_sample_says_nothing():
    for n in range(3):
        sample = running(normal(1, n, mean=100.0))
        assert half_width(sample, 0.1, 0.001) == math.inf
        assert detectable(sample, 0.1, 0.001) == math.inf
    assert p_value(running([5.0]), 0.1) == 1.0


def test_numbers_without_spread():
    assert p_value(running([0.0] * 20), 0.1) == 1.0
    assert p_value(running([0.5] * 20), 0.1) == pytest.approx(3.0**-9.5)
    assert half_width(running([0.5] * 20), 0.1, 0.05) == 0.0
