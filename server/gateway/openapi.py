"""The OpenAPI document of /v1, for clients and for tests that generate requests from it. Pure.

It describes what the gateway checks and answers; fields that it doesn't know pass to the engine, so objects are open.
"""

from typing import Any

from k25serve.server.gateway.settings import GatewaySettings
from k25serve.server.gateway.validate import MAX_CHOICES, MAX_STOPS
from k25serve.server.gateway.validate_messages import ROLES

Schema = dict[str, Any]

_ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "integer", "null"]},
            },
        }
    },
}
_REFUSALS = {
    "400": "The body is wrong: the message names the field, its value and the remedy.",
    "401": "No API key, or an unknown one.",
    "403": "The key may not do this.",
    "404": "The model is not served here.",
    "405": "Another method is needed.",
    "413": "The body is too large.",
    "415": "The body is compressed.",
    "429": "The key has too many requests under way; see Retry-After.",
    "502": "The engine ended without an answer.",
    "503": "Nobody can answer now; see Retry-After.",
    "504": "The engine took too long.",
}
_USAGE: Schema = {
    "type": "object",
    "required": ["prompt_tokens", "completion_tokens", "total_tokens"],
    "properties": {name: {"type": "integer"} for name in ("prompt_tokens", "completion_tokens", "total_tokens")},
}
_PART: Schema = {
    "anyOf": [
        {
            "type": "object",
            "required": ["type", "text"],
            "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
        },
        {
            "type": "object",
            "required": ["type", "image_url"],
            "properties": {
                "type": {"const": "image_url"},
                "image_url": {
                    "type": "object",
                    "required": ["url"],
                    "properties": {
                        "url": {"type": "string", "pattern": "^data:image/png;base64,[A-Za-z0-9+/]*={0,2}$"}
                    },
                },
            },
        },
    ]
}
_MESSAGE: Schema = {
    "type": "object",
    "required": ["role", "content"],
    "properties": {
        "role": {"enum": list(ROLES)},
        "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": _PART, "minItems": 1}]},
        "reasoning_content": {"type": ["string", "null"]},
        "tool_call_id": {"type": ["string", "null"]},
    },
}
_TOOL: Schema = {
    "type": "object",
    "required": ["type", "function"],
    "properties": {
        "type": {"const": "function"},
        "function": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string", "minLength": 1}, "parameters": {"type": "object"}},
        },
    },
}


def openapi_paths(settings: GatewaySettings) -> Schema:
    """The paths under /v1, for the models and limits of `settings`."""
    chat = {
        "messages": {"type": "array", "minItems": 1, "items": _MESSAGE},
        "tools": {"type": ["array", "null"], "items": _TOOL},
        "thinking": {
            "type": ["object", "null"],
            "required": ["type"],
            "properties": {"type": {"enum": ["enabled", "disabled"]}},
        },
        "response_format": {
            "type": ["object", "null"],
            "required": ["type"],
            "properties": {"type": {"enum": ["text", "json_object"]}},
        },
    }
    prompt = {
        "anyOf": [
            {"type": "string"},
            {"type": "array", "minItems": 1, "items": {"type": "string"}},
            {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0, "maximum": 163839}},
        ]
    }
    card = {"type": "object", "required": ["id", "object", "created", "owned_by"]}
    models = {
        "type": "object",
        "required": ["object", "data"],
        "properties": {"data": {"type": "array", "items": card}},
    }
    name = {"name": "model", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    return {
        "/v1/chat/completions": {"post": _generation(settings, chat, ["messages"], "chat.completion")},
        "/v1/completions": {"post": _generation(settings, {"prompt": prompt}, ["prompt"], "text_completion")},
        "/v1/models": {"get": _operation("The model's names.", _json("The list.", models))},
        "/v1/models/{model}": {"get": _operation("One name.", _json("The card.", card)) | {"parameters": [name]}},
    }


def _generation(settings: GatewaySettings, own: Schema, required: list[str], kind: str) -> Schema:
    answer = {
        "type": "object",
        "required": ["id", "object", "created", "model", "choices", "usage"],
        "properties": {"object": {"const": kind}, "choices": {"type": "array", "minItems": 1}, "usage": _USAGE},
    }
    # Every event's data: a chunk, or the word that ends the stream.
    events = {"type": "string"}
    ok = {
        "description": "The whole answer, or with stream: true its events.",
        "content": {"application/json": {"schema": answer}, "text/event-stream": {"schema": events}},
    }
    body = {"type": "object", "required": ["model", *required], "properties": {**_common(settings), **own}}
    content = {"application/json": {"schema": body}}
    return _operation("Generate.", ok) | {"requestBody": {"required": True, "content": content}}


def _common(settings: GatewaySettings) -> Schema:
    limit: Schema = {"type": ["integer", "null"], "minimum": 1, "maximum": settings.context_length or 2**31}
    return {
        "model": {"enum": list(settings.model_names)},
        "stream": {"type": ["boolean", "null"]},
        "stream_options": {"type": ["object", "null"], "properties": {"include_usage": {"type": ["boolean", "null"]}}},
        "max_tokens": limit,
        "max_completion_tokens": limit,
        "temperature": {"type": ["number", "null"], "minimum": 0, "maximum": 2},
        "top_p": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1},
        "n": {"type": ["integer", "null"], "minimum": 1, "maximum": MAX_CHOICES},
        "stop": {
            "anyOf": [
                {"type": ["string", "null"]},
                {"type": "array", "maxItems": MAX_STOPS, "items": {"type": "string"}},
            ]
        },
    }


def _operation(summary: str, ok: Schema) -> Schema:
    refusals = {code: _json(text, _ERROR) for code, text in _REFUSALS.items()}
    return {"summary": summary, "responses": {"200": ok, **refusals}}


def _json(description: str, schema: Schema) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
