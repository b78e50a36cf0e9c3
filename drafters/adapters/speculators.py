"""speculators (0.9) -> SGLang: the nested config made flat, aux layers renumbered, names to `midlayer.*`.

Its aux layer ids are vLLM's (models/eagle3/core.py hands them to vLLM): k is the state that enters layer k.
"""

from dataclasses import replace
from typing import Any

from k25serve.drafters.adapters.draft import Adapter, Draft, Job
from k25serve.drafters.adapters.steps import (
    cast_floats,
    fit_target,
    lend_lm_head,
    mirror_rope,
    reach_context_if_asked,
    write_aux_layers,
    write_head_dim,
)
from k25serve.drafters.adapters.vocabulary import write_draft_vocab_size, write_offsets
from k25serve.drafters.check.aux_layers import KEY
from k25serve.drafters.check.layout import LLAMA
from k25serve.drafters.checkpoint import AdaptError

# transformers' LlamaConfig: speculators writes transformer_layer_config as a difference to it (to_diff_dict).
LLAMA_DEFAULTS: dict[str, Any] = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
}
# Settings that mean the same in SGLang's config.
SAME = ("norm_before_fc", "fc_norm", "norm_output", "target_hidden_size")
COPIED = (*LLAMA_DEFAULTS, "num_key_value_heads", "head_dim", "rope_theta", "rope_scaling", "rope_parameters")


def read_config(config: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A flat config. Raises AdaptError for what SGLang's draft model cannot compute."""
    layer = config.get("transformer_layer_config")
    if not isinstance(layer, dict) or config.get("speculators_model_type") != "eagle3":
        raise AdaptError(
            f"speculators_model_type is {config.get('speculators_model_type')!r} and transformer_layer_config "
            f"{'is there' if isinstance(layer, dict) else 'missing'}: this is no EAGLE-3 drafter of speculators; "
            "use another adapter"
        )
    for wrong, remedy in _unservable(config, layer):
        raise AdaptError(f"{wrong}; {remedy}")
    flat = {key: layer.get(key, LLAMA_DEFAULTS.get(key)) for key in COPIED if key in layer or key in LLAMA_DEFAULTS}
    flat["num_key_value_heads"] = flat.get("num_key_value_heads") or flat["num_attention_heads"]
    flat |= {key: config[key] for key in SAME if config.get(key) is not None}
    if not any(flat.get(key) for key in ("rope_theta", "rope_parameters")):
        flat["rope_theta"] = 10000.0  # LlamaConfig's, left out as every default
    dtype = config.get("dtype") or config.get("torch_dtype") or layer.get("dtype")
    if dtype:
        flat["torch_dtype"] = dtype
    ids = config.get(KEY)
    if ids is not None:
        flat["eagle_config"] = {KEY: ids}
    flat |= {"architectures": [LLAMA], "model_type": "llama", "draft_vocab_size": config.get("draft_vocab_size", 32000)}
    changes = ["transformer_layer_config made flat, transformers' defaults written down"]
    if config.get("embed_requires_grad"):
        changes.append("its embedding was trained, and SGLang will use the target's: expect less than at training")
    return flat, tuple(changes)


def write_input_aux_layers(draft: Draft, job: Job) -> Draft:
    """Aux layers in the input convention, which is this format's, unless the user says otherwise."""
    if job.options.aux_convention == "auto":
        job = replace(job, options=replace(job.options, aux_convention="input"))
    return write_aux_layers(draft, job)


def _unservable(config: dict[str, Any], layer: dict[str, Any]) -> list[tuple[str, str]]:
    found = []
    if layer.get("model_type") != "llama":
        found.append(
            (
                f"model_type of the layer is {layer.get('model_type')!r}, SGLang's draft model has a llama layer",
                "serve it with vLLM, or train with --draft-arch llama",
            )
        )
    if config.get("norm_before_residual"):
        found.append(
            (
                "norm_before_residual is true, SGLang's draft model keeps the residual before the norm",
                "serve it with vLLM, or train with norm_before_residual false",
            )
        )
    if layer.get("num_hidden_layers", LLAMA_DEFAULTS["num_hidden_layers"]) != 1:
        found.append(
            (
                f"num_hidden_layers is {layer.get('num_hidden_layers')}: beyond the first, its layers norm their input "
                "with other weights than SGLang's do",
                "serve it with vLLM, or train with one layer",
            )
        )
    if "sliding_attention" in (layer.get("layer_types") or ()):
        found.append(
            (
                "layer_types has sliding_attention, SGLang's draft model attends to everything",
                "serve it with vLLM, or train with full attention",
            )
        )
    return found


ADAPTER = Adapter(
    name="speculators",
    says="speculators' checkpoint to SGLang: flat config, aux layers renumbered, midlayer names",
    read_config=read_config,
    steps=(
        fit_target,
        write_head_dim,
        write_draft_vocab_size,
        write_offsets,
        write_input_aux_layers,
        reach_context_if_asked,
        mirror_rope,
        lend_lm_head,
        cast_floats,
    ),
    drops=(r"verifier_lm_head\.weight", r"verifier_norm\.weight"),
)
