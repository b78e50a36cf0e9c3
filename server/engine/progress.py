"""What a loading engine is doing, read off its log."""

import re
from dataclasses import dataclass, replace

from k25serve.server.engine.weights import Reading

# A phase is never left for an earlier one. Texts of SGLang 0.5.17 and 0.5.23, model_executor/ and managers/.
PHASES = (
    ("importing SGLang", re.compile(r"")),
    ("starting ranks", re.compile(r"server_args=|Init parallel begin|Init torch distributed begin")),
    ("loading weights", re.compile(r"Load weight begin|loading shards|Loading safetensors")),
    ("weights loaded", re.compile(r"Load weight end")),
    ("allocating the KV cache", re.compile(r"KV Cache is allocated|Memory pool end")),
    ("capturing graphs", re.compile(r"Capture .*graph begin")),
    ("warming up", re.compile(r"Uvicorn running on")),
)
ORDER = tuple(name for name, _ in PHASES)


@dataclass(frozen=True)
class Progress:
    """Phase of the load, the last line that the engine logged, and how far the weights are read while any are.

    The drafter's are read late: after the target's KV cache has been allocated.
    """

    phase: str = ORDER[0]
    last_line: str = ""
    reading: Reading | None = None

    def __str__(self) -> str:
        return self.phase if self.reading is None else f"{self.phase}, {self.reading}"

    def after(self, line: str) -> "Progress":
        """The progress once `line` has been logged."""
        text = line.strip()
        if not text:
            return self
        phase = next(name for name, pattern in reversed(PHASES) if pattern.search(text))
        return replace(self, phase=max(phase, self.phase, key=ORDER.index), last_line=text)
