"""Trains the vision tower against the frozen language model, to tell plain colours apart."""

import random
from dataclasses import dataclass

import torch
from transformers import DeepseekV3ForCausalLM

from k25serve.drafters.tiny import special_tokens as st
from k25serve.drafters.tiny.dataset import Encoder
from k25serve.drafters.tiny.optimizer import GRADIENT_CLIP, make_optimizer, mixed_precision
from k25serve.drafters.tiny.progress import Progress
from k25serve.drafters.tiny.talk_chats import COLOURS, colour_chat
from k25serve.drafters.tiny.train_target import next_token_loss
from k25serve.drafters.tiny.vision import GRID, IMAGE_TOKENS, PATCH_SIZE, VisionModel

RGB = {
    "red": (0.9, 0.1, 0.1),
    "green": (0.1, 0.75, 0.1),
    "blue": (0.1, 0.1, 0.9),
    "black": (0.05, 0.05, 0.05),
    "white": (0.95, 0.95, 0.95),
    "yellow": (0.95, 0.9, 0.1),
}


@dataclass(frozen=True)
class VisionOptions:
    steps: int
    batch_size: int = 32
    learning_rate: float = 2e-3
    seed: int = 0


def train_vision(
    vision: VisionModel, model: DeepseekV3ForCausalLM, encoder: Encoder, options: VisionOptions, device: torch.device
) -> dict[str, float]:
    """Train `vision` in place (both on `device`); returns the last smoothed loss."""
    rng, generator = random.Random(options.seed), torch.Generator().manual_seed(options.seed)
    rows = {colour: _colour_rows(encoder, rng, colour) for colour in COLOURS}
    optimizer, schedule = make_optimizer(vision, options.learning_rate, options.steps)
    progress, smooth = Progress("vision", options.steps), torch.zeros((), device=device)
    model.requires_grad_(False)
    for step in range(options.steps):
        colours = [rng.choice(COLOURS) for _ in range(options.batch_size)]
        picked = [rng.choice(rows[colour]) for colour in colours]
        pixels = paint(colours, generator).to(device)
        with mixed_precision(device):
            loss = _loss(vision, model, encoder, pixels, picked, device)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(vision.parameters(), GRADIENT_CLIP)
        optimizer.step()
        schedule.step()
        smooth = smooth.lerp(loss.detach(), max(0.05, 1 / (step + 1)))
        if step % 10 == 9 or step + 1 == options.steps:
            progress.step(step + 1, f"loss {smooth.item():.4f}")
    model.requires_grad_(True)
    return {"loss": smooth.item()}


def paint(colours: list[str], generator: torch.Generator) -> torch.Tensor:
    """Normalised pixels [images, patches, 3, PATCH, PATCH]: a plain colour each, with its own shade and some noise."""
    base = torch.tensor([RGB[c] for c in colours])[:, None, :, None, None]
    shade = (torch.rand(len(colours), 1, 3, 1, 1, generator=generator) - 0.5) * 0.2
    noise = torch.randn(len(colours), GRID * GRID, 3, PATCH_SIZE, PATCH_SIZE, generator=generator) * 0.03
    return ((base + shade + noise).clamp(0, 1) - 0.5) / 0.5


def media_embeddings(
    model: DeepseekV3ForCausalLM, ids: torch.Tensor, images: torch.Tensor, media_pad: int
) -> torch.Tensor:
    """Token embeddings of ids [rows, length], the placeholders' replaced by images [rows, IMAGE_TOKENS, H]."""
    embedded: torch.Tensor = model.model.embed_tokens(ids)
    return embedded.masked_scatter((ids == media_pad)[..., None], images.to(embedded.dtype))


def _loss(
    vision: VisionModel,
    model: DeepseekV3ForCausalLM,
    encoder: Encoder,
    pixels: torch.Tensor,
    rows: list[list[int]],
    device: torch.device,
) -> torch.Tensor:
    width = max(map(len, rows))
    ids = torch.tensor([row + [encoder.pad] * (width - len(row)) for row in rows], device=device)
    mask = torch.tensor([encoder.assistant_mask(row) + [False] * (width - len(row)) for row in rows], device=device)
    media_pad = int(encoder.tokenizer.convert_tokens_to_ids(st.MEDIA_PAD))
    embedded = media_embeddings(model, ids, vision(pixels), media_pad)
    return next_token_loss(model(inputs_embeds=embedded, use_cache=False).logits, ids, mask)


def _colour_rows(encoder: Encoder, rng: random.Random, colour: str) -> list[list[int]]:
    """Encoded colour chats of one colour, its name in the media section replaced by placeholders."""
    rows: list[list[int]] = []
    while len(rows) < 16:
        text = encoder.render(colour_chat(rng, rng.random() < 0.75, IMAGE_TOKENS))
        if f" {colour}" * IMAGE_TOKENS in text:
            text = text.replace(f" {colour}" * IMAGE_TOKENS, st.MEDIA_PAD * IMAGE_TOKENS)
            rows.append(list(encoder.tokenizer.encode(text, add_special_tokens=False)))
    return rows
