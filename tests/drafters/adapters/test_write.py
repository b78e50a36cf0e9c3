"""What is written: heads lent, dtypes cast as torch casts, provenance, and nothing where something fails."""

import hashlib
import json
import struct
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from drafter_files.files import int64, noise, read_file
from drafter_files.toy import HIDDEN, HOT, TARGET_ARRAYS, VOCAB, draft_arrays, write_drafter
from safetensors import safe_open

from k25serve.drafters.adapters import AdaptOptions, adapt
from k25serve.drafters.check import Options, Verdict, check_drafter
from k25serve.drafters.checkpoint import AdaptError, CheckpointError

HEAD = TARGET_ARRAYS["language_model.lm_head.weight"]


def test_a_missing_head_is_lent(tmp_path: Path, target: Path) -> None:
    """https://github.com/sgl-project/sglang/pull/27908: it would stay random, and nothing would be accepted."""
    source = write_drafter(tmp_path / "d", arrays={"lm_head.weight": None})
    adapted = adapt("eagle", source, tmp_path / "out", target, AdaptOptions(lend_lm_head=True))
    row = HEAD.nbytes // VOCAB
    expected = b"".join((HEAD.data or b"")[token * row : (token + 1) * row] for token in HOT)
    assert read_file(adapted.folder / "model.safetensors")["lm_head.weight"].data == expected
    assert check_drafter(adapted.folder, target).verdict is Verdict.PASS


def test_a_head_that_is_there_is_not_lent(tmp_path: Path, target: Path) -> None:
    with pytest.raises(AdaptError, match="--lend-lm-head: the drafter has its own lm_head"):
        adapt("kimi_k2", write_drafter(tmp_path / "d"), tmp_path / "out", target, AdaptOptions(lend_lm_head=True))


def test_a_whole_head_is_lent_by_sglang(tmp_path: Path, target: Path) -> None:
    arrays = {"lm_head.weight": None, "d2t": None, "t2d": None}
    source = write_drafter(tmp_path / "d", {"draft_vocab_size": VOCAB}, arrays)
    adapted = adapt("eagle", source, tmp_path / "out", target, AdaptOptions(lend_lm_head=True))
    assert json.loads((adapted.folder / "config.json").read_text())["draft_vocab_size"] is None
    assert check_drafter(adapted.folder, target).verdict is Verdict.PASS


def test_cast_to_bf16_rounds_as_torch_does(tmp_path: Path, target: Path) -> None:
    """https://github.com/sgl-project/SpecForge/issues/348: a float32 drafter for a bf16 target."""
    values = torch.randn(HIDDEN, 3 * HIDDEN, generator=torch.Generator().manual_seed(0))
    values[0, :4] = torch.tensor([1 + 2**-9, 1 + 2**-8, float("inf"), -0.0])
    arrays = {"fc.weight": noise("fc", HIDDEN, 3 * HIDDEN, dtype="F32")}
    source = write_drafter(tmp_path / "d", {"torch_dtype": "float32"}, arrays)
    raw = read_file(source / "model.safetensors")["fc.weight"]
    path = source / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data.replace(raw.data or b"", struct.pack(f"<{values.numel()}f", *values.flatten().tolist())))
    assert check_drafter(source, target).verdict is Verdict.REFUSE
    adapted = adapt("eagle", source, tmp_path / "out", target, AdaptOptions(dtype="bf16"))
    with safe_open(adapted.folder / "model.safetensors", framework="pt") as file:
        assert torch.equal(file.get_tensor("fc.weight"), values.bfloat16())
        assert file.get_tensor("d2t").dtype == torch.int64
        assert file.metadata() == {"format": "pt"}
    assert check_drafter(adapted.folder, target).verdict is Verdict.PASS


def test_the_library_reads_what_is_written(tmp_path: Path) -> None:
    adapted = adapt("eagle", write_drafter(tmp_path / "d", shards=3), tmp_path / "out")
    with safe_open(adapted.folder / "model.safetensors", framework="pt") as file:
        for name, array in draft_arrays().items():
            assert bytes(file.get_tensor(name).view(torch.uint8).numpy().tobytes()) == array.data


def test_provenance(tmp_path: Path, target: Path) -> None:
    source = write_drafter(tmp_path / "source-folder", {"max_position_embeddings": 256}, shards=2)
    adapted = adapt("kimi_k2", source, tmp_path / "out", target)
    record = json.loads((adapted.folder / "provenance.json").read_text())
    assert record["tool"] == f"k25serve {version('k25serve')}"
    assert (record["adapter"], record["source"], record["target"]) == ("kimi_k2", "source-folder", "target")
    files = ["config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert record["source_sha256"] == {name: hashlib.sha256((source / name).read_bytes()).hexdigest() for name in files}
    assert set(record["target_sha256"]) == {"config.json", "generation_config.json", "tokenizer.json"}
    assert record["changes"] == list(adapted.changes)
    assert any("max_position_embeddings 256 raised to 512" in change for change in record["changes"])
    assert record["trained"] == {"rope": {"rope_theta": 1e6, "rope_scaling": None}, "max_position_embeddings": 256}
    assert record["options"]["layout"] == "midlayer"
    # A second adapter does not make the first one's values the trained ones.
    again = adapt("eagle", adapted.folder, tmp_path / "again", target)
    assert json.loads((again.folder / "provenance.json").read_text())["trained"] == record["trained"]


def test_rope_changed_after_adapting_is_refused(tmp_path: Path, target: Path) -> None:
    adapted = adapt("kimi_k2", write_drafter(tmp_path / "d"), tmp_path / "out", target)
    config = json.loads((adapted.folder / "config.json").read_text())
    (adapted.folder / "config.json").write_text(json.dumps({**config, "rope_theta": 50000.0}))
    (finding,) = check_drafter(adapted.folder, target, options=Options()).with_verdict(Verdict.REFUSE)
    assert finding.rule == "rope"
    assert "provenance.json says" in finding.evidence


def test_nothing_is_overwritten_or_left_half_done(tmp_path: Path, target: Path) -> None:
    source, out = write_drafter(tmp_path / "d"), tmp_path / "out"
    out.mkdir()
    adapt("eagle", source, out)
    before = read_file(out / "model.safetensors")
    with pytest.raises(AdaptError, match="exists and is not empty"):
        adapt("eagle", source, out)
    assert read_file(out / "model.safetensors") == before
    (source / "model.safetensors").write_bytes((source / "model.safetensors").read_bytes()[:-8])
    with pytest.raises(CheckpointError, match="the download is not complete"):
        adapt("eagle", source, tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "out"]


def test_swap_needs_heads_of_one_kind(tmp_path: Path, target: Path) -> None:
    arrays = {"lm_head.weight": noise("h", len(HOT), HIDDEN, dtype="F32")}
    ids = (*range(7), *range(30, 33), *range(34, 40))
    arrays["d2t"] = int64(*(token - place for place, token in enumerate(ids)))
    source = write_drafter(tmp_path / "d", arrays=arrays | {"t2d": None})
    with pytest.raises(
        AdaptError,
        match=r"lm_head is F32.* k25serve drafter adapt eagle --dtype bf16 --drafter .*/d --target .* --out d-adapted",
    ):
        adapt("kimi_k2", source, tmp_path / "out", target, AdaptOptions(counts="rank"))
