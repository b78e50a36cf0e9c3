"""One printed line now and then, with the time left."""

import time
from dataclasses import dataclass, field


@dataclass
class Progress:
    """Prints at most one line per `every` seconds, and always at the end of a stage."""

    stage: str
    total: int
    every: float = 5.0
    started: float = field(default_factory=time.monotonic)
    printed: float = 0.0

    def step(self, done: int, note: str) -> None:
        """done: units finished so far, out of `total`; note: what to say beside it."""
        now = time.monotonic()
        if done < self.total and now - self.printed < self.every:
            return
        self.printed = now
        elapsed = now - self.started
        left = elapsed / done * (self.total - done) if done else 0.0
        print(f"[{self.stage}] {done}/{self.total} {note} | {elapsed:.0f} s gone, {left:.0f} s left", flush=True)
