"""Whole answers that the gateway writes itself."""

import orjson
from starlette.types import Send

from k25serve.server.gateway.errors import GatewayError, Headers

JSON: Headers = [(b"content-type", b"application/json")]


async def send_whole(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """Sends one complete answer."""
    headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_json(send: Send, status: int, document: object) -> None:
    await send_whole(send, status, orjson.dumps(document), JSON)


async def send_error(send: Send, error: GatewayError) -> None:
    await send_whole(send, error.status, error.body(), JSON + error.headers())
