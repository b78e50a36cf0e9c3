import asyncio
import os

import orjson
import pytest

from k25serve.server.gateway.disconnect import ClientGoneError, unless_gone

# The engine's second token never comes: only the gateway can end these.
PHASES = {
    "prefill, stream": (True, {"header_delay_s": 60.0}, 0, "prefill"),
    "prefill, whole": (False, {"header_delay_s": 60.0}, 0, "prefill"),
    "whole answer, half sent": (False, {"fault": "stall"}, 0, "prefill"),
    "after the role": (True, {"fault": "stall", "fault_after": 1}, 1, "decode"),
    "decode": (True, {"fault": "stall", "fault_after": 3, "accepted": [1, 1]}, 1, "decode"),
    "decode, steadily": (True, {"step_s": 0.05, "accepted": [0] * 10_000}, 3, "decode"),
}


async def leave(gateway, eventually, stream, sim, frames):
    """Closes the client's socket in the phase; returns how long the engine took to see it, in seconds."""
    engine = gateway.engine.record
    before, calls = len(engine.cancellations), len(engine.calls)
    request = asyncio.create_task(gateway.post(stream, sim=sim, max_tokens=10_000).__aenter__())
    await eventually(lambda: len(engine.calls) > calls)
    if frames:
        response = await request
        seen = b""
        while seen.count(b"\n\n") < frames:
            seen += await response.content.readany()
        response.close()
    else:
        await asyncio.sleep(0.02)
        if request.done():
            # The headers are there already: some engines send them at once.
            request.result().close()
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
    return await eventually(lambda: len(engine.cancellations) > before)


@pytest.mark.parametrize("phase", PHASES)
async def test_an_engine_without_aborts_is_let_go_by_its_connection(open_gateway, make_engine, eventually, phase):
    stream, sim, frames, _ = PHASES[phase]
    async with open_gateway(make_engine(dialect="vllm")) as gateway:
        assert await leave(gateway, eventually, stream, sim, frames) < 0.1
        assert gateway.engine.record.running == 0
        assert not gateway.engine.record.aborts
        assert await gateway.metric("disconnects_total", arm="vllm") == 1
        assert await gateway.metric("aborts_total") is None


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("phase", PHASES)
async def test_the_engine_is_let_go_at_once(gateway, eventually, phase):
    stream, sim, frames, counted = PHASES[phase]
    took = await leave(gateway, eventually, stream, sim, frames)
    assert took < 0.1
    record = gateway.engine.record
    await eventually(lambda: record.aborts)
    rid = record.calls[0].body["rid"]
    assert list(record.aborts) == [{"rid": rid}]
    assert record.cancellations[0].rid == rid
    assert record.running == 0
    assert await gateway.metric("inflight") == 0
    assert await gateway.metric("disconnects_total") == 1
    assert await gateway.metric("disconnects_total", phase=counted) == 1
    assert await gateway.metric("responses_total", code="200" if counted == "decode" else "499") == 1
    assert await gateway.metric("upstream_errors_total") is None
    assert await gateway.metric("aborts_total", result="ok") == 1


async def test_nothing_is_left_behind(gateway, eventually):
    """Twenty clients leave a long stream and one leaves a silent prefill; no task or descriptor stays."""
    steadily, silent = PHASES["decode, steadily"], PHASES["prefill, stream"]
    await leave(gateway, eventually, *steadily[:3])
    await eventually(lambda: len(gateway.engine.record.aborts) == 1)
    tasks, descriptors = len(asyncio.all_tasks()), open_descriptors()
    for _ in range(20):
        assert await leave(gateway, eventually, *steadily[:3]) < 0.5
    await leave(gateway, eventually, *silent[:3])
    await eventually(lambda: len(gateway.engine.record.aborts) == 22)
    # Idle connections to the engine end by themselves within a few seconds.
    await eventually(lambda: open_descriptors() <= descriptors and len(asyncio.all_tasks()) <= tasks, seconds=6)
    assert await gateway.metric("disconnects_total") == 22
    assert await gateway.metric("responses_total", code="500") is None
    assert await gateway.metric("inflight") == 0


