"""The made-up model has Kimi-K2.5's geometry, a share for each rank, and fits its drafter."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from k25serve.bench.gpu import arms, rank_model
from k25serve.bench.gpu.booted import ProofError
from k25serve.bench.gpu.ranks.work import EIGHTHS, LAYERS
from k25serve.bench.gpu.start import Start
from k25serve.drafters.check import Verdict, check_drafter

HEADS, EXPERT_WIDTH, DENSE_WIDTH = 64, 2048, 18432  # the whole model's


@pytest.mark.parametrize("ranks", [1, 8])
def test_a_rank_holds_an_eighth_of_each_layer(tmp_path: Path, ranks: int) -> None:
    config = json.loads((rank_model.write_target(tmp_path / "target", ranks) / "config.json").read_text())
    assert config["num_attention_heads"] == HEADS * ranks // 8
    assert config["moe_intermediate_size"] == EXPERT_WIDTH * ranks // 8
    assert config["intermediate_size"] == DENSE_WIDTH * ranks // 8
    assert (config["kv_lora_rank"], config["qk_rope_head_dim"]) == (512, 64)
    assert config["num_nextn_predict_layers"] == 0


@pytest.mark.parametrize(("ranks", "layers"), [(2, 5), (4, 6), (8, 6)])
def test_the_whole_width_over_any_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: int, layers: int
) -> None:
    """Of the tp stage: all 64 heads and 384 experts, split by the engine."""
    written: list[tuple[int, int]] = []
    monkeypatch.setattr(arms, "write_drafter", lambda folder, *shape: written.append(shape) or folder)
    bench = arms.prepare(Start((), (), tmp_path), ranks, EIGHTHS, LAYERS[ranks])
    config = json.loads((tmp_path / "model" / "target" / "config.json").read_text())
    sizes = ("num_attention_heads", "moe_intermediate_size", "intermediate_size", "vocab_size", "num_hidden_layers")
    assert [config[size] for size in sizes] == [HEADS, EXPERT_WIDTH, DENSE_WIDTH, 163840, layers]
    assert written == [(8, layers)]
    assert json.loads(bench.profile.read_text())["engine"]["tp"] == ranks


def test_the_drafter_names_every_tensor_that_sglang_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, small in {"HIDDEN": 16, "DENSE_WIDTH": 8, "VOCABULARY": 40, "DRAFT_VOCABULARY": 8}.items():
        monkeypatch.setattr(rank_model, name, small)
    folder = rank_model.write_drafter(tmp_path / "drafter", 1)
    with safe_open(folder / "model.safetensors", "np") as file:
        names = list(file.keys())
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in names}
        d2t, t2d = file.get_tensor("d2t"), file.get_tensor("t2d")
    assert shapes["fc.weight"] == (16, 48)
    assert shapes["midlayer.self_attn.q_proj.weight"] == (8 * 128, 32)
    assert (d2t + np.arange(len(d2t))).tolist() == np.flatnonzero(t2d).tolist()


MODELS = [*((EIGHTHS, layers) for layers in LAYERS.values()), (1, rank_model.LAYERS)]


@pytest.mark.parametrize(("eighths", "layers"), sorted(set(MODELS)))
def test_the_drafter_passes_the_products_own_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eighths: int, layers: int
) -> None:
    """At each number of layers that a stage writes; the engine is started without that check (random weights)."""
    for name, small in {"HIDDEN": 64, "DENSE_WIDTH": 8}.items():
        monkeypatch.setattr(rank_model, name, small)
    target = rank_model.write_target(tmp_path / "target", eighths, layers)
    # The engine makes the target's weights; these two the check reads.
    rows = torch.zeros(rank_model.VOCABULARY * eighths, rank_model.HIDDEN, dtype=torch.bfloat16)
    save_file({"model.embed_tokens.weight": rows, "lm_head.weight": rows.clone()}, target / "model.safetensors")
    report = check_drafter(rank_model.write_drafter(tmp_path / "drafter", eighths, layers), target)
    assert report.verdict is Verdict.PASS, report.findings
    assert report.not_judged == ()


@pytest.mark.parametrize("layers", range(rank_model.LEAST_LAYERS, 62))
def test_no_engine_shifts_the_drafters_layers(layers: int) -> None:
    ids = rank_model.aux_layers(layers)
    assert ids[0] >= 2, "SGLang adds one to all where the first is 1"
    assert len(set(ids)) == 3
    assert ids == sorted(ids)
    assert ids[-1] < layers, "what enters layer `layers` is never captured"


def test_a_target_of_too_few_layers_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ProofError, match="layers 4: an EAGLE-3 drafter takes states of layers 2, 3 and 4; give 5"):
        rank_model.write_drafter(tmp_path / "drafter", 1, 4)
    assert not (tmp_path / "drafter").exists()
