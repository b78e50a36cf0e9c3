"""A K2 drafter made to fit K2.5: refused as it stands, adapted, passed."""

import json
from pathlib import Path
from typing import Any

import pytest
from drafter_files.files import Array, flags, int64, noise, read_file
from drafter_files.toy import (
    DRAFT_CONFIG,
    OTHER_ARRAYS,
    TARGET_ARRAYS,
    VOCAB,
    draft_arrays,
    write_drafter,
)
from drafter_files.variants import as_k2_checkpoint, hot_ids

from k25serve.drafters.adapters import AdaptOptions, adapt
from k25serve.drafters.check import Verdict, check_drafter
from k25serve.drafters.checkpoint import AdaptError

AUX = "eagle_aux_hidden_state_layer_ids"
HEAD = TARGET_ARRAYS["language_model.lm_head.weight"]


def config(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return value


def rows(array: Array) -> list[bytes]:
    size = array.nbytes // array.shape[0]
    data = array.data or b""
    return [data[place : place + size] for place in range(0, len(data), size)]


def test_refused_as_it_stands_then_fits(tmp_path: Path, target: Path) -> None:
    good = write_drafter(tmp_path / "good")
    k2 = as_k2_checkpoint(good, tmp_path / "k2", context_length=256)
    refused = {finding.rule for finding in check_drafter(k2, target).with_verdict(Verdict.REFUSE)}
    assert refused == {"settings", "head-dim", "d2t-form", "context-length"}
    adapted = adapt("kimi_k2", k2, tmp_path / "out", target)
    assert read_file(adapted.folder / "model.safetensors") == draft_arrays()
    report = check_drafter(adapted.folder, target)
    # Positions beyond the trained ones are told, not refused.
    assert [(f.rule, f.verdict) for f in report.findings if f.verdict is not Verdict.PASS] == [
        ("context-length", "warn")
    ]
    found = config(adapted.folder)
    assert {key: found[key] for key in ("head_dim", "draft_vocab_size", "max_position_embeddings", "rope_theta")} == {
        "head_dim": 8,
        "draft_vocab_size": 16,
        "max_position_embeddings": 512,
        "rope_theta": 1e6,
    }
    assert found["eagle_config"][AUX] == [2, 4, 5]
    assert found["rope_scaling"] is None


@pytest.mark.parametrize("key", ["head_dim", "draft_vocab_size"])
def test_each_of_its_faults_alone_is_refused(tmp_path: Path, target: Path, key: str) -> None:
    report = check_drafter(write_drafter(tmp_path / "d", {key: None}), target)
    (finding,) = report.with_verdict(Verdict.REFUSE)
    assert "adapt kimi_k2" in finding.remedy


def test_special_tokens_take_the_rarest_places(tmp_path: Path, target: Path) -> None:
    ids = (*range(8), 30, 31, 32, 34, 35, 36, 37, 39)
    arrays = {
        "d2t": int64(*(token - place for place, token in enumerate(ids))),
        "t2d": flags(set(ids), VOCAB),
    }
    source = write_drafter(tmp_path / "d", arrays=arrays)
    with pytest.raises(AdaptError, match=r"</think> \(33\).*--counts FILE"):
        adapt("kimi_k2", source, tmp_path / "out", target)
    counts = tmp_path / "counts.json"
    counts.write_text(json.dumps({token: 100 - token for token in range(VOCAB) if token not in (2, 7)}))
    adapted = adapt("kimi_k2", source, tmp_path / "out", target, AdaptOptions(counts=str(counts)))
    found = read_file(adapted.folder / "model.safetensors")
    new = hot_ids(found)
    assert new == tuple(sorted((set(ids) - {2, 7}) | {33, 38}))
    assert found["t2d"] == flags(set(new), VOCAB)
    own, lent = dict(zip(ids, rows(OTHER_ARRAYS["lm_head.weight"]), strict=True)), rows(HEAD)
    expected = [lent[token] if token in (33, 38) else own[token] for token in new]
    assert rows(found["lm_head.weight"]) == expected
    told = next(change for change in adapted.changes if "swapped" in change)
    assert "</think> (33)" in told
    assert "the target's own, untrained here" in told
    assert check_drafter(adapted.folder, target).verdict is Verdict.PASS


@pytest.mark.parametrize("source_of_counts", ["beside", "rank"])
def test_counts_beside_the_checkpoint_or_by_rank(tmp_path: Path, target: Path, source_of_counts: str) -> None:
    ids = (*range(7), *range(30, 33), *range(34, 40))
    arrays = {"d2t": int64(*(t - place for place, t in enumerate(ids))), "t2d": None}
    source = write_drafter(tmp_path / "d", arrays=arrays)
    options = AdaptOptions(counts="rank")
    if source_of_counts == "beside":
        (source / "token_counts.json").write_text(json.dumps([1] * 5 + [0, 9] + [1] * 33))
        options = AdaptOptions()
    new = hot_ids(read_file(adapt("kimi_k2", source, tmp_path / "out", target, options).folder / "model.safetensors"))
    # By rank the highest id leaves that is no wanted token: 39, a media marker.
    assert set(ids) - set(new) == ({5} if source_of_counts == "beside" else {39})
    assert set(new) - set(ids) == {33}


def test_vocabulary_kept_as_asked(tmp_path: Path, target: Path) -> None:
    ids = (*range(7), *range(30, 33), *range(34, 40))
    arrays = {"d2t": int64(*(t - place for place, t in enumerate(ids))), "t2d": None}
    source = write_drafter(tmp_path / "d", arrays=arrays)
    adapted = adapt("kimi_k2", source, tmp_path / "out", target, AdaptOptions(keep_vocabulary=True))
    assert any("kept so as asked: </think> (33)" in change for change in adapted.changes)
    (finding,) = check_drafter(adapted.folder, target).with_verdict(Verdict.REFUSE)
    assert finding.rule == "special-tokens"


@pytest.mark.parametrize(
    ("changed", "options", "told"),
    [
        ({"eagle_config": None}, AdaptOptions(), "pass --aux-layers"),
        ({}, AdaptOptions(aux_layers=(2, 4)), "2 layers, but fc takes 48 inputs"),
        ({}, AdaptOptions(aux_layers=(5, 4, 2)), "must ascend"),
        ({}, AdaptOptions(aux_layers=(2, 4, 8)), "in 1 to 7"),
        ({}, AdaptOptions(aux_layers=(1, 4, 5), aux_convention="input"), "cannot be told to capture"),
        ({"head_dim": 16}, AdaptOptions(), "head_dim: config.json says 16"),
        ({"draft_vocab_size": 12}, AdaptOptions(), "draft_vocab_size: config.json says 12, lm_head has 16, d2t 16"),
        ({"vocab_size": 41}, AdaptOptions(), "vocab_size 41, the target's is 40"),
        ({"hidden_size": None}, AdaptOptions(), "hidden_size is None"),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}, "max_position_embeddings": 16},
            AdaptOptions(),
            "would change the embedding of all",
        ),
        ({"norm_before_residual": True}, AdaptOptions(), "serve it with vLLM"),
    ],
    ids=[
        "no aux",
        "too few",
        "order",
        "beyond",
        "state 1",
        "head_dim",
        "sizes",
        "vocabulary",
        "width",
        "rope",
        "residual",
    ],
)
def test_refused(tmp_path: Path, target: Path, changed: dict[str, Any], options: AdaptOptions, told: str) -> None:
    with pytest.raises(AdaptError, match=told):
        adapt("kimi_k2", write_drafter(tmp_path / "d", changed), tmp_path / "out", target, options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (AdaptOptions(aux_layers=(1, 3, 4)), [2, 4, 5]),
        (AdaptOptions(aux_layers=(3, 4, 5), aux_convention="output"), [4, 5, 6]),
        (AdaptOptions(aux_layers=(3, 4, 5)), [3, 4, 5]),
    ],
    ids=["first is 1", "output", "input"],
)
def test_aux_layers_are_written_for_sglang(tmp_path: Path, target: Path, options: AdaptOptions, ids: list[int]) -> None:
    adapted = adapt("kimi_k2", write_drafter(tmp_path / "d"), tmp_path / "out", target, options)
    assert config(adapted.folder)["eagle_config"][AUX] == ids


