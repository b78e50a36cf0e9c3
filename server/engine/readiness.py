"""The engine is ready when it has answered a chat and its continuation, not when its port opens."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from k25serve.server.config import Profile
from k25serve.server.engine.guardian import descendants
from k25serve.server.engine.process import EngineProcess
from k25serve.server.engine.progress import Progress
from k25serve.server.engine.weights import WeightsMeter
from k25serve.server.errors import EngineFailed

if TYPE_CHECKING:
    import aiohttp

POLL_S = 0.25
# What an engine computes for the first time it may first have to compile: 95 s were seen on an H200 (SGLang 0.5.17).
ATTEMPT_S = 600.0
FIRST_TURN = {"role": "user", "content": "Hello"}
# A few tokens, so that a drafter drafts and its drafts are verified; then a prompt whose beginning is cached, whose
# attention is another kernel.
WARM_UP = (
    (FIRST_TURN,),
    (FIRST_TURN, {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "How are you?"}),
)
WARM_UP_TOKENS = 8
SAMPLE_S = 1.0


def engine_url(profile: Profile) -> str:
    """Where the engine of `profile` answers."""
    return f"http://127.0.0.1:{profile.engine.port}"


async def wait_ready(
    engine: EngineProcess, profile: Profile, report: Callable[[Progress, float], None] | None = None
) -> float:
    """Wait until the chats of WARM_UP are answered; return the seconds it took.

    report: called with the progress and the elapsed seconds, four times a second.
    Raises EngineFailed when the engine ends first, or after `engine.ready_timeout_s`.
    """
    started = time.monotonic()
    generation = asyncio.create_task(_warm_up(profile))
    ended = asyncio.create_task(engine.wait())
    progress = Progress()
    drafter = profile.speculation.drafter
    meter, sampled = WeightsMeter((profile.target, *((drafter,) if drafter else ()))), started
    try:
        with engine.log.open(encoding="utf-8", errors="replace") as log:
            while True:
                done, _ = await asyncio.wait({generation, ended}, timeout=POLL_S, return_when="FIRST_COMPLETED")
                elapsed = time.monotonic() - started
                for line in log:
                    progress = progress.after(line)
                    if "address already in use" in line:
                        # SGLang would load on, and only then end without a word of the port.
                        raise EngineFailed(
                            f"engine.port {profile.engine.port} was taken while the engine loaded; stop what listens "
                            "there, or pass --set engine.port=PORT"
                        )
                if time.monotonic() - sampled >= SAMPLE_S:
                    sampled = time.monotonic()
                    reading = await asyncio.to_thread(lambda: meter.sample(descendants(engine.pid), time.monotonic()))
                    progress = replace(progress, reading=reading)
                if report is not None:
                    report(progress, elapsed)
                if ended in done:
                    raise EngineFailed(engine.obituary(ended.result()))
                if generation in done:
                    generation.result()
                    return elapsed
                if elapsed > profile.engine.ready_timeout_s:
                    raise EngineFailed(
                        f"the engine was still {progress.phase} after engine.ready_timeout_s = {elapsed:.0f} s; "
                        f"raise the limit, or see {engine.log}. Its last line: {progress.last_line}"
                    )
    finally:
        for task in (generation, ended):
            task.cancel()
        await asyncio.gather(generation, ended, return_exceptions=True)


async def _warm_up(profile: Profile) -> None:
    import aiohttp

    url = f"{engine_url(profile)}/v1/chat/completions"
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ATTEMPT_S)) as session:
        for messages in WARM_UP:
            body = {"model": profile.served_model_name, "messages": messages, "max_tokens": WARM_UP_TOKENS}
            await _answered(session, url, body)


async def _answered(session: "aiohttp.ClientSession", url: str, body: dict[str, Any]) -> None:
    """Ask until the answer is there. Raises EngineFailed where the engine refuses to answer."""
    import aiohttp

    while True:
        with contextlib.suppress(aiohttp.ClientConnectionError, TimeoutError):
            async with session.post(url, json=body) as answer:
                if answer.status == 200:
                    return
                if answer.status < 500:
                    text = (await answer.text())[:300]
                    raise EngineFailed(f"the engine refused a chat of a few tokens with HTTP {answer.status}: {text}")
        await asyncio.sleep(POLL_S)
