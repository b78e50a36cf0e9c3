"""What a gateway does when a client leaves, with fields it may not know, and with an engine that is full."""

import asyncio
import contextlib
import uuid
from typing import Any

import orjson

from k25serve.bench.gateway.client import Client, get_json
from k25serve.bench.gateway.directive import Directive
from k25serve.bench.gateway.engine import RECORD_PATH
from k25serve.bench.gateway.requests import difference, plain, rich

SITUATIONS = {
    "before_headers": (Directive(chunks=2, pace=0.1, first=1.5), True),
    "mid_stream": (Directive(chunks=40, pace=0.05), True),
    "mid_stream_next_chunk_far": (Directive(chunks=2, pace=1.5), True),
    "non_streaming": (Directive(first=1.5), False),
}
"""In each the engine is at work for at least a second more when the client leaves."""
_REPEATS = 3
_LEAVE_AFTER_S = 0.22
_WAIT_S = 2.5


async def behaviour(url: str, engine: str, authorization: str) -> dict[str, Any]:
    """`cancel_ms`: for each situation, from the client's leaving until the engine was freed; None: it never was."""
    cancel: dict[str, list[float | None]] = {}
    for name, (directive, stream) in SITUATIONS.items():
        cancel[name] = [
            await _cancel(url, engine, authorization, directive, stream=stream, reset=bool(repeat % 2))
            for repeat in range(_REPEATS)
        ]
    fields = sorted(
        {*await _fields(url, engine, authorization, stream=True)}
        | {*await _fields(url, engine, authorization, stream=False)}
    )
    full = await _full(url, engine, authorization)
    return {"cancel_ms": cancel, "fields": fields, **full}


async def _cancel(
    url: str, engine: str, authorization: str, directive: Directive, *, stream: bool, reset: bool
) -> float | None:
    tag = uuid.uuid4().hex
    body = plain(_tagged(directive, tag), stream=stream)
    client = await Client.connect(url, authorization)
    asking = asyncio.create_task(client.ask(body))
    await asyncio.sleep(_LEAVE_AFTER_S)
    left = client.leave(reset=reset)
    asking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asking
    for _ in range(int(_WAIT_S / 0.02)):
        await asyncio.sleep(0.02)
        seen = await _seen(engine, tag)
        if seen["freed"] is not None:
            return float(seen["freed"] - left) * 1e-6
        if seen["finished"] is not None:
            return None
    return None


async def _fields(url: str, engine: str, authorization: str, *, stream: bool) -> list[str]:
    """What the engine didn't get as it was sent."""
    tag = uuid.uuid4().hex
    sent = rich(_tagged(Directive(), tag), stream=stream)
    client = await Client.connect(url, authorization)
    exchange = await client.ask(orjson.dumps(sent), keep=True)
    client.leave()
    if exchange.status != 200:
        return [f"refused with {exchange.status}: {exchange.body[:120].decode(errors='replace')}"]
    return difference(sent, orjson.loads((await _seen(engine, tag))["body"]))


async def _full(url: str, engine: str, authorization: str) -> dict[str, Any]:
    tag = uuid.uuid4().hex
    client = await Client.connect(url, authorization)
    exchange = await client.ask(plain(_tagged(Directive(status=503), tag), stream=False))
    client.leave()
    attempts = (await _seen(engine, tag))["attempts"]
    return {"on_503": {"status": exchange.status, "attempts": attempts, "ms": (exchange.ended - exchange.sent) * 1e-6}}


def _tagged(directive: Directive, tag: str) -> Directive:
    return Directive(**{name: getattr(directive, name) for name in Directive.__slots__} | {"tag": tag})


async def _seen(engine: str, tag: str) -> dict[str, Any]:
    document = await get_json(engine, f"{RECORD_PATH}?tag={tag}")
    assert isinstance(document, dict)
    return document
