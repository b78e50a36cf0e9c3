"""The scratch memory of a verify launch, allocated once: a captured CUDA graph keeps its address."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from k25serve.patches.kernels.mla_verify import tiles

if TYPE_CHECKING:
    import torch

LATENT = 512
MOST_ROWS = max(tiles.ROWS)


@dataclass(frozen=True)
class Workspace:
    """Partial results of every split of a launch, and the tiles to launch with.

    partial [rows, 512] float32; lse [rows] float32; processors: multiprocessors to fill; tiles: by rows of a block.
    One workspace serves one stream: launches that share it must not overlap.
    """

    partial: "torch.Tensor"
    lse: "torch.Tensor"
    processors: int
    kind: tiles.Kind
    tiles: Mapping[int, tiles.Tile]

    @classmethod
    def allocate(
        cls,
        *,
        max_batch: int,
        heads: int,
        max_draft_tokens: int,
        kv_dtype: "torch.dtype",
        device: "torch.device | str",
        fp8_dot: bool = False,
        override: str | None = None,
        capability: tuple[int, int] | None = None,
        processors: int | None = None,
    ) -> Self:
        """Scratch for every batch up to `max_batch`, of `heads` heads and up to `max_draft_tokens` draft tokens.

        capability and processors are the device's unless given; `override` is the environment's unless given.
        Raises ValueError for a cache dtype without a kernel or a bad override.
        """
        import torch

        if capability is None or processors is None:
            properties = torch.cuda.get_device_properties(device)
            capability = capability or (properties.major, properties.minor)
            processors = processors or properties.multi_processor_count
        kind = kind_of(kv_dtype, fp8_dot)
        text = os.environ.get(tiles.OVERRIDE, "") if override is None else override
        arch = tiles.architecture(capability)
        table = {rows: tiles.tile_for(arch, kind, rows, text) for rows in tiles.ROWS}
        rows = rows_needed(table, processors, max_batch, heads, max_draft_tokens)
        return cls(
            partial=torch.empty((rows, LATENT), dtype=torch.float32, device=device),
            lse=torch.empty((rows,), dtype=torch.float32, device=device),
            processors=processors,
            kind=kind,
            tiles=table,
        )


def kind_of(kv_dtype: object, fp8_dot: bool) -> tiles.Kind:
    """The kind of cache of a dtype. Raises ValueError where there is no kernel for it."""
    name = str(kv_dtype).removeprefix("torch.")
    if name == "bfloat16":
        return "bf16"
    if name == "float8_e4m3fn":
        return "fp8_dot" if fp8_dot else "fp8"
    raise ValueError(f"kv_dtype is {name}; there are kernels for bfloat16 and float8_e4m3fn")


def rows_needed(
    table: Mapping[int, tiles.Tile], processors: int, max_batch: int, heads: int, max_draft_tokens: int
) -> int:
    """Rows of scratch for the largest launch: one wave of blocks, or one split of every request where that is more."""
    row_blocks = -(-heads * max_draft_tokens // MOST_ROWS)
    wave = processors * max(tile.blocks for tile in table.values())
    return max(wave, max_batch * row_blocks) * MOST_ROWS


def split_count(processors: int, tile: tiles.Tile, batch: int, row_blocks: int) -> int:
    """Splits of each request: as many as one wave of blocks holds. Depends on nothing that the device knows."""
    return max(1, processors * tile.blocks // (batch * row_blocks))
