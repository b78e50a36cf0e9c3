"""Stage `speed`: what a step costs by mode, and tokens a second, over prefix and batch."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from k25serve.bench.gpu.booted import Booted
from k25serve.bench.gpu.greedy import acceptance, answers
from k25serve.bench.gpu.prompts import random_prompts
from k25serve.bench.gpu.rank_model import VOCABULARY
from k25serve.bench.gpu.scrape import Scrape, scrape

STEP = "k25serve_engine_step_seconds"


@dataclass(frozen=True)
class Cells:
    """What is measured: `tokens` tokens a request, at each (batch, prefix) of every arm, and of plain decode alone."""

    corners: tuple[tuple[int, int], ...]
    plain: tuple[tuple[int, int], ...]
    tokens: int
    vocabulary: int


# A step of 64 tokens is what verifying four drafts of sixteen costs.
K25 = Cells(
    corners=tuple((batch, prefix) for prefix in (1024, 8192, 32768) for batch in (1, 4, 16)),
    plain=((1, 128), (4, 128), (16, 128), (64, 128), (64, 1024)),
    tokens=256,
    vocabulary=VOCABULARY,
)


def measure(engine: Booted, arm: str, cells: Cells = K25) -> list[dict[str, Any]]:
    """A row for each prefix and batch; prompts are in the prefix cache, so that only their last token is computed."""
    corners = [*cells.corners, *(cells.plain if arm == "none" else ())]
    return [_corner(engine, batch, prefix, cells) for batch, prefix in corners]


def _corner(engine: Booted, batch: int, prefix: int, cells: Cells) -> dict[str, Any]:
    prompts = random_prompts(batch, prefix, cells.vocabulary)
    asyncio.run(answers(engine.engine_url, prompts, 1, at_once=4))
    asyncio.run(answers(engine.engine_url, prompts, 16, at_once=batch))
    before, started = scrape(engine.engine_url), time.monotonic()
    found = asyncio.run(answers(engine.engine_url, prompts, cells.tokens, at_once=batch))
    seconds = time.monotonic() - started
    steps = _steps(before, scrape(engine.engine_url))
    row = {
        "batch": batch,
        "prefix": prefix,
        "tokens_per_second": batch * cells.tokens / seconds,
        "seconds": seconds,
        **acceptance(found),
        "steps_by_mode": steps,
    }
    print(engine.name, {name: row[name] for name in ("batch", "prefix", "tokens_per_second")}, flush=True)
    print("  ", {mode: round(one["mean_us"], 1) for mode, one in steps.items()}, flush=True)
    return row


def _steps(before: Scrape, after: Scrape) -> dict[str, dict[str, float]]:
    found = {}
    for mode in sorted(after.by(f"{STEP}_count", "mode")):
        steps, seconds = (
            after.total(f"{STEP}_{part}", mode=mode) - before.total(f"{STEP}_{part}", mode=mode)
            for part in ("count", "sum")
        )
        if steps > 0:
            found[mode] = {"steps": steps, "mean_us": seconds / steps * 1e6}
    return found


def markdown(arms: dict[str, list[dict[str, Any]]]) -> str:
    """Tokens a second and mean microseconds of each mode, a row for each prefix and batch."""
    lines: list[str] = []
    for arm, rows in arms.items():
        modes = sorted({mode for row in rows for mode in row["steps_by_mode"]})
        lines += [f"### {arm}", "", _line(["prefix", "batch", "tok/s", *(f"{mode} us" for mode in modes)])]
        lines.append(_line(["---"] * (3 + len(modes))))
        for row in rows:
            times = [row["steps_by_mode"].get(mode, {}).get("mean_us") for mode in modes]
            shown = ["" if us is None else f"{us:.0f}" for us in times]
            lines.append(_line([str(row["prefix"]), str(row["batch"]), f"{row['tokens_per_second']:.0f}", *shown]))
        lines.append("")
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
