"""Greedy output of an engine, and where two of them part."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import aiohttp

from k25serve.bench.gpu.booted import ProofError

ANSWER_S = 120.0  # kernels compile at their first use


@dataclass(frozen=True)
class Answer:
    """One greedy continuation. `gaps`: logit gap of the two best tokens at each position, where it was asked for."""

    ids: tuple[int, ...]
    gaps: tuple[float, ...]
    verify_steps: int
    accepted: int


@dataclass(frozen=True)
class Parting:
    """Where two greedy outputs first differ. `gap`: between the reference's two best tokens there, in logits."""

    prompt: int
    position: int
    gap: float


async def answers(
    url: str, prompts: Sequence[Sequence[int]], tokens: int, *, at_once: int, gaps: bool = False
) -> list[Answer]:
    """Greedy continuations of `tokens` tokens each, `at_once` requests at a time, by the engine's own endpoint."""
    gate = asyncio.Semaphore(at_once)
    timeout = aiohttp.ClientTimeout(total=ANSWER_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:

        async def one(prompt: Sequence[int]) -> Answer:
            body: dict[str, Any] = {
                "input_ids": list(prompt),
                "sampling_params": {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True},
            }
            if gaps:
                body |= {"return_logprob": True, "top_logprobs_num": 2}
            async with gate, session.post(f"{url}/generate", json=body) as response:
                if response.status != 200:
                    raise ProofError(f"{url}/generate answered {response.status}: {(await response.text())[:300]}")
                return _answer(await response.json(), tokens)

        return list(await asyncio.gather(*(one(prompt) for prompt in prompts)))


def _answer(found: dict[str, Any], tokens: int) -> Answer:
    meta, ids = found["meta_info"], tuple(found["output_ids"])
    if len(ids) != tokens:
        raise ProofError(f"the engine made {len(ids)} tokens, {tokens} were asked for")
    top = meta.get("output_top_logprobs") or []
    # Differences of log probabilities are differences of logits.
    gaps = tuple(first[0] - second[0] for first, second, *_ in top)
    accepted = meta.get("spec_num_correct_drafts", meta.get("spec_accepted_drafts", 0))
    return Answer(ids, gaps, int(meta.get("spec_verify_ct", 0)), int(accepted or 0))


def partings(reference: Sequence[Answer], other: Sequence[Answer]) -> list[Parting]:
    """Where `other` first leaves `reference`, prompt by prompt. The gap is NaN where the reference has none."""
    found = []
    for index, (left, right) in enumerate(zip(reference, other, strict=True)):
        at = next((i for i, (a, b) in enumerate(zip(left.ids, right.ids, strict=True)) if a != b), None)
        if at is not None:
            found.append(Parting(index, at, left.gaps[at] if at < len(left.gaps) else math.nan))
    return found


def compared(reference: Sequence[Answer], other: Sequence[Answer]) -> dict[str, Any]:
    """As plain values: prompts, how many part, and each parting with the reference's gap there."""
    found = partings(reference, other)
    return {
        "prompts": len(reference),
        "tokens_each": len(reference[0].ids),
        "equal": len(reference) - len(found),
        "largest_gap": max((one.gap for one in found), default=0.0),
        "partings": [asdict(one) for one in found],
    }


def acceptance(found: Sequence[Answer]) -> dict[str, float]:
    """Verify steps, accepted draft tokens and accept_length = 1 + accepted / steps over all answers."""
    steps, accepted = sum(one.verify_steps for one in found), sum(one.accepted for one in found)
    return {"steps": steps, "accepted": accepted, "accept_length": 1 + accepted / steps if steps else 1.0}
