"""What the gateway adds to a request, and so must take out of the answer. Pure."""

import json
from dataclasses import dataclass
from typing import Any

import orjson

from k25serve.server.gateway.arms.dialects import WORDS, Words
from k25serve.server.gateway.errors import InvalidRequestError

_SPEC_FIELD = "return_spec_tokens_details"
"""SGLang's field, by which clients ask for acceptance whatever the arm."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Strip:
    """Parts of the answer that the client did not ask for."""

    usage: bool = False
    spec: bool = False

    def __bool__(self) -> bool:
        return self.usage or self.spec


def added_fields(body: dict[str, Any], rid: str, words: Words = WORDS["sglang"]) -> tuple[dict[str, Any], Strip]:
    """The fields to set in a checked request, and what to strip from its answer.

    `rid` is always the gateway's own: SGLang aborts every request whose id starts with the one given
    (scheduler.py, 0.5.23), so a client that chose ids could end others' requests. A client's `rid` is replaced.
    """
    added: dict[str, Any] = {} if words.rid is None else {words.rid: rid}
    asked_spec = body.get(_SPEC_FIELD) is True
    if not asked_spec and words.spec_field is not None:
        added[words.spec_field] = True
    asked_usage = True
    if body.get("stream"):
        options = body.get("stream_options") or {}
        asked_usage = options.get("include_usage") is True
        if not asked_usage:
            added["stream_options"] = {**options, "include_usage": True}
    return added, Strip(usage=not asked_usage, spec=not asked_spec)


def merge(raw: bytes, body: dict[str, Any], added: dict[str, Any]) -> bytes:
    """`raw`, the JSON text of `body`, with `added` set.

    New fields are spliced in before the last brace, so every other byte stays as it came. A field that is there
    already has to be replaced: then the text is written again, by the standard library, since orjson turns integers
    beyond 64 bits into floats.

    Raises:
        InvalidRequestError: nested too deeply to be written again.
    """
    try:
        if not added:
            return raw
        if added.keys().isdisjoint(body):
            head = raw.rstrip(b" \t\r\n")[:-1]
            return head + (b"," if body else b"") + orjson.dumps(added)[1:]
        return _dumps({**json.loads(raw), **added})
    except RecursionError:
        raise InvalidRequestError("The body is nested too deeply: send fewer levels.", None) from None


def _dumps(document: dict[str, Any]) -> bytes:
    return _ENCODER.encode(document).encode()
