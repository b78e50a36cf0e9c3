import orjson
import pytest

from k25serve.server.gateway.engine_errors import openai_error


def shaped(raw, status=400):
    return orjson.loads(openai_error(raw, status))["error"]


def test_openais_shape_is_left_alone():
    raw = b'{ "error": {"message": "m", "type": "t", "param": null, "code": 1} }'
    assert openai_error(raw, 400) is raw


def test_sglangs_flat_shape_is_nested():
    raw = b'{"object":"error","message":"Too long","type":"BadRequestError","param":"messages","code":400}'
    assert shaped(raw) == {
        "message": "Too long",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "BadRequestError",
    }


@pytest.mark.parametrize("raw", [b"Internal Server Error", b"<html>x</html>", b'"text"', b'{"detail":"Not Found"}'])
def test_anything_else_becomes_the_message(raw):
    assert shaped(raw, 500) == {"message": raw.decode(), "type": "server_error", "param": None, "code": None}


@pytest.mark.parametrize(
    "raw",
    [
        b'{"object":"error","message":"... the context length (4096 tokens).","type":"BadRequestError"}',
        b'{"error":{"message":"... maximum context length is 4096 tokens","type":"BadRequestError","code":400}}',
    ],
)
def test_a_prompt_that_is_too_long_has_one_code_for_every_engine(raw):
    assert shaped(raw)["code"] == "context_length_exceeded"
    assert shaped(raw, 500)["code"] != "context_length_exceeded"


def test_an_empty_body_gets_a_message():
    assert shaped(b"", 503)["message"] == "The engine answered with HTTP 503 and no message."


def test_a_long_page_is_cut():
    assert len(shaped(b"x" * 10**6, 500)["message"]) == 2000


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request_error"), (401, "authentication_error"), (429, "rate_limit_error"), (503, "server_error")],
)
def test_the_type_follows_the_status(status, kind):
    assert shaped(b"x", status)["type"] == kind