def test_the_default_only_if_accepted(tmp_path: Path, target: Path) -> None:
    source = write_drafter(tmp_path / "d", {"eagle_config": None})
    adapted = adapt("kimi_k2", source, tmp_path / "out", target, AdaptOptions(accept_default_aux=True))
    assert config(adapted.folder)["eagle_config"][AUX] == [2, 4, 5]


@pytest.mark.parametrize(
    ("d2t", "t2d", "form", "told"),
    [
        ((0, 2, 3, 5), None, None, "makes sense as offsets and as target ids"),
        ((0, 2, 3, 5), {0, 3, 5, 9}, None, "mark different ids"),
        ((0, 2, 99, 5), None, None, "draft id 2 maps to 101"),
        ((0, 2, 3, 38), None, "offset", "read as offset: draft id 3 maps to 41"),
    ],
)
def test_maps_that_cannot_be_read(
    tmp_path: Path, target: Path, d2t: tuple[int, ...], t2d: set[int] | None, form: Any, told: str
) -> None:
    arrays = {
        "d2t": int64(*d2t),
        "t2d": None if t2d is None else flags(t2d, VOCAB),
        "lm_head.weight": noise("h", 4, DRAFT_CONFIG["hidden_size"]),
    }
    source = write_drafter(tmp_path / "d", {"draft_vocab_size": 4}, arrays)
    with pytest.raises(AdaptError, match=told):
        adapt("kimi_k2", source, tmp_path / "out", target, AdaptOptions(d2t_form=form, keep_vocabulary=True))


