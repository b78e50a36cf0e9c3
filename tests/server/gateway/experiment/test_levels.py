import math
import random
import statistics

import pytest

from k25serve.server.gateway.experiment.levels import FIRST_LOOK, Levels
from k25serve.server.gateway.experiment.mixture import half_width
from k25serve.server.gateway.experiment.running import Running


def levels(values):
    made = Levels()
    for value in values:
        made.add(value)
    return made


def noise(seed, n):
    rng = random.Random(seed)
    return [rng.gauss(0, 1) for _ in range(n)]


def test_nothing_is_said_before_the_first_look():
    early = levels([5.0 + value for value in noise(0, FIRST_LOOK - 1)])
    assert (early.p_value, early.detectable(0.05)) == (1.0, math.inf)
    assert early.interval(0.05) == (-math.inf, math.inf)
    early.add(5.0)
    assert early.p_value < 1e-3
    assert early.interval(0.05)[0] > 0


def test_long_blocks_decide_where_neighbours_are_alike():
    """Each number eight times: blocks of eight have as many independent numbers as there are."""
    values = noise(1, 32)
    alike = levels([value for value in values for _ in range(8)])
    honest = Running()
    for value in values:
        honest.add(value)
    low, high = alike.interval(0.05)
    assert alike.n == 256
    assert alike.mean == pytest.approx(statistics.fmean(values))
    assert high - low >= 2 * half_width(honest, 0.8, 0.05) * 0.999
    assert high - low > 2 * (levels(noise(1, 256)).interval(0.05)[1])
