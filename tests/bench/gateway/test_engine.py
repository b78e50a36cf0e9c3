import asyncio
import contextlib
import itertools
import time

import orjson
import pytest

from k25serve.bench.gateway.client import Client, get_json
from k25serve.bench.gateway.directive import Directive
from k25serve.bench.gateway.engine import RECORD_PATH, Connection, Engine
from k25serve.bench.gateway.frames import STAMP
from k25serve.bench.gateway.requests import plain, rich


@pytest.fixture
async def url():
    engine = Engine()
    server = await asyncio.get_running_loop().create_server(lambda: Connection(engine), "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_stream_is_paced_and_every_frame_comes_in_one_read(url):
    client = await Client.connect(url)
    exchange = await client.ask(plain(Directive(chunks=5, pace=0.03), stream=True), keep=True)
    client.leave()
    assert (exchange.status, exchange.frames, exchange.reads) == (200, 5, 6)
    stamps = [int(stamp) for stamp in STAMP.findall(exchange.body)]
    assert [round((b - a) / 30e6) for a, b in itertools.pairwise(stamps)] == [1] * 4
    assert all(0 < delay < 20e6 for delay in exchange.delays)
    frames = exchange.body.split(b"\n\n")
    assert frames[-2:] == [b"data: [DONE]", b""]
    assert 300 < len(frames[1]) < 340
    assert "@t=" in orjson.loads(frames[0].removeprefix(b"data: "))["choices"][0]["delta"]["content"]


async def test_usage_and_acceptance_come_if_asked_for(url):
    client = await Client.connect(url)
    body = orjson.dumps(rich(Directive(), stream=True))
    streamed = await client.ask(body, keep=True)
    whole = await client.ask(plain(Directive(size=500), stream=False), keep=True)
    client.leave()
    assert b'"usage":{' in streamed.body
    assert b"spec_tokens_details" in streamed.body
    document = orjson.loads(whole.body)
    assert len(document["choices"][0]["message"]["content"]) == 500
    assert "sglext" not in document


async def test_a_client_that_leaves_is_noticed(url):
    client = await Client.connect(url)
    asking = asyncio.create_task(client.ask(plain(Directive(first=5.0, tag="left"), stream=True)))
    await asyncio.sleep(0.05)
    left = client.leave()
    with contextlib.suppress(ConnectionError):
        await asking
    await asyncio.sleep(0.05)
    seen = await get_json(url, f"{RECORD_PATH}?tag=left")
    assert 0 <= seen["freed"] - left < 50e6
    assert seen["finished"] is None
    assert seen["freed"] < time.monotonic_ns()


async def test_an_abort_frees_as_well_and_an_answer_that_ended_does_not_count(url):
    client = await Client.connect(url)
    body = orjson.loads(plain(Directive(first=0.2, tag="aborted"), stream=False)) | {"rid": "r1"}
    asking = asyncio.create_task(client.ask(orjson.dumps(body)))
    await asyncio.sleep(0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    writer.write(b'POST /abort_request HTTP/1.1\r\nhost: a\r\ncontent-length: 12\r\n\r\n{"rid":"r1"}')
    await reader.readline()
    writer.close()
    await asking
    await client.ask(plain(Directive(tag="whole"), stream=False))
    client.leave()
    assert (await get_json(url, f"{RECORD_PATH}?tag=aborted"))["freed"] is not None
    whole = await get_json(url, f"{RECORD_PATH}?tag=whole")
    assert whole["freed"] is None
    assert whole["finished"] is not None


async def test_attempts_on_an_error_are_counted(url):
    client = await Client.connect(url)
    for _ in range(3):
        assert (await client.ask(plain(Directive(status=503, tag="full"), stream=False))).status == 503
    client.leave()
    assert (await get_json(url, f"{RECORD_PATH}?tag=full"))["attempts"] == 3
