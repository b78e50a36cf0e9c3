"""One chat completion, with patience: what may pass is tried again, later and later."""

import asyncio
import random
from typing import Any

import aiohttp
import orjson

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.data import checked
from k25serve.drafters.training.data.answers import Answer
from k25serve.drafters.training.data.bad_row import BadRow
from k25serve.drafters.training.data.openai import REASONING_KEYS
from k25serve.drafters.training.settings import shown

TRIED_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
LONGEST_WAIT_S = 60.0


class NoAnswer(TrainingError):
    """The engine gave none, whatever was tried."""


async def ask(
    session: aiohttp.ClientSession, url: str, body: dict[str, Any], retries: int, first_wait_s: float
) -> Answer:
    """Raises NoAnswer with the last failure, at once where trying again is no use."""
    for trial in range(retries + 1):
        try:
            async with session.post(f"{url}/v1/chat/completions", json=body) as response:
                raw = await response.read()
                if response.status == 200:
                    return _answer(raw)
                failure = f"{response.status} {shown(raw.decode(errors='replace'))}"
                waited = response.headers.get("Retry-After", "")
            if response.status not in TRIED_AGAIN:
                break
        except (aiohttp.ClientError, TimeoutError) as error:
            failure, waited = f"{type(error).__name__} {error}".strip(), ""
        if trial < retries:
            wait_s = min(LONGEST_WAIT_S, first_wait_s * 2**trial)
            # Jitter: many requests fail together, and should not come back together.
            await asyncio.sleep(float(waited) if waited.isdigit() else wait_s * random.uniform(0.5, 1.5))
    raise NoAnswer(failure)


def _answer(raw: bytes) -> Answer:
    """Content, reasoning and calls of the first choice."""
    try:
        choice = orjson.loads(raw)["choices"][0]
        given = choice["message"]
        message: dict[str, Any] = {"role": "assistant", "content": checked.text(given.get("content"), "content")}
        reasoning = next((given[key] for key in REASONING_KEYS if given.get(key)), None)
        if reasoning:
            message["reasoning_content"] = checked.text(reasoning, "reasoning_content")
        if given.get("tool_calls"):
            message["tool_calls"] = checked.tool_calls(given["tool_calls"], "tool_calls")
    except (AttributeError, BadRow, IndexError, KeyError, TypeError, ValueError) as error:
        raise NoAnswer(f"no chat completion ({error!r})") from None
    return Answer(message, choice.get("finish_reason") == "length")
