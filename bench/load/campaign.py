"""A whole load run: preflight, every cell of the plan, findings, data for the result file."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import orjson

from k25serve.bench.load.client import Client
from k25serve.bench.load.endpoint import Endpoint
from k25serve.bench.load.plan import LoadPlan
from k25serve.bench.load.prompts import Prompts, Sampling
from k25serve.bench.load.record import MIXED, RequestRecord
from k25serve.bench.load.result import CellSummary, Clock, Finding, LoadData
from k25serve.bench.load.run import Load, Ran, own_load, preflight, run_cell, warm_up_requests, words_per_token
from k25serve.bench.load.summary import duration, summarise
from k25serve.bench.load.validity import check_cell, check_client, check_clock, is_valid

# Called once for each answer.
Advance = Callable[[], None]
MakeLoad = Callable[[str], Load]


@dataclass(frozen=True, slots=True)
class Settings:
    """A load run on one endpoint. Another salt asks other texts. aiperf: makes a load for a model; None: our own."""

    endpoint: Endpoint
    plan: LoadPlan
    model: str | None = None
    tokens: int = 256
    natural_tokens: int = 1024
    temperature: float = 0.0
    seed: int = 0
    salt: str = "load"
    timeout_s: float = 600.0
    key_env: str | None = None
    price_per_hour: float | None = None
    aiperf: MakeLoad | None = None


async def load(settings: Settings, advance: Advance) -> tuple[LoadData, list[RequestRecord]]:
    """Run it. Raises UserError where the preflight fails; whatever fails later is a finding."""
    plan, prompts = settings.plan, Prompts()
    prompts.check(plan.classes)
    async with Client(settings.endpoint, settings.timeout_s, settings.key_env) as client:
        served = await preflight(client, settings.model)
        if any(plan.contexts):
            prompts = Prompts(await words_per_token(client, served.model))
        sampling = Sampling(served.model, settings.tokens, settings.natural_tokens, settings.temperature, settings.seed)
        sender = own_load(client) if settings.aiperf is None else settings.aiperf(served.model)
        zero, wall = time.perf_counter(), time.time()
        ran: list[Ran] = []
        body: dict[str, object] = {}
        for cell in plan.cells():
            requests = prompts.requests(cell, plan.count(cell), plan.classes, sampling, settings.salt)
            body = body or {k: v for k, v in orjson.loads(requests[0].body).items() if k not in ("messages", "tools")}
            warm = warm_up_requests(prompts, cell, cell.level, plan.classes, sampling, settings.salt)
            await own_load(client)(warm, cell.level, _nothing)
            ran.append(await run_cell(sender, cell, requests, zero, advance, local=settings.endpoint.is_local))
        clock = Clock(monotonic_s=time.perf_counter() - zero, wall_s=time.time() - wall)
    findings = [*check_clock(clock, "the whole run")]
    for one in ran:
        findings += [*check_cell(one.cell, one.records), *check_client(one.cell, one.client_cpu_share)]
    data = LoadData(
        endpoint=settings.endpoint.chat,
        model=served.model,
        runner="own" if settings.aiperf is None else "aiperf",
        server=served.facts,
        body=body,
        seed=settings.seed,
        cells=tuple(_summary(one, settings.price_per_hour) for one in ran),
        classes=tuple(by_class(ran)),
        findings=tuple(_unique(findings)),
        valid=is_valid(findings),
        clock=clock,
    )
    return data, [record for one in ran for record in one.records]


def _summary(ran: Ran, price: float | None) -> CellSummary:
    return summarise(
        ran.cell, ran.records, client_cpu_share=ran.client_cpu_share, joules=ran.joules, price_per_hour=price
    )


def by_class(ran: Sequence[Ran]) -> list[CellSummary]:
    """The mixed cells' records by the class of their prompt; tokens_per_s is the part of the cell's."""
    found = []
    for one in ran:
        if one.cell.prompt_class == MIXED:
            for name in sorted({record.asked.prompt_class for record in one.records}):
                part = [record for record in one.records if record.asked.prompt_class == name]
                found.append(
                    summarise(one.cell.model_copy(update={"prompt_class": name}), part, seconds=duration(one.records))
                )
    return found


def _unique(findings: list[Finding]) -> list[Finding]:
    return list(dict.fromkeys(findings))


def _nothing() -> None:
    """The warm-up is no progress."""
