"""The gateway's own document, and requests made from it: none may end in a 5xx that nobody meant."""

import asyncio
import importlib.util
import os
import threading

import jsonschema
import pytest

from k25serve.bench.engine_sim.app import SimEngine
from k25serve.bench.engine_sim.server import running
from k25serve.bench.engine_sim.settings import SimOptions, SimSettings
from k25serve.server.gateway.app import create_app
from k25serve.server.gateway.readiness import Readiness
from k25serve.server.gateway.run import serve
from k25serve.server.gateway.settings import GatewaySettings

EXAMPLES = 30


async def test_the_document_lists_what_is_served(gateway):
    document = await (await gateway.client.get("/openapi.json")).json()
    assert set(document["paths"]) >= {"/v1/chat/completions", "/v1/completions", "/v1/models", "/live", "/ready"}
    schema = document["paths"]["/v1/chat/completions"]["post"]
    request = schema["requestBody"]["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator.check_schema(request)
    jsonschema.validate({"model": "kimi", "messages": [{"role": "user", "content": "x"}], "extra": 1}, request)
    async with gateway.post(False) as response:
        answer = schema["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.validate(await response.json(), answer)
    async with gateway.post(False, model="none") as response:
        refusal = schema["responses"]["404"]["content"]["application/json"]["schema"]
        jsonschema.validate(await response.json(), refusal)


@pytest.fixture
def served():
    """A gateway before a simulated engine, in a thread of its own: schemathesis speaks plain HTTP."""
    ready, box = threading.Event(), {}

    async def run():
        box["stop"], loop = asyncio.Event(), asyncio.get_running_loop()
        box["loop"] = loop
        options = SimOptions(accepted=(1,))
        engine = SimEngine(SimSettings(prefill_s=0.0, step_s=0.0, options=options))
        readiness = Readiness()
        readiness.set_ready()
        async with running(engine) as url:
            settings = GatewaySettings(upstream=url, served_model_name="kimi", context_length=4096)
            port = loop.create_future()
            task = asyncio.create_task(
                serve(create_app(settings, readiness), "127.0.0.1", 0, port.set_result, drain_s=1)
            )
            box["url"] = f"http://127.0.0.1:{await port}"
            ready.set()
            await box["stop"].wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert ready.wait(20)
    yield box["url"]
    box["loop"].call_soon_threadsafe(box["stop"].set)
    thread.join(20)


def test_no_generated_request_ends_in_an_unexplained_5xx(served):
    if importlib.util.find_spec("schemathesis") is None:
        assert not os.environ.get("CI"), "schemathesis is missing: install the dev extra"
        pytest.skip("schemathesis is not installed: it comes with the dev extra")
    import schemathesis
    from hypothesis import HealthCheck, given, settings
    from schemathesis.generation import GenerationMode

    schema = schemathesis.openapi.from_url(f"{served}/openapi.json")
    seen = set()
    for operation in (result.ok() for result in schema.get_all_operations()):
        # Without a body or parameters there is nothing to get wrong.
        for mode in GenerationMode if operation.method == "post" else [GenerationMode.POSITIVE]:

            @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
            @given(operation.as_strategy(generation_mode=mode))
            def check(case):
                response = case.call(timeout=10)
                seen.add((case.operation.path, response.status_code))
                assert response.status_code < 500, (case.body, response.text)

            check()
    assert ("/v1/chat/completions", 200) in seen
    assert ("/v1/chat/completions", 400) in seen
