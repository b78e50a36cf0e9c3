"""The EAGLE-3 drafter as a plain torch module: what SGLang's LlamaForCausalLMEagle3 computes, several steps at once.

Written apart from drafters/training, whose chain of drafts is held against it.

Parameter names are the checkpoint's. Facts from SGLang 0.5.23, models/llama_eagle3.py: the layer's input is
`cat(input_layernorm(embedding), hidden_norm(hidden))`, its residual is `hidden` itself (not normed); logits come from
the normed sum, and the sum before that norm is the hidden state of the next draft step.
"""

import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

from k25serve.drafters.tiny import DRAFTER


class RmsNorm(nn.Module):
    """Root-mean-square norm, computed in fp32 whatever comes in."""

    def __init__(self, hidden: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x.float(), self.weight.shape, self.weight.float(), self.eps).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        hidden, heads, kv_heads, dim = (
            config[k] for k in ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim")
        )
        self.dim, self.groups, self.theta = dim, heads // kv_heads, config["rope_theta"]
        self.q_proj = nn.Linear(2 * hidden, heads * dim, bias=False)
        self.k_proj = nn.Linear(2 * hidden, kv_heads * dim, bias=False)
        self.v_proj = nn.Linear(2 * hidden, kv_heads * dim, bias=False)
        self.o_proj = nn.Linear(heads * dim, hidden, bias=False)

    def qkv(self, x: torch.Tensor, step: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """x [rows, length, 2H] -> q, k, v [rows, heads, length, dim], rotated for positions `step`, `step`+1, ..."""
        positions = torch.arange(x.shape[1], device=x.device) + step
        frequencies = self.theta ** (-torch.arange(0, self.dim, 2, device=x.device).float() / self.dim)
        angles = torch.cat([positions[:, None] * frequencies] * 2, dim=-1)
        q, k, v = (p(x).unflatten(-1, (-1, self.dim)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = (_rotate(t, angles) for t in (q, k))
        return q, k.repeat_interleave(self.groups, 1), v.repeat_interleave(self.groups, 1)

    def forward(self, x: torch.Tensor, chain: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
        """One draft step for every base position b at once. `chain` has the earlier steps' (k, v), and gets this one's.

        The query of step j at base b sees step 0 up to b, and steps 1..j at b only: what the serving KV cache holds.
        """
        q, k, v = self.qkv(x, step=len(chain))
        chain.append((k, v))
        if len(chain) == 1:
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            (first_k, first_v), later = chain[0], chain[1:]
            length, scale = q.shape[2], self.dim**-0.5
            future = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
            scores = (q @ first_k.transpose(2, 3)).float().masked_fill(future, float("-inf"))
            own = torch.stack([(q.float() * k.float()).sum(-1) for k, _ in later], dim=-1)
            weights = (torch.cat([scores, own], dim=-1) * scale).softmax(-1).to(q.dtype)
            out = weights[..., :length] @ first_v
            for i, (_, later_v) in enumerate(later):
                out = out + weights[..., length + i : length + i + 1] * later_v
        return self.o_proj(out.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class Mlp(nn.Module):
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))  # type: ignore[no-any-return]


class MidLayer(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        hidden, eps = config["hidden_size"], config["rms_norm_eps"]
        self.self_attn = Attention(config)
        self.mlp = Mlp(hidden, config["intermediate_size"])
        self.input_layernorm = RmsNorm(hidden, eps)
        self.hidden_norm = RmsNorm(hidden, eps)
        self.post_attention_layernorm = RmsNorm(hidden, eps)

    def forward(
        self, embeddings: torch.Tensor, hidden: torch.Tensor, chain: list[tuple[torch.Tensor, torch.Tensor]]
    ) -> torch.Tensor:
        x = torch.cat([self.input_layernorm(embeddings), self.hidden_norm(hidden)], dim=-1)
        hidden = hidden + self.self_attn(x, chain)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))  # type: ignore[no-any-return]


class Drafter(nn.Module):
    """d2t [draft_vocab] int64: target id = draft id + d2t[draft id]; t2d [vocab] bool: the ids with a draft id."""

    d2t: torch.Tensor
    t2d: torch.Tensor

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        hidden = config["hidden_size"]
        aux = len(config["eagle_config"]["eagle_aux_hidden_state_layer_ids"])
        self.fc = nn.Linear(aux * hidden, hidden, bias=False)
        self.midlayer = MidLayer(config)
        self.norm = RmsNorm(hidden, config["rms_norm_eps"])
        self.lm_head = nn.Linear(hidden, config["draft_vocab_size"], bias=False)
        self.register_buffer("d2t", torch.zeros(config["draft_vocab_size"], dtype=torch.int64))
        self.register_buffer("t2d", torch.zeros(config["vocab_size"], dtype=torch.bool))

    @property
    def hot_ids(self) -> torch.Tensor:
        """[draft_vocab] the target id of each draft id."""
        return self.d2t + torch.arange(len(self.d2t), device=self.d2t.device)

    def unroll(self, aux: torch.Tensor, ids: torch.Tensor, embedding: torch.Tensor, steps: int) -> list[torch.Tensor]:
        """Draft `steps` tokens from every base position b at once.

        aux [rows, length, aux*H]: the target's captured states of ids [rows, length]; embedding [vocab, H]: the
        target's. Step j takes token b+j+1, from the second on the drafter's own best, and gives logits
        [rows, length, draft_vocab] for token b+j+2. Places whose token lies beyond the end are computed on id 0 and
        must be masked by the caller.
        """
        hidden, chain, logits = self.fc(aux), list[tuple[torch.Tensor, torch.Tensor]](), list[torch.Tensor]()
        for step in range(steps):
            tokens = self.hot_ids[logits[-1].argmax(-1)] if step else shift_left(ids, 1)
            hidden = self.midlayer(F.embedding(tokens, embedding).to(hidden.dtype), hidden, chain)
            logits.append(self.lm_head(self.norm(hidden)))
        return logits


def shift_left(x: torch.Tensor, count: int) -> torch.Tensor:
    """Drop the first `count` places of dimension 1 and fill the end with zeros."""
    return torch.cat([x[:, count:], torch.zeros_like(x[:, :count])], dim=1)


def _rotate(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Rotary embedding, half-split form, for x [rows, heads, length, dim] and angles [length, dim]."""
    left, right = x.float().chunk(2, dim=-1)
    return (x * angles.cos() + torch.cat([-right, left], dim=-1) * angles.sin()).to(x.dtype)


def load_drafter(folder: Path = DRAFTER) -> Drafter:
    """A drafter in SGLang's layout, in fp32, in eval mode."""
    model = Drafter(json.loads((folder / "config.json").read_text()))
    model.load_state_dict(load_file(folder / "model.safetensors"))
    return model.float().eval()