def test_the_user_says_which_form(tmp_path: Path, target: Path) -> None:
    arrays = {"d2t": int64(0, 2, 3, 5), "t2d": None, "lm_head.weight": noise("h", 4, DRAFT_CONFIG["hidden_size"])}
    source = write_drafter(tmp_path / "d", {"draft_vocab_size": 4}, arrays)
    for form, hot in (("offset", (0, 3, 5, 8)), ("absolute", (0, 2, 3, 5))):
        options = AdaptOptions(d2t_form=form, keep_vocabulary=True)  # type: ignore[arg-type]
        adapted = adapt("kimi_k2", source, tmp_path / form, target, options)
        assert hot_ids(read_file(adapted.folder / "model.safetensors")) == hot


def test_a_map_that_is_missing(tmp_path: Path, target: Path) -> None:
    """https://github.com/vllm-project/vllm/pull/18909: draft ids would be taken for the target's."""
    with pytest.raises(AdaptError, match="d2t is missing, though the drafter has 16 of 40 ids"):
        adapt("kimi_k2", write_drafter(tmp_path / "d", arrays={"d2t": None}), tmp_path / "out", target)


def test_counts_that_are_not_there_are_refused_even_if_not_needed(tmp_path: Path, target: Path) -> None:
    source = write_drafter(tmp_path / "d")
    with pytest.raises(AdaptError, match=r"--counts none\.json: no counts can be read"):
        adapt("kimi_k2", source, tmp_path / "out", target, AdaptOptions(counts="none.json"))
    adapted = adapt("kimi_k2", source, tmp_path / "out", target, AdaptOptions(counts="rank"))
    assert any(change.endswith("; the counts were not needed") for change in adapted.changes)


def test_options_about_a_map_that_is_not_there(tmp_path: Path, target: Path) -> None:
    arrays = {"d2t": None, "t2d": None, "lm_head.weight": noise("h", VOCAB, DRAFT_CONFIG["hidden_size"])}
    source = write_drafter(tmp_path / "d", {"draft_vocab_size": VOCAB}, arrays)
    for options, option in (
        (AdaptOptions(d2t_form="offset"), "--d2t-form"),
        (AdaptOptions(counts="rank"), "--counts"),
        (AdaptOptions(keep_vocabulary=True), "--keep-vocabulary"),
    ):
        with pytest.raises(AdaptError, match=f"{option}: the drafter has no d2t"):
            adapt("kimi_k2", source, tmp_path / "out", target, options)


def test_needs_its_target(tmp_path: Path) -> None:
    with pytest.raises(AdaptError, match="--target is missing"):
        adapt("kimi_k2", write_drafter(tmp_path / "d"), tmp_path / "out")
