"""`--check N`: are the captured states those that they are said to be?"""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.capture.compare import LayerMatch, match_layers
from k25serve.drafters.training.capture.engine import Engine, EngineState, session
from k25serve.drafters.training.capture.files import name_of, read_states
from k25serve.drafters.training.capture.head import Head, HeadMatch, match_head
from k25serve.drafters.training.capture.options import CaptureOptions
from k25serve.drafters.training.capture.reference import Reference, why_not
from k25serve.drafters.training.capture.rows import Row, Split
from k25serve.drafters.training.capture.run import checked, config_hash

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class CheckReport:
    """What was compared. not_here: why there was no plain forward; layers is empty then."""

    samples: int
    tokens: int
    layers: tuple[LayerMatch, ...]
    head: HeadMatch
    not_here: str | None = None

    @property
    def faults(self) -> list[str]:
        """Everything that is wrong, a line each."""
        found = [*(match.fault for match in self.layers), self.head.fault]
        return [fault for fault in found if fault is not None]


def check(options: CaptureOptions, data: Path, out: Path, url: str, target: Path, samples: int) -> CheckReport:
    """Compare `samples` captured samples, spread over their lengths. Raises TrainingError where there are none."""
    return asyncio.run(_check(options, data, out, url, target, samples))


def spread(lengths: Sequence[int], count: int) -> list[int]:
    """Positions of `count` samples, the shortest to the longest at even steps; those of one token left out."""
    by_length = sorted((i for i, length in enumerate(lengths) if length > 1), key=lambda i: (lengths[i], i))
    if count >= len(by_length):
        return by_length
    steps = max(1, count - 1)
    return [by_length[round(step * (len(by_length) - 1) / steps)] for step in range(count)]


async def _check(options: CaptureOptions, data: Path, out: Path, url: str, target: Path, samples: int) -> CheckReport:
    async with session(options.timeout_s) as opened:
        engine = Engine(opened, url)
        state = await checked(engine, options, target)
        rows = _captured(options, data, out, samples)
        states = [_states(out, row, state, config_hash(target)) for row in rows]
        # No state files for these: the ids are not of the form that asks for them.
        told: list[dict[str, Any]] = [
            await engine.prefill(f"check.{secrets.token_hex(8)}", row.input_ids, logprobs=True) for row in rows
        ]
    import torch

    ids = [torch.tensor(row.input_ids) for row in rows]
    head = match_head(Head(target), [one[:, -1] for one in states], ids, told)
    reason = why_not(target)
    layers: list[LayerMatch] = []
    if reason is None:
        reference = Reference(target)
        every = (*state.meaning.layers, state.meaning.last_layer)
        layers = match_layers(every, states, [reference.states(one) for one in ids])
    return CheckReport(len(rows), sum(map(len, ids)), tuple(layers), head, reason)


def _captured(options: CaptureOptions, data: Path, out: Path, samples: int) -> list[Row]:
    """Rows that have a file, spread over their lengths."""
    found: list[tuple[Split, int, int]] = []
    for name in options.splits:
        split = Split(data, name)
        lengths = split.lengths
        found += [(split, i, n) for i, n in enumerate(lengths) if (out / name / name_of(i)).is_file()]
    chosen = [found[i] for i in spread([length for _, _, length in found], samples)]
    if not chosen:
        raise TrainingError(f"--out {out}: no captured sample of two tokens or more; capture first, without --check")
    return [split[index] for split, index, _ in chosen]


def _states(out: Path, row: Row, state: EngineState, target_hash: str) -> "torch.Tensor":
    path = out / row.split / name_of(row.index)
    found = read_states(path, row, state.meaning, target_hash)
    if isinstance(found, str):
        raise TrainingError(f"{path}: {found}; capture it again, without --check")
    return found["hidden_states"]
