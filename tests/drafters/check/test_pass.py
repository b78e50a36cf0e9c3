"""What fits passes every rule, whatever its layout; what is doubtful warns; what cannot be judged is not."""

import json
from pathlib import Path

import pytest
from drafter_files.files import hole, noise
from drafter_files.toy import (
    HIDDEN,
    MLA_ARRAYS,
    MLA_CONFIG,
    SPECIAL,
    TARGET_ARRAYS,
    VOCAB,
    draft_arrays,
    tokenizer,
    write_drafter,
    write_target,
)

from k25serve.drafters.check import RULES, Options, Verdict, check_drafter
from k25serve.drafters.check.report import Report
from k25serve.drafters.checkpoint import CheckpointError
from k25serve.drafters.registry import load_registry

PACKAGED = Path(__file__).parents[3] / "drafters" / "tiny" / "models"
AUX = "eagle_aux_hidden_state_layer_ids"


def assert_passes(report: Report) -> None:
    assert [
        (finding.rule, finding.evidence) for finding in report.findings if finding.verdict is not Verdict.PASS
    ] == []
    assert [finding.rule for finding in report.findings] == [rule.name for rule in RULES]
    assert (report.verdict, report.exit_code, report.not_judged) == (Verdict.PASS, 0, ())


@pytest.mark.skipif(not (PACKAGED / "drafter").is_dir(), reason="the packaged models are not made yet")
def test_packaged_drafter() -> None:
    assert_passes(check_drafter(PACKAGED / "drafter", PACKAGED / "target"))


@pytest.mark.parametrize(
    ("layer", "other"),
    [("midlayer.", ""), ("layers.0.", ""), ("model.layers.0.", "model."), ("model.midlayer.", "")],
)
@pytest.mark.parametrize("shards", [1, 4])
def test_layouts_that_sglang_takes(tmp_path: Path, target: Path, layer: str, other: str, shards: int) -> None:
    assert_passes(check_drafter(write_drafter(tmp_path / "d", base=draft_arrays(layer, other), shards=shards), target))


def test_mla(tmp_path: Path, target: Path) -> None:
    drafter = write_drafter(tmp_path / "d", base=MLA_ARRAYS, base_config=MLA_CONFIG)
    report = check_drafter(drafter, target)
    assert_passes(report)
    told = {finding.rule: finding.evidence for finding in report.findings}
    # (8 + 2) values of 2 bytes, on every rank; the target's eight layers of (8 + 4).
    assert "KV 20 bytes a token and rank at tp 8, the target's 192" in told["cost"]
    assert "under 0.001 ms at" in told["cost"]
    assert told["rope"].endswith("the drafter keeps its own rope as trained")


def test_eagle_3_1(tmp_path: Path, target: Path) -> None:
    arrays = {f"aux_norm_{level}.weight": noise(level, HIDDEN) for level in ("low", "mid", "high")}
    config = {"fc_norm": True, "norm_output": True}
    assert_passes(check_drafter(write_drafter(tmp_path / "d", config, arrays), target))


def test_whole_vocabulary_with_own_or_lent_head(tmp_path: Path, target: Path) -> None:
    none = {"d2t": None, "t2d": None}
    own = write_drafter(
        tmp_path / "own", {"draft_vocab_size": VOCAB}, {**none, "lm_head.weight": noise("h", VOCAB, HIDDEN)}
    )
    assert_passes(check_drafter(own, target))
    lent = write_drafter(tmp_path / "lent", {"draft_vocab_size": ...}, {**none, "lm_head.weight": None})
    assert_passes(check_drafter(lent, target))


def test_quantized_target(tmp_path: Path) -> None:
    packed = write_target(tmp_path / "t", text={"quantization_config": {"quant_method": "compressed-tensors"}})
    assert_passes(check_drafter(write_drafter(tmp_path / "d"), packed))


def test_stored_embedding(tmp_path: Path, target: Path) -> None:
    same = TARGET_ARRAYS["language_model.model.embed_tokens.weight"]
    assert_passes(check_drafter(write_drafter(tmp_path / "same", arrays={"embed_tokens.weight": same}), target))
    other = write_drafter(tmp_path / "other", arrays={"embed_tokens.weight": noise("own", VOCAB, HIDDEN)})
    (finding,) = check_drafter(other, target).with_verdict(Verdict.WARN)
    assert finding.rule == "embeddings"
    assert "40 of 64 rows differ" in finding.evidence


def test_aux_layers_in_both_conventions(tmp_path: Path, target: Path) -> None:
    """https://github.com/sgl-project/sglang/pull/25454: the same states under either numbering, by engine."""
    told = {}
    for name, ids in (("output", [1, 3, 4]), ("input", [2, 4, 5])):
        drafter = write_drafter(tmp_path / name, {"eagle_config": {AUX: ids}})
        report = check_drafter(drafter, target, options=Options(aux_convention=name))  # type: ignore[arg-type]
        assert_passes(report)
        told[name] = next(finding.evidence for finding in report.findings if finding.rule == "aux-layers")
    assert "SGLang 0.5.17 to 0.5.23: [2, 4, 5]; SGLang before May 2026: [2, 4, 5]; vLLM: [1, 3, 4]" in told["output"]
    assert "SGLang 0.5.17 to 0.5.23: [2, 4, 5]; SGLang before May 2026: [3, 5, 6]; vLLM: [2, 4, 5]" in told["input"]


