import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k25serve.server.gateway.errors import RejectedError
from k25serve.server.gateway.plan import ENDPOINTS, check_request, make_plan
from k25serve.server.gateway.settings import GatewaySettings

SETTINGS = GatewaySettings(upstream="http://127.0.0.1:1", served_model_name="kimi", model_aliases=("k2",))
CHAT, COMPLETION = ENDPOINTS
MESSAGES = [{"role": "user", "content": "x"}]


def plan(endpoint=CHAT, **fields):
    body = {"model": "kimi", "messages": MESSAGES, "prompt": "x"} | fields
    return planned(json.dumps(body).encode(), endpoint)


def planned(raw, endpoint=CHAT):
    return make_plan(check_request(raw, endpoint, SETTINGS), SETTINGS.every_arm[0], SETTINGS)


def test_every_plan_has_an_id_of_its_own():
    ids = {plan().rid for _ in range(100)}
    assert len(ids) == 100
    assert all(len(rid) == 32 and int(rid, 16) >= 0 for rid in ids)


def test_the_id_is_in_the_body():
    made = plan(stream=True)
    assert json.loads(made.body)["rid"] == made.rid


@pytest.mark.parametrize(
    ("fields", "one"),
    [
        ({}, True),
        ({"n": 1}, True),
        ({"n": None}, True),
        ({"n": 2}, False),
        ({"prompt": ["a"]}, True),
        ({"prompt": ["a", "b"]}, False),
        ({"prompt": [1, 2]}, True),
        ({"prompt": [[1], [2]]}, False),
    ],
)
def test_one_choice(fields, one):
    assert plan(COMPLETION, **fields).one_choice is one


def test_labels_are_the_served_name_and_the_form():
    assert plan(model="k2", stream=True).target == ("sglang", "kimi", "true")
    assert plan(stream=None).target == ("sglang", "kimi", "false")


@pytest.mark.parametrize("depth", [100, 300, 980, 1100])
@pytest.mark.parametrize("field", ["temperature", "tools", "stream_options", "rid", "x", "messages", "model", "prompt"])
def test_deep_nesting_is_planned_or_refused(field, depth):
    deep = '{"x":' + "[" * depth + "]" * depth + "}"
    fields = {"model": '"kimi"', "messages": json.dumps(MESSAGES), "stream": "true"} | {field: deep}
    raw = "{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}"
    with contextlib.suppress(RejectedError):
        assert b'"rid":"' in planned(raw.encode()).body


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("rid", "prompt", "n", "stream", "stream_options", "tools", "stop", "sim", "max_tokens", "user", "messages")


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS), JSON), st.booleans())
def test_any_body_is_planned_or_refused(fields, chat):
    """Any other exception fails."""
    with contextlib.suppress(RejectedError):
        made = plan(CHAT if chat else COMPLETION, **fields)
        sent = json.loads(made.body)
        assert sent["rid"] == made.rid
        changed = {"rid", "stream_options", "return_spec_tokens_details", "messages", "max_tokens"}
        assert {key: sent[key] for key in fields.keys() - changed} == {
            key: fields[key] for key in fields.keys() - changed
        }


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_are_planned_or_refused(raw):
    with contextlib.suppress(RejectedError):
        planned(raw)
