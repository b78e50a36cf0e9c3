"""Stage `parity`: the packaged model, greedy, with and without EAGLE-3 and our verify kernel; the gateway in front."""

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from threading import Event
from typing import Any

from k25serve.bench.gpu.booted import Booted, ProofError, boot, patches_in_place
from k25serve.bench.gpu.greedy import Answer, acceptance, answers, compared
from k25serve.bench.gpu.prompts import text_prompts
from k25serve.bench.gpu.scrape import scrape
from k25serve.bench.gpu.start import STOCK_VERIFY, Start
from k25serve.bench.gpu.through_gateway import held_out, leave_midway
from k25serve.bench.gpu.together import Starts, Together
from k25serve.drafters.tiny.held_out import held_out_prompts

MODEL = "kimi-k2.5-tiny"
PREFIX = "parity: "  # of the names of its engines among those that start together
CHAT_TOKENS = 96
AT_ONCE = 16
READY_S = 400.0
WITHOUT_SPECULATION = (
    "speculation.algorithm=none",
    "speculation.drafter=null",
    "speculation.num_steps=null",
    "speculation.num_draft_tokens=null",
    "speculation.draft_attention_backend=null",
)


def arms(how: Start, profile: str) -> dict[str, Starts]:
    """The stacks that are compared: without speculation, with it, and on a GPU with SGLang's own verify kernel too."""
    overrides: dict[str, tuple[str, ...]] = {"none": WITHOUT_SPECULATION, "eagle3": ()}
    if not profile.startswith("cpu-"):
        overrides["eagle3-stock-verify"] = STOCK_VERIFY
    arguments = f"engine.extra_args=[{', '.join(how.engine_args)}]"

    def start(name: str, given_up: Event) -> AbstractContextManager[Booted]:
        sets = (*how.overrides, arguments, *overrides[name])
        return boot(f"tiny-{name}", profile, sets, how.folder, ready_s=READY_S, given_up=given_up)

    return {f"{PREFIX}{name}": partial(start, name) for name in overrides}


def run(engines: Together, profile: str) -> dict[str, Any]:
    """Ask every stack of `arms`, compare, stop them. One that fails is told under `failed`; what needs it is left out.

    `profile` has EAGLE-3 on the packaged model.
    """
    on_cpu = profile.startswith("cpu-")
    prompts, tokens = text_prompts(1 if on_cpu else 2), 32 if on_cpu else 128
    found: dict[str, list[Answer]] = {}
    data: dict[str, Any] = {"arms": {}, "failed": []}
    for name in ("none", "eagle3", *(() if on_cpu else ("eagle3-stock-verify",))):
        try:
            stack = engines.get(f"{PREFIX}{name}")
            _say(f"{stack.name}: ready after {stack.ready_s:.0f} s")
            data["arms"][name] = {"ready_s": round(stack.ready_s, 1), "patches": patches_in_place(stack)}
            if name == "none":
                found["alone"] = asyncio.run(answers(stack.engine_url, prompts, tokens, at_once=1, gaps=True))
            found[name] = asyncio.run(answers(stack.engine_url, prompts, tokens, at_once=AT_ONCE))
            _say(f"{stack.name}: {len(prompts)} greedy answers")
            if name != "none":
                data["arms"][name] |= _speculation(stack, found[name])
            engines.stop(f"{PREFIX}{name}")
        except (ProofError, OSError) as error:
            data["failed"].append(f"{name}: {error!r}")
            _say(f"{name}: failed: {error!r}")
    return data | {"greedy": _greedy(found)}


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def _speculation(stack: Booted, found: Sequence[Answer]) -> dict[str, Any]:
    through = asyncio.run(held_out(stack, MODEL, held_out_prompts(), CHAT_TOKENS))
    _say(f"{stack.name}: held-out chats through the gateway: {through}")
    free_after = [asyncio.run(leave_midway(stack, MODEL)) for _ in range(3)]
    _say(f"{stack.name}: engine free after {free_after} s")
    return {
        "acceptance_on_text": acceptance(found),
        "through_gateway": through,
        "engine_free_after_s": free_after,
        "metrics": {
            name: sorted(one for one in scrape(url).names if one.startswith("k25serve_"))
            for name, url in (("engine", stack.engine_url), ("gateway", stack.gateway_url))
        },
    }


def _greedy(found: dict[str, list[Answer]]) -> dict[str, Any]:
    """Every pair that both were run of. The first of a pair is the reference."""
    pairs = (
        ("none, one by one", "alone", "none, all at once", "none"),
        ("none", "alone", "eagle3", "eagle3"),
        ("none", "alone", "eagle3 with the engine's own verify kernel", "eagle3-stock-verify"),
        ("eagle3 with the engine's own verify kernel", "eagle3-stock-verify", "eagle3", "eagle3"),
    )
    return {
        f"{left} / {right}": compared(_with_gaps(found[a], found["alone"]), found[b])
        for left, a, right, b in pairs
        if {"alone", a, b} <= found.keys()
    }


def _with_gaps(found: Sequence[Answer], reference: Sequence[Answer]) -> list[Answer]:
    """`found` with the reference's gaps as far as both agree: beyond that they tell of another text."""
    result = []
    for one, known in zip(found, reference, strict=True):
        same = next((i for i, (a, b) in enumerate(zip(one.ids, known.ids, strict=True)) if a != b), len(one.ids) - 1)
        result.append(Answer(one.ids, known.gaps[: same + 1], one.verify_steps, one.accepted))
    return result


def markdown(data: dict[str, Any]) -> str:
    """The stage's report."""
    lines = ["| greedy: reference / compared | prompts | equal | largest gap at a parting |", "|---|---|---|---|"]
    for name, value in data["greedy"].items():
        lines.append(f"| {name} | {value['prompts']} | {value['equal']} | {value['largest_gap']:.4f} |")
    return "\n".join([*lines, "", "```json", json.dumps(data["arms"], indent=1), "```"])
