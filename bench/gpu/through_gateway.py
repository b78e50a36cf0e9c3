"""A client's view through the gateway: the openai client streams, counts, and leaves in the middle."""

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from k25serve.bench.gpu.booted import Booted, ProofError
from k25serve.bench.gpu.scrape import scrape
from k25serve.drafters.tiny.chat import Chat

if TYPE_CHECKING:
    from openai import AsyncOpenAI

RUNNING = "sglang:num_running_reqs"
GAUGE_WITHIN_S = 20.0
CLIENT: dict[str, Any] = {"max_retries": 0, "timeout": 60.0}
STEPS, ACCEPTED = "k25serve_gateway_spec_steps_total", "k25serve_gateway_spec_accepted_tokens_total"


async def held_out(stack: Booted, model: str, chats: Sequence[Chat], tokens: int) -> dict[str, Any]:
    """Ask every chat, streamed and greedy; acceptance as the gateway's counters tell it.

    Raises ProofError where an answer is empty or has no usage.
    """
    from openai import AsyncOpenAI, OpenAIError

    before = scrape(stack.gateway_url)
    started = time.monotonic()
    try:
        async with AsyncOpenAI(base_url=f"{stack.gateway_url}/v1", api_key="none", **CLIENT) as client:
            counts = [await _ask(client, model, chat, tokens) for chat in chats]
    except OpenAIError as error:
        raise ProofError(f"{stack.name}: through the gateway: {error!r}") from error
    after = scrape(stack.gateway_url)
    steps = after.total(STEPS) - before.total(STEPS)
    accepted = after.total(ACCEPTED) - before.total(ACCEPTED)
    return {
        "requests": len(counts),
        "completion_tokens": sum(counts),
        "seconds": time.monotonic() - started,
        "steps": steps,
        "accepted": accepted,
        "accept_length": 1 + accepted / steps if steps else None,
    }


async def _ask(client: "AsyncOpenAI", model: str, chat: Chat, tokens: int) -> int:
    messages: Any = list(chat.prompt)  # plain dicts, as clients send them
    stream = await client.chat.completions.create(
        model=model,
        messages=messages,
        stream=True,
        stream_options={"include_usage": True},
        temperature=0,
        max_tokens=tokens,
        extra_body={"chat_template_kwargs": {"thinking": chat.thinking}},
    )
    usage = None
    async for chunk in stream:
        usage = chunk.usage or usage
    if usage is None or usage.completion_tokens == 0:
        raise ProofError(f"a streamed answer to {chat.prompt[-1]} had no token or no usage: {usage}")
    return int(usage.completion_tokens)


async def leave_midway(stack: Booted, model: str) -> float:
    """Leave a long answer after its first chunk; seconds until the engine runs nothing, by its own gauge.

    Raises ProofError where it still runs after GAUGE_WITHIN_S.
    """
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=f"{stack.gateway_url}/v1", api_key="none", **CLIENT) as client:
        stream = await client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": "Count."}],
            stream=True,
            max_tokens=3500,
            extra_body={"ignore_eos": True},
        )
        await anext(aiter(stream))
        await _until_running(stack, 1)
        await stream.close()
    return await _until_running(stack, 0)


async def _until_running(stack: Booted, expected: int) -> float:
    """Seconds until the gauge is `expected`; the engine sets it every few steps only."""
    started = time.monotonic()
    while (now := scrape(stack.engine_url).total(RUNNING)) != expected:
        if time.monotonic() - started > GAUGE_WITHIN_S:
            raise ProofError(f"{RUNNING} is {now}, not {expected}, after {GAUGE_WITHIN_S} s")
        await asyncio.sleep(0.02)
    return time.monotonic() - started
