"""Three layouts, either way, bit by bit (https://github.com/SafeAILab/EAGLE/issues/130)."""

from dataclasses import fields
from pathlib import Path

import pytest
from drafter_files.files import Array, noise, read_file
from drafter_files.toy import (
    HIDDEN,
    LAYER_ARRAYS,
    MLA_ARRAYS,
    MLA_CONFIG,
    OTHER_ARRAYS,
    VOCAB,
    draft_arrays,
    write_drafter,
)

from k25serve.drafters.adapters import ADAPTERS, AdaptOptions, adapt
from k25serve.drafters.adapters.takes import TAKES
from k25serve.drafters.checkpoint import AdaptError

MIDLAYER = [
    "d2t",
    "embed_tokens.weight",
    "fc.weight",
    "lm_head.weight",
    "midlayer.hidden_norm.weight",
    "midlayer.input_layernorm.weight",
    "midlayer.mlp.down_proj.weight",
    "midlayer.mlp.gate_proj.weight",
    "midlayer.mlp.up_proj.weight",
    "midlayer.post_attention_layernorm.weight",
    "midlayer.self_attn.k_proj.weight",
    "midlayer.self_attn.o_proj.weight",
    "midlayer.self_attn.q_proj.weight",
    "midlayer.self_attn.v_proj.weight",
    "norm.weight",
    "t2d",
]
LAYERS = [
    "d2t",
    "embed_tokens.weight",
    "fc.weight",
    "layers.0.hidden_norm.weight",
    "layers.0.input_layernorm.weight",
    "layers.0.mlp.down_proj.weight",
    "layers.0.mlp.gate_proj.weight",
    "layers.0.mlp.up_proj.weight",
    "layers.0.post_attention_layernorm.weight",
    "layers.0.self_attn.k_proj.weight",
    "layers.0.self_attn.o_proj.weight",
    "layers.0.self_attn.q_proj.weight",
    "layers.0.self_attn.v_proj.weight",
    "lm_head.weight",
    "norm.weight",
    "t2d",
]
MODEL_LAYERS = [
    "d2t",
    "lm_head.weight",
    "model.embed_tokens.weight",
    "model.fc.weight",
    "model.layers.0.hidden_norm.weight",
    "model.layers.0.input_layernorm.weight",
    "model.layers.0.mlp.down_proj.weight",
    "model.layers.0.mlp.gate_proj.weight",
    "model.layers.0.mlp.up_proj.weight",
    "model.layers.0.post_attention_layernorm.weight",
    "model.layers.0.self_attn.k_proj.weight",
    "model.layers.0.self_attn.o_proj.weight",
    "model.layers.0.self_attn.q_proj.weight",
    "model.layers.0.self_attn.v_proj.weight",
    "model.norm.weight",
    "t2d",
]
NAMES = {"midlayer": MIDLAYER, "layers": LAYERS, "model-layers": MODEL_LAYERS}
PREFIXES = {"midlayer": ("midlayer.", ""), "layers": ("layers.0.", ""), "model-layers": ("model.layers.0.", "model.")}
EMBEDDING = noise("own", VOCAB, HIDDEN)


def source(folder: Path, layout: str, shards: int = 1) -> Path:
    layer, other = PREFIXES[layout]
    arrays = {f"{other}embed_tokens.weight": EMBEDDING}
    return write_drafter(folder, arrays=arrays, base=draft_arrays(layer, other), shards=shards)


def bits(folder: Path) -> dict[str, Array]:
    return read_file(folder / "model.safetensors")


@pytest.mark.parametrize("shards", [1, 5])
@pytest.mark.parametrize("into", NAMES)
@pytest.mark.parametrize("layout", NAMES)
def test_round_trip(tmp_path: Path, layout: str, into: str, shards: int) -> None:
    start = source(tmp_path / "start", layout, shards)
    there = adapt("eagle", start, tmp_path / "there", options=AdaptOptions(layout=into))  # type: ignore[arg-type]
    assert sorted(bits(there.folder)) == NAMES[into]
    assert "embed_tokens.weight kept" in there.changes
    assert "t2d kept" in there.changes
    back = adapt("eagle", there.folder, tmp_path / "back", options=AdaptOptions(layout=layout))  # type: ignore[arg-type]
    found = bits(back.folder)
    assert sorted(found) == NAMES[layout]
    layer, other = PREFIXES[layout]
    expected = {f"{layer}{name}": array for name, array in LAYER_ARRAYS.items()}
    expected |= {
        name if name in ("d2t", "t2d", "lm_head.weight") else other + name: a for name, a in OTHER_ARRAYS.items()
    }
    assert found == expected | {f"{other}embed_tokens.weight": EMBEDDING}


