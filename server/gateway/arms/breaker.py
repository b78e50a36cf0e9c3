"""Stops asking an arm that doesn't answer, and tries again one call at a time."""

import time
from typing import Literal

from prometheus_client import Gauge

from k25serve.server.gateway.settings import BreakerSettings

State = Literal["closed", "half_open", "open"]
_VALUES: dict[State, int] = {"closed": 0, "half_open": 1, "open": 2}


class Breaker:
    """Closed: calls pass. Open: none does. Half open: one is on trial, and its end decides.

    Belongs to one event loop. `gauge` shows the state.
    """

    def __init__(self, settings: BreakerSettings, gauge: Gauge) -> None:
        self._settings = settings
        self._gauge = gauge
        self._failures = 0
        self._opened = 0.0
        self._state: State = "closed"
        gauge.set(_VALUES["closed"])

    @property
    def state(self) -> State:
        return self._state

    @property
    def admits(self) -> bool:
        """Whether a call may be made now."""
        if self._state == "closed":
            return True
        return self._state == "open" and time.monotonic() - self._opened >= self._settings.open_s

    def begin(self) -> None:
        """A call that was admitted starts; from an open breaker it is the trial."""
        if self._state == "open":
            self._set("half_open")

    def succeeded(self) -> None:
        """The arm answered, whatever it said."""
        self._failures = 0
        if self._state != "closed":
            self._set("closed")

    def failed(self) -> None:
        """The arm did not answer."""
        self._failures += 1
        if self._state == "half_open" or (self._state == "closed" and self._failures >= self._settings.failures):
            self._opened = time.monotonic()
            self._set("open")

    def undecided(self) -> None:
        """The call ended before the arm could answer: the client left, say. A trial may start anew at once."""
        if self._state == "half_open":
            self._set("open")

    def _set(self, state: State) -> None:
        self._state = state
        self._gauge.set(_VALUES[state])
