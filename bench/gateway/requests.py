"""The requests that the benchmark sends. Pure."""

from typing import Any

import orjson

from k25serve.bench.gateway.directive import Directive

_DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel."""


def plain(directive: Directive, *, stream: bool, size: int = 1024) -> bytes:
    """A chat request of about `size` bytes."""
    body: dict[str, Any] = {
        "model": "bench",
        "messages": [{"role": "user", "content": directive.text(size - 100)}],
        "max_tokens": 200,
        "temperature": 0.6,
    }
    return orjson.dumps(body | {"stream": True} if stream else body)


def rich(directive: Directive, *, stream: bool) -> dict[str, Any]:
    """One of every field that a request to SGLang may hold, and some that nobody knows."""
    tool = {
        "type": "function",
        "function": {
            "name": "look_up",
            "description": "Looks a word up.",
            "strict": True,
            "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
        },
    }
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_DOT}", "detail": "low"}}
    call = {
        "id": "functions.look_up:0",
        "type": "function",
        "function": {"name": "look_up", "arguments": '{"word":"a"}'},
    }
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "naïve 修改 🙂"}]},
        {"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]},
        {"role": "assistant", "content": None, "reasoning_content": "I look it up.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "functions.look_up:0", "content": "a: the first letter"},
        {"role": "user", "content": directive.text(), "x_message": {"kept": 1}},
    ]
    body: dict[str, Any] = {
        "model": "bench",
        "messages": messages,
        "max_tokens": 64,
        "temperature": 0,
        "top_p": 0.95,
        "top_k": 20,
        "min_p": 0.01,
        "n": 1,
        "stop": ["\n\n\n"],
        "seed": 7,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.1,
        "repetition_penalty": 1.05,
        "logit_bias": {"11": -1.0},
        "logprobs": True,
        "top_logprobs": 2,
        "user": "someone",
        "tools": [tool],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "response_format": {"type": "text"},
        "chat_template_kwargs": {"thinking": True},
        "separate_reasoning": True,
        "stream_reasoning": True,
        "return_spec_tokens_details": True,
        "priority": 5,
        "rid": "client-chosen",
        "x_unknown": {"a": [1, 2.50, None, "é"]},
    }
    return body | {"stream": True, "stream_options": {"include_usage": True}} if stream else body


def difference(sent: object, got: object, path: str = "") -> list[str]:
    """Paths that `sent` has and `got` has not, or has with another value: `a.b[].c lost`, `a.d changed`.

    Equal numbers are equal however they are written. What `got` has on top isn't listed.
    """
    if isinstance(sent, dict) and isinstance(got, dict):
        found = []
        for key, value in sent.items():
            at = f"{path}.{key}" if path else key
            lost = f"{at} (null) lost" if value is None else f"{at} lost"
            found += difference(value, got[key], at) if key in got else [lost]
        return found
    if isinstance(sent, list) and isinstance(got, str) and _joined(sent) == got:
        return [f"{path} joined into one string"]
    if isinstance(sent, list) and isinstance(got, list) and len(sent) == len(got):
        return [line for ours, theirs in zip(sent, got, strict=True) for line in difference(ours, theirs, f"{path}[]")]
    return [] if sent == got and isinstance(sent, bool) == isinstance(got, bool) else [f"{path} changed"]


def _joined(parts: list[Any]) -> str | None:
    """The text of a list of text parts; None if it is another list."""
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    return None if None in texts else "".join(map(str, texts))