def test_default_aux_layers_only_if_accepted(tmp_path: Path, target: Path) -> None:
    drafter = write_drafter(tmp_path / "d", {"eagle_config": None})
    report = check_drafter(drafter, target, options=Options(accept_default_aux=True))
    assert [finding.rule for finding in report.with_verdict(Verdict.WARN)] == ["aux-layers"]
    assert report.exit_code == 3


@pytest.mark.parametrize(
    ("config", "rule", "told"),
    [
        ({"eagle_config": None, AUX: [2, 4, 5]}, "aux-layers", "which is the same"),
        ({"eagle_config": {"use_aux_hidden_state": False}}, "aux-layers", "only the last hidden state"),
        ({"bos_token_id": 1}, "tokenizer", "bos_token_id 1 (the target's 29)"),
        ({"num_key_value_heads": 4}, "cost", "larger than the target's"),
    ],
    ids=["aux at the top", "no aux states", "another bos", "large cache"],
)
def test_doubts(tmp_path: Path, config: dict[str, object], rule: str, told: str) -> None:
    target = write_target(tmp_path / "t", text={"kv_lora_rank": 1, "qk_rope_head_dim": 1})
    wide = {f"midlayer.self_attn.{name}_proj.weight": hole(32, 2 * HIDDEN) for name in "kv"}
    arrays = wide if rule == "cost" else {}
    report = check_drafter(write_drafter(tmp_path / "d", config, arrays), target, options=Options(tp=1))
    finding = next(finding for finding in report.with_verdict(Verdict.WARN) if finding.rule == rule)
    assert told in finding.evidence
    assert report.with_verdict(Verdict.REFUSE) == ()


def test_tool_markers_outside_the_vocabulary_are_a_doubt(tmp_path: Path, target: Path) -> None:
    from drafter_files.files import flags, int64

    ids = (*range(7), *range(30, 38), 39)
    arrays = {"d2t": int64(*(token - place for place, token in enumerate(ids))), "t2d": flags(set(ids), VOCAB)}
    (finding,) = check_drafter(write_drafter(tmp_path / "d", arrays=arrays), target).with_verdict(Verdict.WARN)
    assert (finding.rule, "<|tool_call_end|> (38)" in finding.evidence) == ("special-tokens", True)


def test_a_shuffled_map_without_t2d_is_a_doubt(tmp_path: Path, target: Path) -> None:
    from drafter_files.files import int64
    from drafter_files.toy import HOT

    ids = (HOT[1], HOT[0], *HOT[2:])
    arrays = {"d2t": int64(*(token - place for place, token in enumerate(ids))), "t2d": None}
    (finding,) = check_drafter(write_drafter(tmp_path / "d", arrays=arrays), target).with_verdict(Verdict.WARN)
    assert finding.rule == "d2t-range"
    assert "drafter gate" in finding.remedy


def test_tokenizer_beside_the_drafter(tmp_path: Path, target: Path) -> None:
    drafter = write_drafter(tmp_path / "d")
    (drafter / "tokenizer.json").write_text(json.dumps(tokenizer()))
    assert_passes(check_drafter(drafter, target))
    older = {text: token for text, token in SPECIAL.items() if "media" not in text}
    (drafter / "tokenizer.json").write_text(json.dumps(tokenizer(older)))
    (finding,) = check_drafter(drafter, target).with_verdict(Verdict.WARN)
    assert "the target adds 1 special tokens: <|media_pad|>" in finding.evidence
    (drafter / "tiktoken.model").write_bytes(b"ranks")
    (finding,) = check_drafter(drafter, target).with_verdict(Verdict.WARN)
    assert "cannot be compared" in finding.evidence


def test_what_stands_on_a_refused_rule_is_not_judged(tmp_path: Path, target: Path) -> None:
    report = check_drafter(write_drafter(tmp_path / "d", {"architectures": ["X"]}), target)
    assert [finding.rule for finding in report.findings] == [
        "target", "architecture", "tokenizer", "rope", "dtype", "quantization"
    ]  # fmt: skip
    assert set(report.not_judged) | {finding.rule for finding in report.findings} == {rule.name for rule in RULES}


def test_the_registry_knows_better(tmp_path: Path, target: Path) -> None:
    """With an entry, its rope, architecture and aux convention are held against the files."""
    entry = load_registry().get("AQ-MedAI/Kimi-K25-eagle3")
    assert_passes(check_drafter(write_drafter(tmp_path / "good"), target, options=Options(entry=entry)))
    copied = {
        "rope_theta": 50000.0,
        "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
    }
    (finding,) = check_drafter(
        write_drafter(tmp_path / "rope", copied), target, options=Options(entry=entry)
    ).with_verdict(Verdict.REFUSE)
    assert finding.rule == "rope"
    assert "do not copy the target's" in finding.remedy
    mla = load_registry().get("lightseekorg/kimi-k2.5-eagle3-mla")
    report = check_drafter(write_drafter(tmp_path / "arch"), target, options=Options(entry=mla))
    assert report.with_verdict(Verdict.REFUSE)[0].rule == "architecture"


def test_a_folder_that_cannot_be_read_is_no_verdict(tmp_path: Path, target: Path) -> None:
    drafter = write_drafter(tmp_path / "d")
    (drafter / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="the download is not complete"):
        check_drafter(drafter, target)


def test_json_is_plain(tmp_path: Path, target: Path) -> None:
    value = json.loads(json.dumps(check_drafter(write_drafter(tmp_path / "d"), target, 256).as_json()))
    assert (value["verdict"], value["exit_code"], value["context_length"], value["not_judged"]) == ("pass", 0, 256, [])
    assert {row["rule"] for row in value["rules"]} == {rule.name for rule in RULES}
