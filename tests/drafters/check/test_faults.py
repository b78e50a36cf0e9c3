"""One planted fault for each rule: that rule refuses, no other does, and its remedy is the right one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from drafter_files.files import Array, flags, hole, int64, noise
from drafter_files.toy import (
    DRAFT_CONFIG,
    HIDDEN,
    HOT,
    LAYER_ARRAYS,
    MLA_ARRAYS,
    MLA_CONFIG,
    TARGET_ARRAYS,
    VOCAB,
    tokenizer,
    write_drafter,
    write_target,
)

from k25serve.drafters.check import RULES, Options, Verdict, check_drafter

AUX = "eagle_aux_hidden_state_layer_ids"
OFFSETS = [token - place for place, token in enumerate(HOT)]
NULL: Any = ...


@dataclass(frozen=True)
class Fault:
    """A fault, the rule that must refuse it, and words of its evidence and remedy."""

    rule: str
    evidence: str
    remedy: str
    config: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Array | None] = field(default_factory=dict)
    target: Mapping[str, Any] = field(default_factory=dict)
    options: Options = field(default_factory=Options)
    mla: bool = False


def hot(*ids: int) -> dict[str, Array | None]:
    """d2t and t2d of other ids."""
    return {"d2t": int64(*(token - place for place, token in enumerate(ids))), "t2d": flags(set(ids), VOCAB)}


def eagle(**values: Any) -> dict[str, Any]:
    return {"eagle_config": {"use_aux_hidden_state": True, **values}}


FAULTS: dict[str, Fault] = {
    "another target": Fault(
        "target",
        "LlamaForCausalLM is none of",
        "point target (--target)",
        target={"config": {"architectures": ["LlamaForCausalLM"]}},
    ),
    "target without head": Fault(
        "target",
        "near: language_model.lm_heads.weight",
        "with every shard",
        target={
            "arrays": {name.replace("lm_head.", "lm_heads."): array for name, array in TARGET_ARRAYS.items()},
        },
    ),
    "target of another width": Fault(
        "target", "config.json says [40, 32]", "download the target again", target={"text": {"hidden_size": 32}}
    ),
    "speculators": Fault(
        "architecture", "Eagle3Speculator", "adapt speculators", {"architectures": ["Eagle3Speculator"]}
    ),
    "dflash": Fault("architecture", "DFlashDraftModel", "DFLASH", {"architectures": ["DFlashDraftModel"]}),
    "two architectures": Fault("architecture", "['A', 'B']", "set architectures", {"architectures": ["A", "B"]}),
    "model type": Fault("architecture", "model_type 'qwen3'", "set model_type to llama", {"model_type": "qwen3"}),
    "dimension missing": Fault("config", "intermediate_size is None", "none is guessed", {"intermediate_size": None}),
    "dimension of text": Fault("config", "hidden_size is '16'", "none is guessed", {"hidden_size": "16"}),
    "draft_vocab_size of text": Fault(
        "config", "draft_vocab_size is 'all'", "none is guessed", {"draft_vocab_size": "all"}
    ),
    "no epsilon": Fault("config", "rms_norm_eps is None", "none is guessed", {"rms_norm_eps": None}),
    "no draft_vocab_size": Fault("settings", "stops with AttributeError", "adapt kimi_k2", {"draft_vocab_size": None}),
    "activation": Fault("settings", "hidden_act is 'gelu'", "retrain", {"hidden_act": "gelu"}),
    "residual after norm": Fault(
        "settings", "norm_before_residual is true", "with vLLM", {"norm_before_residual": True}
    ),
    "mla of two layers": Fault("settings", "has one layer", "drafter of one", {"num_hidden_layers": 2}, mla=True),
    "extra tensor": Fault("names", "dropped without a word: foo.bias", "adapt", arrays={"foo.bias": noise("foo", 3)}),
    "missing tensor": Fault(
        "names", "left random: layers.0.mlp.up_proj.weight", "adapt", arrays={"midlayer.mlp.up_proj.weight": None}
    ),
    "misspelt tensor": Fault(
        "names",
        "near: midlayer.mlp.up.weight",
        "adapt",
        arrays={"midlayer.mlp.up_proj.weight": None, "midlayer.mlp.up.weight": LAYER_ARRAYS["mlp.up_proj.weight"]},
    ),
    "stored twice": Fault(
        "names",
        "layers.0.hidden_norm.weight and midlayer.hidden_norm.weight",
        "delete one",
        arrays={"layers.0.hidden_norm.weight": LAYER_ARRAYS["hidden_norm.weight"]},
    ),
    "bias that the engine has not": Fault(
        "names", "midlayer.self_attn.q_proj.bias", "adapt", arrays={"midlayer.self_attn.q_proj.bias": noise("b", 32)}
    ),
    "mla under model.": Fault(
        "names",
        "dropped without a word: model.norm.weight",
        "adapt",
        arrays={"model.norm.weight": noise("n", 16)},
        mla=True,
    ),
    "norm before fc without its weight": Fault(
        "names", "left random: input_norm.weight", "adapt", {"norm_before_fc": True}
    ),
    "eagle 3.1 without its weights": Fault("names", "fc_norm.0.weight, fc_norm.1.weight", "adapt", {"fc_norm": True}),
    "another intermediate size": Fault(
        "shapes", "gate_proj.weight is [24, 16], not [20, 16]", "one source", {"intermediate_size": 20}
    ),
    "head of another width": Fault(
        "shapes", "lm_head.weight is [16, 8]", "one source", arrays={"lm_head.weight": noise("h", len(HOT), 8)}
    ),
    "mla latent": Fault(
        "shapes", "kv_b_proj.weight is [36, 8], not [36, 9]", "one source", {"kv_lora_rank": 9}, mla=True
    ),
    "fc of half a state": Fault(
        "hidden-size",
        "not a whole number of states",
        "trained for this target",
        arrays={"fc.weight": noise("fc", HIDDEN, 40)},
    ),
    "trained for another width": Fault(
        "hidden-size", "target_hidden_size 32", "trained for this target", {"target_hidden_size": 32}
    ),
    "head_dim absent": Fault(
        "head-dim", "head_dim is absent, so 4; the weights have 8", "adapt kimi_k2", {"head_dim": None}
    ),
    "head_dim wrong": Fault("head-dim", "head_dim is 16, so 16", "set head_dim to 8", {"head_dim": 16}),
    "another vocabulary": Fault(
        "vocab-size", "vocab_size 41, the target's is 40", "trained for this target", {"vocab_size": 41}
    ),
    "draft_vocab_size wrong": Fault(
        "vocab-size", "draft_vocab_size 12, but 16 rows of lm_head", "write 16", {"draft_vocab_size": 12}
    ),
    "d2t too short": Fault(
        "vocab-size",
        "but 15 entries of d2t",
        "rebuild the map",
        arrays={"d2t": int64(*OFFSETS[:15]), "t2d": flags(set(HOT[:15]), VOCAB)},
    ),
    "d2t missing": Fault("d2t-form", "16 of 40 ids", "vocabulary map (d2t)", arrays={"d2t": None, "t2d": None}),
    "d2t absolute": Fault("d2t-form", "d2t holds target ids", "which writes offsets", arrays={"d2t": int64(*HOT)}),
    "d2t ambiguous": Fault(
        "d2t-form",
        "as offsets and as target ids",
        "--d2t-form offset",
        {"draft_vocab_size": 4},
        {"d2t": int64(0, 2, 3, 5), "t2d": None, "lm_head.weight": noise("h", 4, HIDDEN)},
    ),
    "d2t of floats": Fault("d2t-form", "d2t is I32 [16]", "adapt kimi_k2", arrays={"d2t": hole(16, dtype="I32")}),
    "d2t out of range": Fault(
        "d2t-range",
        "map outside the target's vocabulary, the first is 15 to 60",
        "from the drafter's source",
        arrays={"d2t": int64(*OFFSETS[:15], 45), "t2d": None},
    ),
    "d2t repeats": Fault(
        "d2t-range",
        "1 draft ids map twice, the first is 1 to 0",
        "from the drafter's source",
        arrays={"d2t": int64(0, -1, *OFFSETS[2:]), "t2d": None},
    ),
    "t2d of another drafter": Fault(
        "t2d",
        "1 ids only in d2t, 1 only in t2d (as id 5)",
        "from one source",
        arrays={"t2d": flags({*HOT, 7} - {5}, VOCAB)},
    ),
    "d2t shuffled": Fault(
        "t2d",
        "d2t is shuffled: draft id 0 maps to 1, by t2d's order it is 0",
        "rebuild it from t2d",
        arrays=hot(1, 0, *HOT[2:]),
    ),
    "t2d too short": Fault("t2d", "not BOOL [40]", "delete it", arrays={"t2d": flags(set(), VOCAB - 1)}),
    "no end of thinking": Fault(
        "special-tokens",
        "never drafted: </think> (33)",
        "adapt kimi_k2 --counts",
        arrays=hot(*range(7), *range(30, 33), *range(34, 40)),
    ),
    "no end of turn": Fault(
        "special-tokens", "<|im_end|> (30)", "adapt kimi_k2 --counts", arrays=hot(*range(7), *range(31, 40))
    ),
    "aux layers absent": Fault("aux-layers", "would guess [2, 4, 5]", "--accept-default-aux", {"eagle_config": None}),
    "aux layers empty": Fault("aux-layers", "is []", "--aux-layers", eagle(**{AUX: []})),
    "aux layers too few": Fault("aux-layers", "2 layers, fc takes 3", "--aux-layers", eagle(**{AUX: [2, 4]})),
    "aux layers out of the target": Fault(
        "aux-layers", "the target has 1 to 7", "--aux-layers", eagle(**{AUX: [2, 4, 8]})
    ),
    "aux layers out of order": Fault("aux-layers", "do not ascend", "--aux-layers", eagle(**{AUX: [4, 2, 5]})),
    "aux layers off by one": Fault(
        "aux-layers",
        "trained on states [3, 5, 6] (output convention), SGLang would capture [2, 4, 5]",
        "--aux-layers 3,5,6 --aux-convention input",
        options=Options(aux_convention="output"),
    ),
    "aux layers that SGLang shifts": Fault(
        "aux-layers",
        "trained on states [1, 4, 5]",
        "--aux-convention input",
        eagle(**{AUX: [1, 4, 5]}),
        options=Options(aux_convention="input"),
    ),
    "aux layers where SGLang does not look": Fault(
        "aux-layers", "stands at the top", "--aux-layers", {"eagle_config": None, AUX: [2, 3, 5]}
    ),
    "no theta": Fault("rope", "would take 10000", "rope_theta into config.json", {"rope_theta": None}),
    "yarn without factor": Fault("rope", "without a factor", "rope_scaling", {"rope_scaling": {"rope_type": "yarn"}}),
    "two thetas": Fault(
        "rope", "differ", "delete the other", {"rope_parameters": {"rope_theta": 5e4, "rope_type": "default"}}
    ),
    "short context": Fault(
        "context-length",
        "reaches 256 positions, 512 are to be served",
        "--context-length 512",
        {"max_position_embeddings": 256},
    ),
    "more than the target": Fault(
        "context-length",
        "more than the target's 512",
        "lower context_length (--context-length) to 512",
        options=Options(context_length=1024),
    ),
    "no lm_head": Fault("lm-head", "stays random", ", which copies", arrays={"lm_head.weight": None}),
    "no lm_head, whole vocabulary": Fault(
        "lm-head",
        "draft_vocab_size is 40",
        ", which has SGLang lend",
        {"draft_vocab_size": VOCAB},
        {"lm_head.weight": None, "d2t": None, "t2d": None},
    ),
    "own lm_head, but null": Fault(
        "lm-head",
        "in place of the drafter's own",
        "write draft_vocab_size 40",
        {"draft_vocab_size": NULL},
        {"lm_head.weight": noise("h", VOCAB, HIDDEN), "d2t": None, "t2d": None},
    ),
    "tied": Fault("lm-head", "tie_word_embeddings is true", "set it to false", {"tie_word_embeddings": True}),
    "embedding of another vocabulary": Fault(
        "embeddings",
        "embed_tokens.weight is [41, 16]",
        "delete it",
        arrays={"embed_tokens.weight": noise("e", 41, HIDDEN)},
    ),
    "float32 drafter": Fault(
        "dtype",
        "weights are BF16 and F32, the target is BF16",
        "--dtype bf16",
        arrays={"norm.weight": noise("n", HIDDEN, dtype="F32")},
    ),
    "dtype written wrong": Fault("dtype", "config.json says F32", "the weights' dtype", {"torch_dtype": "float32"}),
    "quantization inherited": Fault(
        "quantization",
        "quantized (compressed-tensors) and the launch does not state",
        "--speculative-draft-model-quantization unquant",
        target={"text": {"quantization_config": {"quant_method": "compressed-tensors"}}},
        options=Options(draft_quantization=None),
    ),
    "fp8 drafter launched plain": Fault(
        "quantization",
        "quantized (quark), the launch states unquant",
        "quantization quark",
        {"quantization_config": {"quant_method": "quark"}},
    ),
    "plain drafter launched fp8": Fault(
        "quantization",
        "states fp8, the drafter is plain",
        "quantization unquant",
        options=Options(draft_quantization="fp8"),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault(name: str, tmp_path: Path, target: Path) -> None:
    fault = FAULTS[name]
    if fault.target:
        target = write_target(tmp_path / "target", **fault.target)
    base = {"base": MLA_ARRAYS, "base_config": MLA_CONFIG} if fault.mla else {"base_config": DRAFT_CONFIG}
    drafter = write_drafter(tmp_path / "drafter", fault.config, fault.arrays, **base)  # type: ignore[arg-type]
    report = check_drafter(drafter, target, options=fault.options)
    refused = report.with_verdict(Verdict.REFUSE)
    assert [finding.rule for finding in refused] == [fault.rule]
    assert fault.evidence in refused[0].evidence
    assert fault.remedy in refused[0].remedy
    assert report.exit_code == 1
    assert refused[0].remedy in report.summary()
    if "k25serve drafter adapt" in refused[0].remedy:
        assert f"--drafter {drafter} --target {target} --out drafter-adapted" in refused[0].remedy


def test_packed_weights(tmp_path: Path, target: Path) -> None:
    """A packed drafter has no plain weight either, so two rules see it."""
    arrays = {"midlayer.mlp.up_proj.weight": None, "midlayer.mlp.up_proj.weight_packed": noise("p", 3)}
    report = check_drafter(write_drafter(tmp_path / "d", arrays=arrays), target)
    assert {finding.rule for finding in report.with_verdict(Verdict.REFUSE)} == {"names", "quantization"}


def test_another_width(tmp_path: Path, target: Path) -> None:
    """A narrower drafter is refused for its width before anything that follows from it."""
    report = check_drafter(write_drafter(tmp_path / "d", {"hidden_size": 8}), target)
    assert "hidden-size" in {finding.rule for finding in report.with_verdict(Verdict.REFUSE)}


def test_another_tokenizer(tmp_path: Path, target: Path) -> None:
    import json

    drafter = write_drafter(tmp_path / "d")
    other = {f"u{token}": token for token in range(30)}
    for made, told in (
        (tokenizer(plain=other), "vocabularies differ"),
        (tokenizer({"</think>": 32, "<think>": 33}), "special tokens have other ids: </think>, <think>"),
    ):
        (drafter / "tokenizer.json").write_text(json.dumps(made))
        (finding,) = check_drafter(drafter, target).with_verdict(Verdict.REFUSE)
        assert finding.rule == "tokenizer"
        assert told in finding.evidence
        assert "trained with the target's tokenizer" in finding.remedy


def test_a_rule_stands_on_others_that_are_in_the_table() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    for place, rule in enumerate(RULES):
        assert set(rule.needs) <= set(names[:place])


def test_every_rule_that_can_refuse_has_a_fault() -> None:
    judged: set[str] = {fault.rule for fault in FAULTS.values()} | {"tokenizer"}
    # An estimate of cost only warns.
    assert judged == {rule.name for rule in RULES} - {"cost"}


Planted = Callable[[], None]
