import pytest

from k25serve.bench.gateway.directive import Directive
from k25serve.bench.gateway.requests import difference, rich


def test_what_passed_unchanged_differs_in_nothing():
    body = rich(Directive(tag="t"), stream=True)
    assert difference(body, body | {"added": 1, "temperature": 0.0}) == []


@pytest.mark.parametrize(
    ("sent", "got", "lines"),
    [
        ({"a": 1}, {}, ["a lost"]),
        ({"a": None}, {}, ["a (null) lost"]),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, ["a.b changed"]),
        ({"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}, {}]}, ["a[].b lost"]),
        ({"a": [1, 2]}, {"a": [1]}, ["a changed"]),
        ({"a": True}, {"a": 1}, ["a changed"]),
        ({"a": "x"}, {"a": ["x"]}, ["a changed"]),
        ({"a": [{"text": "x"}, {"text": "y"}]}, {"a": "xy"}, ["a joined into one string"]),
        ({"a": [{"text": "x"}, {"image": "y"}]}, {"a": "x"}, ["a changed"]),
    ],
)
def test_what_differs_is_named_by_its_path(sent, got, lines):
    assert difference(sent, got) == lines
