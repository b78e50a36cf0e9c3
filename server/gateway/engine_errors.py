"""Gives an engine's own error answer OpenAI's shape."""

from typing import Any

import orjson

from k25serve.server.gateway.errors import error_object

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_LONGEST_TEXT = 2000
_TOO_LONG = "context_length_exceeded"


def openai_error(raw: bytes, status: int) -> bytes:
    """The engine's error body as `{"error": {message, type, param, code}}`.

    A body that has that shape already comes back untouched, but for the code of a prompt that is too long, which is
    OpenAI's for every engine. SGLang answers with the flat
    `{"object": "error", "message", "type", "param", "code"}` (`ErrorResponse` in its protocol.py, 0.5.23), where `code`
    is the status over again: its `type` becomes our `code`. Anything else, text or HTML, becomes the message.
    """
    try:
        parsed: Any = orjson.loads(raw)
    except orjson.JSONDecodeError:
        parsed = None
    if isinstance(parsed, dict):
        inner = parsed.get("error")
        if isinstance(inner, dict):
            if status == 400 and _is_too_long(inner.get("message")):
                return orjson.dumps({**parsed, "error": {**inner, "code": _TOO_LONG}})
            return raw
        if isinstance(parsed.get("message"), str):
            param, kind = parsed.get("param"), parsed.get("type")
            if status == 400 and _is_too_long(parsed["message"]):
                kind = _TOO_LONG
            return orjson.dumps(
                error_object(
                    parsed["message"],
                    _error_type(status),
                    param if isinstance(param, str) else None,
                    kind if isinstance(kind, str) else None,
                )
            )
    text = raw.decode("utf-8", "replace").strip()[:_LONGEST_TEXT]
    message = text or f"The engine answered with HTTP {status} and no message."
    return orjson.dumps(error_object(message, _error_type(status), None, None))


def _is_too_long(message: object) -> bool:
    """Both engines count the prompt's tokens before its prefill, and say so in these words."""
    return isinstance(message, str) and "context length" in message


def _error_type(status: int) -> str:
    return _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
