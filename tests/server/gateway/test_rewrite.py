import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k25serve.server.gateway.errors import InvalidRequestError
from k25serve.server.gateway.rewrite import Strip, added_fields, merge

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def added(body):
    return added_fields(body, "R" * 32)


def test_a_plain_request_gets_an_id_and_asks_for_acceptance():
    assert added({}) == ({"rid": "R" * 32, "return_spec_tokens_details": True}, Strip(spec=True))


def test_a_stream_also_asks_for_usage():
    fields, strip = added({"stream": True})
    assert fields["stream_options"] == {"include_usage": True}
    assert strip == Strip(usage=True, spec=True)


def test_what_the_client_asked_for_is_not_stripped():
    body = {"stream": True, "stream_options": {"include_usage": True}, "return_spec_tokens_details": True}
    fields, strip = added(body)
    assert fields == {"rid": "R" * 32}
    assert not strip


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"include_usage": None}])
def test_usage_that_was_refused_is_asked_for_and_stripped(options):
    fields, strip = added({"stream": True, "stream_options": options})
    assert fields["stream_options"]["include_usage"] is True
    assert strip.usage


def test_other_stream_options_stay():
    fields, _ = added({"stream": True, "stream_options": {"continuous_usage_stats": True}})
    assert fields["stream_options"] == {"continuous_usage_stats": True, "include_usage": True}


def test_splicing_leaves_every_other_byte():
    raw = b' {"model": "m",\n "x": 123456789012345678901234567890, "y": 1.10, "z": "\\u4fee"}\n'
    merged = merge(raw, json.loads(raw), {"rid": "r"})
    assert merged == raw.rstrip()[:-1] + b',"rid":"r"}'


def test_an_empty_object_is_filled():
    assert merge(b"{ }", {}, {"rid": "r"}) == b'{ "rid":"r"}'


def test_a_clients_rid_is_replaced_and_big_integers_survive():
    raw = b'{"rid":"theirs","maximum":123456789012345678901234567890,"text":"\\u4fee\xe4\xbf\xae"}'
    merged = merge(raw, json.loads(raw), {"rid": "ours"})
    assert json.loads(merged) == {"rid": "ours", "maximum": 123456789012345678901234567890, "text": "修修"}
    assert merged.count(b"rid") == 1


@settings(deadline=None)
@given(st.dictionaries(st.text(), JSON_VALUES, max_size=5), st.booleans(), st.sampled_from([None, 1, " "]))
def test_no_value_changes(body, with_rid, indent):
    if with_rid:
        body["rid"] = "theirs"
    raw = json.dumps(body, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass")
    fields, _ = added(body)
    assert json.loads(merge(raw, body, fields)) == {**json.loads(raw), **fields}


def test_nesting_that_cannot_be_rewritten_is_refused():
    depth = sys.getrecursionlimit() + 20
    raw = b'{"rid":1,"x":' + b"[" * depth + b"]" * depth + b"}"
    with pytest.raises(InvalidRequestError, match="nested too deeply"):
        merge(raw, {"rid": 1}, {"rid": "r"})
