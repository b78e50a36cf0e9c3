"""The order of the rows, the same in every process and after every restart, and the loading of batches."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from speculators.models.eagle3 import shift_batch
from speculators.train.data import CollateFn
from speculators.train.distributed_batch_sampler import MultipackDistributedBatchSamplerV2
from torch.utils.data import DataLoader

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.fit.options import FitOptions
from k25serve.drafters.training.fit.place import Place
from k25serve.drafters.training.fit.states import States


class Order:
    """Which rows make up each batch of an epoch, for this process."""

    def __init__(self, lengths: Sequence[int], options: FitOptions, place: Place) -> None:
        limit = options.tokens_per_batch
        self._sampler = MultipackDistributedBatchSamplerV2(
            limit, np.minimum(lengths, limit), place.world, place.rank, seed=options.seed
        )
        self._epoch, self._batches = -1, list[list[int]]()
        if not self.epoch(0):
            raise TrainingError(
                f"data/train: {len(lengths)} rows for {place.world} processes; take fewer, or more data"
            )

    def epoch(self, number: int) -> list[list[int]]:
        """Row numbers by batch; as many batches in every process."""
        if number != self._epoch:
            self._sampler.set_epoch(number)
            self._epoch, self._batches = number, [[int(row) for row in batch] for batch in self._sampler]
        return self._batches


def load(
    states: States, batches: Sequence[Sequence[int]], max_len: int | None, place: Place, workers: int = 0
) -> Iterator[dict[str, Any]]:
    """The batches' tensors, on the device. max_len: filled up to it and cut there; None: as long as the rows are."""
    length = max_len or max(sum(states.approx_lengths[row] for row in batch) for batch in batches)
    loader: DataLoader[dict[str, Any]] = DataLoader(
        states,
        batch_sampler=[list(batch) for batch in batches],
        num_workers=workers,
        collate_fn=CollateFn(length, states.hidden_size, dtype=place.states_dtype, preprocess=aligned),
        pin_memory=place.device.type == "cuda",
    )
    for batch in loader:
        yield {k: v.to(place.device, non_blocking=True) for k, v in batch.items() if isinstance(v, torch.Tensor)}


def in_order(lengths: Sequence[int], limit: int, rank: int, world: int) -> list[list[int]]:
    """Every world-th row, in order, in batches of at most `limit` tokens; a longer row is a batch of its own."""
    batches, room = list[list[int]](), 0
    for row in range(rank, len(lengths), world):
        if lengths[row] > room or not batches:
            batches.append([])
            room = limit
        batches[-1].append(row)
        room -= lengths[row]
    return batches


def aligned(sample: dict[str, Any]) -> dict[str, Any]:
    """speculators' shift_batch, and the rows' own mask beside it: position i stands for token i+1."""
    return {**shift_batch(sample), "written": sample["written"][1:]}
