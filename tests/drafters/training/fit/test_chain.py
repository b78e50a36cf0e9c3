"""Unrolling by document is speculators' own forward, and what the packaged drafter does in serving."""

from typing import Any

import pytest
import torch
from drafter_files.toy import HEAD_DIM, HEADS, HIDDEN, HOT, INNER, KV_HEADS, VOCAB
from reference_drafter.drafter import load_drafter
from speculators.losses import resolve_loss_config
from speculators.models.eagle3 import Eagle3DraftModel

from k25serve.drafters.tiny import DRAFTER
from k25serve.drafters.training.fit.begin import begin_scratch
from k25serve.drafters.training.fit.build import DENSE, build, draft_config
from k25serve.drafters.training.fit.evaluate import draft, drafted_ids
from k25serve.drafters.training.fit.losses import chain_losses
from k25serve.drafters.training.fit.options import DraftLayer, FitOptions, Init, Optimizer
from k25serve.drafters.training.fit.packed import Packed, pack
from k25serve.drafters.training.fit.verifier import Verifier
from k25serve.drafters.training.fit.vocabulary import DraftVocabulary
from k25serve.drafters.training.fit.warm import begin_warm

LENGTHS, PADDING = (17, 3, 30, 6), 4


def toy_drafter(seed: int = 0) -> Eagle3DraftModel:
    torch.manual_seed(seed)
    layer = DraftLayer(
        intermediate_size=INNER,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        rope_theta=1e4,
        max_position_embeddings=64,
    )
    options = FitOptions(draft_layer=layer, optimizer=Optimizer(learning_rate=0.01), max_steps=1, tokens_per_batch=64)
    hot = torch.tensor(HOT)
    t2d = torch.zeros(VOCAB, dtype=torch.bool)
    t2d[hot] = True
    vocabulary = DraftVocabulary(hot - torch.arange(len(hot)), t2d)
    head = torch.randn(len(hot), HIDDEN)
    verifier = Verifier(torch.randn(VOCAB, HIDDEN), head, torch.rand(HIDDEN), 1e-6, 8, "Toy")
    drafter = build(draft_config(options, verifier, len(hot), [1, 3, 4], DENSE), verifier, vocabulary)
    begin_scratch(drafter, verifier, Init(fc="random", norm="ones", head="random"))
    for weight in drafter.parameters():
        weight.data.mul_(3 if weight.dim() == 2 else 1)  # so that attention is far from even
    drafter.lm_head.requires_grad_(True)
    return drafter


def toy_batch(lengths: tuple[int, ...] = LENGTHS, hidden: int = HIDDEN, vocab: int = VOCAB) -> dict[str, Any]:
    numbers = torch.Generator().manual_seed(1)
    documents = torch.cat([torch.full((n,), i) for i, n in enumerate(lengths)] + [torch.full((PADDING,), -1)])
    positions = torch.cat([torch.arange(1, n + 1) for n in lengths] + [torch.zeros(PADDING, dtype=torch.long)])
    length = len(documents)
    mask = torch.rand(length, generator=numbers) > 0.5
    mask[documents < 0] = False
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    for start in starts:
        mask[start : start + 3] = False
    return {
        "hidden_states": torch.randn(1, length, 3 * hidden, generator=numbers),
        "verifier_last_hidden_states": torch.randn(1, length, hidden, generator=numbers),
        "input_ids": torch.randint(0, vocab, (1, length), generator=numbers),
        "loss_mask": mask[None],
        "position_ids": positions[None],
        "document_ids": documents[None],
    }


@pytest.mark.parametrize("loss", ["kl_div", '{"ce": 0.5, "tv": 1.0}'])
def test_losses_and_gradients_are_speculators(loss: str) -> None:
    drafter, batch, config = toy_drafter(), toy_batch(), resolve_loss_config(loss, "eager")
    _, theirs, metrics = drafter(**batch, ttt_steps=3, ttt_step_loss_decay=0.8, loss_config=config)
    theirs.backward()
    expected = {name: p.grad.clone() for name, p in drafter.named_parameters() if p.grad is not None}
    drafter.zero_grad()
    ours = chain_losses(drafter, pack(batch, 3), 3, config, 0.8, count=True)
    ours.total.backward()  # type: ignore[no-untyped-call]
    assert ours.total.item() == pytest.approx(theirs.item(), rel=1e-6)
    assert ours.loss.tolist() == pytest.approx([float(metrics[f"loss_{i}_sum"]) for i in range(3)], rel=1e-6)
    assert {n for n, p in drafter.named_parameters() if p.grad is not None} == set(expected)
    for name, gradient in expected.items():
        found = drafter.get_parameter(name).grad
        torch.testing.assert_close(found, gradient, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")


def test_pieces_of_a_long_document_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    drafter, batch, config = toy_drafter(), toy_batch(), resolve_loss_config("kl_div", "eager")
    whole = chain_losses(drafter, pack(batch, 3), 3, config, 1.0)
    monkeypatch.setattr("k25serve.drafters.training.fit.packed.PIECE_SCORES", 90)
    cut = pack(batch, 3)
    assert len(cut.pieces) > len(LENGTHS)
    assert chain_losses(drafter, cut, 3, config, 1.0).total.item() == pytest.approx(whole.total.item(), rel=1e-6)


def test_a_batch_without_a_wanted_word_has_no_loss_and_a_gradient() -> None:
    drafter, batch = toy_drafter(), toy_batch()
    batch["loss_mask"] = torch.zeros_like(batch["loss_mask"])
    losses = chain_losses(drafter, pack(batch, 3), 3, resolve_loss_config("kl_div", "eager"), 1.0)
    losses.total.backward()  # type: ignore[no-untyped-call]
    assert losses.total.item() == 0
    assert drafter.fc.weight.grad is not None


def test_greedy_drafts_are_those_of_the_packaged_drafter() -> None:
    """With its weights taken over, what is drafted is what drafters/tiny drafts, which the engine's tests hold."""
    tiny = load_drafter(DRAFTER)
    embedding, hot = torch.randn(2048, 256), tiny.hot_ids
    layer = DraftLayer(
        intermediate_size=320,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        rope_theta=1e4,
        max_position_embeddings=4096,
    )
    options = FitOptions(draft_layer=layer, optimizer=Optimizer(learning_rate=0.01), max_steps=1, tokens_per_batch=64)
    vocabulary = DraftVocabulary(tiny.d2t, tiny.t2d)
    verifier = Verifier(embedding, torch.randn(len(hot), 256), torch.ones(256), 1e-6, 5, "Toy")
    drafter = build(draft_config(options, verifier, len(hot), [1, 2, 3], DENSE), verifier, vocabulary)
    begin_warm(drafter, DRAFTER, layer, [1, 2, 3], verifier, vocabulary)
    batch = toy_batch((40,), 256, 2048)
    packed: Packed = pack(batch, 3, torch.ones(40, dtype=torch.bool))
    with torch.no_grad():
        found = draft(drafter, packed, 3, drafted_ids(drafter))
        # `unroll` takes token b and shifts by itself; here position b already holds token b+1.
        ids = torch.cat([torch.zeros(1, 1, dtype=torch.long), batch["input_ids"][:, :40]], dim=1)
        aux = torch.cat([batch["hidden_states"][:, :40], torch.zeros(1, 1, 768)], dim=1)
        logits = tiny.unroll(aux, ids, embedding, 3)
    expected = torch.stack([hot[step.argmax(-1)[0, :40]] for step in logits], dim=1)
    assert torch.equal(found, expected)
