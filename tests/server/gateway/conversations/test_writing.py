"""The way to the disk: it holds nobody up, tells what it loses, and loses nothing at the end."""

import asyncio
import errno
import logging
import threading

import aiohttp
import pytest

from k25serve.server.gateway.app import create_app
from k25serve.server.gateway.conversations import writer
from k25serve.server.gateway.conversations.files import LogFiles
from k25serve.server.gateway.run import serve
from k25serve.server.gateway.settings import GatewaySettings
from k25serve.server.gateway.stream import StreamFilter

LOGGED = "conversations_logged_total"


async def ask(gateway, stream=False):
    async with gateway.post(stream, sim={"accepted": [1]}) as response:
        await response.read()
        assert response.status == 200


async def test_off_by_default(gateway, monkeypatch):
    made = []
    monkeypatch.setattr(StreamFilter, "__init__", _spied(StreamFilter.__init__, made))
    await ask(gateway, stream=True)
    assert made == [StreamFilter]
    assert await gateway.metric(LOGGED) is None
    assert "conversation log" not in {thread.name for thread in threading.enumerate()}


def _spied(init, made):
    def spy(self, *args):
        made.append(type(self))
        init(self, *args)

    return spy


class Held:
    """A disk that takes nothing until it is told to."""

    def __init__(self):
        self.taken, self.go_on = threading.Event(), threading.Event()


@pytest.fixture
def held(monkeypatch):
    disk = Held()
    append = LogFiles.append

    def slow(self, line):
        disk.taken.set()
        assert disk.go_on.wait(10)
        append(self, line)

    monkeypatch.setattr(LogFiles, "append", slow)
    yield disk
    disk.go_on.set()


async def test_a_full_queue_drops_and_nobody_waits(recording, read, held, eventually, monkeypatch):
    monkeypatch.setattr(writer, "MAX_QUEUED", 3)
    async with recording() as gateway:
        await ask(gateway)
        await eventually(held.taken.is_set)
        for _ in range(7):
            await ask(gateway)
        assert await gateway.metric(LOGGED, outcome="dropped") == 4
        assert await gateway.metric(LOGGED, outcome="written") == 0
        held.go_on.set()
        await gateway.until(LOGGED, 4, outcome="written")
    assert len(read()) == 4


async def test_the_queue_is_bounded_in_bytes(recording, read, held, monkeypatch):
    monkeypatch.setattr(writer, "MAX_QUEUED_BYTES", 10)
    async with recording() as gateway:
        for _ in range(3):
            await ask(gateway)
        assert await gateway.metric(LOGGED, outcome="dropped") == 2
        held.go_on.set()
    assert len(read()) == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_full_disk_turns_it_off(recording, read, monkeypatch, caplog, stream):
    tried = []

    def full(self, line):
        tried.append(line)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(LogFiles, "append", full)
    with caplog.at_level(logging.ERROR):
        async with recording() as gateway:
            for done in (1, 2, 3):
                await ask(gateway, stream)
                await gateway.until(LOGGED, done, outcome="failed")
            assert await gateway.metric(LOGGED, outcome="written") == 0
    assert len(tried) == 1
    (told,) = caplog.records
    assert "conversation log: can't write in" in told.message
    assert "No space left on device" in told.message
    assert read() == []


async def test_what_is_nested_too_deeply_is_counted_and_the_next_is_written(recording, read):
    schema = b"[" * 300 + b"]" * 300
    body = b'{"model":"kimi","messages":[{"role":"user","content":"x"}],"sim":{"accepted":[1]},"tools":[{"type":'
    body += b'"function","function":{"name":"f","parameters":' + schema + b"}}]}"
    async with recording() as gateway:
        async with gateway.client.post("/v1/chat/completions", data=body) as response:
            assert response.status == 200
        await gateway.until(LOGGED, 1, outcome="failed")
        await ask(gateway)
    assert len(read()) == 1


async def test_a_drain_loses_nothing_that_was_answered(gateway, folder, read, held):
    """The word to stop comes while a stream runs and the disk is slow."""
    port = asyncio.get_running_loop().create_future()
    log = {"directory": folder}
    settings = GatewaySettings(upstream=gateway.engine_url, served_model_name="kimi", conversation_log=log)
    app = create_app(settings, gateway.readiness)
    task = asyncio.create_task(serve(app, "127.0.0.1", 0, port.set_result, drain_s=5))
    body = {"model": "kimi", "messages": [{"role": "user", "content": "x"}]}
    async with aiohttp.ClientSession(base_url=f"http://127.0.0.1:{await port}") as client:
        for _ in range(5):
            async with client.post("/v1/chat/completions", json=body | {"sim": {"accepted": [1]}}) as whole:
                assert whole.status == 200
        running = body | {"stream": True, "sim": {"accepted": [0] * 5, "step_s": 0.05}}
        async with client.post("/v1/chat/completions", json=running) as response:
            await response.content.readany()
            task.cancel()
            assert (await response.read()).endswith(b"data: [DONE]\n\n")
    asyncio.get_running_loop().call_later(0.1, held.go_on.set)
    await asyncio.gather(task, return_exceptions=True)
    assert len(read()) == 6
    assert "conversation log" not in {thread.name for thread in threading.enumerate()}


async def test_a_disk_that_hangs_does_not_hold_the_end_up(recording, held, monkeypatch, caplog):
    monkeypatch.setattr("k25serve.server.gateway.conversations.recorder._FLUSH_S", 0.05)
    with caplog.at_level(logging.ERROR):
        async with recording() as gateway:
            for _ in range(3):
                await ask(gateway)
    (told,) = caplog.records
    assert "is too slow;" in told.message
