import asyncio

import aiohttp

from k25serve.server.gateway.app import create_app
from k25serve.server.gateway.drain import Drain
from k25serve.server.gateway.run import serve
from k25serve.server.gateway.settings import GatewaySettings


async def test_readiness_goes_first_then_the_socket_then_the_process(gateway, eventually):
    port, drain = asyncio.get_running_loop().create_future(), Drain()
    settings = GatewaySettings(upstream=gateway.engine_url, served_model_name="kimi")
    app = create_app(settings, gateway.readiness, drain=drain)
    task = asyncio.create_task(serve(app, "127.0.0.1", 0, port.set_result, drain=drain, drain_s=3, notice_s=0.3))
    url = f"http://127.0.0.1:{await port}"
    body = {"model": "kimi", "stream": True, "messages": [{"role": "user", "content": "x"}]}
    body["sim"] = {"accepted": [0] * 8, "step_s": 0.1}
    async with (
        aiohttp.ClientSession(base_url=url) as client,
        client.post("/v1/chat/completions", json=body) as response,
    ):
        await response.content.readany()
        task.cancel()
        await eventually(lambda: drain.active)
        async with client.get("/ready") as ready:
            assert ready.status == 503
            assert "stopping" in (await ready.json())["reason"]
        async with client.get("/live") as live:
            assert live.status == 200
        late = {**body, "stream": False, "sim": {}}
        async with client.post("/v1/chat/completions", json=late) as served:
            assert served.status == 200
        assert (await response.read()).endswith(b"data: [DONE]\n\n")
    async with asyncio.timeout(3):
        await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert gateway.engine.record.running == 0


async def test_a_second_word_ends_it_at_once(gateway):
    port, drain = asyncio.get_running_loop().create_future(), Drain()
    app = create_app(GatewaySettings(upstream=gateway.engine_url, served_model_name="kimi"), gateway.readiness)
    task = asyncio.create_task(serve(app, "127.0.0.1", 0, port.set_result, drain=drain, drain_s=30, notice_s=30))
    await port
    task.cancel()
    await asyncio.sleep(0.05)
    task.cancel()
    async with asyncio.timeout(2):
        await asyncio.gather(task, return_exceptions=True)
