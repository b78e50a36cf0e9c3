"""What a loading engine is doing, read off its log."""

import re
from dataclasses import dataclass

# First match wins; a phase is never left for an earlier one. Texts of SGLang 0.5.17 and 0.5.23.
PHASES = (
    ("warming up", re.compile(r"Uvicorn running|Application startup complete|fired up|warmup")),
    ("capturing graphs", re.compile(r"[Cc]aptur\w+ .*graph")),
    ("allocating the KV cache", re.compile(r"KV Cache is allocated|Memory pool end")),
    ("loading the drafter", re.compile(r"Draft model|EAGLE.*Load weight|draft worker", re.IGNORECASE)),
    ("loading weights", re.compile(r"Load weight begin|[Ll]oading safetensors|Load weight end")),
    ("starting ranks", re.compile(r"Init torch distributed|server_args=")),
    ("importing SGLang", re.compile(r"")),
)
ORDER = tuple(name for name, _ in reversed(PHASES))


@dataclass(frozen=True)
class Progress:
    """Phase of the load and the last line that the engine logged."""

    phase: str = ORDER[0]
    last_line: str = ""

    def after(self, line: str) -> "Progress":
        """The progress once `line` has been logged."""
        text = line.strip()
        if not text:
            return self
        phase = next(name for name, pattern in PHASES if pattern.search(text))
        return Progress(max(phase, self.phase, key=ORDER.index), text)
