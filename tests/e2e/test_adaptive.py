"""The cost-aware policy on the real engine, with costs that are set: what it picks, what it brings, what comes out."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
import torch
from e2e import parity
from e2e.stack import Served, boot

from k25serve.drafters.tiny.held_out import held_out_prompts
from k25serve.drafters.tiny.load import load_tokenizer
from k25serve.patches.adaptive import StepCosts
from k25serve.patches.adaptive.costs import KEY

pytestmark = [pytest.mark.full, pytest.mark.engine]

ARMS = (0, 1, 3, 5)
# Batch sizes at which the policy is free, and at which one arm is all that it may choose.
FREE, PINNED = (1, 2, 4), {5: 1, 6: 3, 7: 5}
# Seconds by batch, as no machine has them: drafts nearly free, drafts at a price, drafts that can't pay.
COSTS = StepCosts(
    source="set by a test",
    batches=FREE,
    contexts=(0,),
    steps=ARMS,
    seconds=(((0.020, 0.0205, 0.021, 0.0215),), ((0.020, 0.0245, 0.045, 0.07),), ((0.020, 0.045, 0.08, 0.12),)),
    draft_extend_seconds=0.002,
    accept_chances=(0.5,) * 5,
)
# Of the packaged target.
MOE_LAYERS, EXPERTS, EXPERTS_PER_TOKEN = 4, 8, 2
NEW_TOKENS = 200


@dataclass(frozen=True)
class Step:
    """A decode step as the engine took it. accepted: of each request."""

    batch: int
    steps: int
    extend: bool
    probe: bool
    accepted: tuple[int, ...]

    @property
    def seconds(self) -> float:
        """By the table."""
        extension = COSTS.draft_extend_seconds if self.steps == 0 and self.extend else 0.0
        return COSTS.at(self.batch, 0)[self.steps] + extension

    @property
    def tokens(self) -> float:
        """Mean of a request."""
        return 1 + sum(self.accepted) / len(self.accepted)


def read_trace(path: Path) -> list[Step]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    decisions = [line for line in lines if "batch" in line]
    verified = [line for line in lines if "accepted" in line]
    pairs = list(zip(decisions, verified, strict=False))
    assert len(decisions) - len(pairs) <= 1
    assert [d["steps"] for d, _ in pairs] == [v["steps"] for _, v in pairs], "a step of another width than decided"
    return [Step(d["batch"], d["steps"], d["extend"], d["probe"], tuple(v["accepted"])) for d, v in pairs]


@pytest.fixture(scope="module")
def adaptive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    folder = tmp_path_factory.mktemp("adaptive")
    slots = {str(batch): {"candidate_steps": list(ARMS)} for batch in FREE}
    slots |= {str(batch): {"candidate_steps": [arm]} for batch, arm in PINNED.items()}
    costs, trace = folder / "costs.json", folder / "trace.jsonl"
    costs.write_bytes(orjson.dumps({**slots, KEY: COSTS.model_dump(mode="json")}))
    settings = (
        "engine.dtype=float32",
        f"speculation.adaptive={costs}",
        f"patches.adaptive_costs={{trace: {trace}}}",
        "patches.unique_experts={every_layer: 1, every_step: 1}",
    )
    options = [part for setting in settings for part in ("--set", setting)]
    with boot(folder, "serve", "-p", "cpu-tiny", *options) as served:
        yield served, trace


@dataclass(frozen=True)
class Answers:
    """Every held-out prompt, answered once. steps: those taken at the whole batch size, while it lasted."""

    outputs: list[list[int]]
    verifications: int
    steps: list[Step]

    @property
    def accept_length(self) -> float:
        """Tokens of a request's step; its first token comes from the prefill."""
        return sum(len(output) - 1 for output in self.outputs) / self.verifications


