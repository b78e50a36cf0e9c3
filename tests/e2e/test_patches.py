"""Patches on the real engine: in place where they belong, and their numbers are the gateway's."""

import json

import aiohttp
import pytest
from e2e.pages import ENGINE, GATEWAY, engine_log, gained, page, settled
from e2e.stack import Served

pytestmark = pytest.mark.engine
ANSWERS = 4


async def test_numbers_of_the_engine_are_those_of_the_gateway(eagle: Served) -> None:
    """One request at a time, so a verify step of the engine is one of a request."""
    engine, gateway = await settled(eagle), await page(eagle.gateway_url)
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        for index in range(ANSWERS):
            body = {
                "model": "kimi-k2.5-tiny",
                "messages": [{"role": "user", "content": f"What is the weather in Rome on day {index}?"}],
                "max_tokens": 48,
                "stream": index % 2 == 0,
                "return_spec_tokens_details": True,
            }
            async with session.post(f"{eagle.gateway_url}/v1/chat/completions", json=body) as answer:
                await answer.read()
    gateway_now = await page(eagle.gateway_url)
    accepted = gained(gateway, gateway_now, f"{GATEWAY}_spec_accepted_tokens_total")
    steps = gained(gateway, gateway_now, f"{GATEWAY}_spec_steps_total")
    assert steps > accepted / 3 > 0

    now = await settled(eagle)
    assert gained(engine, now, f"{ENGINE}_accepted_tokens_per_step_count") == steps
    assert gained(engine, now, f"{ENGINE}_accepted_tokens_per_step_sum") == accepted

    modes = {"extend": ANSWERS, "target_verify": steps, "draft": steps, "draft_extend": steps, "decode": 0}
    for mode, count in modes.items():
        seen = gained(engine, now, f'{ENGINE}_step_seconds_count{{mode="{mode}"}}')
        assert seen == count, mode
        seconds = gained(engine, now, f'{ENGINE}_step_seconds_sum{{mode="{mode}"}}')
        assert 0 < seconds / count < 10 if count else seconds == 0


def test_every_process_reported_its_rows(eagle: Served) -> None:
    lines = engine_log(eagle).splitlines()
    (line,) = [line for line in lines if line.startswith("k25serve: patches in place: ")]
    told = json.loads(line.partition(": patches in place: ")[2])
    assert (told["sglang"], told["device"]) == ("0.5.23", "cpu")
    rows = {one["process"]: one["rows"] for one in told["processes"]}
    assert set(rows) == {"main", "scheduler"}
    assert set(rows["main"]) == {"self_check"}
    assert {"step_seconds", "accepted_tokens", "self_check"} <= set(rows["scheduler"])
    assert "mla_verify" not in rows["scheduler"], "there is no GPU"
    assert rows["scheduler"]["step_seconds"]["facts"] == {"timer": "WallTimer"}
