"""Whether the engine can answer, as one object that a supervisor or a probe sets and every request reads."""

from prometheus_client import Gauge


class Readiness:
    """Starts as not ready. Belongs to one event loop; not for threads."""

    def __init__(self, reason: str = "the engine is starting") -> None:
        self._reason: str | None = reason
        self._gauge: Gauge | None = None

    @property
    def ready(self) -> bool:
        return self._reason is None

    @property
    def reason(self) -> str | None:
        """Why not, in words for users; None when ready."""
        return self._reason

    def set_ready(self) -> None:
        self._set(None)

    def set_not_ready(self, reason: str) -> None:
        self._set(reason)

    def show_on(self, gauge: Gauge) -> None:
        """Keeps `gauge` at 1 while ready, at 0 while not."""
        self._gauge = gauge
        self._set(self._reason)

    def _set(self, reason: str | None) -> None:
        self._reason = reason
        if self._gauge is not None:
            self._gauge.set(reason is None)
