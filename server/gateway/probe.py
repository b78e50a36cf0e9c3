"""Finds out whether the engine can answer, for a gateway that doesn't supervise it."""

import asyncio
import logging

from k25serve.server.gateway.arms.settings import ArmSettings
from k25serve.server.gateway.readiness import Readiness
from k25serve.server.gateway.settings import GatewaySettings
from k25serve.server.gateway.upstream import Upstream

_log = logging.getLogger(__name__)
_FALLBACK_PATH = "/v1/models"


class Probe:
    """Sets `readiness` from what the engine does, until cancelled.

    Only a generated token makes it ready: an engine that accepts connections may still be loading. After that a cheap
    path is polled, since a generation would cost a slot.
    """

    def __init__(self, settings: GatewaySettings, arm: ArmSettings, upstream: Upstream, readiness: Readiness) -> None:
        self._settings = settings
        self._arm = arm
        self._upstream = upstream
        self._readiness = readiness
        self._health_path = settings.probe.health_path

    async def run(self) -> None:
        probe = self._settings.probe
        while True:
            if await self._generates():
                self._readiness.set_ready()
                _log.info("the engine at %s is ready", self._arm.url)
                await self._watch()
                reason = f"the engine at {self._arm.url} stopped answering"
                self._readiness.set_not_ready(reason)
                _log.warning(reason)
            await asyncio.sleep(probe.interval_s)

    async def _generates(self) -> bool:
        body = {
            "model": self._arm.model or self._settings.served_model_name,
            "messages": [{"role": "user", "content": "ping"}],
            "max_tokens": 1,
        }
        return (
            await self._upstream.status("POST", "/v1/chat/completions", self._settings.probe.generation_timeout_s, body)
            == 200
        )

    async def _watch(self) -> None:
        """Returns once the engine failed to say that it is well, several times in a row."""
        probe = self._settings.probe
        failures = 0
        while failures < probe.failures:
            await asyncio.sleep(probe.health_interval_s)
            status = await self._upstream.status("GET", self._health_path, probe.health_timeout_s)
            if status == 404 and self._health_path != _FALLBACK_PATH:
                self._health_path = _FALLBACK_PATH
                continue
            failures = 0 if status == 200 else failures + 1
