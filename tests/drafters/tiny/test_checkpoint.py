"""The packaged folders: every tensor's name, shape and dtype, the vocabulary maps, sizes and provenance."""

import json
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerFast

from k25serve.drafters.check import Verdict, check_drafter
from k25serve.drafters.tiny import DRAFTER, MODELS, TARGET, special_tokens
from k25serve.drafters.tiny.export import PROCESSOR_FILES, processor_config, target_config
from k25serve.drafters.tiny.provenance import file_hashes
from k25serve.drafters.tiny.template import CHAT_TEMPLATE
from k25serve.drafters.training.run.load import load_config

PACKAGE = MODELS.parent
Shapes = dict[str, tuple[int, ...]]


def shapes(tensors: dict[str, torch.Tensor]) -> Shapes:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def gated(prefix: str, hidden: int, inner: int) -> Shapes:
    return {
        f"{prefix}.gate_proj.weight": (inner, hidden),
        f"{prefix}.up_proj.weight": (inner, hidden),
        f"{prefix}.down_proj.weight": (hidden, inner),
    }


def language_shapes(c: dict[str, Any]) -> Shapes:
    hidden, heads, latent, rope = c["hidden_size"], c["num_attention_heads"], c["kv_lora_rank"], c["qk_rope_head_dim"]
    nope, value, query = c["qk_nope_head_dim"], c["v_head_dim"], c["q_lora_rank"]
    found: Shapes = {
        "model.embed_tokens.weight": (c["vocab_size"], hidden),
        "model.norm.weight": (hidden,),
        "lm_head.weight": (c["vocab_size"], hidden),
    }
    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        found |= {
            f"{layer}.input_layernorm.weight": (hidden,),
            f"{layer}.post_attention_layernorm.weight": (hidden,),
            f"{layer}.self_attn.q_a_proj.weight": (query, hidden),
            f"{layer}.self_attn.q_a_layernorm.weight": (query,),
            f"{layer}.self_attn.q_b_proj.weight": (heads * (nope + rope), query),
            f"{layer}.self_attn.kv_a_proj_with_mqa.weight": (latent + rope, hidden),
            f"{layer}.self_attn.kv_a_layernorm.weight": (latent,),
            f"{layer}.self_attn.kv_b_proj.weight": (heads * (nope + value), latent),
            f"{layer}.self_attn.o_proj.weight": (hidden, heads * value),
        }
        if i < c["first_k_dense_replace"]:
            found |= gated(f"{layer}.mlp", hidden, c["intermediate_size"])
            continue
        found |= {
            f"{layer}.mlp.gate.weight": (c["n_routed_experts"], hidden),
            f"{layer}.mlp.gate.e_score_correction_bias": (c["n_routed_experts"],),
        }
        inner = c["moe_intermediate_size"]
        found |= gated(f"{layer}.mlp.shared_experts", hidden, inner * c["n_shared_experts"])
        for e in range(c["n_routed_experts"]):
            found |= gated(f"{layer}.mlp.experts.{e}", hidden, inner)
    return {f"language_model.{name}": shape for name, shape in found.items()}


def vision_shapes(c: dict[str, Any]) -> Shapes:
    hidden, inner, patch = c["hidden_size"], c["intermediate_size"], c["patch_size"]
    merged = hidden * c["merge_kernel_size"][0] * c["merge_kernel_size"][1]
    tower = "vision_tower"
    weights: Shapes = {
        f"{tower}.patch_embed.proj": (hidden, 3, patch, patch),
        f"{tower}.encoder.final_layernorm": (hidden,),
        "mm_projector.pre_norm": (hidden,),
        "mm_projector.proj.0": (merged, merged),
        "mm_projector.proj.2": (c["text_hidden_size"], merged),
    }
    for i in range(c["num_hidden_layers"]):
        block = f"{tower}.encoder.blocks.{i}"
        weights |= {
            f"{block}.norm0": (hidden,),
            f"{block}.norm1": (hidden,),
            f"{block}.wqkv": (3 * hidden, hidden),
            f"{block}.wo": (hidden, hidden),
            f"{block}.mlp.fc0": (inner, hidden),
            f"{block}.mlp.fc1": (hidden, inner),
        }
    table = {f"{tower}.patch_embed.pos_emb.weight": (c["init_pos_emb_height"], c["init_pos_emb_width"], hidden)}
    biases = {f"{name}.bias": shape[:1] for name, shape in weights.items()}
    return {f"{name}.weight": shape for name, shape in weights.items()} | biases | table


def drafter_shapes(c: dict[str, Any]) -> Shapes:
    hidden, head = c["hidden_size"], c["head_dim"]
    aux = len(c["eagle_config"]["eagle_aux_hidden_state_layer_ids"])
    attention = "midlayer.self_attn"
    return {
        "fc.weight": (hidden, aux * hidden),
        "midlayer.input_layernorm.weight": (hidden,),
        "midlayer.hidden_norm.weight": (hidden,),
        "midlayer.post_attention_layernorm.weight": (hidden,),
        f"{attention}.q_proj.weight": (c["num_attention_heads"] * head, 2 * hidden),
        f"{attention}.k_proj.weight": (c["num_key_value_heads"] * head, 2 * hidden),
        f"{attention}.v_proj.weight": (c["num_key_value_heads"] * head, 2 * hidden),
        f"{attention}.o_proj.weight": (hidden, c["num_attention_heads"] * head),
        **gated("midlayer.mlp", hidden, c["intermediate_size"]),
        "norm.weight": (hidden,),
        "lm_head.weight": (c["draft_vocab_size"], hidden),
        "d2t": (c["draft_vocab_size"],),
        "t2d": (c["vocab_size"],),
    }


