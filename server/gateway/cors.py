"""Lets pages of listed origins call /v1. Plain ASGI: it wraps the answer's start and nothing else."""

import functools
from collections.abc import Collection, Mapping

from starlette.types import Message, Send

from k25serve.server.gateway.errors import Headers

_EXPOSED = b"x-request-id, x-k25serve-arm, x-k25serve-lossy, retry-after"
_MAX_AGE_S = 600


def preflight_headers(headers: Mapping[str, str], origins: Collection[str]) -> Headers:
    """The answer to a browser that asks before it calls."""
    asked = headers.get("access-control-request-headers", "authorization, content-type")
    return [
        *_allowed(headers, origins),
        (b"access-control-allow-methods", b"GET, POST"),
        (b"access-control-allow-headers", asked.encode("latin-1")),
        (b"access-control-max-age", str(_MAX_AGE_S).encode()),
    ]


def with_cors(send: Send, headers: Mapping[str, str], origins: Collection[str]) -> Send:
    """`send`, with the headers that let the page read the answer."""
    extra = [*_allowed(headers, origins), (b"access-control-expose-headers", _EXPOSED)]

    @functools.wraps(send)
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            # An engine's own CORS headers speak for another address.
            kept = [(name, value) for name, value in message["headers"] if not name.startswith(b"access-control-")]
            message = {**message, "headers": kept + extra}
        await send(message)

    return sending


def _allowed(headers: Mapping[str, str], origins: Collection[str]) -> Headers:
    origin = headers["origin"]
    if "*" in origins:
        return [(b"access-control-allow-origin", b"*")]
    if origin in origins:
        return [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"Origin")]
    return [(b"vary", b"Origin")]
