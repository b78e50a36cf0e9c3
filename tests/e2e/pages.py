"""Prometheus pages of a running stack."""

import asyncio
import re
import time
from pathlib import Path

import aiohttp
from e2e.stack import Served

from k25serve.patches.hooks.tally import FLUSH_S

ENGINE, GATEWAY = "k25serve_engine", "k25serve_gateway"
SETTLED_S = 20.0


async def page(url: str) -> dict[str, float]:
    """Samples of a Prometheus page, by name and labels as they are written there."""
    async with aiohttp.ClientSession(raise_for_status=True) as session, session.get(f"{url}/metrics") as answer:
        text = await answer.text()
    return {name: float(value) for name, value in re.findall(r"^(\S+) (\S+)$", text, re.MULTILINE)}


def gained(before: dict[str, float], after: dict[str, float], name: str) -> float:
    """Growth of a sample, summed over labels other than those that `name` has."""
    return sum(after[key] - before.get(key, 0.0) for key in after if key == name or key.startswith(f"{name}{{"))


def engine_log(served: Served) -> str:
    found = re.search(r"log (\S+\.log)", served.said)
    assert found
    return Path(found[1]).read_text()


async def settled(served: Served) -> dict[str, float]:
    """The engine's page once nothing is counted any more: it writes what it counted within `FLUSH_S`."""
    deadline = time.monotonic() + SETTLED_S
    steps, since = -1.0, 0.0
    while True:
        now = await page(served.engine_url)
        seen = gained({}, now, f"{ENGINE}_accepted_tokens_per_step_count")
        # The engine's own first request may outlast the one that makes it ready for us.
        if seen != steps or "The server is fired up" not in engine_log(served):
            steps, since = seen, time.monotonic()
        elif time.monotonic() - since > 1.5 * FLUSH_S:
            return now
        assert time.monotonic() < deadline, f"still counting at {steps} verify steps"
        await asyncio.sleep(0.05)
