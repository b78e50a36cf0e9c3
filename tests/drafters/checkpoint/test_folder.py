"""A model folder: lazily read, sharded or not, and every way of being incomplete told."""

import json
from pathlib import Path

import pytest
from drafter_files.files import INDEX, int64, noise, write_folder

from k25serve.drafters.checkpoint import Checkpoint, CheckpointError, read_bytes, read_ints

ARRAYS = {name: noise(name, 2, 3) for name in ("a.weight", "b.weight", "c.weight", "d.bias")}


@pytest.mark.parametrize("shards", [1, 3])
def test_names_and_bytes(tmp_path: Path, shards: int) -> None:
    checkpoint = Checkpoint(write_folder(tmp_path / "m", {}, ARRAYS, shards))
    assert checkpoint.names == tuple(sorted(ARRAYS))
    assert {name: read_bytes(tensor) for name, tensor in checkpoint.tensors().items()} == {
        name: array.data for name, array in ARRAYS.items()
    }


def test_one_name_opens_one_shard(tmp_path: Path) -> None:
    checkpoint = Checkpoint(write_folder(tmp_path / "m", {}, ARRAYS, shards=4))
    assert checkpoint.opened == ()
    tensor = checkpoint.tensor("b.weight")
    assert checkpoint.opened == (tensor.file,)
    assert "zz" not in checkpoint
    assert len(checkpoint.opened) == 1


def test_a_miss_lists_near_names(tmp_path: Path) -> None:
    checkpoint = Checkpoint(
        write_folder(tmp_path / "m", {}, {"lm.head.weight": noise("h", 2), "other.bias": noise("o", 1)})
    )
    with pytest.raises(CheckpointError, match=r"no tensor 'lm_head\.weight'; near: lm\.head\.weight"):
        checkpoint.tensor("lm_head.weight")


def test_integers(tmp_path: Path) -> None:
    arrays = {"d2t": int64(0, -3, 2**40), "f": noise("f", 2)}
    checkpoint = Checkpoint(write_folder(tmp_path / "m", {}, arrays))
    assert read_ints(checkpoint.tensor("d2t")) == [0, -3, 2**40]
    with pytest.raises(CheckpointError, match="an integer list belongs there"):
        read_ints(checkpoint.tensor("f"))


def test_folders_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such folder"):
        Checkpoint(tmp_path / "none")
    with pytest.raises(CheckpointError, match=r"config\.json: no such file"):
        Checkpoint(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(CheckpointError, match="holds no JSON object but"):
        Checkpoint(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"holds no \*\.safetensors; the download is not complete"):
        _ = Checkpoint(tmp_path).names
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin is pickle"):
        _ = Checkpoint(tmp_path).names


def test_an_index_that_promises_too_much(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m", {}, ARRAYS, shards=2)
    index = json.loads((folder / INDEX).read_text())
    shard = index["weight_map"]["a.weight"]
    index["weight_map"] |= {"ghost.weight": shard, "gone.weight": "model-00009.safetensors"}
    (folder / INDEX).write_text(json.dumps(index))
    checkpoint = Checkpoint(folder)
    with pytest.raises(CheckpointError, match=r"holds no 'ghost\.weight'"):
        checkpoint.tensor("ghost.weight")
    with pytest.raises(CheckpointError, match=r"model-00009\.safetensors: missing"):
        checkpoint.tensor("gone.weight")
    (folder / INDEX).write_text('{"weight_map": 3}')
    with pytest.raises(CheckpointError, match="no weight_map"):
        _ = Checkpoint(folder).names
