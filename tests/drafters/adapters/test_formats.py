"""speculators, SpecForge and vLLM: what each means, written as the other reads it."""

import json
from pathlib import Path
from typing import Any

import pytest
from drafter_files.files import noise, read_file
from drafter_files.toy import DRAFT_CONFIG, HIDDEN, VOCAB, draft_arrays, write_drafter
from transformers import LlamaConfig

from k25serve.drafters.adapters import AdaptOptions, adapt
from k25serve.drafters.adapters.speculators import LLAMA_DEFAULTS
from k25serve.drafters.check import Verdict, check_drafter
from k25serve.drafters.checkpoint import AdaptError

AUX = "eagle_aux_hidden_state_layer_ids"
LAYER = {
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": VOCAB,
    "max_position_embeddings": 512,
    "rope_parameters": {"rope_theta": 50000.0, "rope_type": "default"},
}
SPECULATORS: dict[str, Any] = {
    "architectures": ["Eagle3Speculator"],
    "speculators_model_type": "eagle3",
    "speculators_config": {"algorithm": "eagle3", "verifier": {"name_or_path": "toy"}},
    "transformer_layer_config": LAYER,
    "draft_vocab_size": 16,
    "norm_before_residual": False,
    "norm_before_fc": True,
    "fc_norm": False,
    "norm_output": True,
    AUX: [2, 4, 5],
    "dtype": "bfloat16",
}


def write_speculators(folder: Path, layer: dict[str, Any] | None = None, **changed: Any) -> Path:
    """A checkpoint of speculators 0.9, as models/eagle3/core.py names it and saves its config."""
    config = {**SPECULATORS, "transformer_layer_config": {**LAYER, **(layer or {})}, **changed}
    arrays = {
        "input_norm.weight": noise("input", 3 * HIDDEN),
        "embed_tokens.weight": noise("own", VOCAB, HIDDEN),
        "verifier_norm.weight": noise("vn", HIDDEN),
        "verifier_lm_head.weight": noise("vh", 16, HIDDEN),
    }
    return write_drafter(folder, config, arrays, draft_arrays("layers.0."), base_config={})


