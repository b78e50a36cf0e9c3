import random

import pytest

from k25serve.server.gateway.experiment.ratio import ALARM, ratio_p_value


def stretches(seed, weights, lost=(), minutes=240, a_minute=40):
    """Conversations of each minute; `lost`: the share that an arm loses."""
    rng, lost = random.Random(seed), dict(lost)
    found = []
    for _ in range(minutes):
        dealt = rng.choices(list(weights), weights=weights.values(), k=a_minute)
        kept = [arm for arm in dealt if rng.random() >= lost.get(arm, 0.0)]
        found.append({arm: kept.count(arm) for arm in weights if arm in kept})
    return found


@pytest.mark.parametrize("weights", [{"a": 1, "b": 1}, {"a": 9, "b": 1}, {"a": 2, "b": 1, "c": 1}])
def test_healthy_shares_raise_no_alarm_however_often_one_looks(weights):
    values = [ratio_p_value(stretches(seed, weights, minutes=60), weights) for seed in range(400)]
    assert sum(p < ALARM for p in values) <= 400 * 0.05
    assert sum(p < ALARM for p in values) <= 4 + 3 * 2


@pytest.mark.parametrize("lost", [{"b": 0.15}, {"a": 0.15}])
def test_an_arm_that_loses_conversations_is_caught(lost):
    assert all(ratio_p_value(stretches(seed, {"a": 1, "b": 1}, lost), {"a": 1, "b": 1}) < ALARM for seed in range(10))


def test_nothing_seen_says_nothing():
    assert ratio_p_value([], {"a": 1, "b": 1}) == 1.0
