"""Simulated engines behind HTTP, as a load run meets them."""

from collections.abc import Callable
from typing import Any

import orjson
from starlette.types import Message, Receive, Scope, Send

from k25serve.bench.engine_sim.app import SimEngine
from k25serve.bench.engine_sim.settings import SimOptions, SimSettings

PREFLIGHT_TOKENS = 8  # preflights and warm-ups ask for no more


def engine(options: SimOptions | None = None, **settings: Any) -> SimEngine:
    fast = {"prefill_s": 0.004, "step_s": 0.002, "step_cv": 0.05}
    return SimEngine(SimSettings(**(fast | settings), options=options or SimOptions(cached_tokens=0)))


class Turning:
    """Healthy to preflights; of the load's requests those go to `faulty` that `chosen` says, by number."""

    def __init__(self, faulty: SimEngine, chosen: Callable[[int], bool] = lambda _: True) -> None:
        self._healthy = engine()
        self._faulty = faulty
        self._chosen = chosen
        self.seen = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        more = scope["method"] == "POST"
        while more:
            message = await receive()
            body += message["body"]
            more = message.get("more_body", False)
        target = self._healthy
        if body and orjson.loads(body).get("max_tokens", 0) > PREFLIGHT_TOKENS:
            target = self._faulty if self._chosen(self.seen) else self._healthy
            self.seen += 1
        first = True

        async def again() -> Message:
            nonlocal first
            if first:
                first = False
                return {"type": "http.request", "body": body, "more_body": False}
            return await receive()

        await target(scope, again, send)
