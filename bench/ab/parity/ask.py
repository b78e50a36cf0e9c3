"""Asks one arm the parity questions."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from k25serve.bench.ab.parity.sample import Checked, Greedy, ParitySample, Sampled, Unit
from k25serve.bench.load.answer import Answer, read_text, to_record
from k25serve.bench.load.client import Client, Reply
from k25serve.bench.load.prompts import Prompts, Request, Sampling
from k25serve.bench.load.record import Asked, Cell, RequestRecord
from k25serve.bench.load.run import own_load

LEVEL = 4
TOP = 2  # alternatives at each token: the gap between the best and the next
SAMPLED_TOKENS = 4  # the first comes from the prefill; only those after it from verify steps
STRUCTURED_TOKENS = 512
JSON_TASK = "Reply with one JSON object and nothing else: a recipe with the keys title, minutes and ingredients."
CELL = Cell(level=LEVEL, phase="natural")


@dataclass(frozen=True, slots=True)
class ParityPlan:
    """prompts: greedy ones, `tokens` long at most. sampled: prompts that are sampled, `samples` times each.

    structured: requests with tools, and as many that ask for JSON.
    """

    prompts: int = 24
    tokens: int = 64
    sampled: int = 4
    samples: int = 40
    structured: int = 6


async def ask_parity(client: Client, model: str, seed: int, plan: ParityPlan, classes: tuple[str, ...]) -> ParitySample:
    """One pass. Every pass of every arm asks the same bytes."""
    sampling = Sampling(model, plan.tokens, plan.tokens, 0.0, seed)
    greedy = Prompts().requests(CELL, plan.prompts, classes, sampling, "parity")
    with_logprobs = [_changed(request, logprobs=True, top_logprobs=TOP) for request in greedy]
    answers = await _ask(client, with_logprobs)
    if all(record.error for record, _ in answers):
        # Some engines refuse logprobs, while they speculate or at all.
        answers = await _ask(client, greedy)
    unit: Unit = "token" if all(answer.pieces for record, answer in answers if not record.error) else "character"
    sampled = [
        _changed(request, temperature=1.0, max_tokens=SAMPLED_TOKENS, seed=request.asked.seed + i)
        for request in greedy[: plan.sampled]
        for i in range(plan.samples)
    ]
    drawn = await _ask(client, sampled)
    checked, structured = await _structured(client, model, seed, plan)
    asked = [*answers, *drawn, *structured]
    errors = [record.error for record, _ in asked if record.error]
    return ParitySample(
        unit=unit,
        greedy=tuple(_greedy(record, answer, unit) for record, answer in answers if not record.error),
        sampled=_sampled(drawn),
        checked=checked,
        failures=len(errors),
        first_error=errors[0] if errors else "",
    )


async def _structured(
    client: Client, model: str, seed: int, plan: ParityPlan
) -> tuple[tuple[Checked, ...], list[tuple[RequestRecord, Answer]]]:
    sampling = Sampling(model, STRUCTURED_TOKENS, STRUCTURED_TOKENS, 0.0, seed)
    prompts = Prompts().requests(CELL, plan.structured, ("tools",), sampling, "structured")
    tools = await _ask(client, prompts)
    texts = await _ask(
        client,
        [
            _changed(
                request,
                tools=None,
                messages=[{"role": "user", "content": f"{i}. {JSON_TASK}"}],
                response_format={"type": "json_object"},
                chat_template_kwargs={"thinking": False},
            )
            for i, request in enumerate(prompts)
        ],
    )
    calling = [answer for _, answer in tools if answer.tool_calls]
    whole_calls = [answer for answer in calling if answer.finish_reason != "length"]
    whole_texts = [answer for record, answer in texts if not record.error and answer.finish_reason != "length"]
    return (
        Checked(
            what="tool_calls",
            asked=len(tools),
            complete=len(whole_calls),
            valid=sum(all(name and _is_object(text) for name, text in one.tool_calls) for one in whole_calls),
        ),
        Checked(
            what="json",
            asked=len(texts),
            complete=len(whole_texts),
            valid=sum(_is_object(answer.text) for answer in whole_texts),
        ),
    ), [*tools, *texts]


async def _ask(client: Client, requests: Sequence[Request]) -> list[tuple[RequestRecord, Answer]]:
    replies: list[Reply] = await own_load(client)(requests, LEVEL, lambda: None)
    return await asyncio.to_thread(
        lambda: [
            (to_record(reply, request.asked, CELL, 0.0), read_text(reply))
            for reply, request in zip(replies, requests, strict=True)
        ]
    )


def _changed(request: Request, **fields: Any) -> Request:
    body = {key: value for key, value in (orjson.loads(request.body) | fields).items() if value is not None}
    known = {key: value for key, value in fields.items() if key in Asked.model_fields}
    return Request(request.asked.model_copy(update=known), orjson.dumps(body))


def _greedy(record: RequestRecord, answer: Answer, unit: Unit) -> Greedy:
    by_token = unit == "token"
    pieces = answer.pieces if by_token else list(answer.reasoning + answer.text)
    gaps = [gap if gap < float("inf") else None for gap in answer.gaps] if by_token else []
    return Greedy(
        prompt_id=record.asked.prompt_id,
        pieces=tuple(pieces),
        gaps=tuple(gaps),
        prompt_tokens=record.tokens.prompt if record.tokens else None,
    )


def _sampled(drawn: Sequence[tuple[RequestRecord, Answer]]) -> tuple[Sampled, ...]:
    texts: dict[str, list[str]] = {}
    for record, answer in drawn:
        if not record.error:
            texts.setdefault(record.asked.prompt_id, []).append(answer.reasoning + answer.text)
    return tuple(Sampled(prompt_id=name, texts=tuple(found)) for name, found in texts.items())


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except json.JSONDecodeError:
        return False
