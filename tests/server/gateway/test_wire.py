import asyncio
import contextlib

import pytest

from k25serve.server.gateway.connection import WireError
from k25serve.server.gateway.wire import Wire

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


@contextlib.asynccontextmanager
async def wire_to(*scripts, connect_timeout_s=1.0):
    """A wire to a server that follows one script for each request; `asked` gets the requests."""
    asked = []
    opened = []
    left = list(scripts)

    async def serve(reader, writer):
        opened.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                asked.append(head + await reader.readexactly(length))
                await left.pop(0)(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    wire = Wire(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", connect_timeout_s)
    wire.asked, wire.opened = asked, opened
    try:
        yield wire
    finally:
        wire.close()
        server.close()
        for writer in opened:
            writer.transport.abort()
        await asyncio.sleep(0.01)


def writes(*parts, pause=0.01, hang_up=False):
    async def script(writer):
        for part in parts:
            writer.write(part)
            await asyncio.sleep(pause)
        if hang_up:
            writer.close()

    return script


def soon(seconds=1.0):
    return asyncio.get_running_loop().time() + seconds


async def ask(wire, body=b"{}", until=None):
    return await wire.ask("POST", "/v1", b"x-a: b\r\n", body, until or soon())


async def pumped(answer, seconds=1.0):
    reads = []
    last = await answer.pump(reads.append, lambda since: since + seconds, seconds)
    answer.close()
    return [*reads, last] if last else reads


async def test_a_request_and_its_answer():
    async with wire_to(writes(OK)) as wire:
        answer = await ask(wire, b'{"a":1}')
        assert (answer.status, await answer.read(soon())) == (200, b"hi")
        head, _, body = wire.asked[0].partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        assert lines[0] == b"POST /v1 HTTP/1.1"
        assert b"x-a: b" in lines
        assert any(line.startswith(b"host: 127.0.0.1:") for line in lines)
        assert body == b'{"a":1}'


async def test_a_large_body_arrives_whole():
    body = bytes(range(256)) * 8192
    async with wire_to(writes(OK)) as wire:
        await (await ask(wire, body)).read(soon())
        assert wire.asked[0].endswith(b"\r\n\r\n" + body)


@pytest.mark.parametrize("step", [1, 7, 1000])
async def test_a_stream_comes_as_it_was_cut(step):
    raw = CHUNKED + chunk(b"one") + chunk(b"two") + b"0\r\n\r\n"
    parts = [raw[i : i + step] for i in range(0, len(raw), step)]
    async with wire_to(writes(*parts, pause=0.001)) as wire:
        answer = await ask(wire)
        assert answer.content_type == "text/event-stream"
        assert b"".join(await pumped(answer)) == b"onetwo"


async def test_each_read_is_handed_on_at_once():
    async with wire_to(writes(CHUNKED, chunk(b"one"), chunk(b"two") + chunk(b"three"), b"0\r\n\r\n")) as wire:
        assert await pumped(await ask(wire)) == [b"one", b"twothree"]


async def test_the_last_read_is_returned():
    async with wire_to(writes(CHUNKED, chunk(b"one"), chunk(b"two") + b"0\r\n\r\n")) as wire:
        reads = []
        answer = await ask(wire)
        assert await answer.pump(reads.append, lambda since: since + 1, 1) == b"two"
        assert reads == [b"one"]


async def test_a_sink_that_waits_gets_no_more_until_it_is_done():
    gate, reads = asyncio.Event(), []

    def sink(data):
        reads.append(data)
        return gate.wait() if len(reads) == 1 else None

    async with wire_to(writes(CHUNKED, *[chunk(b"x" * 1000)] * 5, b"0\r\n\r\n", pause=0.002)) as wire:
        answer = await ask(wire)
        pumping = asyncio.create_task(answer.pump(sink, lambda since: since + 0.05, 0.05))
        await asyncio.sleep(0.1)
        assert len(reads) == 1
        gate.set()
        assert b"".join(reads) + await pumping == b"x" * 5000


async def test_an_answer_that_nobody_reads_is_not_piled_up():
    async def flood(writer):
        writer.write(CHUNKED)
        for _ in range(400):
            writer.write(chunk(b"x" * 2**16))
        await writer.drain()

    async with wire_to(flood) as wire:
        answer = await ask(wire)
        gate = asyncio.Event()
        pumping = asyncio.create_task(answer.pump(lambda _: gate.wait(), lambda since: since + 9, 9))
        await asyncio.sleep(0.2)
        assert answer._connection._unread < 2**20
        pumping.cancel()
        await asyncio.gather(pumping, return_exceptions=True)
        answer.close()


async def test_a_connection_is_used_again():
    async with wire_to(*[writes(OK)] * 3) as wire:
        for _ in range(3):
            answer = await ask(wire)
            assert await answer.read(soon()) == b"hi"
            answer.close()
            answer.close()
        assert len(wire.opened) == 1


async def test_one_that_has_been_idle_long_is_not(monkeypatch):
    monkeypatch.setattr("k25serve.server.gateway.wire._KEEPALIVE_S", 0.02)
    async with wire_to(*[writes(OK)] * 2) as wire:
        for _ in range(2):
            answer = await ask(wire)
            await answer.read(soon())
            answer.close()
            await asyncio.sleep(0.1)
        assert len(wire.opened) == 2


@pytest.mark.parametrize(
    "script",
    [
        writes(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi"),
        writes(OK, hang_up=True),
        writes(OK + b"more"),
        writes(OK + OK),
        writes(b"HTTP/1.1 200 OK\r\n\r\nhi", hang_up=True),
    ],
)
async def test_one_that_the_server_is_done_with_is_not(script):
    async with wire_to(script, writes(OK)) as wire:
        for _ in range(2):
            answer = await ask(wire)
            assert await answer.read(soon()) == b"hi"
            answer.close()
            await asyncio.sleep(0.05)
        assert len(wire.opened) == 2


async def test_an_answer_that_is_left_cuts_its_connection():
    gone = asyncio.Event()

    async def script(writer):
        writer.write(CHUNKED + chunk(b"one"))
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(chunk(b"more"))
                await writer.drain()
                await asyncio.sleep(0.001)
        gone.set()

    async with wire_to(script) as wire:
        (await ask(wire)).close()
        async with asyncio.timeout(1):
            await gone.wait()


async def test_a_cancelled_request_cuts_its_connection():
    gone = asyncio.Event()

    async def script(writer):
        await writer.wait_closed()
        gone.set()

    async with wire_to(script) as wire:
        asking = asyncio.create_task(ask(wire))
        await asyncio.sleep(0.05)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        wire.opened[0].close()
        async with asyncio.timeout(1):
            await gone.wait()
        assert not wire._open


@pytest.mark.parametrize(
    "script",
    [
        writes(hang_up=True),
        writes(b"HTTP/1.1 200 OK\r\ncontent-len", hang_up=True),
        writes(b"SSH-2.0-OpenSSH\r\n"),
    ],
)
async def test_no_headers(script):
    async with wire_to(script) as wire:
        with pytest.raises(WireError):
            await ask(wire)


@pytest.mark.parametrize(
    "raw",
    [CHUNKED + chunk(b"one"), CHUNKED + b"3\r\non", CHUNKED + chunk(b"one") + b"zz\r\n", OK[:-1]],
)
async def test_an_answer_that_breaks_off(raw):
    async with wire_to(writes(raw, hang_up=True), writes(raw, hang_up=True)) as wire:
        with pytest.raises(WireError):
            await (await ask(wire)).read(soon())
        with pytest.raises(WireError):
            await pumped(await ask(wire))


async def test_silence_before_the_headers():
    async with wire_to(writes(pause=9)) as wire:
        with pytest.raises(TimeoutError):
            await ask(wire, until=soon(0.05))


async def test_silence_in_the_middle():
    async with wire_to(writes(CHUNKED, *[chunk(b"x")] * 5, pause=0.05), writes(OK[:-1], pause=9)) as wire:
        answer = await ask(wire)
        reads = []
        with pytest.raises(TimeoutError):
            await answer.pump(reads.append, lambda since: since + 0.15, 0.15)
        # Each read moved the deadline: together they took longer than it.
        assert b"".join(reads) == b"xxxxx"
        answer.close()
        answer = await ask(wire)
        with pytest.raises(TimeoutError):
            await answer.read(soon(0.05))
        answer.close()


async def test_a_deadline_that_comes_nearer():
    async with wire_to(writes(CHUNKED, chunk(b"x"), pause=0.02)) as wire:
        answer = await ask(wire)
        reads = []
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await answer.pump(reads.append, lambda since: since + (0.05 if reads else 99), 0.05)
        answer.close()


async def test_nobody_listens():
    with pytest.raises(ConnectionRefusedError):
        await ask(Wire("http://127.0.0.1:9", 1.0))


async def test_interim_answers_are_passed_over():
    async with wire_to(writes(b"HTTP/1.1 100 Continue\r\n\r\n" + OK)) as wire:
        answer = await ask(wire)
        assert (answer.status, answer.headers) == (200, [(b"content-length", b"2")])
        assert await answer.read(soon()) == b"hi"