async def serve(url: str, batch: int, trace: Path) -> Answers:
    """Answer every held-out prompt, `batch` at once. Further requests keep the batch full until the last one."""
    tokenizer = load_tokenizer()
    prompts = [
        tokenizer.apply_chat_template(
            list(chat.prompt), tools=list(chat.tools) or None, add_generation_prompt=True, return_dict=False
        )
        for chat in held_out_prompts()
    ]
    before, waiting = len(read_trace(trace)), iter(range(len(prompts)))
    answers: dict[int, dict[str, Any]] = {}

    async with aiohttp.ClientSession(raise_for_status=True) as session:

        async def ask(index: int) -> dict[str, Any]:
            sampling = {"temperature": 0, "max_new_tokens": NEW_TOKENS, "ignore_eos": True}
            body = {"input_ids": prompts[index], "sampling_params": sampling}
            async with session.post(f"{url}/generate", json=body) as answer:
                return dict(await answer.json())

        async def client() -> None:
            for index in waiting:
                answers[index] = await ask(index)
            while len(answers) < len(prompts):
                await ask(0)

        await asyncio.gather(*(client() for _ in range(batch)))
    steps = [step for step in read_trace(trace)[before:] if step.batch == batch]
    in_order = [answers[index] for index in range(len(prompts))]
    verifications = sum(answer["meta_info"]["spec_verify_ct"] for answer in in_order)
    return Answers([answer["output_ids"] for answer in in_order], verifications, steps)


def told(name: str, facts: Any) -> None:
    print(json.dumps({name: facts}))


async def test_it_picks_the_best_arm_and_loses_no_more_than_3_percent(adaptive: tuple[Served, Path]) -> None:
    served, trace = adaptive
    answers = {batch: await serve(served.engine_url, batch, trace) for batch in (*PINNED, *FREE)}
    for batch, arm in PINNED.items():
        assert {step.steps for step in answers[batch].steps} == {arm}
        assert answers[batch].outputs == answers[FREE[0]].outputs, "greedy, so the arm must not matter"
    tokens = {0: 1.0} | {arm: answers[batch].accept_length for batch, arm in PINNED.items()}
    told("accept_length", {arm: round(value, 3) for arm, value in tokens.items()})
    picked = []
    for batch in FREE:
        here = answers[batch].steps
        fixed = {arm: tokens[arm] / COSTS.at(batch, 0)[arm] for arm in ARMS}
        best = max(fixed, key=lambda arm: fixed[arm])
        reached = sum(step.tokens for step in here) / sum(step.seconds for step in here)
        chosen = Counter(step.steps for step in here if not step.probe)
        facts = {
            "steps": len(here),
            "tokens_per_second_by_arm": {arm: round(value, 2) for arm, value in fixed.items()},
            "adaptive": round(reached, 2),
            "of_best": round(reached / fixed[best], 4),
            "chosen": dict(chosen),
            "probes": dict(Counter(step.steps for step in here if step.probe)),
        }
        told(f"batch {batch}", facts)
        assert answers[batch].outputs == answers[FREE[0]].outputs
        assert chosen.most_common(1)[0][0] == best
        assert reached >= 0.97 * fixed[best]
        picked.append(best)
    assert len(set(picked)) == len(picked), "the costs were set so that each batch size has another best arm"


async def test_output_is_the_targets_own_whatever_the_arm(adaptive: tuple[Served, Path]) -> None:
    served, trace = adaptive
    before = len(read_trace(trace))
    outputs, _ = await parity.engine_outputs(served.engine_url)
    assert outputs == parity.reference(torch.float32)
    for prompt, expected in zip(parity.prompts(), parity.reference(torch.float32), strict=True):
        async with aiohttp.ClientSession(raise_for_status=True) as session:
            sampling = {"temperature": 0, "max_new_tokens": parity.NEW_TOKENS, "ignore_eos": True}
            body = {"input_ids": prompt, "sampling_params": sampling}
            async with session.post(f"{served.engine_url}/generate", json=body) as answer:
                assert (await answer.json())["output_ids"] == expected
    arms = {step.steps for step in read_trace(trace)[before:]}
    assert len(arms) >= 3, f"too few arms took part: {arms}"


async def test_metrics_tell_the_arms_and_the_experts(adaptive: tuple[Served, Path]) -> None:
    served, trace = adaptive
    async with (
        aiohttp.ClientSession(raise_for_status=True) as session,
        session.get(f"{served.engine_url}/metrics") as answer,
    ):
        lines = (await answer.text()).splitlines()

    def total(name: str) -> float:
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{name}{{"))

    steps = len(read_trace(trace))
    assert total("k25serve_engine_draft_steps_count") == steps
    experts = [total(f"k25serve_engine_unique_experts_{part}") for part in ("sum", "count")]
    told("unique experts", {"mean": round(experts[0] / experts[1], 2), "counts": experts[1], "steps": steps})
    assert experts[1] == steps * MOE_LAYERS
    assert EXPERTS_PER_TOKEN < experts[0] / experts[1] < EXPERTS
