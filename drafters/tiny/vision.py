"""The vision tower's shape and its torch module: Kimi-K2.5's MoonViT and projector in small.

Names and arithmetic follow the checkpoint format that SGLang 0.5.23 loads (models/kimi_k25.py): patch embedding with a
learnt position table, blocks with two-dimensional rotary attention, 2x2 patch merging, a projector of two layers.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from k25serve.drafters.tiny.target import TEXT_CONFIG

PATCH_SIZE = 14  # pixels
GRID = 8  # patches a side; the processor brings every image to GRID x GRID
MERGE = 2  # patches a side that become one token
IMAGE_TOKENS = (GRID // MERGE) ** 2
VISION_CONFIG: dict[str, Any] = {
    "model_type": "kimi_k25",
    "patch_size": PATCH_SIZE,
    "init_pos_emb_height": GRID,
    "init_pos_emb_width": GRID,
    "init_pos_emb_time": 4,
    "pos_emb_type": "divided_fixed",
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "merge_kernel_size": [MERGE, MERGE],
    "merge_type": "sd2_tpool",
    "video_attn_type": "spatial_temporal",
    "mm_projector_type": "patchmerger",
    "mm_hidden_size": 32,
    "projector_hidden_act": "gelu",
    "projector_ln_eps": 1e-5,
    "text_hidden_size": TEXT_CONFIG["hidden_size"],
    # The names that the model code before transformers' own config reads.
    "vt_hidden_size": 32,
    "vt_num_hidden_layers": 1,
    "vt_num_attention_heads": 2,
    "vt_intermediate_size": 64,
}


class Block(nn.Module):
    def __init__(self, hidden: int, inner: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm0 = nn.LayerNorm(hidden)
        self.norm1 = nn.LayerNorm(hidden)
        self.wqkv = nn.Linear(hidden, 3 * hidden)
        self.wo = nn.Linear(hidden, hidden)
        self.mlp = nn.ModuleDict({"fc0": nn.Linear(hidden, inner), "fc1": nn.Linear(inner, hidden)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [images, patches, hidden]."""
        q, k, v = self.wqkv(self.norm0(x)).view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        rotation = _rotation(q.shape[-1], x.device)
        q, k = (_rotate(t, rotation) for t in (q, k))
        x = x + self.wo(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        inner = F.gelu(self.mlp["fc0"](self.norm1(x)), approximate="tanh")
        return x + self.mlp["fc1"](inner)  # type: ignore[no-any-return]


class PositionTable(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(GRID, GRID, hidden) * 0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.weight.flatten(0, 1)


class VisionModel(nn.Module):
    """Tower and projector: pixels [images, GRID*GRID, 3, PATCH, PATCH] -> [images, IMAGE_TOKENS, text_hidden_size]."""

    def __init__(self) -> None:
        super().__init__()
        c = VISION_CONFIG
        hidden, merged = c["hidden_size"], c["hidden_size"] * MERGE * MERGE
        blocks = [
            Block(hidden, c["intermediate_size"], c["num_attention_heads"]) for _ in range(c["num_hidden_layers"])
        ]
        embed = {"proj": nn.Conv2d(3, hidden, PATCH_SIZE, PATCH_SIZE), "pos_emb": PositionTable(hidden)}
        encoder = {"blocks": nn.Sequential(*blocks), "final_layernorm": nn.LayerNorm(hidden)}
        self.vision_tower = nn.ModuleDict({"patch_embed": nn.ModuleDict(embed), "encoder": nn.ModuleDict(encoder)})
        self.mm_projector = nn.ModuleDict(
            {
                "pre_norm": nn.LayerNorm(hidden, c["projector_ln_eps"]),
                "proj": nn.Sequential(nn.Linear(merged, merged), nn.GELU(), nn.Linear(merged, c["text_hidden_size"])),
            }
        )

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        tower = self.vision_tower
        x = tower.get_submodule("patch_embed.proj")(pixels.flatten(0, 1)).view(*pixels.shape[:2], -1)
        x = tower.get_submodule("encoder.blocks")(tower.get_submodule("patch_embed.pos_emb")(x))
        x = self.mm_projector["pre_norm"](tower.get_submodule("encoder.final_layernorm")(x))
        side = GRID // MERGE
        x = x.view(len(x), side, MERGE, side, MERGE, -1).transpose(2, 3).reshape(len(x), side * side, -1)
        return self.mm_projector["proj"](x)  # type: ignore[no-any-return]


def _rotation(head_dim: int, device: torch.device) -> torch.Tensor:
    """Complex rotations [patches, head_dim / 2]: even entries turn with the column, odd ones with the row."""
    frequencies = 10000.0 ** (-torch.arange(0, head_dim, 4, device=device).float() / head_dim)
    place = torch.arange(GRID, device=device).float()
    rows, columns = torch.meshgrid(place, place, indexing="ij")
    angles = torch.stack([columns.flatten()[:, None] * frequencies, rows.flatten()[:, None] * frequencies], dim=-1)
    return torch.polar(torch.ones_like(angles), angles).flatten(1)


def _rotate(x: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rotation).flatten(-2).to(x.dtype)
