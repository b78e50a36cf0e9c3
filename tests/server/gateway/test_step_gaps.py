import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from k25serve.server.gateway.direct import Observations
from k25serve.server.gateway.step_gaps import StepGaps

GAPS = (0.0005, 0.001, 0.0015, 0.01, 0.05, 3.0)


def histogram():
    registry = CollectorRegistry()
    made = Histogram("gap_seconds", "a", ["x"], registry=registry, buckets=(0.001, 0.01, 1.0))
    return made.labels("y"), registry


def shown(registry):
    return [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]


def test_gaps_count_as_if_each_had_been_observed():
    one, observed = histogram()
    for gap in GAPS:
        one.observe(gap)
    other, counted = histogram()
    gaps = StepGaps(Observations(other))
    for gap in GAPS:
        gaps.add(gap, 100.0)
    gaps.flush()
    gaps.flush()
    assert shown(counted) == shown(observed)


@pytest.mark.parametrize(("seconds", "count"), [(0.9, 0), (1.1, 2)])
def test_a_long_stream_shows_each_second(seconds, count):
    child, registry = histogram()
    gaps = StepGaps(Observations(child))
    gaps.add(0.1, 100.0)
    gaps.add(0.1, 100.0 + seconds)
    assert registry.get_sample_value("gap_seconds_count", {"x": "y"}) == count
