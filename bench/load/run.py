"""Runs cells on one engine. The load comes first, its reading afterwards: parsing would cost the client time."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from k25serve.bench.load.answer import to_record
from k25serve.bench.load.client import SHOWN, Client, Reply
from k25serve.bench.load.energy import energy
from k25serve.bench.load.prompts import Prompts, Request, Sampling, chat_body
from k25serve.bench.load.record import Asked, Cell, RequestRecord
from k25serve.server.errors import UserError

WARM_UP_TOKENS = 8
FILLER_WORDS = 400
POLL_S = 1.0
# Of what SGLang (/server_info) tells of itself; the rest is its whole argument list.
SERVER_KEYS = (
    "version",
    "kv_cache_dtype",
    "dtype",
    "quantization",
    "speculative_algorithm",
    "tp_size",
    "attention_backend",
)


@dataclass(frozen=True, slots=True)
class Ran:
    """A cell's records and what the machine showed meanwhile."""

    cell: Cell
    records: tuple[RequestRecord, ...]
    client_cpu_share: float
    joules: float | None


class Load(Protocol):
    """Sends requests at a concurrency, gives the replies in the requests' order."""

    async def __call__(self, requests: Sequence[Request], level: int, advance: Callable[[], None]) -> list[Reply]: ...


@dataclass(frozen=True, slots=True)
class Served:
    """What answers at an endpoint. dialect: `owned_by` of its model list, as engines sign it."""

    model: str
    facts: dict[str, str]


async def preflight(client: Client, model: str | None, option: str = "--url") -> Served:
    """Finds the model and asks it one thing. Raises UserError with the URL, what it said, and the remedy."""
    endpoint = client.endpoint
    listed = await client.get_json(endpoint.models)
    cards = listed.get("data") if isinstance(listed, dict) else None
    cards = [card for card in cards if isinstance(card, dict) and card.get("id")] if isinstance(cards, list) else []
    names = [str(card["id"]) for card in cards]
    if model is None and not names:
        raise UserError(
            f"{option} {endpoint.root}: {endpoint.models} lists no model; start the engine, or pass --model"
        )
    if model is not None and names and model not in names:
        raise UserError(f"--model {model}: {endpoint.root} does not serve it; pass {' or '.join(names)}")
    chosen = model or names[0]
    record = to_record(await client.ask(_probe(chosen, "Say hello.", 4)), _PROBE, Cell(level=1), 0.0)
    if record.error:
        raise UserError(f"{option} {endpoint.root}: POST {endpoint.chat} failed: {record.error}")
    if record.tokens is None or not record.tokens.completion:
        raise UserError(
            f"{option} {endpoint.root}: POST {endpoint.chat} gave no output tokens in its usage: "
            "nothing can be measured without; ask an engine that heeds stream_options.include_usage"
        )
    owner = next((str(card.get("owned_by", "")) for card in cards if card["id"] == chosen), "")
    return Served(chosen, {"owned_by": owner} | await _server_facts(client))


async def wait_until_served(client: Client, limit_s: float, option: str) -> None:
    """Asks until a token comes: an engine that was started loads its model first. Raises UserError after `limit_s`."""
    deadline = time.monotonic() + limit_s
    while True:
        listed = await client.get_json(client.endpoint.models)
        cards = listed.get("data") if isinstance(listed, dict) else None
        error = f"{client.endpoint.models} lists no model"
        if isinstance(cards, list) and cards and isinstance(cards[0], dict):
            reply = await client.ask(_probe(str(cards[0].get("id")), "Say hello.", 1))
            if not reply.error:
                return
            error = reply.error
        if time.monotonic() > deadline:
            raise UserError(f"{option} {client.endpoint.root}: not ready after {limit_s:g} s: {error}; see its log")
        await asyncio.sleep(POLL_S)


async def words_per_token(client: Client, model: str) -> float:
    """How many of the filler's words make one token, from the engine's own prompt counts."""
    filler = Prompts().filler(FILLER_WORDS, random.Random(0))
    counts = []
    for text in ("Say hello.", f"{filler} Say hello."):
        record = to_record(await client.ask(_probe(model, text, 1)), _PROBE, Cell(level=1), 0.0)
        if record.tokens is None or record.error:
            raise UserError(
                f"--context: {client.endpoint.chat} gave no prompt token count: {record.error or 'no usage'}"
            )
        counts.append(record.tokens.prompt)
    if counts[1] <= counts[0]:
        raise UserError(f"--context: {client.endpoint.chat} counts {counts[1]} prompt tokens for {FILLER_WORDS} words")
    return FILLER_WORDS / (counts[1] - counts[0])


def own_load(client: Client) -> Load:
    """The small client of this folder: a closed loop, `level` requests under way until none is left."""

    async def send(requests: Sequence[Request], level: int, advance: Callable[[], None]) -> list[Reply]:
        replies: list[Reply | None] = [None] * len(requests)
        waiting = iter(enumerate(requests))

        async def work() -> None:
            for i, request in waiting:
                replies[i] = await client.ask(request.body)
                advance()

        await asyncio.gather(*(work() for _ in range(min(level, len(requests)))))
        return [reply for reply in replies if reply is not None]

    return send


async def run_cell(
    load: Load,
    cell: Cell,
    requests: Sequence[Request],
    zero: float,
    advance: Callable[[], None],
    *,
    local: bool,
) -> Ran:
    """One cell. zero: the run's start on perf_counter."""
    cpu, clock = time.process_time(), time.perf_counter()
    with energy(local) as meter:
        replies = await load(requests, cell.level, advance)
    share = (time.process_time() - cpu) / (time.perf_counter() - clock)
    records = tuple(to_record(reply, one.asked, cell, zero) for reply, one in zip(replies, requests, strict=True))
    return Ran(cell, records, share, meter.joules)


def warm_up_requests(
    prompts: Prompts, cell: Cell, count: int, classes: tuple[str, ...], sampling: Sampling, salt: str
) -> list[Request]:
    """Short requests whose answers are thrown away: they compile and allocate what the cell needs."""
    short = Sampling(sampling.model, WARM_UP_TOKENS, WARM_UP_TOKENS, sampling.temperature, sampling.seed)
    return prompts.requests(cell, count, classes, short, f"{salt}/warm-up")


_PROBE = Asked(
    prompt_id="probe", prompt_class="probe", prompt_sha256="", max_tokens=4, ignore_eos=False, temperature=0, seed=0
)


def _probe(model: str, text: str, tokens: int) -> bytes:
    asked = _PROBE.model_copy(update={"max_tokens": tokens})
    return orjson.dumps(chat_body(model, asked) | {"messages": [{"role": "user", "content": text}]})


async def _server_facts(client: Client) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in ("/server_info", "/version"):
        document: Any = await client.get_json(client.endpoint.root + path)
        if isinstance(document, dict):
            found |= {key: str(document[key])[:SHOWN] for key in SERVER_KEYS if document.get(key) is not None}
    return found