async def test_leaving_during_the_upload(gateway, eventually):
    host, port = gateway.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    for _ in range(100):
        if await gateway.metric("disconnects_total", phase="upload") == 1:
            break
        await asyncio.sleep(0.01)
    assert await gateway.metric("disconnects_total", phase="upload") == 1
    assert await gateway.metric("responses_total", code="499") == 1
    assert not gateway.engine.record.calls


async def test_leaving_while_the_gateway_waits_for_a_slow_reader(gateway, eventually):
    """The gateway is blocked on the client's full socket, not on the engine."""
    host, port = gateway.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    body = {"model": "kimi", "stream": True, "messages": [{"role": "user", "content": "x"}], "max_tokens": 200}
    body["sim"] = {"pieces": ["x" * 2**20], "accepted": [0] * 200}
    raw = orjson.dumps(body)
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw)
    await writer.drain()
    writer.transport.pause_reading()
    await eventually(lambda: gateway.engine.record.running == 1)
    await asyncio.sleep(0.3)
    assert gateway.engine.record.running == 1
    writer.transport.abort()
    await eventually(lambda: gateway.engine.record.running == 0)
    assert await gateway.metric("disconnects_total", phase="decode") == 1


async def test_a_client_that_hangs_up_on_done_did_not_leave_early(gateway, eventually):
    """The engine keeps its connection open after [DONE], so the client's hanging up comes first."""
    engine = gateway.engine
    response = await gateway.post(sim={"accepted": [1], "fault": "stall", "fault_after": 100})
    await response.content.readuntil(b"[DONE]\n\n")
    response.close()
    await eventually(lambda: engine.record.cancellations)
    assert await gateway.metric("request_seconds_count", outcome="ok") == 1
    assert await gateway.metric("disconnects_total") is None
    assert await gateway.metric("inflight") == 0
    assert not engine.record.aborts


async def test_a_client_that_stays_is_not_counted(gateway):
    for stream in (True, False):
        async with gateway.post(stream) as response:
            await response.read()
    assert await gateway.metric("disconnects_total") is None
    assert not gateway.engine.record.aborts
    assert not gateway.engine.record.cancellations


async def test_an_abort_that_fails_is_counted(gateway, eventually):
    request = asyncio.create_task(gateway.post(sim={"header_delay_s": 60.0}).__aenter__())
    await eventually(lambda: gateway.engine.record.calls)
    gateway.engine.phase = "loading"
    request.cancel()
    await eventually(lambda: gateway.engine.record.cancellations)
    for _ in range(100):
        if await gateway.metric("aborts_total"):
            break
        await asyncio.sleep(0.01)
    assert await gateway.metric("aborts_total", result="failed") == 1


async def test_leaving_after_a_long_body(gateway, eventually):
    """uvicorn stops reading a socket that brought a long body, and a socket that isn't read doesn't tell of its end."""
    host, port = gateway.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    raw = orjson.dumps(
        {"model": "kimi", "messages": [{"role": "user", "content": "x" * 500_000}], "sim": {"header_delay_s": 60.0}}
    )
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw)
    await writer.drain()
    await eventually(lambda: gateway.engine.record.running == 1)
    writer.close()
    assert await eventually(lambda: gateway.engine.record.running == 0) < 0.2


async def test_another_server_tells_of_the_leave_by_a_message():
    messages = [{"type": "http.request"}, {"type": "http.disconnect"}]
    cut = []

    async def receive():
        await asyncio.sleep(0)
        return messages.pop(0)

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            cut.append(True)

    with pytest.raises(ClientGoneError):
        await unless_gone(work(), receive)
    assert cut == [True]
    assert asyncio.current_task().cancelling() == 0


async def test_work_that_ends_first_leaves_nothing_that_watches():
    before = asyncio.all_tasks()

    async def receive():
        await asyncio.Event().wait()

    await unless_gone(asyncio.sleep(0.01), receive)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
