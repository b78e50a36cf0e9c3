"""The shapes measured, and their inputs: random numbers, slots in random order, one pool a shape."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

WIDTH, LATENT = 576, 512
# Heads of one of eight ranks of Kimi-K2.5 and its usual chain of drafts.
HEADS, DRAFT_TOKENS = 8, 4
BATCHES = (1, 4, 16, 64)
PREFIXES = (1024, 8192, 32768, 131072)
SCALING = 0.1


@dataclass(frozen=True)
class Shape:
    """A batch of requests with equal prefixes."""

    batch: int
    prefix: int

    def __str__(self) -> str:
        return f"{self.batch} x {self.prefix // 1024}k"

    @property
    def cache_bytes(self) -> int:
        """Bytes of bf16 cache that every version has to read once."""
        return self.batch * self.prefix * WIDTH * 2


SHAPES = tuple(Shape(batch, prefix) for batch in BATCHES for prefix in PREFIXES)


@dataclass(frozen=True)
class Inputs:
    """Arguments of the verify step on the GPU, laid out as SGLang lays them out."""

    q: "torch.Tensor"  # [batch * draft, heads, 576]
    k_extend: "torch.Tensor"  # [batch * draft, 1, 576]
    kv_buffer: "torch.Tensor"  # [slots, 1, 576]
    qo_indptr: "torch.Tensor"  # [batch + 1] int32
    kv_indptr: "torch.Tensor"  # [batch + 1] int32
    kv_indices: "torch.Tensor"  # [batch * prefix] int64
    mask: "torch.Tensor"  # a causal mask for every request, one after the other
    mask_indptr: "torch.Tensor"  # [batch + 1] int64


def inputs_of(shape: Shape, heads: int = HEADS, seed: int = 0) -> Inputs:
    """Fresh inputs for a shape on the current CUDA device; `heads`: of one rank."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(seed)
    tokens, slots = shape.batch * DRAFT_TOKENS, shape.batch * shape.prefix

    def normal(*size: int) -> "torch.Tensor":
        return torch.randn(size, device="cuda", dtype=torch.bfloat16, generator=generator)

    requests = torch.arange(shape.batch + 1, device="cuda")
    sees = torch.ones((DRAFT_TOKENS, shape.prefix + DRAFT_TOKENS), dtype=torch.bool, device="cuda")
    sees = sees.tril(diagonal=shape.prefix)
    return Inputs(
        q=normal(tokens, heads, WIDTH),
        k_extend=normal(tokens, 1, WIDTH),
        kv_buffer=normal(slots, 1, WIDTH),
        qo_indptr=(requests * DRAFT_TOKENS).int(),
        kv_indptr=(requests * shape.prefix).int(),
        kv_indices=torch.randperm(slots, device="cuda", generator=generator),
        mask=sees.flatten().repeat(shape.batch),
        mask_indptr=requests * sees.numel(),
    )
