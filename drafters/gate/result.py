"""What the gate found, and its file."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from k25serve.drafters.check.report import EXIT_CODES, Verdict
from k25serve.drafters.gate.verdict import GateSettings, Measured

SCHEMA = 1


@dataclass(frozen=True)
class GateResult:
    """Acceptance overall, by class of prompts and by thinking; `counted_by`: response, counters or nothing.

    seconds is the wall time of all requests, the warm-up left out.
    """

    url: str
    model: str
    started: str
    seconds: float
    prompts_sha256: str
    settings: GateSettings
    counted_by: str
    overall: Measured
    classes: dict[str, Measured]
    thinking: dict[str, Measured]
    tool_calls: int
    failures: dict[str, str]
    verdict: Verdict
    reasons: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]

    @property
    def tokens_per_second(self) -> float:
        """Completion tokens over wall time, prefill included."""
        return self.overall.completion_tokens / self.seconds if self.seconds else 0.0

    def as_json(self) -> dict[str, Any]:
        """Plain values only."""
        return {
            "schema": SCHEMA,
            "kind": "drafter-gate",
            "verdict": self.verdict.value,
            "reasons": list(self.reasons),
            "url": self.url,
            "model": self.model,
            "started": self.started,
            "seconds": round(self.seconds, 3),
            "prompts_sha256": self.prompts_sha256,
            "settings": {**asdict(self.settings), "expected": dict(self.settings.expected)},
            "counted_by": self.counted_by,
            "tokens_per_second": round(self.tokens_per_second, 2),
            "overall": _plain(self.overall),
            "classes": {name: _plain(group) for name, group in self.classes.items()},
            "thinking": {name: _plain(group) for name, group in self.thinking.items()},
            "tool_calls": self.tool_calls,
            "failures": self.failures,
        }


def write_json(value: dict[str, Any], path: Path) -> None:
    """Write a result in one step, its folder made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    unfinished.replace(path)


def _plain(group: Measured) -> dict[str, Any]:
    length = group.accept_length
    return {
        "prompts": group.prompts,
        "requests": group.requests,
        "completion_tokens": group.completion_tokens,
        "accept_length": None if length is None else round(length, 4),
        **(asdict(group.counts) if group.counts else {}),
    }