def test_target_tensors() -> None:
    config = json.loads((TARGET / "config.json").read_text())
    tensors = load_file(TARGET / "model.safetensors")
    assert shapes(tensors) == language_shapes(config["text_config"]) | vision_shapes(config["vision_config"])
    for name, tensor in tensors.items():
        assert tensor.dtype == (torch.float32 if name.endswith("e_score_correction_bias") else torch.bfloat16), name
        assert tensor.float().isfinite().all(), name


def test_router_biases_were_trained() -> None:
    tensors = load_file(TARGET / "model.safetensors")
    biases = [t for name, t in tensors.items() if name.endswith("e_score_correction_bias")]
    assert len(biases) == 4
    assert all(bias.std() > 0.005 for bias in biases)


def test_tensor_parallel_sizes_are_even() -> None:
    text = json.loads((TARGET / "config.json").read_text())["text_config"]
    split = ("vocab_size", "intermediate_size", "moe_intermediate_size", "num_attention_heads")
    assert [text[key] % 2 for key in split] == [0, 0, 0, 0]
    draft = json.loads((DRAFTER / "config.json").read_text())
    split = ("vocab_size", "draft_vocab_size", "intermediate_size", "num_attention_heads", "num_key_value_heads")
    assert [draft[key] % 2 for key in split] == [0, 0, 0, 0, 0]


def test_drafter_tensors() -> None:
    tensors = load_file(DRAFTER / "model.safetensors")
    assert shapes(tensors) == drafter_shapes(json.loads((DRAFTER / "config.json").read_text()))
    assert tensors.pop("d2t").dtype == torch.int64
    assert tensors.pop("t2d").dtype == torch.bool
    assert {t.dtype for t in tensors.values()} == {torch.bfloat16}


def test_vocabulary_maps_agree(tokenizer: PreTrainedTokenizerFast) -> None:
    tensors = load_file(DRAFTER / "model.safetensors")
    hot = (tensors["d2t"] + torch.arange(len(tensors["d2t"]))).tolist()
    assert hot == sorted(set(hot)) == tensors["t2d"].nonzero().flatten().tolist()
    written = (special_tokens.IM_END, special_tokens.EOS, *special_tokens.MARKERS)  # by an assistant, that is
    assert set(tokenizer.convert_tokens_to_ids(list(written))) <= set(hot)


def test_drafter_config_is_what_an_engine_needs() -> None:
    config, target = (json.loads((folder / "config.json").read_text()) for folder in (DRAFTER, TARGET))
    text = target["text_config"]
    assert (config["architectures"], config["torch_dtype"]) == (["LlamaForCausalLMEagle3"], "bfloat16")
    assert check_drafter(DRAFTER, TARGET).verdict is Verdict.PASS
    assert config["vocab_size"] == text["vocab_size"]
    assert config["hidden_size"] == text["hidden_size"]
    assert config["max_position_embeddings"] >= text["max_position_embeddings"]
    aux = config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    assert aux[0] >= 2
    assert sorted(set(aux)) == aux
    assert aux[-1] < text["num_hidden_layers"]


def test_written_files_are_what_the_code_writes(tokenizer: PreTrainedTokenizerFast) -> None:
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in special_tokens.ALL}
    assert json.loads((TARGET / "config.json").read_text()) == target_config(ids)
    assert json.loads((TARGET / "preprocessor_config.json").read_text()) == processor_config()
    assert (TARGET / "chat_template.jinja").read_text() == CHAT_TEMPLATE
    for name in PROCESSOR_FILES:
        assert (TARGET / name).read_text() == (PACKAGE / name).read_text(), (
            f"copy drafters/tiny/{name} to models/target"
        )


def test_weights_stay_small() -> None:
    sizes = [path.stat().st_size for path in MODELS.rglob("*.safetensors")]
    assert len(sizes) == 2
    assert sum(sizes) <= 12_000_000


def test_provenance_of_the_target() -> None:
    record = json.loads((TARGET / "provenance.json").read_text())
    assert record["sha256"] == file_hashes(TARGET)
    assert {"command", "options", "versions", "machine", "texts", "target"} <= record.keys()
    assert record["versions"].keys() == {"python", "torch", "transformers", "tokenizers", "safetensors"}
    assert len(record["texts"]["corpus_sha256"]) == 64


def test_provenance_of_the_drafter() -> None:
    """Made by `drafter train run` with packaged:tiny-gpu, which still asks for that, from this target's states."""
    record = json.loads((DRAFTER / "provenance.json").read_text())
    weights = "model.safetensors"
    assert record["sha256"][weights] == file_hashes(DRAFTER)[weights]
    files = file_hashes(TARGET)
    assert all(files[name] == stated for name, stated in record["target_sha256"].items())
    asked = load_config("packaged:tiny-gpu", ())
    made = record["training"]["settings"]
    for key in ("draft_layer", "optimizer", "ttt_steps", "step_decay", "tokens_per_batch"):
        assert asked.fit.model_dump(mode="json")[key] == made[key], key
    assert record["training"]["data"]["settings"]["packaged"] == asked.data.packaged
