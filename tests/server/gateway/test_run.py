import asyncio
import signal
import socket
import sys
import time

import aiohttp
import pytest

from k25serve.server.gateway.app import create_app
from k25serve.server.gateway.run import ListenError, serve
from k25serve.server.gateway.settings import GatewaySettings

PROGRAM = """
import sys, time
from k25serve.server.main import main
from k25serve.server.serve import serve_gateway
heavy = {"torch", "sglang", "triton", "transformers", "numpy"} & sys.modules.keys()
assert not heavy, heavy
print(time.process_time(), flush=True)
ports = [f"--set=engine.port={sys.argv[1]}", f"--set=gateway.port={sys.argv[2]}"]
sys.argv = ["k25serve", "gateway", "--profile", "cpu-tiny-nospec", *ports]
main()
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


async def test_a_taken_port_is_told(gateway):
    port = int(gateway.url.rsplit(":", 1)[1])
    app = create_app(GatewaySettings(upstream=gateway.engine_url, served_model_name="kimi"))
    with pytest.raises(ListenError, match=rf"127\.0\.0\.1 port {port}: Address already in use.*choose another port"):
        await serve(app, "127.0.0.1", port)


async def test_running_requests_finish_and_new_ones_are_refused(gateway):
    """Cancelling serve() lets a stream end whole."""
    port = asyncio.get_running_loop().create_future()
    app = create_app(GatewaySettings(upstream=gateway.engine_url, served_model_name="kimi"), gateway.readiness)
    task = asyncio.create_task(serve(app, "127.0.0.1", 0, port.set_result))
    url = f"http://127.0.0.1:{await port}/v1/chat/completions"
    body = {"model": "kimi", "stream": True, "messages": [{"role": "user", "content": "x"}]}
    body["sim"] = {"accepted": [0] * 5, "step_s": 0.1}
    async with aiohttp.ClientSession() as client:
        async with client.post(url, json=body) as response:
            await response.content.readany()
            task.cancel()
            await asyncio.sleep(0.25)
            with pytest.raises(aiohttp.ClientConnectorError):
                await client.post(url, json=body)
            assert (await response.read()).endswith(b"data: [DONE]\n\n")
        async with asyncio.timeout(3):
            await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()


@pytest.mark.parametrize("started", [False, True])
async def test_requests_that_outlast_the_drain_are_told_and_aborted(gateway, eventually, caplog, started):
    port = asyncio.get_running_loop().create_future()
    app = create_app(GatewaySettings(upstream=gateway.engine_url, served_model_name="kimi"), gateway.readiness)
    task = asyncio.create_task(serve(app, "127.0.0.1", 0, port.set_result, drain_s=1))
    url = f"http://127.0.0.1:{await port}/v1/chat/completions"
    sim = {"fault": "stall", "fault_after": 2} if started else {"header_delay_s": 60}
    body = {"model": "kimi", "stream": True, "messages": [{"role": "user", "content": "x"}], "sim": sim}
    record = gateway.engine.record
    async with aiohttp.ClientSession() as client:
        request = asyncio.create_task(client.post(url, json=body))
        await eventually(lambda: record.calls)
        if started:
            await (await request).content.readany()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        response = await request
        assert response.status == (200 if started else 503)
        assert b'"code":"gateway_stopping"' in await response.read()
    await eventually(lambda: record.cancellations)
    assert list(record.aborts) == [{"rid": record.calls[0].body["rid"]}]
    assert "Exception in ASGI" not in caplog.text


async def test_a_process_of_its_own_starts_light_and_stops_cleanly(gateway):
    port = free_port()
    started = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, gateway.engine_url.rpartition(":")[2], str(port)),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        imports_s = float(await process.stdout.readline())
        async with aiohttp.ClientSession(base_url=f"http://127.0.0.1:{port}") as client:
            while True:
                try:
                    async with client.get("/live") as response:
                        assert response.status == 200
                        break
                except aiohttp.ClientConnectorError:
                    assert time.monotonic() - started < 30
                    await asyncio.sleep(0.01)
            live_s = time.monotonic() - started
            async with client.get("/ready") as response:
                assert response.status in (200, 503)
    finally:
        process.send_signal(signal.SIGTERM)
        code = await process.wait()
    assert code == 0
    # Processor time, since the machine may be busy with other tests; alone, all of it takes half a second.
    assert imports_s < 1
    assert live_s < 30
