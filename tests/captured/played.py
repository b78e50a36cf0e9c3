"""A small decoder as SGLang runs one: prompts of a batch one after the other, the residual beside the states."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

from k25serve.patches.context import Context, Here
from k25serve.patches.hooks.capture_states import CaptureStates

LAYERS, HIDDEN, VOCAB = 5, 256, 2048  # as the packaged target's


class Decoder:
    """States of a prompt: each layer adds something of the tokens before. The same weights each time."""

    def __init__(self) -> None:
        numbers = torch.Generator().manual_seed(0)
        self._embedding = torch.randn(VOCAB, HIDDEN, generator=numbers)
        self._weights = torch.randn(LAYERS, HIDDEN, HIDDEN, generator=numbers) / HIDDEN**0.5

    def states(self, token_ids: torch.Tensor) -> torch.Tensor:
        """What leaves each layer: fp32 [layers, n, H] for ids [n]."""
        state, found = self._embedding[token_ids], []
        for weight in self._weights:
            before = state.cumsum(0) / torch.arange(1, len(state) + 1)[:, None]
            state = state + torch.tanh(before @ weight)
            found.append(state)
        return torch.stack(found)


class FinalNorm(torch.nn.Module):
    """Adds the residual and returns the sum beside its own result, as SGLang's RMSNorm does."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size), requires_grad=False)

    def forward(self, hidden: torch.Tensor, residual: torch.Tensor | None = None) -> Any:
        total = hidden if residual is None else hidden + residual
        normed = torch.nn.functional.rms_norm(total, total.shape[-1:], self.weight)
        return normed if residual is None else (normed, total)


@dataclass
class PlayedModel:
    """Stands for DeepseekV2Model. shift: how many layers too late it takes the aux states."""

    reference: Decoder = field(default_factory=Decoder)
    shift: int = 0
    batches: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.layers = [object()] * LAYERS
        self.norm = FinalNorm(HIDDEN)
        self.layers_to_capture: list[int] = []

    def forward(self, input_ids: torch.Tensor, positions: object, forward_batch: Any) -> Any:
        pieces = input_ids.split(forward_batch.extend_seq_lens_cpu)
        self.batches.append(len(pieces))
        states = torch.cat([self.reference.states(piece) for piece in pieces], dim=1)  # [layers, tokens, H]
        normed, _ = self.norm(states[-1] - states[-2], states[-2])
        if not self.layers_to_capture:
            return normed
        return normed, torch.cat([states[layer - 1 + self.shift] for layer in self.layers_to_capture], dim=-1)


def forward_batch(
    prompts: Sequence[Sequence[int]], rids: Sequence[str], mode: str = "EXTEND", prefixes: Sequence[int] | None = None
) -> SimpleNamespace:
    """A ForwardBatch, as far as the row looks at it."""
    return SimpleNamespace(
        forward_mode=SimpleNamespace(name=mode),
        rids=list(rids),
        input_ids=torch.tensor([token for prompt in prompts for token in prompt]),
        extend_seq_lens_cpu=[len(prompt) for prompt in prompts],
        extend_prefix_lens_cpu=list(prefixes or [0] * len(prompts)),
    )


def row(directory: object, layers: str = "1,2,3") -> CaptureStates:
    """The row, not yet beside a model."""
    return CaptureStates(Context(Here("0.5.23", "cpu", "scheduler"), {"directory": str(directory), "layers": layers}))


def run(armed: CaptureStates, model: PlayedModel, batch: SimpleNamespace) -> Any:
    """One forward of the model with the row around it."""

    def original(given: PlayedModel, *args: Any) -> Any:
        return given.forward(*args)

    return armed.forward(original, model, batch.input_ids, None, batch)
