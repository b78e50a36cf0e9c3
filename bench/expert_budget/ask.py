"""Greedy answers of an engine, as token ids."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from k25serve.drafters.gate.prompts import PromptSet
from k25serve.server.errors import UserError


@dataclass(frozen=True, slots=True)
class Answer:
    """accepted, steps: of speculation; 0 where the engine doesn't tell."""

    tokens: tuple[int, ...]
    accepted: int
    steps: int


async def ask(url: str, prompts: PromptSet, count: int, tokens: int, concurrency: int) -> list[Answer]:
    """Answers to the first `count` prompts, `tokens` long whatever the model would do, `concurrency` at once.

    Raises UserError where the engine refuses, or does not tell token ids.
    """
    gate = asyncio.Semaphore(concurrency)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
    async with aiohttp.ClientSession(timeout=timeout) as session:

        async def one(body: dict[str, Any]) -> Answer:
            async with gate, session.post(f"{url}/v1/chat/completions", json=body) as response:
                if response.status != 200:
                    raise UserError(f"{url}: HTTP {response.status}: {(await response.text())[:300]}")
                return _answer(url, await response.json())

        return await asyncio.gather(*(one(body) for body in _bodies(prompts, count, tokens)))


def _bodies(prompts: PromptSet, count: int, tokens: int) -> Sequence[dict[str, Any]]:
    return [
        {
            "model": "any",
            "messages": [{"role": "user", "content": prompt.user}],
            "chat_template_kwargs": {"thinking": prompt.thinking},
            "temperature": 0,
            "max_tokens": tokens,
            "ignore_eos": True,
            "return_token_ids": True,
            "return_spec_tokens_details": True,
        }
        | ({"tools": prompts.functions(prompt)} if prompt.tools else {})
        for prompt in prompts.prompts[:count]
    ]


def _answer(url: str, content: dict[str, Any]) -> Answer:
    ids = content["choices"][0].get("response_token_ids")
    if not ids:
        raise UserError(f"{url}: the answer has no response_token_ids; SGLang 0.5.23 gives them")
    details = (content.get("sglext") or {}).get("spec_tokens_details") or {}
    return Answer(tuple(ids), details.get("spec_num_correct_drafts", 0), details.get("spec_verify_ct", 0))
