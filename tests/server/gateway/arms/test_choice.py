import collections

import pytest

from k25serve.server.gateway.arms.choice import conversation_key, rendezvous
from k25serve.server.gateway.arms.settings import ArmSettings


def arms(**weights):
    return [ArmSettings(name=name, url="http://127.0.0.1:1", weight=weight) for name, weight in weights.items()]


def first(key, given, salt=""):
    return rendezvous(key, salt, given)[0]


KEYS = [f"conversation {i}".encode() for i in range(20_000)]


@pytest.mark.parametrize("weights", [{"a": 1, "b": 1}, {"a": 9, "b": 1}, {"a": 1, "b": 2, "c": 5}])
def test_shares_are_the_weights(weights):
    counts = collections.Counter(first(key, arms(**weights)) for key in KEYS)
    total = sum(weights.values())
    for name, weight in weights.items():
        assert counts[name] / len(KEYS) == pytest.approx(weight / total, abs=0.015)


def test_an_arm_that_comes_takes_only_its_share():
    before, after = arms(a=1, b=1), arms(a=1, b=1, c=2)
    moved = [first(key, after) for key in KEYS if first(key, after) != first(key, before)]
    assert set(moved) == {"c"}
    assert len(moved) / len(KEYS) == pytest.approx(0.5, abs=0.015)


def test_a_new_salt_deals_anew_and_an_arm_without_weight_gets_nothing():
    same = sum(first(key, arms(a=1, b=1)) == first(key, arms(a=1, b=1), "x") for key in KEYS)
    assert same / len(KEYS) == pytest.approx(0.5, abs=0.015)
    assert all("b" not in rendezvous(key, "", arms(a=1, b=0)) for key in KEYS[:100])


SYSTEM, ASK = {"role": "system", "content": "s"}, {"role": "user", "content": "u"}
ANSWER, MORE = {"role": "assistant", "content": "a"}, {"role": "user", "content": "v"}


def test_a_conversation_keeps_its_key():
    begun = conversation_key({"messages": [SYSTEM, ASK]}, None)
    assert conversation_key({"messages": [SYSTEM, ASK, ANSWER, MORE]}, None) == begun
    assert conversation_key({"messages": [SYSTEM, MORE]}, None) != begun
    assert conversation_key({"messages": [ASK], "user": "x"}, None) == conversation_key({"user": "x"}, None)
    assert conversation_key({"messages": [ASK], "user": "x"}, "h") == conversation_key({}, "h")
    assert conversation_key({"prompt": "p"}, None) != conversation_key({"prompt": "q"}, None)
