"""Greedy output of a running engine against transformers on the same weights."""

import asyncio
import functools
import inspect
import json
import random
from dataclasses import dataclass
from typing import Any

import aiohttp
import torch

from k25serve.drafters.tiny.load import load_text_model, load_tokenizer

NEW_TOKENS = 64
LENGTHS = (1, 7, 40, 163, 350, 700)
SHARED_PREFIX = 30


@dataclass(frozen=True)
class Divergence:
    """Where two greedy outputs first differ, and how close the reference's two best tokens were there."""

    prompt: int
    position: int
    top2_gap: float  # logits, of the reference


@functools.cache
def prompts() -> list[list[int]]:
    """Token ids: text of the lengths above, the second to last sharing a prefix with the last one."""
    tokenizer = load_tokenizer()
    text = tokenizer.encode(
        inspect.getsource(json.decoder) + inspect.getsource(random), add_special_tokens=False, verbose=False
    )
    pieces = []
    for index, length in enumerate(LENGTHS):
        start = 900 * index
        pieces.append(text[start : start + length])
    pieces[-2][:SHARED_PREFIX] = pieces[-1][:SHARED_PREFIX]
    return pieces


@functools.cache
def reference(dtype: torch.dtype) -> list[list[int]]:
    """Greedy continuations of `prompts()`, one at a time, by transformers' DeepseekV3ForCausalLM."""
    torch.set_num_threads(1)  # threads of a model this small wait for each other, more so beside an engine
    model = load_text_model(dtype)
    outputs = []
    for prompt in prompts():
        ids = torch.tensor([prompt])
        grown = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS, do_sample=False, eos_token_id=None
        )
        outputs.append(grown[0, len(prompt) :].tolist())
    return outputs


async def engine_outputs(engine_url: str) -> tuple[list[list[int]], list[dict[str, Any]]]:
    """The engine's greedy continuations, all requested at once, and each request's meta_info."""
    async with aiohttp.ClientSession(raise_for_status=True) as session:

        async def one(prompt: list[int]) -> dict[str, Any]:
            sampling = {"temperature": 0, "max_new_tokens": NEW_TOKENS, "ignore_eos": True}
            body = {"input_ids": prompt, "sampling_params": sampling}
            async with session.post(f"{engine_url}/generate", json=body) as answer:
                return dict(await answer.json())

        answers = await asyncio.gather(*(one(prompt) for prompt in prompts()))
    return [answer["output_ids"] for answer in answers], [answer["meta_info"] for answer in answers]


def divergences(outputs: list[list[int]], dtype: torch.dtype) -> list[Divergence]:
    """Where `outputs` first leave the reference, with the reference's gap between its two best logits."""
    model = load_text_model(dtype)
    found = []
    for index, (got, expected) in enumerate(zip(outputs, reference(dtype), strict=True)):
        assert len(got) == NEW_TOKENS
        position = next((i for i in range(NEW_TOKENS) if got[i] != expected[i]), None)
        if position is None:
            continue
        with torch.no_grad():
            logits = model(torch.tensor([prompts()[index] + expected[:position]])).logits[0, -1].float()
        best = logits.topk(2).values
        found.append(Divergence(index, position, float(best[0] - best[1])))
    return found
