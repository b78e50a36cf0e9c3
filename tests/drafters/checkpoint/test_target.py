"""The target's embedding and head behind any wrapper (https://github.com/sgl-project/SpecForge/pull/666)."""

from pathlib import Path

import pytest
from drafter_files.files import noise, write_folder
from drafter_files.toy import HIDDEN, TARGET_ARRAYS, VOCAB, write_target

from k25serve.drafters.checkpoint import CheckpointError, Target, end_tokens, read_bytes, read_tokens

EMBED, HEAD = noise("e", VOCAB, HIDDEN), noise("h", VOCAB, HIDDEN)


@pytest.mark.parametrize(
    ("embedding", "head"),
    [
        ("language_model.model.embed_tokens.weight", "language_model.lm_head.weight"),
        ("model.language_model.embed_tokens.weight", "lm_head.weight"),
        ("model.embed_tokens.weight", "lm_head.weight"),
        ("embed_tokens.weight", "lm_head.weight"),
    ],
    ids=["kimi-k25", "transformers-5", "bare", "text-only"],
)
def test_found_behind_wrapper(tmp_path: Path, embedding: str, head: str) -> None:
    arrays = {embedding: EMBED, "vision.weight": noise("v", 2), head: HEAD}
    target = Target(write_target(tmp_path / "t", arrays=arrays, shards=3))
    assert read_bytes(target.embedding) == EMBED.data
    assert read_bytes(target.head) == HEAD.data
    # The middle shard, with the vision tower, was never opened.
    assert {path.name for path in target.checkpoint.opened} == {
        "model-00001-of-00003.safetensors",
        "model-00003-of-00003.safetensors",
    }


def test_single_file_and_tied(tmp_path: Path) -> None:
    arrays = {"model.embed_tokens.weight": EMBED}
    tied = Target(write_target(tmp_path / "tied", arrays=arrays, text={"tie_word_embeddings": True}))
    assert tied.head == tied.embedding
    untied = Target(write_target(tmp_path / "untied", arrays=arrays | {"model.lm_heads.weight": HEAD}))
    with pytest.raises(CheckpointError, match=r"lm_head\.weight.*near: model\.lm_heads\.weight"):
        _ = untied.head


def test_wrapper_tells_that_it_is_tied(tmp_path: Path) -> None:
    config = {"tie_word_embeddings": True, "text_config": {"hidden_size": HIDDEN}}
    target = Target(write_folder(tmp_path / "t", config, {"model.embed_tokens.weight": EMBED}))
    assert target.tied
    assert target.head == target.embedding


def test_sizes_are_never_guessed(tmp_path: Path) -> None:
    target = Target(write_target(tmp_path / "t", text={"num_hidden_layers": "61"}))
    assert target.size("hidden_size") == HIDDEN
    with pytest.raises(CheckpointError, match="num_hidden_layers is '61', a positive integer belongs there"):
        target.size("num_hidden_layers")


def test_quantization_is_found_where_k25_keeps_it(tmp_path: Path) -> None:
    assert Target(write_target(tmp_path / "plain")).quantization is None
    packed = Target(
        write_target(tmp_path / "int4", text={"quantization_config": {"quant_method": "compressed-tensors"}})
    )
    assert packed.quantization == {"quant_method": "compressed-tensors"}


def test_tokens(tmp_path: Path) -> None:
    folder = write_target(tmp_path / "t")
    tokens = read_tokens(folder)
    assert tokens is not None
    assert tokens.special["</think>"] == 33
    assert end_tokens(folder, {"eos_token_id": 31}) == (30,)
    (folder / "generation_config.json").unlink()
    assert end_tokens(folder, {"eos_token_id": [31, 30]}) == (31, 30)
    assert read_tokens(write_folder(tmp_path / "none", {}, TARGET_ARRAYS)) is None
    (folder / "tokenizer_config.json").write_text('{"added_tokens_decoder": {"33": {"special": true}}}')
    with pytest.raises(CheckpointError, match="added tokens"):
        read_tokens(folder)
