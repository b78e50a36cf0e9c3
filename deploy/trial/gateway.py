"""What clients see during a trial: the same gateway, ready, with the names that it had."""

import asyncio
import time

import aiohttp

POLL_S = 0.5
ANSWER_S = 5.0
READY_S = 120.0


async def served_models(session: aiohttp.ClientSession, url: str) -> tuple[str, ...]:
    """Names that the server at `url` lists, sorted; none where nothing answers, or asks for a key."""
    try:
        async with session.get(f"{url}/v1/models", timeout=aiohttp.ClientTimeout(total=ANSWER_S)) as answer:
            listed = await answer.json(content_type=None) if answer.status == 200 else {}
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return ()
    return tuple(sorted(str(model["id"]) for model in listed.get("data", ())))


async def fault(url: str, models: tuple[str, ...]) -> str | None:
    """Wait until the gateway at `url` is ready; what its clients would miss, None where they miss nothing."""
    deadline = time.monotonic() + READY_S
    async with aiohttp.ClientSession() as session:
        while not await _ready(session, url):
            if time.monotonic() > deadline:
                return (
                    f"the gateway at {url} is not ready {READY_S:g} s after the engine: does it stand before this one?"
                )
            await asyncio.sleep(POLL_S)
        missing = sorted(set(models) - set(await served_models(session, url)))
    if not missing:
        return None
    return f"the gateway at {url} no longer serves {', '.join(missing)}: name it in gateway.model_aliases"


async def _ready(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(f"{url}/ready", timeout=aiohttp.ClientTimeout(total=ANSWER_S)) as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
