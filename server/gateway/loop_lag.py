"""Measures how late the event loop is."""

import asyncio

from prometheus_client import Histogram

_INTERVAL_S = 0.5


async def watch_loop_lag(lag: Histogram) -> None:
    """Observes the lag twice a second, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _INTERVAL_S
        await asyncio.sleep(_INTERVAL_S)
        lag.observe(max(0.0, loop.time() - due))
