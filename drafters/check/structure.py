"""Rules `target`, `architecture` and `config`: what everything else stands on."""

from typing import Any

from k25serve.drafters.check.facts import Facts
from k25serve.drafters.check.layout import LLAMA, MLA
from k25serve.drafters.check.report import Judgement, passed, refused
from k25serve.drafters.checkpoint import CheckpointError

# DeepSeek-V3's layer code: SGLang's aux capture and its two numberings are judged for it only.
TARGETS = ("KimiK25ForConditionalGeneration", "DeepseekV3ForCausalLM", "DeepseekV2ForCausalLM", "KimiK2ForCausalLM")
# What a folder is that is no SGLang EAGLE-3 drafter yet: the adapter that makes it one.
OTHERS = {
    "Eagle3Speculator": "speculators",
    "Eagle3LlamaForCausalLM": "eagle",
    "Eagle3DeepseekV3ForCausalLM": "eagle",
}
DFLASH = ("DFlashDraftModel", "DFlashDraftModelForCausalLM")
MODEL_TYPES = {LLAMA: ("llama",), MLA: ("kimi_k2", "deepseek_v3", "deepseek_v2")}
SIZES: dict[str, tuple[str, ...]] = {
    LLAMA: (
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "vocab_size",
        "max_position_embeddings",
    ),
    MLA: (
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "q_lora_rank",
        "kv_lora_rank",
        "qk_nope_head_dim",
        "qk_rope_head_dim",
        "v_head_dim",
        "vocab_size",
        "max_position_embeddings",
    ),
}


def judge_target(facts: Facts) -> Judgement:
    """A target whose aux layers SGLang captures, with its embedding and head found through its wrapper."""
    target = facts.target
    if target.architecture not in TARGETS:
        return refused(
            f"target architecture {target.architecture or 'missing'} is none of {', '.join(TARGETS)}",
            "point target (--target) at a Kimi-K2, K2.5 or DeepSeek-V3 checkpoint",
        )
    try:
        layers, hidden, vocab = (target.size(key) for key in ("num_hidden_layers", "hidden_size", "vocab_size"))
        places = f"{target.embedding.name}, {'tied head' if target.tied else target.head.name}"
    except CheckpointError as error:
        what, _, remedy = str(error).rpartition("; ")
        return refused(what, remedy)
    shape = target.embedding.shape
    if shape != (vocab, hidden):
        return refused(
            f"{target.embedding.name} is {list(shape)}, config.json says [{vocab}, {hidden}]",
            "config.json and weights are of different models; download the target again",
        )
    return passed(f"{target.architecture}, {layers} layers, hidden {hidden}, vocabulary {vocab}; {places}")


def judge_architecture(facts: Facts) -> Judgement:
    """One of the two draft models that SGLang has for EAGLE-3."""
    found = facts.config.get("architectures")
    if facts.architecture not in (LLAMA, MLA):
        remedy = f"set architectures to [{LLAMA!r}] or [{MLA!r}] if that is what it is"
        if facts.architecture in OTHERS:
            remedy = facts.adapt_command(OTHERS[facts.architecture])
        elif facts.architecture in DFLASH:
            remedy = (
                "it is no EAGLE-3 drafter: SGLang serves it with --speculative-algorithm DFLASH, no profile here does"
            )
        return refused(f"architectures is {found!r}; SGLang drafts EAGLE-3 with {LLAMA} or {MLA}", remedy)
    model_type, allowed = facts.config.get("model_type"), MODEL_TYPES[facts.architecture]
    if model_type not in allowed:
        return refused(
            f"model_type {model_type!r} with {facts.architecture}", f"set model_type to {allowed[0]} in config.json"
        )
    expected = facts.options.entry.architecture if facts.options.entry else facts.architecture
    if expected != facts.architecture:
        return refused(
            f"architecture {facts.architecture}, the registry's {facts.options.entry and facts.options.entry.repo} "
            f"is {expected}",
            "point speculation.drafter (--drafter) at the right one, or change gate.entry (--entry)",
        )
    return passed(f"{facts.architecture}, model_type {model_type}")


def judge_config(facts: Facts) -> Judgement:
    """Every dimension written down."""
    config = facts.config
    bad = [key for key in SIZES[facts.architecture] if not _is_size(config.get(key))]
    if not isinstance(config.get("rms_norm_eps"), float):
        bad.append("rms_norm_eps")
    if config.get("draft_vocab_size") is not None and not _is_size(config["draft_vocab_size"]):
        bad.append("draft_vocab_size")
    if bad:
        told = ", ".join(f"{key} is {config.get(key)!r}" for key in bad)
        return refused(told, "write the trainer's values into config.json; none is guessed")
    return passed("every dimension is written down")


def judge_settings(facts: Facts) -> Judgement:
    """No setting that SGLang's draft model cannot follow, and none missing that it reads without a default."""
    config = facts.config
    if facts.is_llama and "draft_vocab_size" not in config:
        return refused(
            "draft_vocab_size is absent: SGLang reads it without a default and stops with AttributeError",
            f"{facts.adapt_command('kimi_k2')}, or write lm_head's number of rows into config.json",
        )
    if config.get("hidden_act") != "silu":
        return refused(f"hidden_act is {config.get('hidden_act')!r}, SGLang's draft model knows silu only", "retrain")
    if config.get("norm_before_residual"):
        return refused(
            "norm_before_residual is true, SGLang's draft model keeps the residual before the norm",
            "serve it with vLLM, or train with norm_before_residual false",
        )
    if not facts.is_llama and config["num_hidden_layers"] != 1:
        return refused(
            f"num_hidden_layers is {config['num_hidden_layers']}, {MLA} has one layer", "use a drafter of one"
        )
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    if facts.is_llama and hidden % heads:
        return refused(
            f"hidden_size {hidden} is no multiple of num_attention_heads {heads}, which LlamaConfig refuses",
            "correct the one that is wrong",
        )
    return passed("none that SGLang's draft model cannot follow")


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
