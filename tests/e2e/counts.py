"""What the engine counted against what the gateway did, and what an engine says of its patches."""

import json
import re
from typing import Any

import aiohttp
from e2e.pages import ENGINE, GATEWAY, engine_log, gained, page, settled
from e2e.stack import Served

ANSWERS = 4
TOLD = "k25serve: patches in place: "


async def check_counts(served: Served) -> None:
    """A few answers, one at a time, so that a verify step of the engine is one of a request: each counted once.

    By our rows, by SGLang's own counters, and by the gateway. The engine has EAGLE-3 with three drafts.
    """
    engine, gateway = await settled(served), await page(served.gateway_url)
    prompt = completion = 0
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        for index in range(ANSWERS):
            stream = index % 2 == 0
            body = {
                "model": "kimi-k2.5-tiny",
                "messages": [{"role": "user", "content": f"What is the weather in Rome on day {index}?"}],
                "max_tokens": 48,
                "stream": stream,
                "return_spec_tokens_details": True,
                **({"stream_options": {"include_usage": True}} if stream else {}),
            }
            async with session.post(f"{served.gateway_url}/v1/chat/completions", json=body) as answer:
                text = await answer.text()
            prompt += int(re.findall(r'"prompt_tokens": ?(\d+)', text)[-1])
            completion += int(re.findall(r'"completion_tokens": ?(\d+)', text)[-1])
    gateway_now = await page(served.gateway_url)
    accepted = gained(gateway, gateway_now, f"{GATEWAY}_spec_accepted_tokens_total")
    steps = gained(gateway, gateway_now, f"{GATEWAY}_spec_steps_total")
    assert steps > accepted / 3 > 0

    now = await settled(served)
    expected = {
        f"{ENGINE}_accepted_tokens_per_step_count": steps,
        f"{ENGINE}_accepted_tokens_per_step_sum": accepted,
        "sglang:spec_verify_calls_total": steps,
        "sglang:num_requests_total": ANSWERS,
        "sglang:prompt_tokens_total": prompt,
        "sglang:generation_tokens_total": completion,
    }
    assert {name: gained(engine, now, name) for name in expected} == expected

    modes = {"extend": ANSWERS, "target_verify": steps, "draft": steps, "draft_extend": steps, "decode": 0}
    for mode, count in modes.items():
        seen = gained(engine, now, f'{ENGINE}_step_seconds_count{{mode="{mode}"}}')
        assert seen == count, mode
        seconds = gained(engine, now, f'{ENGINE}_step_seconds_sum{{mode="{mode}"}}')
        assert 0 < seconds / count < 10 if count else seconds == 0


def patches_told(served: Served) -> dict[str, Any]:
    """The one line of the engine's log that tells each process with its rows."""
    (line,) = [line for line in engine_log(served).splitlines() if line.startswith(TOLD)]
    return dict(json.loads(line.removeprefix(TOLD)))
