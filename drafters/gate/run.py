"""The acceptance gate: the packaged prompts through a running engine, class by class."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import aiohttp

from k25serve.drafters.checkpoint.errors import GateError
from k25serve.drafters.gate.acceptance import Counts, add_up
from k25serve.drafters.gate.client import Asked, Engine
from k25serve.drafters.gate.counters import between, read_counters
from k25serve.drafters.gate.prompts import Prompt, PromptSet, load_prompts, prompts_sha256
from k25serve.drafters.gate.result import GateResult
from k25serve.drafters.gate.verdict import GateSettings, Measured, judge

WARM_UP_TOKENS = 16


async def run_gate(
    url: str, settings: GateSettings | None = None, model: str | None = None, prompts: PromptSet | None = None
) -> GateResult:
    """Ask every prompt, greedily, and judge what was accepted. Works on SGLang and vLLM.

    One request before the rest is not counted: engines compile on their first. Raises GateError where the engine cannot
    be reached or every request fails; a single failed request is told in the result.
    """
    settings, prompts = settings or GateSettings(), prompts or load_prompts()
    timeout = aiohttp.ClientTimeout(total=settings.timeout_s)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
        engine = Engine(session, url, model)
        name = await engine.model()
        await engine.ask(prompts, prompts.prompts[0], WARM_UP_TOKENS)
        started, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
        asked, counters = [], dict[str, Counts]()
        for prompt_class, group in _by_class(prompts.prompts).items():
            before = read_counters(await engine.metrics())
            asked += await _ask_all(engine, prompts, group, settings)
            after = read_counters(await engine.metrics())
            if before is not None and after is not None:
                counters[prompt_class] = between(before, after)
        seconds = time.monotonic() - clock
    if all(one.error for one in asked):
        raise GateError(f"--url {url}: every request failed, the first with {asked[0].error}; read the engine's log")
    return _result(engine.url, name, started, seconds, settings, asked, counters)


def _result(
    url: str,
    model: str,
    started: str,
    seconds: float,
    settings: GateSettings,
    asked: Sequence[Asked],
    counters: dict[str, Counts],
) -> GateResult:
    by_response = any(one.counts is not None for one in asked)
    names = dict.fromkeys(one.prompt.prompt_class for one in asked)
    classes: dict[str, Measured] = {
        name: _measure(one for one in asked if one.prompt.prompt_class == name) for name in names
    }
    overall = _measure(asked)
    if not by_response and counters:
        classes = {name: _counted(classes[name], counters.get(name)) for name in names}
        overall = _counted(overall, add_up(counters.values()))
    failures = {one.prompt.id: one.error for one in asked if one.error}
    verdict, reasons = judge(overall, classes, failures, settings)
    return GateResult(
        url=url,
        model=model,
        started=started,
        seconds=seconds,
        prompts_sha256=prompts_sha256(),
        settings=settings,
        counted_by="response" if by_response else "counters" if counters else "nothing",
        overall=overall,
        classes=classes,
        thinking={
            word: _measure(one for one in asked if one.prompt.thinking is on)
            for word, on in (("on", True), ("off", False))
        },
        tool_calls=sum(one.called_tool for one in asked),
        failures=failures,
        verdict=verdict,
        reasons=reasons,
    )


async def _ask_all(engine: Engine, prompts: PromptSet, group: Sequence[Prompt], settings: GateSettings) -> list[Asked]:
    room = asyncio.Semaphore(settings.concurrency)

    async def one(prompt: Prompt) -> Asked:
        async with room:
            return await engine.ask(prompts, prompt, settings.max_tokens)

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(one(prompt)) for prompt in group]
    return [task.result() for task in running]


def _by_class(prompts: Iterable[Prompt]) -> dict[str, list[Prompt]]:
    groups: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.prompt_class, []).append(prompt)
    return groups


def _measure(asked: Iterable[Asked]) -> Measured:
    every = list(asked)
    counts = [one.counts for one in every if one.counts is not None]
    return Measured(
        len(every),
        sum(one.requests for one in every),
        sum(one.completion_tokens for one in every),
        add_up(counts) if counts else None,
    )


def _counted(group: Measured, counts: Counts | None) -> Measured:
    return Measured(group.prompts, group.requests, group.completion_tokens, counts if counts and counts.steps else None)
