"""speculators' EAGLE-3 drafter, unrolled by document: its own modules and the same numbers, computed where they count.

Eagle3DraftModel.forward computes every draft step at every position and masks afterwards, with dense scores over
[L, steps x L] where there is no flex attention. Here a draft starts only where serving would start one or close by, the
head is asked only for words that are trained on, and attention is taken document by document. Equal to its forward up
to rounding (tests/drafters/training/fit/test_chain.py).
"""

import torch
from speculators.models.eagle3 import Eagle3DraftModel
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from k25serve.drafters.training.fit.packed import Packed


class Chain:
    """Drafts from every base of `packed` at once; each `step` gives the drafter's states [N, H], before its norm.

    The query of step j at a base sees step 0 up to the base, and steps 1..j at the base only: what the KV cache of the
    serving engine holds.
    """

    def __init__(self, drafter: Eagle3DraftModel, packed: Packed) -> None:
        self._drafter, self._packed = drafter, packed
        self._layer, self._attention = drafter.layers[0], drafter.layers[0].self_attn
        config = drafter.config.transformer_layer_config
        self._kv, self._dim = config.num_key_value_heads, config.head_dim
        self._group = config.num_attention_heads // config.num_key_value_heads
        self._own: list[tuple[torch.Tensor, torch.Tensor]] = []  # steps after the first: k, v [kv, N, 1, d]
        states = drafter.fc(packed.aux)
        inputs = self._inputs(packed.ids, states)
        # Step 0, by document [kv, n, d]. Split, not sliced: a slice's gradient is as long as the batch.
        self._k, self._v = (torch.split(x, packed.lengths, 1) for x in self._keys(inputs, packed.positions))
        self._states = states[packed.bases]
        self._first: torch.Tensor | None = inputs[packed.bases]

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """tokens [N] int64, in the target's vocabulary; the first step takes the written ones, whatever is given."""
        done, layer = len(self._own) + (self._first is None), self._layer
        positions = self._packed.positions[self._packed.bases] + done
        if self._first is not None:
            inputs, self._first = self._first, None
        else:
            inputs = self._inputs(tokens, self._states)
            k, v = self._keys(inputs, positions)
            self._own.append((k[:, :, None], v[:, :, None]))
        states: torch.Tensor = self._states + self._attend(self._queries(inputs, positions))
        states = states + layer.mlp(layer.post_attention_layernorm(states))
        self._states = self._drafter.norm(states) if self._drafter.config.norm_output else states
        return states

    def _inputs(self, tokens: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        words = self._drafter.embed_tokens(tokens).to(states.dtype)
        return torch.cat([self._layer.input_layernorm(words), self._layer.hidden_norm(states)], dim=-1)

    def _keys(self, inputs: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Each [kv, n, d]."""
        k, v = (self._heads(project, inputs) for project in (self._attention.k_proj, self._attention.v_proj))
        return self._rotated(k, positions), v

    def _queries(self, inputs: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """[kv, N, group, d], scaled."""
        q: torch.Tensor = self._rotated(self._heads(self._attention.q_proj, inputs), positions) * self._dim**-0.5
        return q.view(self._kv, self._group, -1, self._dim).transpose(1, 2)

    def _heads(self, project: torch.nn.Module, inputs: torch.Tensor) -> torch.Tensor:
        """[heads, n, d]."""
        projected: torch.Tensor = project(inputs)
        return projected.view(len(inputs), -1, self._dim).transpose(0, 1)

    def _rotated(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """x [heads, n, d]."""
        cos, sin = self._drafter.rotary_emb(x, positions[None])
        rotated: torch.Tensor = apply_rotary_pos_emb(x[None], x[None, :1], cos, sin)[0][0]
        return rotated

    def _attend(self, q: torch.Tensor) -> torch.Tensor:
        """q [kv, N, group, d] -> [N, H]."""
        pieces, mixed, weights = self._packed.pieces, list[torch.Tensor](), list[torch.Tensor]()
        sizes = [piece.bases * self._group for piece in pieces]
        rows = torch.split(q.flatten(1, 2), sizes, 1)
        scored = [(q * k).sum(-1).flatten(1) for k, _ in self._own]
        own = torch.split(torch.stack(scored, -1), sizes, 1) if scored else [None] * len(pieces)
        for piece, row, last in zip(pieces, rows, own, strict=True):
            k, v = (x[piece.document][:, : piece.keys] for x in (self._k, self._v))
            scores = row @ k.transpose(1, 2)
            scores.view(self._kv, piece.bases, self._group, -1).masked_fill_(piece.after, float("-inf"))
            if last is not None:
                scores = torch.cat([scores, last], dim=-1)
            share = scores.float().softmax(-1).to(row.dtype)
            mixed.append(share[..., : piece.keys] @ v)
            weights.append(share[..., piece.keys :])
        out = torch.cat(mixed, dim=1).view(q.shape)
        shares = torch.cat(weights, dim=1).view(*q.shape[:3], len(self._own))
        for place, (_, v) in enumerate(self._own):
            out = out + shares[..., place : place + 1] * v
        attended: torch.Tensor = self._attention.o_proj(out.permute(1, 0, 2, 3).flatten(1))
        return attended