def test_mla_keeps_its_names(tmp_path: Path) -> None:
    start = write_drafter(tmp_path / "start", base=MLA_ARRAYS, base_config=MLA_CONFIG)
    there = adapt("eagle", start, tmp_path / "there", options=AdaptOptions(layout="midlayer"))
    assert "midlayer.self_attn.kv_a_proj_with_mqa.weight" in bits(there.folder)
    back = adapt("eagle", there.folder, tmp_path / "back", options=AdaptOptions(layout="layers"))
    assert bits(back.folder) == MLA_ARRAYS
    with pytest.raises(AdaptError, match="SGLang loses these names"):
        adapt("eagle", start, tmp_path / "lost", options=AdaptOptions(layout="model-layers"))


def test_legacy_norms_and_buffers(tmp_path: Path) -> None:
    arrays = {f"aux_norm_{level}.weight": noise(level, HIDDEN) for level in ("low", "mid", "high")}
    arrays["midlayer.self_attn.rotary_emb.inv_freq"] = noise("inv", 4, dtype="F32")
    there = adapt("eagle", write_drafter(tmp_path / "d", {"fc_norm": True}, arrays), tmp_path / "out")
    found = bits(there.folder)
    assert found["fc_norm.2.weight"] == arrays["aux_norm_high.weight"]
    assert "left out: midlayer.self_attn.rotary_emb.inv_freq" in there.changes
    assert not any("inv_freq" in name for name in found)


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"foo.bias": noise("f", 2)}, r"tensor 'foo\.bias' is not one that LlamaForCausalLMEagle3 has"),
        ({"midlayer.mlp.up.weight": noise("f", 2)}, r"near: midlayer\.mlp\.up_proj\.weight"),
        ({"midlayer.mlp.up_proj.weight": None}, r"tensor 'midlayer\.mlp\.up_proj\.weight' is missing"),
        ({"norm.weight": None}, r"tensor 'norm\.weight' is missing"),
        ({"layers.0.mlp.up_proj.weight": noise("f", 2)}, r"layers in 2 layouts"),
        ({"model.norm.weight": noise("f", 2)}, r"tensor 'model\.norm\.weight' is not one"),
        ({"lm_head.weight": None}, r"'lm_head\.weight' is missing.*--lend-lm-head"),
    ],
    ids=["unknown", "near", "missing", "missing norm", "two layouts", "another layout's", "head"],
)
def test_refused(tmp_path: Path, arrays: dict[str, Array | None], told: str) -> None:
    with pytest.raises(AdaptError, match=told):
        adapt("eagle", write_drafter(tmp_path / "d", arrays=arrays), tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (AdaptOptions(aux_layers=(1, 2, 3)), "aux layers [1, 2, 3] (auto: a list that begins with 1 names"),
        (AdaptOptions(aux_layers=(1, 2, 3), aux_convention="output"), "aux layers [1, 2, 3] (output) renumbered"),
    ],
    ids=["auto", "output"],
)
def test_renumbered_aux_layers_are_told(tmp_path: Path, target: Path, options: AdaptOptions, told: str) -> None:
    aux = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 3, 4], "use_aux_hidden_state": True}}
    changes = adapt("eagle", write_drafter(tmp_path / "d", aux), tmp_path / "out", target, options).changes
    assert any(change.startswith(told) and change.endswith("renumbered [2, 3, 4]") for change in changes)


def test_every_adapter_says_what_it_takes() -> None:
    assert TAKES.keys() == ADAPTERS.keys()
    assert {name for taken in TAKES.values() for name in taken} == {field.name for field in fields(AdaptOptions)}


def test_a_convention_alone_is_not_ignored(tmp_path: Path, target: Path) -> None:
    aux = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 3, 4]}}
    options = AdaptOptions(aux_convention="output")
    changes = adapt("eagle", write_drafter(tmp_path / "d", aux), tmp_path / "out", target, options).changes
    assert any("renumbered [3, 4, 5]" in change for change in changes)


def test_no_drafter_at_all(tmp_path: Path) -> None:
    with pytest.raises(AdaptError, match="no layer under"):
        adapt("eagle", write_drafter(tmp_path / "d", base={"a": noise("a", 1)}), tmp_path / "out")
    for names in (["Other"], ["LlamaForCausalLMEagle3"] * 2, None):
        with pytest.raises(AdaptError, match="architectures is"):
            adapt("eagle", write_drafter(tmp_path / str(names), {"architectures": names}), tmp_path / "out")
    with pytest.raises(AdaptError, match="adapter 'eagel' is unknown; use one of kimi_k2"):
        adapt("eagel", tmp_path, tmp_path / "out")
