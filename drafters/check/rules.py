"""The rules as a table: name, what it says, the function, and which rules must not have refused before it is asked."""

from collections.abc import Callable
from dataclasses import dataclass

from k25serve.drafters.check.aux_layers import judge_aux_layers
from k25serve.drafters.check.context import judge_context_length
from k25serve.drafters.check.cost import judge_cost
from k25serve.drafters.check.facts import Facts
from k25serve.drafters.check.heads import judge_embeddings, judge_lm_head
from k25serve.drafters.check.precision import judge_dtype, judge_quantization
from k25serve.drafters.check.report import Judgement
from k25serve.drafters.check.rope import judge_rope
from k25serve.drafters.check.structure import judge_architecture, judge_config, judge_settings, judge_target
from k25serve.drafters.check.tokens import judge_special_tokens, judge_tokenizer
from k25serve.drafters.check.vocabulary import judge_d2t_form, judge_d2t_range, judge_t2d, judge_vocab_size
from k25serve.drafters.check.weights import judge_head_dim, judge_hidden_size, judge_names, judge_shapes


@dataclass(frozen=True)
class Rule:
    name: str
    says: str
    judge: Callable[[Facts], Judgement]
    needs: tuple[str, ...] = ("target", "architecture", "config")


RULES: tuple[Rule, ...] = (
    Rule("target", "SGLang captures its layers; embedding and head are found", judge_target, ()),
    Rule("architecture", "one of SGLang's EAGLE-3 draft models", judge_architecture, ()),
    Rule("config", "every dimension is written down", judge_config, ("architecture",)),
    Rule("settings", "what SGLang's draft model can follow", judge_settings),
    Rule("names", "no tensor is missing, none is dropped", judge_names),
    Rule("shapes", "weights are as config.json says", judge_shapes),
    Rule("hidden-size", "as wide as the target", judge_hidden_size),
    Rule("head-dim", "the engine's is the weights'", judge_head_dim),
    Rule("vocab-size", "ids are the target's, sizes agree", judge_vocab_size),
    Rule("d2t-form", "offsets", judge_d2t_form),
    Rule("d2t-range", "inside the vocabulary, distinct, ascending", judge_d2t_range, ("target", "config", "d2t-form")),
    Rule("t2d", "agrees with d2t", judge_t2d, ("target", "config", "d2t-form", "d2t-range")),
    Rule(
        "special-tokens",
        "ends and markers can be drafted",
        judge_special_tokens,
        ("target", "config", "vocab-size", "d2t-form", "d2t-range"),
    ),
    Rule("tokenizer", "the target's", judge_tokenizer, ("target",)),
    Rule("aux-layers", "the states that it was trained on", judge_aux_layers, ("target", "config", "hidden-size")),
    Rule("rope", "as trained", judge_rope, ("target",)),
    Rule("context-length", "reaches as far as what is served", judge_context_length),
    Rule("lm-head", "stored or lent, never random", judge_lm_head, ("target", "config")),
    Rule("embeddings", "the target's", judge_embeddings, ("target", "config")),
    Rule("dtype", "one, the target's", judge_dtype, ("target",)),
    Rule("quantization", "stated, not inherited", judge_quantization, ("target",)),
    Rule("cost", "memory and time", judge_cost, ("target", "architecture", "config", "names")),
)
