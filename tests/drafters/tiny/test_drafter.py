"""The drafter's parallel unrolling against one that drafts token by token with a key-value cache, as an engine does."""

import json

import torch
import torch.nn.functional as F
from reference_drafter.acceptance import AUX_LAYERS, merge, simulate, target_states
from reference_drafter.drafter import Drafter
from transformers import DeepseekV3ForCausalLM

from k25serve.drafters.tiny import DRAFTER
from k25serve.drafters.training.fit.walk import Walked

LENGTH, STEPS = 9, 4
CONFIG = json.loads((DRAFTER / "config.json").read_text())


def random_drafter() -> Drafter:
    torch.manual_seed(0)
    drafter = Drafter(CONFIG)
    for parameter in drafter.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    drafter.d2t = torch.arange(1024)  # every second target id: hot id = 2 * draft id
    drafter.t2d = torch.arange(2048) % 2 == 0
    return drafter


def norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def rotate(x: torch.Tensor, position: int) -> torch.Tensor:
    """x [heads, 64]: halves (i, i + 32) turned by position / 10000^(i/32)."""
    angle = position * 10000.0 ** (-torch.arange(32) / 32)
    left, right = x[:, :32], x[:, 32:]
    return torch.cat([left * angle.cos() - right * angle.sin(), right * angle.cos() + left * angle.sin()], dim=-1)


def one_token(
    drafter: Drafter, cache: list[tuple[torch.Tensor, torch.Tensor]], embedded: torch.Tensor, hidden: torch.Tensor
) -> torch.Tensor:
    """One token [H] at position len(cache); appends to the cache, returns the hidden state before the norm."""
    layer, position = drafter.midlayer, len(cache)
    x = torch.cat([norm(embedded, layer.input_layernorm.weight), norm(hidden, layer.hidden_norm.weight)])
    attention = layer.self_attn
    q = rotate(attention.q_proj(x).view(4, 64), position)
    k, v = rotate(attention.k_proj(x).view(2, 64), position), attention.v_proj(x).view(2, 64)
    cache.append((k, v))
    heads = []
    for head in range(4):
        keys, values = (torch.stack([pair[i][head // 2] for pair in cache]) for i in (0, 1))
        heads.append((keys @ q[head] / 8).softmax(0) @ values)
    hidden = hidden + attention.o_proj(torch.cat(heads))
    mlp, y = layer.mlp, norm(hidden, layer.post_attention_layernorm.weight)
    return torch.as_tensor(hidden + mlp.down_proj(F.silu(mlp.gate_proj(y)) * mlp.up_proj(y)))


@torch.no_grad()
def test_unrolling_is_what_serving_computes() -> None:
    drafter = random_drafter()
    embedding = torch.randn(2048, 256)
    ids, aux = torch.randint(0, 2048, (1, LENGTH)), torch.randn(1, LENGTH, 768)
    unrolled = drafter.unroll(aux, ids, embedding, STEPS)
    for base in range(LENGTH - 1):
        cache: list[tuple[torch.Tensor, torch.Tensor]] = []
        for place in range(base + 1):  # states of the accepted tokens, each with the next one's embedding
            hidden = one_token(drafter, cache, embedding[ids[0, place + 1]], drafter.fc(aux[0, place]))
        for step in range(STEPS):
            logits = drafter.lm_head(norm(hidden, drafter.norm.weight))
            torch.testing.assert_close(unrolled[step][0, base], logits, rtol=1e-3, atol=1e-3)
            token = 2 * int(logits.argmax())
            hidden = one_token(drafter, cache, embedding[token], hidden)


@torch.no_grad()
def test_captured_states_are_the_inputs_of_their_layers(target: DeepseekV3ForCausalLM) -> None:
    seen: dict[int, torch.Tensor] = {}
    handles = [
        target.model.layers[i].register_forward_pre_hook(lambda _, args, i=i: seen.__setitem__(i, args[0]))
        for i in AUX_LAYERS
    ]
    ids = torch.arange(12)[None]
    aux = target_states(target, ids)
    for handle in handles:
        handle.remove()
    torch.testing.assert_close(aux, torch.cat([seen[i] for i in AUX_LAYERS], dim=-1))


class Scripted(Drafter):
    """Drafts, from each base, the tokens that it is told."""

    def __init__(self, drafts: list[list[int]]) -> None:
        super().__init__(CONFIG)
        self.drafts = torch.tensor(drafts)

    def unroll(self, *_: object, **__: object) -> list[torch.Tensor]:
        return [F.one_hot(self.drafts[None, :, step], 1024).float() for step in range(3)]


def test_simulation_walks_like_verification(target: DeepseekV3ForCausalLM) -> None:
    prompt, answer = [1, 2], [10, 11, 12, 13, 14, 15]
    # base 1: token 10 is known, 11 12 right, 99 wrong; base 4: token 13 is known, 14 15 right, then the text ends.
    drafts = [[0, 0, 0], [11, 12, 99], [0, 0, 0], [0, 0, 0], [14, 15, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    found = simulate(Scripted(drafts), target, prompt, answer)
    assert found == Walked((0, 0, 2, 0))
    assert found.accept_length == 3.0
    assert merge([found, Walked((2, 0, 0, 0))]).accept_length == 2.0
