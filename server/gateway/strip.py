"""Takes out of an answer what the client did not ask for, and nothing else. Pure."""

import json
from typing import Any

import orjson

from k25serve.server.gateway.rewrite import Strip
from k25serve.server.gateway.usage import Reading

_DECODER = json.JSONDecoder()
_ENVELOPE = frozenset({"id", "object", "created", "model", "choices", "usage", "system_fingerprint", "service_tier"})

_SPEC = (("sglext", "spec_tokens_details"), ("metrics", "speculative_decoding"))
"""Where SGLang and vLLM report acceptance."""


def strip_frame(frame: bytes, reading: Reading, strip: Strip) -> bytes:
    """The frame as the client should see it: unchanged, shortened, or empty.

    Only frames without choices are touched: the engine's closing ones. One that holds nothing else goes entirely.
    """
    document = reading.tail
    if document is None:
        return frame
    rest = _without(document, strip)
    if rest is document:
        return frame
    if rest.get("usage") is None and rest.keys() <= _ENVELOPE:
        return b""
    start, end = frame.find(b"{"), frame.rfind(b"}") + 1
    return frame[:start] + _cut(frame[start:end], document, rest) + frame[end:]


def strip_answer(raw: bytes, document: dict[str, Any], strip: Strip) -> bytes:
    """The whole answer as the client should see it. Its usage always stays: without streaming everyone gets it."""
    if not strip.spec:
        return raw
    shorter = _without_last(raw, document)
    if shorter is not None:
        return shorter
    rest = _without(document, Strip(spec=True))
    return raw if rest is document else _cut(raw, document, rest)


def _without_last(raw: bytes, document: dict[str, Any]) -> bytes | None:
    """`raw` without acceptance, where that is all that the last member holds; None: it isn't so simple.

    A key whose value and one brace end the text is the outermost object's last; if it stands there once, and no escape
    could write it otherwise, nothing is left of it. So only its value has to be parsed again.
    """
    last = next(reversed(document), None)
    for key, member in _SPEC:
        details, name = document.get(key), b',"' + key.encode() + b'":'
        if key != last or not isinstance(details, dict) or details.keys() != {member}:
            continue
        start = raw.find(name)
        if start < 0 or raw.count(name[1:-1]) != 1 or not raw.endswith(b"}}") or b"\\u" in raw:
            continue
        try:
            value = orjson.loads(raw[start + len(name) : -1])
        except orjson.JSONDecodeError:
            continue
        if value == details:
            return raw[:start] + b"}"
    return None


def _without(document: dict[str, Any], strip: Strip) -> dict[str, Any]:
    """`document` itself if there is nothing to strip, else a copy without it."""
    drop = set()
    replace: dict[str, Any] = {}
    if strip.usage and document.get("usage") is not None:
        drop.add("usage")
    for key, member in _SPEC:
        details = document.get(key)
        if strip.spec and isinstance(details, dict) and member in details:
            others = {name: value for name, value in details.items() if name != member}
            if others:
                replace[key] = others
            else:
                drop.add(key)
    if not drop and not replace:
        return document
    return {key: replace.get(key, value) for key, value in document.items() if key not in drop}


def _cut(raw: bytes, document: dict[str, Any], rest: dict[str, Any]) -> bytes:
    """`raw`, the text of `document`, cut down to `rest` with every other byte as it was.

    The cut is made by looking for the key from the end, then checked by parsing; where the guess was wrong, `rest` is
    written anew.
    """
    keys = [key for key in document if key not in rest]
    keys += [member for key, member in _SPEC if key in rest and rest[key] != document[key]]
    text = raw
    try:
        for key in keys:
            text = _cut_member(text, key)
        if orjson.loads(text) == rest:
            return text
    except (ValueError, RecursionError):
        return orjson.dumps(rest)
    return orjson.dumps(rest)


def _cut_member(raw: bytes, key: str) -> bytes:
    """`raw` without the last member called `key` and the comma that goes with it.

    Raises:
        ValueError: there is none, or what follows it isn't JSON.
    """
    name = b'"' + key.encode() + b'"'
    start = raw.rindex(name)
    value_start = raw.index(b":", start + len(name)) + 1
    value = raw[value_start:].decode()
    leading = len(value) - len(value.lstrip())
    _, stop = _DECODER.raw_decode(value, leading)
    end = value_start + len(value[:stop].encode())
    before, after = raw[:start].rstrip(), raw[end:].lstrip()
    if before.endswith(b","):
        return before[:-1] + raw[end:]
    if after.startswith(b","):
        return raw[:start] + after[1:].lstrip()
    return raw[:start] + raw[end:]
