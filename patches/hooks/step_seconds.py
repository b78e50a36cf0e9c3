"""Row step_seconds: how long each stage of a step takes, from GPU events where there is a GPU."""

import time
from collections.abc import Callable
from typing import Any, Protocol

from k25serve.patches.context import Context
from k25serve.patches.hooks.event_timer import EventTimer
from k25serve.patches.hooks.rank import counts_here
from k25serve.patches.hooks.tally import Tally

NAME = "k25serve_engine_step_seconds"
HELP = (
    "Seconds of one stage of an engine step: extend, decode, target_verify (the target's forward in that mode), draft "
    "and draft_extend (the drafter's). GPU time where there is a GPU, wall time on the CPU; of the first rank. On a "
    "GPU a sample: every extend, of the others one in four at random, which counts for those not timed before it."
)
MODES = ("extend", "decode", "target_verify", "draft", "draft_extend")
# Six to the decade, 100 us to 100 s.
BUCKETS = tuple(float(f"{10 ** (exponent / 6):.3g}") for exponent in range(-24, 13))
# What SGLang calls the forward modes (ForwardMode's names) -> ours. Others, such as idle, are not timed.
FORWARD_MODES = {"EXTEND": "extend", "MIXED": "extend", "DECODE": "decode", "TARGET_VERIFY": "target_verify"}


class Timer(Protocol):
    """Measures the stretch between `start` and `stop`; reports it to the tally at once or when it is known.

    Where `start` returns None the stretch is not measured, and `stop` is not called.
    """

    def start(self, mode: str) -> Any: ...

    def stop(self, begun: Any, mode: str) -> None: ...

    def drain(self) -> None: ...


class WallTimer:
    """Wall time: on the CPU a stage is done when its function returns."""

    def __init__(self, add: Callable[[float, str], None]) -> None:
        self._add = add

    def start(self, mode: str) -> float:
        return time.perf_counter()

    def stop(self, begun: float, mode: str) -> None:
        self._add(time.perf_counter() - begun, mode)

    def drain(self) -> None:
        """Nothing is outstanding."""


class StepSeconds:
    """Times stages on the first rank; elsewhere, and without /metrics, it only passes calls on."""

    def __init__(self, context: Context) -> None:
        self._device = context.here.device
        self._tally: Tally | None = None
        self._timer: Timer | None = None
        self._decided = False

    def forward(self, original: Callable[..., Any], worker: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        """Around `TpModelWorker.forward_batch_generation`, the target's forward of every mode."""
        forward_batch = batch if batch is not None else (args[0] if args else kwargs["forward_batch"])
        mode = FORWARD_MODES.get(forward_batch.forward_mode.name)
        return self._timed(mode, original, worker, batch, *args, **kwargs)

    def draft(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Around `EagleDraftWorker.draft`: all draft steps of one round."""
        return self._timed("draft", original, *args, **kwargs)

    def draft_extend(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Around `EagleDraftWorker._draft_extend_for_decode`: the drafter reads what was accepted."""
        return self._timed("draft_extend", original, *args, **kwargs)

    def idle(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Around `Scheduler.on_idle`, which may sleep."""
        if self._timer is not None and self._tally is not None:
            self._timer.drain()
            self._tally.flush()
        return original(*args, **kwargs)

    def facts(self) -> dict[str, Any]:
        """Whether this rank counts, and how."""
        timer = self._decide()
        return {"timer": type(timer).__name__ if timer else "none: not the first rank, or no --enable-metrics"}

    def _timed(self, mode: str | None, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        timer = self._decide()
        if timer is None or mode is None:
            return original(*args, **kwargs)
        begun = timer.start(mode)
        result = original(*args, **kwargs)
        if begun is not None:
            timer.stop(begun, mode)
        return result

    def _decide(self) -> Timer | None:
        if not self._decided:
            self._decided = True
            if counts_here():
                from prometheus_client import Histogram

                self._tally = Tally(Histogram(NAME, HELP, ["mode"], buckets=BUCKETS), MODES)
                timers: dict[str, Callable[[Tally], Timer]] = {
                    "cuda": lambda tally: EventTimer(tally.add),
                    "cpu": lambda tally: WallTimer(tally.add),
                }
                self._timer = timers[self._device](self._tally)
        return self._timer
