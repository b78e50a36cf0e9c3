"""Where training runs: device, precision, and which of how many processes this is."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist

from k25serve.drafters.checkpoint.errors import TrainingError
from k25serve.drafters.training.fit.options import FitOptions

FLEX_BLOCK = 128  # speculators 0.9, models/eagle3/attention.py extends masks by whole blocks


@dataclass(frozen=True)
class Place:
    """rank of world processes; flex: speculators' own forward, else by document; bf16: autocast."""

    device: torch.device
    bf16: bool
    flex: bool
    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        return self.rank == 0

    @property
    def states_dtype(self) -> torch.dtype:
        """What hidden states are handed over in."""
        return torch.bfloat16 if self.bf16 else torch.float32

    def autocast(self) -> AbstractContextManager[object]:
        return torch.autocast(self.device.type, dtype=torch.bfloat16) if self.bf16 else nullcontext()

    def summed(self, values: torch.Tensor) -> torch.Tensor:
        """The sum over all processes."""
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def told_by_first(self, value: float) -> float:
        """The first process's value, everywhere."""
        if self.world == 1:
            return value
        told = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.broadcast(told, 0)
        return float(told)

    def wait(self) -> None:
        if self.world > 1:
            dist.barrier()


@contextmanager
def take_place(options: FitOptions) -> Iterator[Place]:
    """One process, or one of those that torchrun started. Raises TrainingError where the device is not there."""
    there = torch.cuda.is_available()
    if options.device == "cuda" and not there:
        raise TrainingError("device cuda: torch finds no GPU; use device cpu, or install a CUDA build of torch")
    kind = "cuda" if there and options.device != "cpu" else "cpu"
    rank, world, local = (int(os.environ.get(n, d)) for n, d in (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0)))
    device = torch.device(kind, local) if kind == "cuda" else torch.device(kind)
    flex = options.attention == "flex" or (options.attention == "auto" and kind == "cuda")
    if flex and kind == "cpu":
        raise TrainingError("attention flex: has no backward pass on a CPU; use attention documents")
    if flex and options.tokens_per_batch % FLEX_BLOCK:
        raise TrainingError(
            f"tokens_per_batch {options.tokens_per_batch}: flex attention takes multiples of {FLEX_BLOCK}; give one"
        )
    bf16 = options.precision == "bf16" or (options.precision == "auto" and kind == "cuda")
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    if kind == "cuda":
        torch.cuda.set_device(device)
    if world > 1:
        dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    try:
        yield Place(device, bf16, flex, rank, world)
    finally:
        if world > 1:
            dist.destroy_process_group()
