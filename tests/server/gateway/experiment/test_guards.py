import random

import pytest
from scipy import stats

from k25serve.server.gateway.ended import Ended
from k25serve.server.gateway.experiment.binomial import at_least
from k25serve.server.gateway.experiment.guards import tripped
from k25serve.server.gateway.experiment.settings import Guardrails
from k25serve.server.gateway.experiment.tally import Counts
from k25serve.server.gateway.usage import Usage

LIMITS = Guardrails(error_share=0.05, ttft_p99_s=10, finish_excess=0.1, wasted_share=0.3)


@pytest.mark.parametrize(("k", "n", "p"), [(8, 50, 0.05), (60, 1000, 0.05), (1, 5, 0.0), (5, 5, 0.5), (3, 300, 0.01)])
def test_the_chance_of_a_count(k, n, p):
    expected = stats.binom.sf(k - 1, n, p) if k > n * p else 1.0
    assert at_least(k, n, p) == pytest.approx(expected, rel=1e-6)


def counts(requests=200, failed=0, slow=0, length=0, left=0, seed=0):
    """Requests of which so many failed, waited 20 s, ended with `length`, were left by their client."""
    rng, made = random.Random(seed), Counts()
    for i in range(requests):
        tokens = rng.randint(50, 150)
        ended = Ended("ok", 20.0 if i < slow else 0.5, 1.0, Usage(10, 0, tokens), 0, "stop", True)
        if i < failed:
            ended = Ended("upstream_error", None, None, None, 0, None, True)
        elif i < failed + left:
            ended = Ended("disconnected", 0.5, 1.0, None, tokens, None, True)
        elif i < failed + left + length:
            ended = Ended("ok", 0.5, 1.0, Usage(10, 0, tokens), 0, "length", True)
        made.take(ended, LIMITS.ttft_p99_s, moved=False)
    return made


BAD = {
    "error_share": {"failed": 30},
    "ttft_p99_s": {"slow": 10},
    "finish_excess": {"length": 60},
    "wasted_share": {"left": 100},
}


@pytest.mark.parametrize("metric", BAD)
def test_a_bad_arm_trips_and_says_why(metric):
    (trip,) = tripped({"a": counts(), "b": counts(**BAD[metric])}, "a", LIMITS)
    assert (trip.arm, trip.metric) == ("b", metric)
    assert "in 10 min" in trip.detail


@pytest.mark.parametrize("metric", BAD)
def test_a_guardrail_that_is_off_or_has_seen_too_little_does_not_trip(metric):
    off = LIMITS.model_copy(update={metric: None})
    assert tripped({"a": counts(), "b": counts(**BAD[metric])}, "a", off) == []
    few = {"a": counts(), "b": counts(requests=LIMITS.min_requests - 1, **BAD[metric])}
    assert tripped(few, "a", LIMITS) == []


def test_an_arm_just_below_its_limits_does_not_trip():
    """4 % fail, 1 in 100 is slow, 5 % more end oddly, a fifth is wasted; in any window of a day."""
    at_work = [
        counts(failed=rng.binomial(200, 0.04), slow=rng.binomial(200, 0.005), left=rng.binomial(200, 0.2), seed=i)
        for i, rng in ((i, _Binomial(i)) for i in range(144))
    ]
    assert sum(bool(tripped({"a": counts(), "b": one}, "a", LIMITS)) for one in at_work) <= 1


class _Binomial:
    def __init__(self, seed):
        self._rng = random.Random(seed)

    def binomial(self, n, p):
        return sum(self._rng.random() < p for _ in range(n))


def test_ends_are_compared_with_the_controls():
    both_long = {"a": counts(length=150), "b": counts(length=160)}
    assert tripped(both_long, "a", LIMITS) == []
    assert tripped({"b": counts(length=160)}, "a", LIMITS) == []


def test_what_says_nothing_of_the_arm_is_not_counted():
    made = Counts()
    for outcome in ("client_error", "cancelled"):
        made.take(Ended(outcome, None, None, None, 3, None, True), 1.0, moved=False)
    assert made == Counts()
