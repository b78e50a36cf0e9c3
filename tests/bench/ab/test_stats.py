"""Each statistic against scipy, a published table, or a count of its own errors."""

import math

import numpy as np
import pytest
from scipy import stats

from k25serve.bench.ab.stats.holm import adjusted, rejected
from k25serve.bench.ab.stats.paired_t import paired_t
from k25serve.bench.ab.stats.permutation import same_distribution
from k25serve.bench.ab.stats.power import detectable, power
from k25serve.bench.ab.stats.spending import nominal_levels, spent


def test_paired_t_is_scipy_s() -> None:
    values = [0.02, 0.05, -0.01, 0.04, 0.03]
    ours, theirs = paired_t(values, 0.05), stats.ttest_1samp(values, 0)
    assert ours.p == pytest.approx(theirs.pvalue)
    interval = theirs.confidence_interval(0.95)
    assert (ours.low, ours.high) == pytest.approx((interval.low, interval.high))


def test_paired_t_at_its_edges() -> None:
    assert paired_t([0.3], 0.05).p == 1.0
    assert paired_t([0.3], 0.05).high == math.inf
    assert paired_t([0.0, 0.0], 0.05).p == 1.0
    assert paired_t([0.1, 0.1], 0.05).p == 0.0
    for bad in ([], [math.nan, 0.1], [math.inf]):
        with pytest.raises(ValueError, match="finite"):
            paired_t(bad, 0.05)


def test_power_is_the_share_of_draws_that_reject() -> None:
    rng = np.random.default_rng(1)
    draws = rng.normal(0.04, 0.02, (20_000, 4))
    share = np.mean(stats.ttest_1samp(draws, 0, axis=1).pvalue < 0.05)
    assert power(4, 0.04, 0.02, 0.05) == pytest.approx(share, abs=0.01)
    assert power(4, 0.0, 0.02, 0.05) == pytest.approx(0.05, abs=1e-5)


def test_detectable_is_the_gain_with_that_power() -> None:
    gain = detectable(4, 0.02, 0.05, 0.8)
    assert gain is not None
    assert power(4, math.log(gain), 0.02, 0.05) == pytest.approx(0.8)
    assert detectable(1, 0.02, 0.05, 0.8) is None
    assert detectable(2, 1.0, 0.0001, 0.9) is None
    assert power(3, 0.1, 0.02, 0.008) == pytest.approx(
        stats.nct.sf(stats.t.isf(0.004, 2), 2, 0.1 * 3**0.5 / 0.02), abs=1e-4
    )
    assert detectable(4, 0.0, 0.05, 0.8) == 1.0


@pytest.mark.parametrize(
    ("kind", "looks", "bounds"),
    [
        # Two-sided 5 %, equally spaced, as `ldbounds` and gsDesign print them.
        ("obrien-fleming", 2, [2.963, 1.969]),
        ("obrien-fleming", 5, [4.877, 3.357, 2.680, 2.290, 2.031]),
        ("pocock", 5, [2.438, 2.427, 2.410, 2.397, 2.386]),
        ("pocock", 1, [1.960]),
    ],
)
def test_spending_bounds_as_published(kind: str, looks: int, bounds: list[float]) -> None:
    levels = nominal_levels(tuple((i + 1) / looks for i in range(looks)), 0.05, kind)
    assert stats.norm.isf(np.array(levels) / 2) == pytest.approx(bounds, abs=0.003)


@pytest.mark.parametrize("kind", ["obrien-fleming", "pocock"])
def test_all_of_alpha_is_spent_at_the_end_and_little_before(kind: str) -> None:
    assert spent(1.0, 0.05, kind) == pytest.approx(0.05)
    shares = [spent(t / 10, 0.05, kind) for t in range(1, 11)]
    assert shares == sorted(shares)


@pytest.mark.parametrize("fractions", [(), (0.5,), (0.5, 0.5, 1.0), (1.0, 0.5), (0.0, 1.0)])
def test_looks_must_rise_to_the_end(fractions: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="rise to 1"):
        nominal_levels(fractions, 0.05, "pocock")


def test_holm_by_hand() -> None:
    p = [0.010, 0.040, 0.030, 0.005]
    assert adjusted(p) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    levels = [0.05 / 4, 0.05 / 3, 0.05 / 2, 0.05]
    assert rejected(p, levels) == [True, False, False, True]
    assert rejected(p, levels) == [value < 0.05 for value in adjusted(p)]
    assert rejected([0.02, 0.02], [0.01, 0.05]) == [False, False]


def test_permutation_test_keeps_its_level_and_finds_a_difference() -> None:
    rng = np.random.default_rng(3)
    words = np.array(["the", "a", "one", "some", "it"])

    def draw(p: list[float]) -> dict[str, list[str]]:
        return {name: list(rng.choice(words, 30, p=p)) for name in ("x", "y")}

    even, odd = [0.2] * 5, [0.55, 0.25, 0.1, 0.05, 0.05]
    same = [same_distribution(draw(even), draw(even), seed, 200) for seed in range(60)]
    assert sum(p is not None and p < 0.05 for p in same) <= 8
    assert all(same_distribution(draw(even), draw(odd), seed, 200) < 0.05 for seed in range(10))


def test_permutation_test_without_a_shared_group() -> None:
    assert same_distribution({"x": ["a", "b"]}, {"y": ["a", "b"]}, 0) is None
    assert same_distribution({"x": ["a"]}, {"x": ["a", "b"]}, 0) is None
    assert same_distribution({"x": ["a", "a"]}, {"x": ["a", "a"]}, 0) == 1.0
