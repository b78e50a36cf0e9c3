import pytest

from k25serve.bench.gateway.quantile import quantile


@pytest.mark.parametrize(("q", "value"), [(0.0, 1), (0.5, 2), (0.75, 3), (0.99, 4), (1.0, 4)])
def test_a_quantile_is_one_of_the_values(q, value):
    assert quantile([4, 1, 3, 2], q) == value


def test_of_nothing_there_is_none():
    with pytest.raises(ValueError, match="at least one"):
        quantile([], 0.5)
