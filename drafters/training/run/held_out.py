"""Acceptance on held-out prompts: the data's own, through a running engine, greedily."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.gate.acceptance import Counts, read_counts

TIMEOUT_S = 1800.0
SHOWN = 200


@dataclass(frozen=True)
class HeldOutPrompt:
    """A conversation up to where the assistant begins."""

    id: str
    label: str
    input_ids: tuple[int, ...]


def read_prompts(data: Path, count: int) -> list[HeldOutPrompt]:
    """The first `count` rows of data/held_out that have a prompt before their first supervised token."""
    import datasets

    rows, found = datasets.load_from_disk(str(data / "held_out")), []
    for row in rows:
        mask = list(row["loss_mask"])
        begin = mask.index(1) if 1 in mask else 0
        if begin:
            found.append(HeldOutPrompt(str(row["id"]), str(row["label"]), tuple(row["input_ids"][:begin])))
        if len(found) == count:
            break
    if not found:
        raise TrainingError(f"{data / 'held_out'}: no row with a prompt; prepare more data, or leave the gate out")
    return found


def measure(url: str, prompts: Sequence[HeldOutPrompt], max_tokens: int) -> list[dict[str, Any]]:
    """One at a time: {id, label, tokens, steps, accepted} each. Raises TrainingError where the engine fails."""
    return asyncio.run(_measure(url, prompts, max_tokens))


async def _measure(url: str, prompts: Sequence[HeldOutPrompt], max_tokens: int) -> list[dict[str, Any]]:
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
        return [await _ask(session, url, prompt, max_tokens) for prompt in prompts]


async def _ask(session: aiohttp.ClientSession, url: str, prompt: HeldOutPrompt, max_tokens: int) -> dict[str, Any]:
    body = {
        "input_ids": list(prompt.input_ids),
        "sampling_params": {"temperature": 0, "max_new_tokens": max_tokens},
    }
    try:
        async with session.post(f"{url}/generate", json=body) as response:
            if response.status != 200:
                told = (await response.text())[:SHOWN]
                raise TrainingError(f"gate: held-out prompt {prompt.id} got {response.status} {told}; see the log")
            meta = (await response.json())["meta_info"]
    except (aiohttp.ClientError, TimeoutError) as error:
        raise TrainingError(f"gate: the engine does not answer ({error}); see its log, then start again") from None
    counts = read_counts({"choices": [{"meta_info": meta}]}) or Counts()
    return {
        "id": prompt.id,
        "label": prompt.label,
        "tokens": int(meta["completion_tokens"]),
        "steps": counts.steps,
        "accepted": counts.accepted,
    }
