"""Step `parity`: all ranks answer as one does, and what happens once is counted once."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from k25serve.bench.gpu.booted import Booted, ProofError, patches_in_place
from k25serve.bench.gpu.greedy import Answer, acceptance, answers, compared
from k25serve.bench.gpu.parity import AT_ONCE, MODEL
from k25serve.bench.gpu.prompts import text_prompts
from k25serve.bench.gpu.ranks.engines import serving
from k25serve.bench.gpu.ranks.setting import Setting
from k25serve.bench.gpu.scrape import Scrape, scrape
from k25serve.bench.gpu.through_gateway import held_out
from k25serve.bench.gpu.together import Starts, Together
from k25serve.drafters.tiny.held_out import held_out_prompts

GAP_AT_MOST = 1.0  # logits; one GPU parts from itself at up to 0.94, one by one against all at once (NOTES.md)
SETTLED_S = 15.0
ENGINE = "k25serve_engine_accepted_tokens_per_step"
CHATS, CHAT_TOKENS = 12, 48
CPU_LENGTH = 163


def run(setting: Setting) -> dict[str, Any]:
    """Greedy answers of one rank and of all, and the counts of all. Raises ProofError where they don't agree."""
    on_cpu, names = setting.on_cpu, {"tp1": 1, f"tp{setting.ranks}": setting.ranks}
    prompts, tokens = text_prompts(1), 32 if on_cpu else 128
    if on_cpu:
        # 64 heads in fp32 take minutes over the longer ones.
        prompts = [one for one in prompts if len(one) <= CPU_LENGTH]
    found: dict[str, list[Answer]] = {}
    data: dict[str, Any] = {"ready_s": {}, "ranks": setting.ranks, "heads_of_a_rank": setting.heads}
    # Two starts at once are for hosts with cores to spare.
    for group in [[name] for name in names] if on_cpu else [list(names)]:
        starts: dict[str, Starts] = {name: partial(_start, setting, f"parity-{name}", names[name]) for name in group}
        with Together(starts) as engines:
            for name in group:
                stack = engines.get(name)
                data["ready_s"][name] = round(stack.ready_s, 1)
                if names[name] == 1:
                    found["alone"] = asyncio.run(answers(stack.engine_url, prompts, tokens, at_once=1, gaps=True))
                found[name] = asyncio.run(answers(stack.engine_url, prompts, tokens, at_once=AT_ONCE))
                if names[name] > 1:
                    data["counts"] = _counts(stack, setting.ranks)
                engines.stop(name)
    many = f"tp{setting.ranks}"
    data["greedy"] = {
        "tp1, one by one / tp1, all at once": compared(found["alone"], found["tp1"]),
        f"tp1 / {many}": compared(found["alone"], found[many]),
    }
    data["acceptance"] = {name: acceptance(found[name]) for name in names}
    _judge(data["greedy"][f"tp1 / {many}"], on_cpu)
    return data


def _start(setting: Setting, name: str, ranks: int, given_up: Any) -> Any:
    return serving(setting, name, ranks, given_up=given_up)


def _judge(parity: dict[str, Any], exact: bool) -> None:
    if exact and parity["equal"] != parity["prompts"]:
        raise ProofError(f"greedy answers part in fp32: {parity['partings'][:3]}")
    if not parity["largest_gap"] <= GAP_AT_MOST:
        raise ProofError(f"greedy answers part where the two best tokens are {parity['largest_gap']:.2f} logits apart")


def _counts(stack: Booted, ranks: int) -> dict[str, Any]:
    """The engine's counts of a few chats against the gateway's. Raises ProofError where they differ."""
    told = [one["rank"]["tp"] for one in patches_in_place(stack)["processes"] if one["process"] == "scheduler"]
    before = _settled(stack)
    chats: Sequence[Any] = held_out_prompts()[:CHATS]
    through = asyncio.run(held_out(stack, MODEL, chats, CHAT_TOKENS))
    after = _settled(stack)
    engine = {
        "steps": after.total(f"{ENGINE}_count") - before.total(f"{ENGINE}_count"),
        "accepted": after.total(f"{ENGINE}_sum") - before.total(f"{ENGINE}_sum"),
        "requests": after.total("sglang:num_requests_total") - before.total("sglang:num_requests_total"),
        "completion_tokens": after.total("sglang:generation_tokens_total")
        - before.total("sglang:generation_tokens_total"),
    }
    if sorted(told) != list(range(ranks)):
        raise ProofError(f"patches are in place on ranks {sorted(told)}, {ranks} ranks were started")
    different = {name: (value, through[name]) for name, value in engine.items() if value != through[name]}
    if different:
        raise ProofError(f"counted differently by engine and gateway: {different}")
    return {"ranks_with_patches": sorted(told), "engine": engine, "gateway": through}


def _settled(stack: Booted) -> Scrape:
    """The engine's page once its count stands still: it writes what it counted once a second."""
    deadline = time.monotonic() + SETTLED_S
    now = scrape(stack.engine_url)
    while time.monotonic() < deadline:
        time.sleep(1.6)
        then, now = now, scrape(stack.engine_url)
        if then.total(f"{ENGINE}_count") == now.total(f"{ENGINE}_count"):
            return now
    raise ProofError(f"{stack.name}: still counting after {SETTLED_S:g} s without a request")


def markdown(data: dict[str, Any]) -> str:
    """Pairs, and the counts."""
    lines = ["| greedy: reference / compared | prompts | equal | largest gap |", "|---|---|---|---|"]
    for name, one in data["greedy"].items():
        lines.append(f"| {name} | {one['prompts']} | {one['equal']} | {one['largest_gap']:.4f} |")
    counts = data["counts"]
    lines.append(
        f"\nRanks with patches: {counts['ranks_with_patches']}; engine and gateway alike: "
        f"{counts['engine']['steps']:.0f} verify steps, {counts['engine']['accepted']:.0f} accepted, "
        f"{counts['engine']['completion_tokens']:.0f} tokens of {counts['engine']['requests']:.0f} requests."
    )
    return "\n".join(lines)
