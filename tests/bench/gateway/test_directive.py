import orjson

from k25serve.bench.gateway.directive import Directive, find
from k25serve.bench.gateway.requests import plain


def test_it_survives_the_way_through_a_request():
    directive = Directive(chunks=7, pace=0.03, first=1.5, size=12, status=503, tag="abc")
    assert find(plain(directive, stream=True)) == directive


def test_without_a_tag_or_without_any():
    assert find(plain(Directive(chunks=3), stream=False)) == Directive(chunks=3)
    assert find(b'{"messages":[{"role":"user","content":"ping"}]}') == Directive()


def test_a_request_has_the_size_that_was_asked_for():
    raw = plain(Directive(), stream=True, size=4096)
    assert abs(len(raw) - 4096) < 100
    assert orjson.loads(raw)["stream"] is True
    longest = max(orjson.loads(raw)["messages"][0]["content"].split(), key=len)
    assert len(longest) < 20
