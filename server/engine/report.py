"""Progress of a load, on a terminal or in a log."""

from rich.console import Console
from rich.live import Live
from rich.text import Text

from k25serve.server.engine.progress import Progress
from k25serve.server.notify import status

HEARTBEAT_S = 15.0


class LoadReport:
    """Shows phase, elapsed time and last log line: one live line on a terminal, a line a phase elsewhere.

    The service manager is told too. last_seconds: what the load before this one took.
    """

    def __init__(self, console: Console, last_seconds: float | None = None) -> None:
        self._console = console
        self._last = "" if last_seconds is None else f" of {last_seconds:.0f} s last time"
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
        self._phase = ""
        self._told_at = 0.0

    def __enter__(self) -> "LoadReport":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, progress: Progress, elapsed: float) -> None:
        """Show `progress` after `elapsed` seconds."""
        line = f"engine {elapsed:4.0f} s  {progress}"
        if self._live is not None:
            text = Text(f"{line}  ", no_wrap=True, overflow="ellipsis")
            self._live.update(text.append(progress.last_line, style="dim"))
        if progress.phase != self._phase or elapsed - self._told_at >= HEARTBEAT_S:
            self._phase, self._told_at = progress.phase, elapsed
            status(f"{progress}, {elapsed:.0f} s{self._last}")
            if self._live is None:
                self._console.print(line, markup=False, highlight=False)
