import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from k25serve.server.gateway.direct import Count, Observations

AMOUNTS = (0.0005, 0.001, 0.0015, 0.01, 1.0, 3.0)


def shown(registry):
    return [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]


@pytest.mark.parametrize("kind", [Counter, Gauge])
def test_a_count_is_the_childs_own(kind):
    registry = CollectorRegistry()
    Count(kind("a", "a", ["x"], registry=registry).labels("y")).add(2)
    other = CollectorRegistry()
    kind("a", "a", ["x"], registry=other).labels("y").inc(2)
    assert shown(registry) == shown(other)


def test_observations_are_the_childs_own():
    registries = CollectorRegistry(), CollectorRegistry()
    ours, theirs = (
        Histogram("a", "a", ["x"], registry=registry, buckets=(0.001, 0.01, 1.0)).labels("y") for registry in registries
    )
    direct = Observations(ours)
    for amount in AMOUNTS:
        direct.observe(amount)
        theirs.observe(amount)
    assert shown(registries[0]) == shown(registries[1])