def config(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return value


def test_speculators_to_sglang(tmp_path: Path, target: Path) -> None:
    adapted = adapt("speculators", write_speculators(tmp_path / "d"), tmp_path / "out", target)
    found, arrays = config(adapted.folder), read_file(adapted.folder / "model.safetensors")
    assert {name: arrays[name] for name in draft_arrays()} == draft_arrays()
    assert set(arrays) - set(draft_arrays()) == {"input_norm.weight", "embed_tokens.weight"}
    assert "left out: verifier_lm_head.weight, verifier_norm.weight" in adapted.changes
    assert found["architectures"] == ["LlamaForCausalLMEagle3"]
    assert found["eagle_config"][AUX] == [2, 4, 5]
    assert (found["norm_before_fc"], found["norm_output"], found["rms_norm_eps"]) == (True, True, 1e-6)
    assert (found["rope_theta"], found["rope_scaling"]) == (50000.0, None)
    report = check_drafter(adapted.folder, target)
    assert [finding.rule for finding in report.with_verdict(Verdict.WARN)] == ["embeddings"]
    assert report.with_verdict(Verdict.REFUSE) == ()


def test_what_speculators_leaves_out_is_transformers_default() -> None:
    defaults = LlamaConfig().to_dict()
    assert {key: defaults[key] for key in LLAMA_DEFAULTS} == LLAMA_DEFAULTS
    assert defaults["rope_parameters"]["rope_theta"] == 10000.0


@pytest.mark.parametrize(
    ("layer", "changed", "told"),
    [
        ({"model_type": "qwen3"}, {}, "model_type of the layer is 'qwen3'"),
        ({"num_hidden_layers": 2}, {}, "num_hidden_layers is 2"),
        ({"layer_types": ["sliding_attention"]}, {}, "sliding_attention"),
        ({}, {"norm_before_residual": True}, "norm_before_residual is true"),
        ({}, {"speculators_model_type": "dflash"}, "is 'dflash'"),
        ({}, {"transformer_layer_config": None}, "transformer_layer_config missing"),
        ({}, {AUX: None}, "pass --aux-layers"),
        ({}, {AUX: [1, 4, 5]}, "cannot be told to capture"),
    ],
    ids=["qwen3", "layers", "window", "residual", "algorithm", "flat", "no aux", "state 1"],
)
def test_speculators_that_sglang_cannot_serve(
    tmp_path: Path, target: Path, layer: dict[str, Any], changed: dict[str, Any], told: str
) -> None:
    with pytest.raises(AdaptError, match=told):
        adapt("speculators", write_speculators(tmp_path / "d", layer, **changed), tmp_path / "out", target)


def test_specforge_norm_output_means_something_else(tmp_path: Path, target: Path) -> None:
    """SpecForge's true (the head sees the normed state) is what SGLang always does."""
    adapted = adapt("specforge", write_drafter(tmp_path / "d", {"norm_output": True}), tmp_path / "out", target)
    assert config(adapted.folder)["norm_output"] is False
    assert any("norm_output true (SpecForge) is false in SGLang" in change for change in adapted.changes)
    assert check_drafter(adapted.folder, target).verdict is Verdict.PASS
    with pytest.raises(AdaptError, match="norm_output is false: SpecForge's head"):
        adapt("specforge", write_drafter(tmp_path / "e", {"norm_output": False}), tmp_path / "no", target)


def test_specforge_writes_no_aux_layers(tmp_path: Path, target: Path) -> None:
    source = write_drafter(tmp_path / "d", {"eagle_config": None})
    with pytest.raises(AdaptError, match="--accept-default-aux"):
        adapt("specforge", source, tmp_path / "no", target)
    # Its own default, ids of layers that states leave: [1, L//2 - 1, L - 4].
    options = AdaptOptions(aux_layers=(1, 3, 4), aux_convention="output")
    adapted = adapt("specforge", source, tmp_path / "out", target, options)
    assert config(adapted.folder)["eagle_config"][AUX] == [2, 4, 5]


@pytest.mark.parametrize("name", ["d2t", "t2d"])
def test_specforge_needs_its_map(tmp_path: Path, target: Path, name: str) -> None:
    with pytest.raises(AdaptError, match=f"tensor '{name}' is missing; export again"):
        adapt("specforge", write_drafter(tmp_path / "d", arrays={name: None}), tmp_path / "out", target)


def test_sglang_to_vllm_and_back(tmp_path: Path, target: Path) -> None:
    source = write_drafter(tmp_path / "d", {"eagle_config": {AUX: [1, 3, 4]}, "head_dim": 8})
    there = adapt("vllm", source, tmp_path / "vllm", target)
    found = config(there.folder)
    assert read_file(there.folder / "model.safetensors") == draft_arrays("layers.0.")
    # vLLM takes ids as they are: states that enter layers 2, 4 and 5, whatever SGLang calls them.
    assert found[AUX] == found["eagle_config"][AUX] == [2, 4, 5]
    assert (found["rope_theta"], found["rope_parameters"]) == (1e6, {"rope_theta": 1e6, "rope_type": "default"})
    back = adapt("eagle", there.folder, tmp_path / "back", target)
    assert read_file(back.folder / "model.safetensors") == draft_arrays()
    assert check_drafter(back.folder, target).verdict is Verdict.PASS


def test_vllm_needs_a_head_and_tells_new_flags(tmp_path: Path, target: Path) -> None:
    with pytest.raises(AdaptError, match=r"'lm_head\.weight' is missing"):
        adapt("vllm", write_drafter(tmp_path / "d", arrays={"lm_head.weight": None}), tmp_path / "no", target)
    adapted = adapt("vllm", write_drafter(tmp_path / "e", {"norm_output": True}), tmp_path / "out", target)
    assert any("norm_output kept: needs a vLLM with EAGLE-3.1" in change for change in adapted.changes)


def test_rope_that_is_not_there_is_not_made_up(tmp_path: Path, target: Path) -> None:
    with pytest.raises(AdaptError, match="rope_theta is missing"):
        adapt("vllm", write_drafter(tmp_path / "d", {"rope_theta": None}), tmp_path / "out", target)


def test_yarn_in_both_spellings(tmp_path: Path, target: Path) -> None:
    scaling = {"type": "yarn", "factor": 64.0, "original_max_position_embeddings": 8}
    adapted = adapt("vllm", write_drafter(tmp_path / "d", {"rope_scaling": scaling}), tmp_path / "out", target)
    found = config(adapted.folder)
    yarn = {"rope_type": "yarn", "factor": 64.0, "original_max_position_embeddings": 8}
    assert found["rope_scaling"] == yarn
    assert found["rope_parameters"] == {**yarn, "rope_theta": 1e6}
    assert DRAFT_CONFIG["max_position_embeddings"] == found["max_position_embeddings"]
